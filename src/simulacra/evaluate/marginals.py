"""Total variation distance between synthetic and real rows, per column and pair of columns, on the schema's cells."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from simulacra.evaluate.cells import all_codes, check_frame
from simulacra.evaluate.scores import Scores
from simulacra.schema import Schema

if TYPE_CHECKING:
    import pandas as pd

MANY_COLUMNS = 60
"""Tables wider than this have their two-way distance taken over a drawn subset of pairs."""

PAIR_LIMIT = MANY_COLUMNS * (MANY_COLUMNS - 1) // 2


def marginal_distances(
    synthetic: pd.DataFrame, real: pd.DataFrame, schema: Schema, *, pair_limit: int = PAIR_LIMIT
) -> Scores:
    """`tvd_1way_mean`, `tvd_1way_max` and, with two columns or more, `tvd_2way_mean` and `tvd_2way_max`.

    0 means equal shares in every cell, 1 no cell in common. Two finite samples of one distribution are not at 0: with
    as many rows as cells the two-way distance is mostly sampling error.
    """
    check_frame(synthetic, schema, what="synthetic table")
    check_frame(real, schema, what="real table")
    cells = [column.cells for column in schema.columns]
    synthetic_codes = all_codes(synthetic, schema.columns)
    real_codes = all_codes(real, schema.columns)
    one_way = [
        _distance(np.bincount(ours, minlength=size), np.bincount(theirs, minlength=size))
        for ours, theirs, size in zip(synthetic_codes, real_codes, cells, strict=True)
    ]
    names = [column.name for column in schema.columns]
    scores = {"tvd_1way_mean": float(np.mean(one_way)), "tvd_1way_max": float(np.max(one_way))}
    details: dict[str, Any] = {"columns": {name: {"tvd": value} for name, value in zip(names, one_way, strict=True)}}
    notes: list[str] = []
    pairs, total = chosen_pairs(len(cells), pair_limit)
    if pairs:
        two_way = np.array(
            [
                _pair_distance(synthetic_codes[i], synthetic_codes[j], real_codes[i], real_codes[j], cells[i], cells[j])
                for i, j in pairs
            ]
        )
        scores |= {"tvd_2way_mean": float(two_way.mean()), "tvd_2way_max": float(two_way.max())}
        worst = np.argsort(-two_way, kind="stable")[:10]
        details["worst_pairs"] = [
            {"columns": [names[pairs[k][0]], names[pairs[k][1]]], "tvd": float(two_way[k])} for k in worst
        ]
        if len(pairs) < total:
            notes.append(f"two-way distances use {len(pairs)} of {total} pairs of columns, drawn with a fixed seed")
    else:
        notes.append("the table has one column, so there is no two-way distance")
    details["pairs"] = {"used": len(pairs), "of": total}
    return Scores(scores=scores, details=details, notes=notes)


def chosen_pairs(columns: int, limit: int = PAIR_LIMIT) -> tuple[list[tuple[int, int]], int]:
    """The pairs of columns to compare, and how many there are in all; always the same ones for the same width."""
    total = columns * (columns - 1) // 2
    pairs = list(combinations(range(columns), 2))
    if total <= limit:
        return pairs, total
    drawn = np.sort(np.random.default_rng(0).choice(total, size=limit, replace=False))
    return [pairs[k] for k in drawn], total


def _pair_distance(
    first: NDArray[np.int64],
    second: NDArray[np.int64],
    real_first: NDArray[np.int64],
    real_second: NDArray[np.int64],
    rows: int,
    columns: int,
) -> float:
    if rows * columns <= 1 << 16:
        size = rows * columns
        ours = np.bincount(first * columns + second, minlength=size)
        theirs = np.bincount(real_first * columns + real_second, minlength=size)
        return _distance(ours, theirs)
    # Two columns with thousands of values each: only the cells that occur are worth memory.
    both = np.concatenate([first * columns + second, real_first * columns + real_second])
    _, renumbered = np.unique(both, return_inverse=True)
    size = int(renumbered.max()) + 1
    split = len(first)
    return _distance(np.bincount(renumbered[:split], minlength=size), np.bincount(renumbered[split:], minlength=size))


def _distance(ours: NDArray[np.intp], theirs: NDArray[np.intp]) -> float:
    return float(0.5 * np.abs(ours / ours.sum() - theirs / theirs.sum()).sum())

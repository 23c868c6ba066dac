"""Total variation distance between synthetic and real rows: per column, pair and triple of columns, on the cells."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from simulacra.data.frames import Encoded, as_encoded
from simulacra.evaluate.scores import Scores
from simulacra.schema import Schema

if TYPE_CHECKING:
    import pandas as pd

MANY_COLUMNS = 60
"""Tables wider than this have their two-way distance taken over a drawn subset of pairs."""

PAIR_LIMIT = MANY_COLUMNS * (MANY_COLUMNS - 1) // 2
TRIPLE_LIMIT = 1000
"""More triples than this, from 20 columns on, are drawn."""
DRAW_SEED = 0
"""Public and fixed: everyone draws the same pairs and triples from a table of the same width."""
DENSE_CELLS = 1 << 16
WORST = 10

Codes = Sequence[NDArray[np.int64]]


def marginal_distances(
    synthetic: pd.DataFrame | Encoded,
    real: pd.DataFrame | Encoded,
    schema: Schema,
    *,
    pair_limit: int = PAIR_LIMIT,
    triple_limit: int = TRIPLE_LIMIT,
) -> Scores:
    """`tvd_1way_mean`, `tvd_1way_max` and, with two or three columns and more, the same for `2way` and `3way`.

    0 means equal shares in every cell, 1 no cell in common. Two finite samples of one distribution are not at 0: with
    as many rows as cells the two-way distance is mostly sampling error, and the three-way one all the more.
    """
    ours = as_encoded(synthetic, schema, what="synthetic table").all_codes(schema.columns)
    theirs = as_encoded(real, schema, what="real table").all_codes(schema.columns)
    cells = [column.cells for column in schema.columns]
    names = [column.name for column in schema.columns]
    one_way = _distances(ours, theirs, cells, [(k,) for k in range(len(cells))])
    scores = {"tvd_1way_mean": float(np.mean(one_way)), "tvd_1way_max": float(np.max(one_way))}
    details: dict[str, Any] = {
        "columns": {name: {"tvd": float(value)} for name, value in zip(names, one_way, strict=True)}
    }
    notes: list[str] = []
    for way, words, (chosen, total) in (
        (2, "pairs", chosen_pairs(len(cells), pair_limit)),
        (3, "triples", chosen_triples(len(cells), triple_limit)),
    ):
        details[words] = {"used": len(chosen), "of": total}
        if not chosen:
            number = "one column" if len(cells) == 1 else "two columns"
            notes.append(f"the table has {number}, so there is no {('two', 'three')[way - 2]}-way distance")
            continue
        distances = _distances(ours, theirs, cells, chosen)
        scores |= {f"tvd_{way}way_mean": float(distances.mean()), f"tvd_{way}way_max": float(distances.max())}
        details[f"worst_{words}"] = [
            {"columns": [names[place] for place in chosen[k]], "tvd": float(distances[k])}
            for k in np.argsort(-distances, kind="stable")[:WORST]
        ]
        if len(chosen) < total:
            notes.append(
                f"{('two', 'three')[way - 2]}-way distances use {len(chosen)} of {total} {words} of columns, "
                f"drawn with the fixed seed {DRAW_SEED}"
            )
    return Scores(scores=scores, details=details, notes=notes)


def chosen_pairs(columns: int, limit: int = PAIR_LIMIT) -> tuple[list[tuple[int, ...]], int]:
    """The pairs of columns to compare, and how many there are in all; always the same ones for the same width."""
    total = math.comb(columns, 2)
    pairs: list[tuple[int, ...]] = list(combinations(range(columns), 2))
    if total <= limit:
        return pairs, total
    drawn = np.sort(np.random.default_rng(DRAW_SEED).choice(total, size=limit, replace=False))
    return [pairs[k] for k in drawn], total


def chosen_triples(columns: int, limit: int = TRIPLE_LIMIT) -> tuple[list[tuple[int, ...]], int]:
    """The same for triples; those of a wide table are never all listed, because there may be millions."""
    total = math.comb(columns, 3)
    if total <= limit:
        return list(combinations(range(columns), 3)), total
    drawn = random.Random(DRAW_SEED).sample(range(total), limit)
    return sorted(_triple(rank) for rank in drawn), total


def _triple(rank: int) -> tuple[int, int, int]:
    """The triple a < b < c of that number, in the order of c, then b, then a."""
    third = _last(rank, 3)
    rank -= math.comb(third, 3)
    second = _last(rank, 2)
    return rank - math.comb(second, 2), second, third


def _last(rank: int, size: int) -> int:
    """The largest number of which so many can be chosen in at most `rank` ways."""
    guess = int((rank * math.factorial(size)) ** (1 / size)) + size
    while math.comb(guess, size) > rank:
        guess -= 1
    return guess


def _distances(
    ours: Codes, theirs: Codes, cells: Sequence[int], chosen: Sequence[tuple[int, ...]]
) -> NDArray[np.float64]:
    return np.array([_distance(_joint(ours, cells, places), _joint(theirs, cells, places)) for places in chosen])


def _joint(codes: Codes, cells: Sequence[int], places: Sequence[int]) -> tuple[NDArray[np.int64], int]:
    """The number of the joint cell of each row, and how many joint cells there are."""
    size = math.prod(cells[place] for place in places)
    if size >= 2**62:
        # Three columns with millions of values each: hashing keeps equal cells equal, and that is all that matters.
        size = 2**62
    result = codes[places[0]].copy()
    for place in places[1:]:
        result = (result * cells[place] + codes[place]) % size
    return result, size


def _distance(ours: tuple[NDArray[np.int64], int], theirs: tuple[NDArray[np.int64], int]) -> float:
    first, size = ours
    second = theirs[0]
    if size > DENSE_CELLS:
        # Only the cells that occur are worth memory.
        _, renumbered = np.unique(np.concatenate([first, second]), return_inverse=True)
        first, second, size = renumbered[: len(first)], renumbered[len(first) :], int(renumbered.max()) + 1
    shares = np.bincount(first, minlength=size) / len(first)
    return float(0.5 * np.abs(shares - np.bincount(second, minlength=size) / len(second)).sum())

"""Scores by class and by group: noise hits what is small hardest, and an average does not show it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulacra.data.cell_names import cell_names
from simulacra.data.frames import Encoded
from simulacra.errors import SettingError
from simulacra.evaluate.ranking import auroc
from simulacra.schema import Column, Schema

FEWEST_ROWS = 20
"""A figure over fewer real rows would say more about these rows than about the synthetic data."""
MOST_VALUES = 12
MOST_COLUMNS = 4
"""Without a choice, the first so many unordered columns with at most so many values are broken down."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What one classifier said about the test rows: its line of figures, a number per class, and its guess."""

    row: dict[str, Any]
    values: NDArray[np.float64]
    predicted: NDArray[np.intp]


def group_columns(schema: Schema, names: Iterable[str] | None = None) -> list[Column]:
    """The columns to break down by, going by the schema alone."""
    if names is None:
        few = [column for column in schema.features if not column.ordered and column.cells <= MOST_VALUES]
        return few[:MOST_COLUMNS]
    chosen = [schema.column(name) for name in dict.fromkeys(names)]
    for column in chosen:
        if column.ordered or column.name == schema.label:
            raise SettingError(f'group "{column.name}": groups are values of a categorical or boolean feature column')
    return chosen


def by_class(synthetic: Encoded, real: Encoded, outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """Per class: its shares, how many of its test rows are found (recall), its AUROC, and how far its columns are off.

    Recall and AUROC are means over the classifiers; a class with too few real rows has none.
    """
    schema = real.schema
    truth, ours = real.labels.numpy(), synthetic.labels.numpy()
    real_cells, our_cells = real.all_codes(schema.features), synthetic.all_codes(schema.features)
    found: list[dict[str, Any]] = []
    for index, name in enumerate(schema.class_names):
        mine, theirs = ours == index, truth == index
        line: dict[str, Any] = {
            "class": name,
            "real_rows": int(theirs.sum()),
            "real_share": float(theirs.mean()),
            "synthetic_share": float(mine.mean()),
            "recall": None,
            "auroc": None,
            "tvd_1way": None,
        }
        if theirs.sum() >= FEWEST_ROWS:
            line["recall"] = float(np.mean([(outcome.predicted[theirs] == index).mean() for outcome in outcomes]))
            line["auroc"] = float(np.mean([auroc(theirs, outcome.values[:, index]) for outcome in outcomes]))
            if mine.any():
                line["tvd_1way"] = float(
                    np.mean(
                        [
                            _distance(first[mine], second[theirs], column.cells)
                            for first, second, column in zip(our_cells, real_cells, schema.features, strict=True)
                        ]
                    )
                )
        found.append(line)
    return found


def by_group(
    synthetic: Encoded, real: Encoded, outcomes: Sequence[Outcome], names: Iterable[str] | None = None
) -> dict[str, list[dict[str, Any]]]:
    """Per value of each column: its shares, and accuracy and (two classes) AUROC among its test rows."""
    truth = real.labels.numpy()
    found: dict[str, list[dict[str, Any]]] = {}
    for column in group_columns(real.schema, names):
        ours, theirs = synthetic.codes(column), real.codes(column)
        lines: list[dict[str, Any]] = []
        for cell, name in enumerate(cell_names(column)):
            mine = theirs == cell
            line: dict[str, Any] = {
                "value": name,
                "real_rows": int(mine.sum()),
                "real_share": float(mine.mean()),
                "synthetic_share": float(np.mean(ours == cell)),
                "accuracy": None,
                "auroc": None,
            }
            if mine.sum() >= FEWEST_ROWS:
                line["accuracy"] = float(np.mean([(o.predicted[mine] == truth[mine]).mean() for o in outcomes]))
                positive = truth[mine] == 1
                if real.schema.classes == 2 and 0 < positive.sum() < len(positive):
                    line["auroc"] = float(np.mean([auroc(positive, o.values[mine, 1]) for o in outcomes]))
            lines.append(line)
        found[column.name] = lines
    return found


def _distance(ours: NDArray[np.int64], theirs: NDArray[np.int64], cells: int) -> float:
    first = np.bincount(ours, minlength=cells) / len(ours)
    return float(0.5 * np.abs(first - np.bincount(theirs, minlength=cells) / len(theirs)).sum())

"""How strongly columns go together, in the synthetic rows and in the real ones, and how far the two are apart.

Every pair of columns has a strength by its kinds, on the schema's own scale (a log scale, where it declares one):

* two ordered columns: Pearson's correlation, from -1 to 1;
* two unordered ones: Cramér's V, from 0 to 1, without a correction for small samples;
* one of each: the correlation ratio, from 0 to 1: the root of the share of variance that the groups explain.

Rows without a value of an ordered column are left out of its pairs; for an unordered one, missing is a value like any
other. A column that never changes goes with nothing: its strength is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from simulacra.data.frames import Encoded, as_encoded
from simulacra.evaluate.scores import Scores
from simulacra.schema import Column, Schema

if TYPE_CHECKING:
    import pandas as pd

MOST_COLUMNS = 60
"""Wider tables are compared on their first columns, and the label."""
NO_SPREAD = 1e-24
"""A variance of positions from 0 to 1 that is no more than the rounding of a mean of equal numbers. Wide bounds make
honest ones small: wages between bounds of a thousand million have 1e-13."""
WORST = 10
KINDS = ("numeric", "categorical", "mixed")
Values = NDArray[np.float64] | NDArray[np.int64]


def compared_columns(schema: Schema) -> tuple[Column, ...]:
    """The columns whose strengths are compared; the label is always among them."""
    if len(schema.columns) <= MOST_COLUMNS:
        return schema.columns
    label = [] if schema.label is None else [schema.column(schema.label)]
    return (*schema.features[: MOST_COLUMNS - len(label)], *label)


def correlation_differences(synthetic: pd.DataFrame | Encoded, real: pd.DataFrame | Encoded, schema: Schema) -> Scores:
    """`correlation_difference_mean` and `_max` over all pairs of columns, and `_numeric`, `_categorical`, `_mixed`."""
    columns = compared_columns(schema)
    if len(columns) < 2:
        return Scores(scores={}, notes=["the table has one column, so there are no correlations"])
    ours = strengths(as_encoded(synthetic, schema, what="synthetic table"), columns)
    theirs = strengths(as_encoded(real, schema, what="real table"), columns)
    rows, others = np.triu_indices(len(columns), k=1)
    gaps = np.abs(ours - theirs)[rows, others]
    kinds = np.array([_kind(columns[i], columns[j]) for i, j in zip(rows, others, strict=True)])
    scores = {"correlation_difference_mean": float(gaps.mean()), "correlation_difference_max": float(gaps.max())}
    scores |= {f"correlation_difference_{kind}": float(gaps[kinds == kind].mean()) for kind in KINDS if kind in kinds}
    worst: list[dict[str, Any]] = [
        {
            "columns": [columns[rows[k]].name, columns[others[k]].name],
            "kind": str(kinds[k]),
            "synthetic": float(ours[rows[k], others[k]]),
            "real": float(theirs[rows[k], others[k]]),
        }
        for k in np.argsort(-gaps, kind="stable")[:WORST]
    ]
    notes = []
    if len(columns) < len(schema.columns):
        notes.append(f"correlations use {len(columns)} of {len(schema.columns)} columns, the first ones and the label")
    return Scores(scores=scores, details={"worst_correlations": worst}, notes=notes)


def strengths(rows: Encoded, columns: Sequence[Column]) -> NDArray[np.float64]:
    """The symmetric matrix of strengths, with ones on its diagonal."""
    values: list[Values] = [rows.positions(c) if c.ordered else rows.codes(c) for c in columns]
    result = np.eye(len(columns))
    for i in range(len(columns)):
        for j in range(i):
            result[i, j] = result[j, i] = _strength(values[i], values[j], columns[i], columns[j])
    return result


def _kind(first: Column, second: Column) -> str:
    if first.ordered != second.ordered:
        return "mixed"
    return "numeric" if first.ordered else "categorical"


def _strength(first: Values, second: Values, first_column: Column, second_column: Column) -> float:
    kind = _kind(first_column, second_column)
    if kind == "numeric":
        return _pearson(first, second)
    if kind == "categorical":
        return _cramer(first, second)
    numbers, groups = (first, second) if first_column.ordered else (second, first)
    return _ratio(numbers, groups)


def _pearson(first: Values, second: Values) -> float:
    both = ~(np.isnan(first) | np.isnan(second))
    a, b = first[both] - first[both].mean() if both.any() else first[both], second[both]
    b = b - b.mean() if len(b) else b
    scale = float(np.sqrt((a @ a) * (b @ b)))
    return float(np.clip(a @ b / scale, -1.0, 1.0)) if scale > NO_SPREAD * max(1, len(a)) else 0.0


def _cramer(first: Values, second: Values) -> float:
    """From the cells that occur alone: chi^2 / n = sum n_ij^2 / (n_i n_j) - 1."""
    _, rows = np.unique(first, return_inverse=True)
    _, columns = np.unique(second, return_inverse=True)
    smaller = int(min(rows.max(), columns.max()))
    if smaller == 0:
        return 0.0
    cells, counts = np.unique(rows * (columns.max() + 1) + columns, return_counts=True)
    totals = np.bincount(rows)[cells // (columns.max() + 1)] * np.bincount(columns)[cells % (columns.max() + 1)]
    excess = float((counts.astype(np.float64) ** 2 / totals).sum()) - 1.0
    return float(np.sqrt(np.clip(excess / smaller, 0.0, 1.0)))


def _ratio(numbers: Values, groups: Values) -> float:
    present = ~np.isnan(numbers)
    if not present.any():
        return 0.0
    values = numbers[present] - numbers[present].mean()
    total = float(values @ values)
    if total <= NO_SPREAD * len(values):
        return 0.0
    _, index = np.unique(groups[present], return_inverse=True)
    counts = np.bincount(index)
    means = np.bincount(index, weights=values) / counts
    return float(np.sqrt(np.clip((counts * means**2).sum() / total, 0.0, 1.0)))

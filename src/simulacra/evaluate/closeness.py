"""Distance to the closest record: how near synthetic rows come to real ones. Popular, and no measure of privacy.

Low distances are no leak: where records are alike, honest samples are near them. High distances are no protection: a
generator can leak what a record holds without coming near it (Ganev and De Cristofaro 2023; Yao et al. 2025). What
protects is the guarantee. The figure is here because people ask for it, beside what it would be for real rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from simulacra.data.frames import Encoded, as_encoded
from simulacra.evaluate.scores import Scores
from simulacra.evaluate.training_rows import subsample
from simulacra.schema import Schema

if TYPE_CHECKING:
    import pandas as pd

MOST_ROWS = 4000
"""Of either kind: distances between all of them are held at once."""
WARNING = "distance to the closest record is no measure of privacy: near rows need not leak, far ones may; use epsilon"


def closest_records(
    synthetic: pd.DataFrame | Encoded, real: pd.DataFrame | Encoded, schema: Schema, *, seed: int = 0
) -> Scores:
    """`dcr_median` of synthetic rows to real ones, and `dcr_median_real` of real rows to the other real ones.

    The distance is the root of the mean over columns of the squared difference of positions between the bounds, where
    two different categories are 1 apart, and a value and a missing one at least that: from 0 to about 1.
    """
    ours = as_encoded(synthetic, schema, what="synthetic table")
    theirs = as_encoded(real, schema, what="real table")
    if len(theirs) < 2:
        return Scores(scores={}, notes=["there is one real row, so distances to the closest have nothing beside them"])
    first = _Points.of(ours, subsample(len(ours), MOST_ROWS, seed))
    second = _Points.of(theirs, subsample(len(theirs), MOST_ROWS, seed + 1))
    columns = len(schema.columns)
    scores = {
        "dcr_median": float(np.median(_nearest(first, second, columns))),
        "dcr_median_real": float(np.median(_nearest(second, second, columns, itself=True))),
    }
    return Scores(scores=scores, details={"dcr_warning": WARNING}, notes=[WARNING])


@dataclass(frozen=True, kw_only=True)
class _Points:
    """Rows as numbers for ordered columns, and as sparse ones for the cells of the others, which may be very many."""

    ordered: NDArray[np.float32]
    cells: Any
    unordered: int

    @classmethod
    def of(cls, rows: Encoded, keep: NDArray[np.intp]) -> _Points:
        from scipy.sparse import csr_matrix

        ordered: list[NDArray[np.float64]] = [np.zeros(len(keep))]
        codes: list[NDArray[np.int64]] = []
        sizes = [0]
        for column in rows.schema.columns:
            if column.ordered:
                positions = rows.positions(column)[keep]
                missing = np.isnan(positions)
                ordered += [np.where(missing, 0.5, positions), missing.astype(np.float64)]
            else:
                codes.append(rows.codes(column)[keep] + sizes[-1])
                sizes.append(sizes[-1] + column.cells)
        places = np.concatenate(codes) if codes else np.zeros(0, dtype=np.int64)
        lines = np.tile(np.arange(len(keep)), len(codes))
        ones = np.ones(len(places), dtype=np.float32)
        return cls(
            ordered=np.stack(ordered, axis=1).astype(np.float32),
            cells=csr_matrix((ones, (lines, places)), shape=(len(keep), max(1, sizes[-1]))),
            unordered=len(codes),
        )


def _nearest(first: _Points, second: _Points, columns: int, *, itself: bool = False) -> NDArray[np.float64]:
    a, b = first.ordered, second.ordered
    squares = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1)[None, :] - 2.0 * (a @ b.T)
    squares = squares + first.unordered - (first.cells @ second.cells.T).toarray()
    if itself:
        np.fill_diagonal(squares, np.inf)
    return np.asarray(np.sqrt(np.clip(squares.min(axis=1), 0.0, None) / columns), dtype=np.float64)

"""What a report is made of, as plain data: the report knows nothing of run folders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from simulacra.errors import DataError
from simulacra.evaluate.scores import Scores
from simulacra.report.accounts import Accounts
from simulacra.schema import Schema

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, kw_only=True)
class ReportContent:
    """Everything a report shows.

    `synthetic` is a DataFrame, or a uint8 array of images (n, height, width) or (n, height, width, channels) with
    `synthetic_labels`. `real`, with `real_labels`, is the same for real rows, or None; whatever is drawn from it is
    marked as outside the guarantee. Of real images only the average per class is drawn, never a single one.
    `class_signal` has `class_name`, `signal` and `noise` per class, and may have what `synthesis/gauge.py` adds;
    `class_words` says the same as pairs of a name and a sentence; `training_curve` has (step, loss), `training_curves`
    what else was watched, by name, and `growth` what a generator made of the same codes, by step. `accounts` is the
    ledger; `released` are scores under a guarantee of their own; `published` has lines of the book about the same data.
    """

    title: str
    method: str
    certificate: Mapping[str, Any]
    schema: Schema
    synthetic: pd.DataFrame | NDArray[np.uint8]
    summary: str = ""
    synthetic_labels: NDArray[np.integer[Any]] | None = None
    real: pd.DataFrame | NDArray[np.uint8] | None = None
    real_labels: NDArray[np.integer[Any]] | None = None
    scores: Scores | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    class_signal: Sequence[Mapping[str, Any]] | None = None
    class_words: Sequence[tuple[str, str]] = ()
    training_curve: Sequence[tuple[float, float]] | None = None
    training_curves: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
    growth: Mapping[int, NDArray[np.uint8]] = field(default_factory=dict)
    accounts: Accounts | None = None
    released: Sequence[Scores] = ()
    published: Sequence[Mapping[str, Any]] = ()
    commands: Sequence[str] = ()
    run_name: str = "RUN"

    def __post_init__(self) -> None:
        is_image = self.schema.image is not None
        for what, data in (("synthetic", self.synthetic), ("real", self.real)):
            if data is not None and isinstance(data, np.ndarray) != is_image:
                wanted = "an array of images" if is_image else "a DataFrame"
                raise DataError(f"report: {what} must be {wanted}, because the schema describes one")
            if isinstance(data, np.ndarray) and (data.ndim not in (3, 4) or data.dtype != np.uint8):
                raise DataError(f"report: {what} images must be uint8 with shape (n, height, width[, channels])")

"""How good synthetic data is, measured against real rows that are named for the purpose: outside the guarantee."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from simulacra.evaluate.progress import Progress, silent
from simulacra.evaluate.scores import COMPUTED_ON, Scores

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from simulacra.schema import Schema

__all__ = ["COMPUTED_ON", "Scores", "evaluate_images", "evaluate_table"]


def evaluate_table(
    synthetic: pd.DataFrame,
    real: pd.DataFrame,
    schema: Schema,
    *,
    seed: int = 0,
    train_rows: int | None = None,
    classifiers: Iterable[str] | None = None,
    protocol: str = "sound",
    groups: Iterable[str] | None = None,
    train: pd.DataFrame | None = None,
    progress: Progress = silent,
) -> Scores:
    """Classifiers trained on `synthetic` and tested on `real`, distances, correlations, detection and closeness.

    `groups` are columns to break the classifiers' figures down by; `train` are real training rows for a yardstick;
    `protocol` is "sound" or, to rank test rows by predicted classes alone, "papers".
    """
    from simulacra.evaluate.tables import misfits, score_table

    found = score_table(
        synthetic,
        real,
        schema,
        seed=seed,
        train_rows=train_rows,
        classifiers=classifiers,
        protocol=protocol,
        groups=groups,
        train=train,
        progress=progress,
    )
    names = [column.name for column in schema.columns]
    for rows, what in ((synthetic, "synthetic rows"), (real, "real test rows")):
        found.notes.extend(misfits(rows[names], schema, what))
    return found


def evaluate_images(
    synthetic: NDArray[np.uint8] | NDArray[np.floating[Any]],
    synthetic_labels: NDArray[np.integer[Any]],
    real: NDArray[np.uint8] | NDArray[np.floating[Any]],
    real_labels: NDArray[np.integer[Any]],
    *,
    pixels: str = "bytes",
    seed: int = 0,
    seeds: int = 1,
    train_rows: int | None = None,
    classifiers: Iterable[str] | None = None,
    device: str = "cpu",
    engine: str = "auto",
    progress: Callable[[str], None] | None = None,
) -> Scores:
    """Classifiers trained on synthetic images and tested on real ones; by default "lr" and "mlp".

    `pixels` says what the numbers of both sets mean: "bytes", "unit" for fractions from 0 to 1, or "signed" for
    fractions from -1 to 1. Each classifier is trained from `seeds` seeds that begin with `seed`; the scores are the
    mean, and with more than one seed the best and the spread apart from it.
    """
    from simulacra.evaluate.images import train_and_test_images

    result = train_and_test_images(
        synthetic,
        synthetic_labels,
        real,
        real_labels,
        pixels=pixels,
        seed=seed,
        seeds=seeds,
        train_rows=train_rows,
        classifiers=classifiers,
        device=device,
        engine=engine,
        progress=progress,
    )
    return Scores(scores=result.scores, details=result.details | {"seed": seed}, notes=result.notes)

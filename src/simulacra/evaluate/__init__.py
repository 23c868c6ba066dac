"""How good synthetic data is, measured against real rows that are named for the purpose: outside the guarantee."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from simulacra.evaluate.scores import COMPUTED_ON, NO_CLASSIFIER, Scores

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
    progress: Callable[[str], None] | None = None,
) -> Scores:
    """Classifiers trained on `synthetic` and tested on `real` (if the schema has a label), and marginal distances."""
    from simulacra.evaluate.downstream import train_and_test
    from simulacra.evaluate.marginals import marginal_distances

    if progress is not None:
        progress("marginal distances")
    marginals = marginal_distances(synthetic, real, schema)
    chosen = None if classifiers is None else tuple(classifiers)
    if not schema.labelled or chosen == (NO_CLASSIFIER,):
        notes = [] if schema.labelled else ["the schema names no label, so no classifier was trained"]
        return Scores(scores=marginals.scores, details=marginals.details, notes=[*marginals.notes, *notes])
    downstream = train_and_test(
        synthetic, real, schema, seed=seed, train_rows=train_rows, classifiers=chosen, progress=progress
    )
    return Scores(
        scores=downstream.scores | marginals.scores,
        details=downstream.details | marginals.details | {"seed": seed},
        notes=[*downstream.notes, *marginals.notes],
    )


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

"""Classifiers trained on synthetic records, as judges of one record; and the bins of their scores. Costs no privacy."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from simulacra.errors import DataError, SettingError
from simulacra.evaluate.classifiers import CANNOT_TRAIN, Classifier, choose
from simulacra.evaluate.design_matrix import design_of
from simulacra.features.judged import Judge
from simulacra.schema import Schema

DEFAULT_JUDGE = "logistic_regression"
BINS = 24
"""More bins follow the curve more closely and have fewer records for the same noise."""
IMAGE_NAMES = {"lr": "logistic_regression", "mlp": "mlp"}


@dataclass(frozen=True, kw_only=True)
class TrainedJudge:
    """A judge, its name, and the edges of its bins: quantiles of its scores of synthetic records."""

    name: str
    title: str
    judge: Judge
    edges: NDArray[np.float64]


def train_judges(
    inputs: torch.Tensor, labels: torch.Tensor, schema: Schema, names: Iterable[str] | None, *, seed: int = 0
) -> list[TrainedJudge]:
    """Fit the named classifiers (by default logistic regression) on encoded synthetic records."""
    chosen = _choose(schema, (DEFAULT_JUDGE,) if names is None else tuple(names))
    design, classes = design_of(inputs, schema), labels.numpy()
    present, renumbered = np.unique(classes, return_inverse=True)
    if len(present) < 2:
        raise DataError("all synthetic records are of one class, so no classifier can be trained; nothing was spent")
    return [_train(each, design, renumbered, present, schema, seed) for each in chosen]


def _choose(schema: Schema, names: Sequence[str]) -> list[Classifier]:
    if schema.image is None:
        return choose(names)
    for name in names:
        if name not in (*IMAGE_NAMES, DEFAULT_JUDGE):
            raise SettingError(f'classifier "{name}" cannot be released privately for images; use lr or mlp')
    return choose(dict.fromkeys(IMAGE_NAMES.get(name, name) for name in names))


def _train(
    classifier: Classifier,
    design: NDArray[np.float32],
    labels: NDArray[np.int64],
    present: NDArray[np.int64],
    schema: Schema,
    seed: int,
) -> TrainedJudge:
    precision = np.float64 if classifier.double else np.float32
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        # Not converged or collinear: ordinary on poor data, and judged as it stands.
        warnings.simplefilter("ignore")
        try:
            estimator = classifier.make(seed).fit(design.astype(precision, copy=False), labels)
        except CANNOT_TRAIN as error:
            raise DataError(
                f"{classifier.title} cannot be trained on these {len(labels)} synthetic records "
                f"({type(error).__name__}); choose another classifier or more records; nothing was spent"
            ) from None

    def scored(rows: NDArray[np.float32]) -> NDArray[np.float64]:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            values = _numbers(estimator, rows.astype(precision, copy=False))
        # A class that was never generated is never guessed.
        everything = np.full((len(rows), schema.classes), -1e6)
        everything[:, present] = np.nan_to_num(values, nan=0.0, posinf=1e6, neginf=-1e6)
        return everything

    def judge(record: NDArray[np.float64]) -> NDArray[np.float64]:
        row = torch.from_numpy(np.atleast_2d(record).astype(np.float32))
        found: NDArray[np.float64] = scored(design_of(row, schema))[0]
        return found

    return TrainedJudge(
        name=classifier.name, title=classifier.title, judge=judge, edges=_edges(scored(design), schema.classes)
    )


def _numbers(estimator: Any, rows: NDArray[Any]) -> NDArray[np.float64]:
    if hasattr(estimator, "predict_proba"):
        return np.asarray(estimator.predict_proba(rows), dtype=np.float64)
    values = np.asarray(estimator.decision_function(rows), dtype=np.float64)
    return np.stack([-values, values], axis=1) if values.ndim == 1 else values


def _edges(scores: NDArray[np.float64], classes: int) -> NDArray[np.float64]:
    """Quantiles per class that is looked at; with two classes the decision is an edge, so that bins tell guesses."""
    shares = np.linspace(0.0, 1.0, BINS + 1)[1:-1]
    if classes == 2:
        ahead = scores[:, 1] - scores[:, 0]
        return np.sort(np.append(np.quantile(ahead, shares), 0.0))[None, :]
    return np.quantile(scores, shares, axis=0).T

"""Logistic regression and the multi-layer perceptron by scikit-learn, as the papers use them."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulacra.evaluate.image_classifiers.answer import Answer

LR_ITERATIONS = 5000


def logistic(
    inputs: NDArray[np.float32], labels: NDArray[np.int64], asked: NDArray[np.float32], *, seeds: Sequence[int]
) -> list[Answer]:
    """L-BFGS to convergence. It draws no random number, so one fit answers for every seed."""
    from sklearn.linear_model import LogisticRegression

    answer = _fitted(LogisticRegression(solver="lbfgs", max_iter=LR_ITERATIONS), inputs, labels, asked, seeds[0])
    return repeated(answer, seeds)


def perceptron(
    inputs: NDArray[np.float32], labels: NDArray[np.int64], asked: NDArray[np.float32], *, seeds: Sequence[int]
) -> list[Answer]:
    """100 hidden units and Adam, all as scikit-learn has it by default."""
    from sklearn.neural_network import MLPClassifier

    return [_fitted(MLPClassifier(random_state=seed), inputs, labels, asked, seed) for seed in seeds]


def repeated(answer: Answer, seeds: Sequence[int]) -> list[Answer]:
    """One answer for all seeds, each with its share of the time."""
    return [
        Answer(
            seed=seed,
            predicted=answer.predicted,
            seconds=answer.seconds / len(seeds),
            steps=answer.steps,
            details=answer.details,
        )
        for seed in seeds
    ]


def _fitted(
    estimator: Any, inputs: NDArray[np.float32], labels: NDArray[np.int64], asked: NDArray[np.float32], seed: int
) -> Answer:
    started = time.perf_counter()
    predicted: NDArray[np.int64] | None = None
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        # Reaching the last iteration is an ordinary outcome on noisy images, and is scored as it stands.
        warnings.simplefilter("ignore")
        with contextlib.suppress(ValueError, ArithmeticError):
            predicted = np.asarray(estimator.fit(inputs, labels).predict(asked), dtype=np.int64)
    iterations = int(np.max(getattr(estimator, "n_iter_", 0)))
    return Answer(
        seed=seed,
        predicted=predicted,
        seconds=time.perf_counter() - started,
        steps=iterations if not hasattr(estimator, "t_") else iterations * -(-len(inputs) // min(200, len(inputs))),
        details={"iterations": iterations},
    )

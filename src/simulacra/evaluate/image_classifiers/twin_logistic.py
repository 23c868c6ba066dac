"""Logistic regression on a GPU: scikit-learn's objective and stopping rule, with products by torch.

SciPy's L-BFGS-B decides on the processor where to look next, exactly as under scikit-learn; value and gradient come
from the device in double precision. The two follow the same path, up to the rounding of scikit-learn's float32.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import optimize
from torch.nn import functional

from simulacra.evaluate.image_classifiers.answer import Answer
from simulacra.evaluate.image_classifiers.scikit import LR_ITERATIONS, repeated

INVERSE_PENALTY = 1.0
"""scikit-learn's C."""
GRADIENT_TOLERANCE = 1e-4
LINE_SEARCH_STEPS = 50
VALUE_TOLERANCE = 64 * float(np.finfo(float).eps)


def logistic(
    inputs: NDArray[np.float32],
    labels: NDArray[np.int64],
    asked: NDArray[np.float32],
    *,
    seeds: Sequence[int],
    device: str = "cpu",
) -> list[Answer]:
    """Labels count from 0, and each class occurs. One fit answers for every seed: nothing in it is random."""
    started = time.perf_counter()
    coefficients, iterations = fit(inputs, labels, device=device)
    predicted: NDArray[np.int64] | None = None
    if np.isfinite(coefficients).all():
        scores = asked.astype(np.float64) @ coefficients[:-1] + coefficients[-1]
        predicted = (scores[:, 0] > 0).astype(np.int64) if scores.shape[1] == 1 else scores.argmax(axis=1)
    answer = Answer(
        seed=seeds[0],
        predicted=predicted,
        seconds=time.perf_counter() - started,
        steps=iterations,
        details={"iterations": iterations},
    )
    return repeated(answer, seeds)


def fit(inputs: NDArray[np.float32], labels: NDArray[np.int64], *, device: str) -> tuple[NDArray[np.float64], int]:
    """Coefficients (features + 1, classes) with the intercepts in the last row, and the number of iterations.

    Two classes have one column, the score of the second, as scikit-learn has it.
    """
    classes = int(labels.max()) + 1
    outputs = 1 if classes == 2 else classes
    rows, features = inputs.shape
    matrix = torch.from_numpy(inputs).to(device).double()
    codes = torch.from_numpy(labels).to(device)
    targets = codes[:, None].double() if outputs == 1 else functional.one_hot(codes, classes).double()
    penalty = 1 / (INVERSE_PENALTY * rows)

    def value_and_gradient(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        unknowns = torch.from_numpy(flat).to(device).view(features + 1, outputs)
        weights = unknowns[:-1]
        scores = torch.addmm(unknowns[-1], matrix, weights)
        if outputs == 1:
            loss = (functional.softplus(scores) - targets * scores).mean()
            probabilities = scores.sigmoid()
        else:
            logarithms = functional.log_softmax(scores, dim=1)
            loss = functional.nll_loss(logarithms, codes)
            probabilities = logarithms.exp()
        difference = (probabilities - targets) / rows
        gradient = torch.cat([matrix.T @ difference + penalty * weights, difference.sum(dim=0, keepdim=True)])
        # One transfer for both: each costs a wait for the device.
        both = torch.cat([(loss + 0.5 * penalty * weights.square().sum()).view(1), gradient.flatten()]).cpu().numpy()
        return float(both[0]), both[1:]

    found = optimize.minimize(
        value_and_gradient,
        np.zeros((features + 1) * outputs),
        method="L-BFGS-B",
        jac=True,
        options={
            "maxiter": LR_ITERATIONS,
            "maxls": LINE_SEARCH_STEPS,
            "gtol": GRADIENT_TOLERANCE,
            "ftol": VALUE_TOLERANCE,
        },
    )
    return np.asarray(found.x).reshape(features + 1, outputs), int(found.nit)

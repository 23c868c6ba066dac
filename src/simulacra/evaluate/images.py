"""Train on synthetic images, test on real ones: logistic regression and a multi-layer perceptron, as in the papers.

Pixels are divided by 255 and flattened (DP-MERF, DP-HP, DP-NTK, DP-MEPF). The papers differ in how many synthetic
images they train on (6,000 or 60,000), which moves the accuracy by points: `train_rows` is part of the result.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulacra.errors import DataError, SettingError, suggestion
from simulacra.evaluate.scores import Scores
from simulacra.evaluate.training_rows import subsample

Images = NDArray[np.uint8] | NDArray[np.floating[Any]]

CLASSIFIERS = {"lr": "Logistic regression", "mlp": "Multi-layer perceptron"}


def train_and_test_images(
    synthetic: Images,
    synthetic_labels: NDArray[np.integer[Any]],
    real: Images,
    real_labels: NDArray[np.integer[Any]],
    *,
    seed: int = 0,
    train_rows: int | None = None,
    classifiers: Iterable[str] | None = None,
    progress: Callable[[str], None] | None = None,
) -> Scores:
    """Accuracy and macro F1 on the real images: `lr_accuracy`, `lr_f1`, `mlp_accuracy`, `mlp_f1`.

    Images are uint8, or floats in [0, 1]; the first axis counts them and the other axes must agree.
    """
    chosen = list(CLASSIFIERS if classifiers is None else classifiers)
    for name in chosen:
        if name not in CLASSIFIERS:
            raise SettingError(f'unknown classifier "{name}"{suggestion(name, CLASSIFIERS)}')
    inputs, labels = _flatten(synthetic, synthetic_labels, "synthetic images")
    test_inputs, test_labels = _flatten(real, real_labels, "real images")
    if inputs.shape[1] != test_inputs.shape[1]:
        raise DataError(f"synthetic images have {inputs.shape[1]} pixels and real ones {test_inputs.shape[1]}")
    keep = subsample(len(inputs), train_rows, seed)
    inputs, labels = inputs[keep], labels[keep]
    notes: list[str] = []
    absent = np.setdiff1d(test_labels, labels)
    if len(absent):
        notes.append(f"{len(absent)} classes of the test images never occur among the synthetic ones")
    scores: dict[str, float] = {}
    rows: list[dict[str, Any]] = []
    for number, name in enumerate(chosen, start=1):
        if progress is not None:
            progress(f"{CLASSIFIERS[name]} ({number} of {len(chosen)})")
        started = time.perf_counter()
        predicted, note = _predict(name, inputs, labels, test_inputs, seed)
        if note:
            notes.append(f"{CLASSIFIERS[name]}: {note}")
        accuracy, f1 = _metrics(test_labels, predicted)
        scores |= {f"{name}_accuracy": accuracy, f"{name}_f1": f1}
        seconds = round(time.perf_counter() - started, 3)
        rows.append(
            {"name": name, "title": CLASSIFIERS[name], "accuracy": accuracy, "f1": f1, "seconds": seconds, "note": note}
        )
    details = {"classifiers": rows, "train_rows": len(inputs), "test_rows": len(test_inputs)}
    return Scores(scores=scores, details=details, notes=notes)


def _predict(
    name: str, inputs: NDArray[np.float32], labels: NDArray[np.int64], test_inputs: NDArray[np.float32], seed: int
) -> tuple[NDArray[np.int64], str]:
    present, counts = np.unique(labels, return_counts=True)
    guess = np.full(len(test_inputs), present[counts.argmax()], dtype=np.int64)
    if len(present) < 2:
        return guess, "not trained, because all synthetic labels are the same class; it answers that class"
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        # Reaching the last iteration is an ordinary outcome on noisy images, and is scored as it stands.
        warnings.simplefilter("ignore")
        try:
            estimator = _make(name, seed).fit(inputs, labels)
            return np.asarray(estimator.predict(test_inputs), dtype=np.int64), ""
        except (ValueError, ArithmeticError) as error:
            return guess, f"could not be trained ({type(error).__name__}); it answers the commonest class"


def _make(name: str, seed: int) -> Any:
    if name == "lr":
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression(solver="lbfgs", max_iter=5000, random_state=seed)
    from sklearn.neural_network import MLPClassifier

    return MLPClassifier(random_state=seed)


def _metrics(truth: NDArray[np.int64], predicted: NDArray[np.int64]) -> tuple[float, float]:
    from sklearn.metrics import f1_score

    f1 = f1_score(truth, predicted, average="macro", labels=np.unique(truth), zero_division=0.0)
    return float(np.mean(truth == predicted)), float(f1)


def _flatten(
    images: Images, labels: NDArray[np.integer[Any]], what: str
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    numbers = np.asarray(labels).astype(np.int64).ravel()
    if len(images) == 0:
        raise DataError(f"{what}: there are none; at least one is needed")
    if len(images) != len(numbers):
        raise DataError(f"{what}: {len(images)} images but {len(numbers)} labels")
    flat = images.reshape(len(images), -1).astype(np.float32)
    if images.dtype == np.uint8:
        flat /= np.float32(255)
    elif not np.isfinite(flat).all() or flat.min() < -1e-4 or flat.max() > 1 + 1e-4:
        raise DataError(f"{what}: floating-point pixels must lie in [0, 1]; scale them, or give uint8")
    return np.clip(flat, 0.0, 1.0), numbers

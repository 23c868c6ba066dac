"""Classifiers trained on synthetic images, and what they answer for real ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from simulacra.errors import DataError, SettingError, suggestion
from simulacra.evaluate.image_classifiers.answer import Answer, Prediction
from simulacra.evaluate.image_classifiers.recipes import RECIPES

__all__ = ["CLASSIFIERS", "ENGINES", "Prediction", "predictions"]

CLASSIFIERS = {"lr": "Logistic regression", "mlp": "Multi-layer perceptron"} | {
    name: recipe.title for name, recipe in RECIPES.items()
}
ENGINES = ("auto", "scikit-learn", "torch")


def predictions(
    name: str,
    images: NDArray[np.uint8],
    labels: NDArray[np.int64],
    test_images: NDArray[np.uint8],
    *,
    classes: int,
    seeds: Sequence[int],
    device: str = "cpu",
    engine: str = "auto",
    progress: Callable[[str], None] | None = None,
) -> list[Prediction]:
    """Train a classifier on synthetic images, once for each seed, and ask it about the test images.

    Images are bytes, (n, height, width) or (n, height, width, channels); labels count from 0. `engine` chooses between
    scikit-learn and its twin in torch for "lr" and "mlp"; by default scikit-learn on a processor and torch on a GPU.
    Training that comes to nothing is no error: the commonest class is answered, and a note says why.
    """
    if name not in CLASSIFIERS:
        raise SettingError(f'unknown classifier "{name}"{suggestion(name, CLASSIFIERS)}')
    if engine not in ENGINES:
        raise SettingError(f'unknown engine "{engine}"{suggestion(engine, ENGINES)}')
    if device != "cpu":
        from simulacra.networks.devices import pick_device

        device = pick_device(device)
    if not seeds:
        raise SettingError("at least one seed is needed to train a classifier")
    labels = np.ascontiguousarray(labels, dtype=np.int64)
    if len(labels) != len(images) or len(labels) == 0:
        raise DataError(
            f"{len(images)} synthetic images with {len(labels)} labels; at least one image, and a label each"
        )
    if labels.min() < 0 or labels.max() >= classes:
        raise DataError(f"labels must lie from 0 to {classes - 1}, got {labels.min()} to {labels.max()}")
    images, test_images = (array.reshape(*array.shape[:3], -1) for array in (images, test_images))
    if images.shape[1:] != test_images.shape[1:]:
        raise DataError(f"synthetic images are {images.shape[1:]} and test images {test_images.shape[1:]}")
    if engine == "auto":
        engine = "torch" if name not in ("lr", "mlp") or device.startswith("cuda") else "scikit-learn"
    present, counts = np.unique(labels, return_counts=True)
    guess = np.full(len(test_images), present[counts.argmax()], dtype=np.int64)
    if len(present) == 1:
        note = "not trained, because all synthetic labels are the same class; it answers that class"
        return [
            Prediction(seed=seed, predicted=guess, seconds=0.0, steps=0, engine="none", note=note) for seed in seeds
        ]
    if name in ("lr", "mlp"):
        answers = _flat_answers(name, images, labels, test_images, seeds, device, engine)
    else:
        from simulacra.evaluate.image_classifiers.training import train

        engine = "torch"
        answers = train(
            RECIPES[name], images, labels, test_images, classes=classes, seeds=seeds, device=device, progress=progress
        )
    return [_prediction(answer, guess, engine) for answer in answers]


def _flat_answers(
    name: str,
    images: NDArray[np.uint8],
    labels: NDArray[np.int64],
    test_images: NDArray[np.uint8],
    seeds: Sequence[int],
    device: str,
    engine: str,
) -> list[Answer]:
    """The two classifiers that see pixels in a row, divided by 255; they know only the classes that occur."""
    inputs, asked = (array.reshape(len(array), -1).astype(np.float32) for array in (images, test_images))
    inputs /= np.float32(255)
    asked /= np.float32(255)
    present, codes = np.unique(labels, return_inverse=True)
    if engine == "torch":
        from simulacra.evaluate.image_classifiers import twin_logistic, twin_perceptron

        fit = twin_logistic.logistic if name == "lr" else twin_perceptron.perceptron
        answers = fit(inputs, codes, asked, seeds=seeds, device=device)
    else:
        from simulacra.evaluate.image_classifiers import scikit

        answers = (scikit.logistic if name == "lr" else scikit.perceptron)(inputs, codes, asked, seeds=seeds)
    return [answer.named(present) for answer in answers]


def _prediction(answer: Answer, guess: NDArray[np.int64], engine: str) -> Prediction:
    failed = answer.predicted is None
    return Prediction(
        seed=answer.seed,
        predicted=guess if answer.predicted is None else answer.predicted,
        seconds=answer.seconds,
        steps=answer.steps,
        engine=engine,
        note="could not be trained, its loss was not a finite number; it answers the commonest class" if failed else "",
        details=answer.details,
    )

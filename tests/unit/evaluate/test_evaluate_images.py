from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from simulacra.errors import DataError, SettingError
from simulacra.evaluate import evaluate_images


def invent(count: int, seed: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images of 6 x 6 pixels in which the class lights up one row."""
    random = np.random.default_rng(seed)
    labels = np.arange(count) % 3
    images = random.integers(0, 80, (count, 6, 6), dtype=np.uint8)
    images[np.arange(count), labels] += 120
    return images, labels


def test_both_classifiers_learn_from_synthetic_images():
    result = evaluate_images(*invent(150, 0), *invent(60, 1))
    assert set(result.scores) == {"lr_accuracy", "lr_f1", "mlp_accuracy", "mlp_f1"}
    assert min(result.scores.values()) > 0.95
    assert result.notes == []


def test_bytes_and_fractions_are_the_same_images():
    images, labels = invent(60, 0)
    bytes_ = evaluate_images(images, labels, *invent(60, 1), classifiers=["lr"])
    fractions = evaluate_images((images / 255)[..., None], labels, *invent(60, 1), classifiers=["lr"])
    assert bytes_.scores == fractions.scores


def test_fewer_rows_can_be_asked_for():
    result = evaluate_images(*invent(150, 0), *invent(60, 1), train_rows=30, classifiers=["lr"])
    assert result.details["train_rows"] == 30


def test_one_synthetic_class_answers_that_class():
    images, _ = invent(30, 0)
    result = evaluate_images(images, np.full(30, 2), *invent(60, 1))
    assert result.scores["lr_accuracy"] == result.scores["mlp_accuracy"] == pytest.approx(1 / 3)
    assert any("same class" in note for note in result.notes)
    assert any("2 classes" in note for note in result.notes)


def test_images_that_do_not_fit_are_refused():
    images, labels = invent(30, 0)
    with pytest.raises(DataError, match="labels"):
        evaluate_images(images, labels[:5], images, labels)
    with pytest.raises(DataError, match="pixels"):
        evaluate_images(images[:, :5], labels, images, labels)
    with pytest.raises(DataError, match="at least one"):
        evaluate_images(images[:0], labels[:0], images, labels)
    with pytest.raises(DataError, match=r"\[0, 1\]"):
        evaluate_images(images.astype(np.float32), labels, images, labels)
    with pytest.raises(SettingError, match="unknown classifier"):
        evaluate_images(images, labels, images, labels, classifiers=["svm"])

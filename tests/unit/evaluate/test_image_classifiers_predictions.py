"""One call for every classifier, with input that no classifier can learn from."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from simulacra.errors import DataError, SettingError
from simulacra.evaluate import image_classifiers
from simulacra.evaluate.image_classifiers import CLASSIFIERS, predictions
from simulacra.evaluate.image_classifiers.answer import Answer
from simulacra.networks.classifiers import NETWORKS


def bands(count: int, seed: int = 0) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    random = np.random.default_rng(seed)
    labels = np.arange(count) % 3
    images = random.integers(0, 80, (count, 6, 6), dtype=np.uint8)
    images[np.arange(count), labels] += 120
    return images, labels


def test_every_network_has_a_recipe_and_every_classifier_a_title():
    assert set(CLASSIFIERS) == {"lr", "mlp"} | set(NETWORKS)
    assert len(set(CLASSIFIERS.values())) == len(CLASSIFIERS)


@pytest.mark.parametrize(
    ("name", "engine"), [("lr", "scikit-learn"), ("lr", "torch"), ("mlp", "torch"), ("cnn", "auto")]
)
def test_answers_are_labels_for_each_test_image_and_seed(name, engine):
    images, labels = bands(60)
    test, truth = bands(30, seed=1)
    labels, truth = labels * 2 + 1, truth * 2 + 1  # classes 0, 2, 4 and 6 never occur
    found = predictions(name, images, labels, test, classes=7, seeds=[3, 4], engine=engine)
    assert [one.seed for one in found] == [3, 4]
    assert {one.engine for one in found} == {"torch" if engine == "auto" else engine}
    for one in found:
        assert one.predicted.shape == truth.shape
        assert one.predicted.dtype == np.int64
        assert one.seconds > 0
        assert one.steps > 0
        assert one.note == ""
        if name != "cnn":  # which has too few images for its ten epochs
            assert np.mean(one.predicted == truth) > 0.95


def test_by_default_a_processor_has_scikit_learn():
    images, labels = bands(30)
    assert predictions("lr", images, labels, images, classes=3, seeds=[0])[0].engine == "scikit-learn"


@pytest.mark.parametrize("name", ["lr", "mlp", "cnn", "vgg11"])
def test_one_class_is_answered_and_not_trained_on(name):
    images, _ = bands(9)
    (found,) = predictions(name, images, np.full(9, 2), images, classes=3, seeds=[0])
    assert found.predicted.tolist() == [2] * 9
    assert "same class" in found.note
    assert found.steps == 0


def test_training_that_came_to_nothing_answers_the_commonest_class(monkeypatch):
    images, _ = bands(5)
    nothing = Answer(seed=0, predicted=None, seconds=1.0, steps=3)
    monkeypatch.setattr(image_classifiers, "_flat_answers", lambda *_: [nothing])
    (found,) = predictions("mlp", images, np.array([1, 1, 2, 2, 2]), images, classes=3, seeds=[0])
    assert found.predicted.tolist() == [2] * 5
    assert "commonest" in found.note


@pytest.mark.parametrize("engine", ["scikit-learn", "torch"])
@pytest.mark.parametrize("name", ["lr", "mlp"])
def test_two_black_images_are_enough(name, engine):
    images = np.zeros((2, 6, 6), dtype=np.uint8)
    (found,) = predictions(name, images, np.array([0, 1]), images, classes=2, seeds=[0], engine=engine)
    assert set(found.predicted.tolist()) <= {0, 1}


def test_wrong_calls_are_refused_in_one_line():
    images, labels = bands(9)
    with pytest.raises(SettingError, match='unknown classifier "svm"'):
        predictions("svm", images, labels, images, classes=3, seeds=[0])
    with pytest.raises(SettingError, match='unknown engine "jax"'):
        predictions("lr", images, labels, images, classes=3, seeds=[0], engine="jax")
    with pytest.raises(SettingError, match="at least one seed"):
        predictions("lr", images, labels, images, classes=3, seeds=[])
    with pytest.raises(DataError, match="labels must lie from 0 to 1"):
        predictions("lr", images, labels, images, classes=2, seeds=[0])
    with pytest.raises(DataError, match="test images"):
        predictions("lr", images, labels, images[:, :5], classes=3, seeds=[0])
    with pytest.raises(DataError, match="9 synthetic images with 4 labels"):
        predictions("lr", images, labels[:4], images, classes=3, seeds=[0])
    with pytest.raises(SettingError, match="vgg11 needs images of at least 28 x 28 pixels, got 6 x 6"):
        predictions("vgg11", images, labels, images, classes=3, seeds=[0])
    with pytest.raises(SettingError, match="not available here"):
        predictions("lr", images, labels, images, classes=3, seeds=[0], device="cuda:99")

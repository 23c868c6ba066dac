"""The condensation papers' six networks on sets of a few images: every size trains, and seeds have a spread."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from simulacra.evaluate import evaluate_images
from simulacra.evaluate.image_classifiers.recipes import RECIPES
from simulacra.evaluate.image_classifiers.timetable import timetable

NETWORKS = ("convnet", "mlp128", "lenet", "alexnet", "vgg11", "resnet18")


def images(per_class: int, side: int = 32, classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Grey squares whose brightness is their class."""
    random = np.random.default_rng(per_class)
    labels = np.repeat(np.arange(classes), per_class)
    pixels = random.integers(0, 40, (len(labels), side, side)) + 80 * labels[:, None, None]
    return pixels.astype(np.uint8), labels


@pytest.mark.parametrize("per_class", [1, 10, 50, 100])
@pytest.mark.parametrize("network", NETWORKS)
def test_a_set_of_any_size_is_trained_on_for_the_papers_thousand_epochs(network: str, per_class: int) -> None:
    table = timetable(RECIPES[network], images=10 * per_class, channels=1)
    assert table.epochs == 1000
    assert sum(table.sizes) == 10 * per_class
    assert max(table.sizes) <= 256
    assert table.rates[0] == pytest.approx(10 * table.rates[-1])


@pytest.mark.parametrize("per_class", [1, 2])
@pytest.mark.parametrize("network", NETWORKS)
def test_every_network_trains_on_one_or_two_images_of_each_class(
    network: str, per_class: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(RECIPES, network, replace(RECIPES[network], epochs=2))
    scores = evaluate_images(*images(per_class), *images(2), classifiers=[network], seeds=1)
    assert 0 <= scores.scores[f"{network}_accuracy"] <= 1
    assert scores.details["train_rows"] == 3 * per_class
    assert not scores.notes


def test_five_seeds_have_a_mean_and_a_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RECIPES, "mlp128", replace(RECIPES["mlp128"], epochs=3))
    scores = evaluate_images(*images(2, side=8), *images(9, side=8), classifiers=["mlp128"], seeds=5)
    (row,) = scores.details["classifiers"]
    accuracies = [one["accuracy"] for one in row["per_seed"]]
    assert len(accuracies) == 5
    assert scores.scores["mlp128_accuracy"] == pytest.approx(np.mean(accuracies))
    assert scores.scores["mlp128_accuracy_spread"] == pytest.approx(np.std(accuracies, ddof=1))

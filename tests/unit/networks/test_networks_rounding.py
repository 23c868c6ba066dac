"""Convolutions that round give nearly the same, and only where a processor gains by it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from simulacra.evaluate.image_classifiers.learner import Learner
from simulacra.evaluate.image_classifiers.material import as_material
from simulacra.evaluate.image_classifiers.recipes import RECIPES
from simulacra.evaluate.image_classifiers.timetable import timetable
from simulacra.networks import rounding
from simulacra.networks.convnet import ConvNet
from simulacra.networks.rounding import RoundedConvolution, rounded

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def a_processor_that_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every processor can compute with bfloat16; on most it only takes longer."""
    monkeypatch.setattr(rounding, "processor_rounds", lambda: True)


def convolutions(network: nn.Module) -> list[bool]:
    return [isinstance(layer, RoundedConvolution) for layer in network.modules() if isinstance(layer, nn.Conv2d)]


def test_scores_and_gradients_are_nearly_the_same_and_in_single_precision():
    torch.manual_seed(0)
    network = ConvNet(channels=1, height=28, width=28, classes=10)
    images = torch.rand(6, 1, 28, 28)
    weights = list(network.parameters())

    def scores_and_gradients() -> list[torch.Tensor]:
        scores = network(images)
        gradients = torch.autograd.grad(scores.square().sum(), weights)
        return [scores.detach(), torch.cat([gradient.flatten() for gradient in gradients])]

    exact = scores_and_gradients()
    names = list(network.state_dict())
    found = rounded(network, CPU)
    assert found is network
    assert list(network.state_dict()) == names
    assert convolutions(network) == [False, True, True], "the first has one channel, where rounding gains nothing"
    for ours, theirs in zip(scores_and_gradients(), exact, strict=True):
        assert ours.dtype == torch.float32
        assert 0 < (ours - theirs).norm() / theirs.norm() < 0.03


@pytest.mark.parametrize("name", ["cnn", "convnet"])
def test_the_recipe_decides(name):
    images = torch.zeros(8, 28, 28, 1, dtype=torch.uint8).numpy()
    labels = torch.arange(8).numpy() % 2
    recipe = RECIPES[name]
    material = as_material(recipe, images, labels, classes=2, device="cpu")
    table = timetable(recipe, images=8, channels=1)
    learner = Learner(recipe, material, table, seed=0)
    assert any(convolutions(learner.network)) is (recipe.arithmetic != "float32")


def test_neither_a_gpu_nor_a_processor_without_the_units_rounds_here(monkeypatch):
    layers = nn.Sequential(nn.Conv2d(16, 16, 3), nn.Conv2d(16, 16, 3, padding=1, padding_mode="reflect"))
    assert convolutions(rounded(layers, torch.device("cuda"))) == [False, False]
    monkeypatch.setattr(rounding, "processor_rounds", lambda: False)
    assert convolutions(rounded(layers, CPU)) == [False, False]
    monkeypatch.setattr(rounding, "processor_rounds", lambda: True)
    assert convolutions(rounded(layers, CPU)) == [True, False], "what pads by other means is left alone"

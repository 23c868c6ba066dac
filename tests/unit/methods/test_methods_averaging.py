"""An average of weights: young at first, and then slow."""

from __future__ import annotations

import torch
from torch import nn

from simulacra.methods.averaging import Average


def network(value: float) -> nn.Module:
    layers = nn.Sequential(nn.Linear(1, 1, bias=False), nn.BatchNorm1d(1, affine=False))
    nn.init.constant_(layers[0].weight, value)
    nn.init.constant_(layers[1].running_mean, value)
    return layers


def weight(average: Average) -> float:
    return float(average.network[0].weight.detach())


def test_an_average_begins_young_and_ends_slow() -> None:
    average = Average(network(0.0), 0.9)
    average.follow(network(1.0))
    assert abs(weight(average) - (1 - 2 / 11)) < 1e-6
    average.age.fill_(1e6)
    before = weight(average)
    average.follow(network(2.0))
    assert abs(weight(average) - (before + 0.1 * (2 - before))) < 1e-6


def test_running_statistics_are_taken_as_they_are_and_the_network_keeps_its_own() -> None:
    original = network(0.0)
    average = Average(original, 0.9)
    average.follow(network(3.0))
    assert torch.equal(average.network[1].running_mean, torch.tensor([3.0]))
    assert float(original[0].weight.detach()) == 0
    assert not average.network[0].weight.requires_grad

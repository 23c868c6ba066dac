"""The untrained networks: PyTorch's own modules as a witness, pinned weights, and ReLUs that no batch can tip over."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest
import torch
from torch import nn

from simulacra.data.points import PixelPoints
from simulacra.features.combine import PerClass
from simulacra.features.tangent import Tangent
from simulacra.features.tangent_networks import NETWORKS, POINT_BITS, Entrywise, Network, OneHidden, TwoHidden, network

SMALL: tuple[Network, ...] = (OneHidden(5, (7,), 3), TwoHidden(5, (7, 6), 3), Entrywise(5, (4, 6), 3))
every_network = pytest.mark.parametrize("made", SMALL, ids=NETWORKS)


class Channels(nn.Module):
    """The entries of a point as the positions of a signal with one channel."""

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        return points.unsqueeze(1)


def module(made: Network) -> nn.Sequential:
    """The same network out of PyTorch's parts."""
    if isinstance(made, OneHidden):
        (hidden,) = made.hidden
        norm = nn.LayerNorm(hidden, elementwise_affine=False)
        return nn.Sequential(nn.Linear(made.width, hidden), nn.ReLU(), norm, nn.Linear(hidden, made.outputs))
    first, second = made.hidden
    last = nn.Linear(second, made.outputs)
    if isinstance(made, TwoHidden):
        norm = nn.LayerNorm(second, elementwise_affine=False)
        return nn.Sequential(nn.Linear(made.width, first), nn.ReLU(), nn.Linear(first, second), norm, last)
    middle = nn.Linear(first * made.width, second)
    return nn.Sequential(Channels(), nn.Conv1d(1, first, 1), nn.ReLU(), nn.Flatten(), middle, nn.ReLU(), last)


@every_network
def test_the_network_is_what_pytorch_would_build(made: Network) -> None:
    built, parameters = module(made), made.parameters(0)
    for own, drawn in zip(built.parameters(), parameters.values(), strict=True):
        own.data.copy_(drawn.view_as(own))
    points = torch.rand(6, made.width)
    logits = torch.func.vmap(lambda point: made.logits(parameters, point))(points)
    torch.testing.assert_close(logits, built(points))


@pytest.mark.parametrize("name", NETWORKS)
def test_weights_are_spread_as_pytorch_spreads_them(name: str) -> None:
    made = network(name, width=40, hidden=(50, 60)[: NETWORKS[name].hidden_layers], outputs=30)
    torch.manual_seed(0)
    for parameter, drawn in zip(module(made).parameters(), made.parameters(0).values(), strict=True):
        own = parameter.detach()
        assert own.numel() == drawn.numel()
        assert float(drawn.abs().max()) == pytest.approx(float(own.abs().max()), rel=0.15)
        assert float(drawn.std()) == pytest.approx(float(own.std()), rel=0.3)
        assert abs(float(drawn.mean())) < 4 * float(drawn.std()) / math.sqrt(drawn.numel())


@pytest.mark.parametrize(
    ("made", "digest"),
    [
        (SMALL[0], "73d62946dda698a1954283f1eddf52731bcb233e69f459d082b33de6a0d61412"),
        (SMALL[1], "10894e1293932da41626bf078447bd71e439cd2725e5154776843f65cddd12f7"),
        (SMALL[2], "b979f4427cdca1e11c993dd0ecde5b18c0a7aec3e11a01a800c6614431a89d40"),
    ],
    ids=NETWORKS,
)
def test_the_weights_of_a_seed_are_pinned(made: Network, digest: str) -> None:
    """A release is of no use to a machine that draws other weights: a library that changes them must be noticed."""
    drawn = torch.cat([value.flatten() for value in made.parameters(0).values()])
    assert drawn.dtype is torch.float32
    assert hashlib.sha256(drawn.numpy().tobytes()).hexdigest() == digest
    again = torch.cat([value.flatten() for value in made.parameters(0).values()])
    other = torch.cat([value.flatten() for value in made.parameters(1).values()])
    assert torch.equal(drawn, again)
    assert not torch.equal(drawn, other)


# -- nothing that decides a ReLU is ever rounded ---------------------------------------------------------------------


def whole(values: torch.Tensor, bits: int) -> np.ndarray:
    """Numbers on a grid as exact integers."""
    scaled = values.double().numpy() * 2.0**bits
    integers = np.rint(scaled).astype(np.int64)
    assert (integers == scaled).all()
    return integers


def private_points(width: int) -> torch.Tensor:
    random = torch.Generator().manual_seed(0)
    inputs = torch.rand(40, width, generator=random) * 2 - 1
    inputs[0], inputs[1], inputs[2] = 1.0, -1.0, 5e-39
    return Tangent(PixelPoints(width), OneHidden(width, (1,)), seed=0)._private_points(inputs.double())


@pytest.mark.parametrize("width", [1, 3, 784, 12_288])
def test_what_enters_the_first_relu_is_exact(width: int) -> None:
    made, points = OneHidden(width, (20,)), private_points(width)
    parameters, bits = made.parameters(0), made.grid_bits()[0]
    found = torch.nn.functional.linear(points, parameters["0.weight"].double(), parameters["0.bias"].double())
    exact = whole(points, POINT_BITS) @ whole(parameters["0.weight"], bits).T
    exact += whole(parameters["0.bias"], bits) << POINT_BITS
    assert (whole(found, POINT_BITS + bits) == exact).all()
    assert (
        np.abs(whole(points, POINT_BITS)).max() * np.abs(whole(parameters["0.weight"], bits)).sum(axis=1).max() < 2**53
    )


@pytest.mark.parametrize(("width", "channels"), [(1, 1), (14, 3), (300, 40), (784, 100)])
def test_what_enters_the_second_relu_is_exact(width: int, channels: int) -> None:
    made, points = Entrywise(width, (channels, 10)), private_points(width)
    parameters = {name: value.double() for name, value in made.parameters(0).items()}
    below, bits, _ = made.grid_bits()
    _, second, output = made.layers(parameters, points)
    first = whole(points, POINT_BITS)[:, None] * whole(parameters["0.weight"], below)
    first = np.maximum(first + (whole(parameters["0.bias"], below)[:, None] << POINT_BITS), 0).reshape(len(points), -1)
    assert (whole(second.inputs, POINT_BITS + below) == first).all()
    exact = first @ whole(parameters["1.weight"], bits).T + (whole(parameters["1.bias"], bits) << (POINT_BITS + below))
    assert (whole(output.inputs, POINT_BITS + below + bits) == np.maximum(exact, 0)).all()
    reach = np.abs(first).max() * np.abs(whole(parameters["1.weight"], bits)).sum(axis=1).max()
    assert reach < 2**53


def test_a_record_on_the_edge_of_many_relus_adds_the_same_in_any_company() -> None:
    """Off the grid, rounding switches such units on and off with the size of the batch, and moves the sum by whole
    units: on two cores, 200 units on the edge made a record's features jump by 0.36 when its batch lost a row."""
    width, edges = 64, 12
    made = OneHidden(width, (32,), 3)
    parameters = {name: value.double() for name, value in made.parameters(0).items()}
    weight, bias = parameters["0.weight"][:edges], parameters["0.bias"][:edges]
    point = torch.full((width,), 0.5, dtype=torch.float64)
    for _ in range(3):
        point -= torch.linalg.lstsq(weight, weight @ point + bias).solution
    assert (weight @ point + bias).abs().max() < 1e-14
    assert 0 <= point.min() <= point.max() <= 1
    per_class = PerClass(Tangent(PixelPoints(width), made, seed=0), 2)
    records = (point * 2 - 1).repeat(70, 1)
    alone = per_class.clipped_sum(records[:1], torch.zeros(1, dtype=torch.int64))
    for count in range(2, 70):
        together = per_class.clipped_sum(records[:count], torch.zeros(count, dtype=torch.int64))
        torch.testing.assert_close(together, count * alone, rtol=0, atol=1e-12)

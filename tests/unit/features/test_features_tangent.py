"""Neural tangent features: the closed form against automatic differentiation, values and gradients, for any widths."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from simulacra.data.points import PixelPoints
from simulacra.errors import SettingError
from simulacra.features.combine import PerClass
from simulacra.features.groups import Groups
from simulacra.features.tangent import Tangent
from simulacra.features.tangent_networks import NETWORKS, Entrywise, OneHidden, TwoHidden, network
from simulacra.privacy.query import FeatureMap
from simulacra.privacy.records import Records
from simulacra.privacy.summing import CHUNK_NUMBERS, add_chunks

every_network = pytest.mark.parametrize("name", NETWORKS)
every_precision = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
seeds = st.integers(0, 2**32)


@st.composite
def tangents(draw: st.DrawFn, name: str) -> Tangent:
    """A network of any small shape."""
    width, outputs = draw(st.integers(1, 8)), draw(st.integers(1, 5))
    hidden = [draw(st.integers(1, 9)) for _ in range(NETWORKS[name].hidden_layers)]
    made = network(name, width=width, hidden=hidden, outputs=outputs)
    return Tangent(PixelPoints(width), made, seed=draw(seeds), signed=draw(st.booleans()))


def points_of(tangent: Tangent, seed: int, count: int) -> torch.Tensor:
    random = torch.Generator().manual_seed(seed)
    return torch.rand(count, tangent.points.width, generator=random, dtype=torch.float64)


def small(name: str, seed: int = 0) -> Tangent:
    return Tangent(
        PixelPoints(5), network(name, width=5, hidden=(7, 6)[: NETWORKS[name].hidden_layers], outputs=3), seed=seed
    )


def specified(tangent: Tangent, points: torch.Tensor) -> torch.Tensor:
    return torch.func.vmap(tangent.specified)(points)


def close(found: torch.Tensor, exact: torch.Tensor, slack: float) -> bool:
    return bool((found.double() - exact).norm() <= 1e-5 * exact.norm() + slack)


@every_network
@every_precision
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_the_closed_form_is_the_gradient(name: str, dtype: torch.dtype, data: st.DataObject) -> None:
    tangent = data.draw(tangents(name))
    points = points_of(tangent, data.draw(seeds), 4)
    exact = specified(tangent, points)
    found = tangent.embed(points.to(dtype))
    assert found.dtype is dtype
    assert found.shape == (4, tangent.size) == exact.shape
    # In float32, what automatic differentiation itself loses comes on top: rows almost constant lose most of their
    # digits in layer normalisation.
    slack = 4 * float((specified(tangent, points.to(dtype)).double() - exact).norm())
    assert close(found, exact, slack + (1e-7 if dtype is torch.float32 else 1e-13))
    torch.testing.assert_close(found.norm(dim=1), torch.ones(4, dtype=dtype))


@every_network
@every_precision
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_class_sums_and_their_gradients_are_those_of_the_specification(
    name: str, dtype: torch.dtype, data: st.DataObject
) -> None:
    tangent = data.draw(tangents(name))
    sizes = tuple(data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=4).filter(any)))
    points = points_of(tangent, data.draw(seeds), sum(sizes))
    weights = torch.rand(len(sizes), dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    pull = torch.randn(len(sizes), tangent.size, dtype=torch.float64, generator=torch.Generator().manual_seed(2))

    def both(closed: bool, precision: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        groups = Groups(sizes=sizes, weights=weights.to(precision))
        leaf = points.to(precision).requires_grad_()
        sums = tangent.class_sums(leaf, groups) if closed else groups.averaging @ specified(tangent, leaf)
        (gradient,) = torch.autograd.grad((sums * pull.to(precision)).sum(), leaf)
        return sums.detach(), gradient

    exact, rough = both(False, torch.float64), both(False, dtype)
    for found, wanted, reference in zip(both(True, dtype), exact, rough, strict=True):
        assert found.dtype is dtype
        # A gradient is what remains of the pull after its part along the feature is taken off: it may be small.
        remains = float(pull.norm()) * (1e-6 if dtype is torch.float32 else 1e-13)
        slack = 4 * float((reference.double() - wanted).norm()) + remains
        assert close(found, wanted, slack)


@every_network
def test_gradients_of_class_sums_hold_against_finite_differences(name: str) -> None:
    tangent = small(name)
    groups = Groups(sizes=(2, 3), weights=torch.tensor([0.5, 2.0], dtype=torch.float64))
    points = points_of(tangent, 3, 5).requires_grad_()
    assert torch.autograd.gradcheck(lambda p: tangent.class_sums(p, groups), (points,))
    assert torch.autograd.gradcheck(tangent.embed, (points,))


@every_network
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_keeping_the_output_layer_once_leaves_the_kernel_as_it_is(name: str, data: st.DataObject) -> None:
    tangent = data.draw(tangents(name))
    points = points_of(tangent, data.draw(seeds), 3)
    parameters = {key: value.double() for key, value in tangent.network.parameters(tangent.seed).items()}

    def whole(point: torch.Tensor) -> torch.Tensor:
        seen = 2 * point - 1 if tangent.signed else point
        gradients = torch.func.grad(lambda p: tangent.network.logits(p, seen).sum())(parameters)
        flat = torch.cat([value.flatten() for value in gradients.values()])
        assert flat.numel() == tangent.size + (tangent.network.outputs - 1) * (tangent.network.hidden[-1] + 1)
        return flat / flat.norm()

    full, condensed = torch.func.vmap(whole)(points), tangent.embed(points)
    torch.testing.assert_close(condensed @ condensed.T, full @ full.T, rtol=1e-12, atol=1e-12)


@every_network
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_private_sums_per_class_are_those_of_the_specification(name: str, data: st.DataObject) -> None:
    tangent = data.draw(tangents(name))
    classes, count = data.draw(st.integers(1, 4)), data.draw(st.integers(0, 12))
    random = torch.Generator().manual_seed(data.draw(seeds))
    inputs = torch.rand(count, tangent.points.width, generator=random, dtype=torch.float64) * 2 - 1
    labels = torch.randint(0, classes, (count,), generator=random)
    per_class = PerClass(tangent, classes)
    closed = per_class.clipped_sum(inputs, labels)
    assert closed.shape == per_class.shape
    for label in range(classes):
        assert closed[label].any() == (labels == label).any()
    if count:
        wanted = FeatureMap.clipped_sum(per_class, inputs, labels)
        torch.testing.assert_close(closed, wanted, rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(tangent.clipped_sum(inputs, labels), wanted.sum(dim=0), rtol=1e-9, atol=1e-12)


@every_network
@every_precision
@pytest.mark.parametrize("bias", [None, -5.0, 0.0], ids=["as drawn", "dead", "without bias"])
def test_flat_points_and_dead_units_give_unit_vectors_and_finite_gradients(
    name: str, dtype: torch.dtype, bias: float | None
) -> None:
    for hidden in ((1, 1), (7, 6)):
        made = network(name, width=5, hidden=hidden[: NETWORKS[name].hidden_layers], outputs=3)
        tangent = Tangent(PixelPoints(5), made, seed=0)
        if bias is not None:
            tangent._as(torch.zeros(1, dtype=dtype))["0.bias"].fill_(bias)
        points = torch.tensor([[0.0] * 5, [1.0] * 5, [0.5] * 5, [1e-45] * 5], dtype=dtype, requires_grad=True)
        features = tangent.embed(points)
        torch.testing.assert_close(features.norm(dim=1), torch.ones(4, dtype=dtype))
        groups = Groups(sizes=(4,), weights=torch.ones(1, dtype=dtype))
        sums = tangent.class_sums(points, groups)
        assert torch.isfinite(sums).all()
        torch.testing.assert_close(sums[0], features.sum(dim=0))
        (gradient,) = torch.autograd.grad(sums.square().sum(), points)
        assert torch.isfinite(gradient).all()


class Largest(TorchDispatchMode):
    """Remembers the largest tensor that any operation put out."""

    numbers = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, (tuple, list)) else [result]:
            if isinstance(tensor, torch.Tensor):
                self.numbers = max(self.numbers, tensor.numel())
        return result


@every_network
def test_no_tensor_ever_holds_records_times_parameters(name: str) -> None:
    made = network(name, width=20, hidden=(16, 12)[: NETWORKS[name].hidden_layers], outputs=2)
    tangent = Tangent(PixelPoints(20), made, seed=0)
    count, classes = 400, 2
    with Largest() as largest:
        points = torch.rand(count, 20, requires_grad=True)
        groups = Groups(sizes=(150, 250), weights=torch.ones(2))
        torch.autograd.backward(tangent.class_sums(points, groups).square().sum())
        PerClass(tangent, classes).clipped_sum(torch.rand(count, 20).double(), torch.arange(count) % classes)
    assert largest.numbers <= max(classes * tangent.size, count * tangent.working_size)
    assert largest.numbers < count * tangent.size


def test_chunks_are_cut_by_the_factors_and_not_by_the_gradient() -> None:
    per_class = PerClass(Tangent(PixelPoints(784), OneHidden(784, (800,), 10), seed=0), 10)
    assert per_class.shape == (10, 784 * 800 + 800 + 801)
    assert 1000 < CHUNK_NUMBERS // per_class.working_size < 10_000


def test_a_sum_in_chunks_is_the_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simulacra.privacy.summing.CHUNK_NUMBERS", 1)
    per_class = PerClass(small("fc_1l"), 3)
    inputs, labels = torch.rand(50, 5) * 2 - 1, torch.arange(50) % 3
    total = torch.zeros(per_class.shape, dtype=torch.float64)
    add_chunks(total, per_class, Records(inputs=inputs, labels=labels))
    torch.testing.assert_close(total, per_class.clipped_sum(inputs.double(), labels), rtol=1e-12, atol=1e-12)


def test_precision_follows_the_points_and_nothing_is_lost_on_the_way() -> None:
    tangent = small("fc_2l")
    points = torch.rand(2, 5, dtype=torch.float64)
    first = tangent.embed(points)
    assert tangent.embed(points.float()).dtype is torch.float32
    assert torch.equal(tangent.embed(points), first)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"name": "fc_1", "hidden": (3,)}, 'there is no network "fc_1"; did you mean "fc_1l"'),
        ({"name": "fc_1l", "hidden": (3, 3)}, "takes 1 hidden width\\(s\\), got 2"),
        ({"name": "fc_2l", "hidden": (3, 0)}, "must be 1 or more"),
        ({"name": "cnn_2l", "hidden": (-1, 5)}, "must be 1 or more"),
        ({"name": "fc_1l", "hidden": (3,), "outputs": 0}, "must be 1 or more"),
        ({"name": "fc_1l", "hidden": (10**9,)}, "5,000,000,001 numbers"),
        ({"name": "fc_1l", "hidden": (3,), "width": 6}, "takes 6 numbers"),
    ],
)
def test_settings_that_cannot_be_are_refused_in_one_line(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(SettingError, match=complaint) as refusal:
        Tangent(PixelPoints(3), network(**{"width": 3} | settings), seed=0)
    assert "\n" not in str(refusal.value)


def test_a_seed_that_cannot_be_is_refused_before_it_is_needed() -> None:
    for seed in (-1, 2**63):
        with pytest.raises(SettingError, match=r"from 0 to 2\^63 - 1"):
            Tangent(PixelPoints(3), OneHidden(3, (2,)), seed=seed)


def test_what_the_classes_multiply_is_refused_too() -> None:
    """And costs nothing: no weight is drawn before it is needed."""
    tangent = Tangent(PixelPoints(784), OneHidden(784, (100_000,)), seed=0)
    with pytest.raises(SettingError, match="this would release 786,000,010 numbers, and at most 200,000,000"):
        PerClass(tangent, 10)


def test_the_sizes_of_the_papers_networks() -> None:
    """With the output layer counted `outputs` times, as published."""
    for made, published in (
        (OneHidden(784, (800,), 10), 636_010),
        (TwoHidden(3072, (3000, 200), 1), 9_819_401),
    ):
        assert made.size + (made.outputs - 1) * (made.hidden[-1] + 1) == published


def test_the_constant_part_of_a_feature_is_the_output_bias() -> None:
    tangent = Tangent(PixelPoints(4), Entrywise(4, (2, 3), 5), seed=1)
    points = torch.rand(3, 4, dtype=torch.float64)
    last = tangent.embed(points)[:, -1]
    assert (last > 0).all()
    assert (last <= 1).all()
    norms = math.sqrt(5) / last
    assert (norms >= math.sqrt(5)).all()

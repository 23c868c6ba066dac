"""Hermite features: the polynomials, the kernel they stand for, their bound, and sums that never hold all of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from simulacra.features.groups import Groups
from simulacra.features.hermite import NARROWEST, WIDEST, Hermite, HermiteSums

X = torch.linspace(0, 1, 201, dtype=torch.float64)


@pytest.mark.parametrize("length_scale", [0.05, 0.3, 2.0])
@pytest.mark.parametrize("order", [0, 1, 2, 7, 12])
def test_the_recursion_gives_the_hermite_polynomials_of_physicists(order: int, length_scale: float) -> None:
    hermite = Hermite(order=order, length_scale=length_scale)
    t, rho = hermite.scaled(X).numpy(), hermite.rho
    envelope = (1 - rho**2) ** 0.25 * np.exp(-rho * t**2 / (1 + rho))
    values = hermite.values(X)
    assert values.shape == (201, order + 1)
    for k in range(order + 1):
        polynomial = np.polynomial.hermite.hermval(t, [0] * k + [1])
        wanted = np.sqrt(rho**k / (2.0**k * math.factorial(k))) * polynomial * envelope
        np.testing.assert_allclose(values[:, k].numpy(), wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("length_scale", "enough"), [(0.05, 60), (0.1, 30), (0.4, 12), (3.0, 6)])
def test_inner_products_approach_the_gaussian_kernel_as_the_order_grows(length_scale: float, enough: int) -> None:
    kernel = torch.exp(-((X.unsqueeze(0) - X.unsqueeze(1)) ** 2) / (2 * length_scale**2))
    errors = []
    for order in (enough // 4, enough // 2, enough):
        values = Hermite(order=order, length_scale=length_scale).values(X)
        errors.append(float((values @ values.T - kernel).abs().max()))
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 1e-3


@settings(max_examples=100, deadline=None)
@given(x=st.floats(-5, 5), order=st.integers(0, 300), length_scale=st.floats(NARROWEST, WIDEST))
def test_no_truncation_is_longer_than_one_even_outside_the_interval(x: float, order: int, length_scale: float) -> None:
    values = Hermite(order=order, length_scale=length_scale).values(torch.tensor(x, dtype=torch.float64))
    assert torch.isfinite(values).all()
    assert float(values.norm()) <= 1 + 1e-12


@pytest.mark.parametrize("length_scale", [NARROWEST, 0.07, 0.4, 10.0, WIDEST])
@pytest.mark.parametrize("order", [0, 3, 20, 100])
def test_no_point_of_the_interval_is_lost_to_underflow(order: int, length_scale: float) -> None:
    values = Hermite(order=order, length_scale=length_scale).values(X)
    single = Hermite(order=order, length_scale=length_scale).values(X.float())
    torch.testing.assert_close(single.double(), values, rtol=0, atol=1e-4)
    assert float(values.norm(dim=1).min()) > 0.1


def test_the_unit_keeps_what_the_papers_unit_loses() -> None:
    """At the paper's length scale on MNIST, 20 orders here are nearer to the kernel than its 100."""
    ours = Hermite(order=20, length_scale=math.sqrt(0.005))
    theirs = Hermite(order=100, length_scale=math.sqrt(0.005))
    theirs.unit = 1.0
    theirs.rho = (-2 * 0.005 + math.sqrt((2 * 0.005) ** 2 + 4)) / 2
    theirs.decay = theirs.rho / (1 + theirs.rho)
    lost = [float((1 - each.values(X).square().sum(dim=1)).max()) for each in (ours, theirs)]
    assert lost[0] < 0.01
    assert lost[1] > 0.2


def example(seed: int = 0) -> tuple[torch.Tensor, Groups]:
    random = torch.Generator().manual_seed(seed)
    points = torch.rand(9, 4, generator=random, dtype=torch.float64, requires_grad=True)
    return points, Groups(sizes=(4, 0, 5), weights=torch.tensor([0.5, 1.0, 0.2], dtype=torch.float64))


@pytest.mark.parametrize("order", [0, 1, 2, 25])
def test_sums_and_their_gradients_equal_plain_automatic_differentiation(order: int) -> None:
    hermite = Hermite(order=order, length_scale=0.2)
    points, groups = example()
    sums = HermiteSums.apply(points, groups.averaging, hermite)
    plain = torch.einsum("cn,ndk->cdk", groups.averaging, hermite.values(points))
    torch.testing.assert_close(sums, plain, rtol=0, atol=1e-14)
    upstream = torch.randn(sums.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    (ours,) = torch.autograd.grad(sums, points, upstream)
    (wanted,) = torch.autograd.grad(plain, points, upstream)
    torch.testing.assert_close(ours, wanted, rtol=1e-12, atol=1e-12)


def test_sums_pass_the_numerical_gradient_check() -> None:
    points, groups = example()
    hermite = Hermite(order=5, length_scale=0.3)
    assert torch.autograd.gradcheck(lambda x: HermiteSums.apply(x, groups.averaging, hermite), (points,))


def test_what_is_kept_for_the_backward_pass_does_not_grow_with_the_order() -> None:
    kept: list[int] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        kept.append(tensor.numel())
        return tensor

    points, groups = example()
    totals = []
    for order in (1, 50):
        kept.clear()
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            HermiteSums.apply(points, groups.averaging, Hermite(order=order, length_scale=0.2))
        totals.append(sum(kept))
    assert totals[0] == totals[1] == points.numel() + groups.averaging.numel()

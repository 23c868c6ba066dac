"""Denoising released moments: noise goes, signal stays, and nothing changes where there is no noise."""

from __future__ import annotations

import math

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from simulacra.methods.denoising import _turned, cosines, denoised, in_common_first, shrink_singular_values

SHAPES = ((12, 8, 6), (6, 4, 10), (1, 1, 40))
SIZES = [math.prod(shape) for shape in SHAPES]
CLASSES = 5


def smooth(classes: int = CLASSES) -> torch.Tensor:
    """Sums as classes have them: one large bump that all share, and smaller ones that each has in its own place."""
    random = torch.Generator().manual_seed(0)
    parts = []
    for height, width, channels in SHAPES:
        down, across = torch.meshgrid(torch.linspace(-1, 1, height), torch.linspace(-1, 1, width), indexing="ij")
        bump = torch.exp(-(down**2) - across**2)
        own = torch.stack([torch.cos(down * number + across) for number in range(classes)])
        shared = torch.rand(channels, generator=random)
        apart = torch.randn(classes, channels, generator=random) * 0.3
        values = bump[None, :, :, None] * shared + own[:, :, :, None] * apart[:, None, None, :]
        parts.append(1000 * values.reshape(classes, -1))
    return torch.cat(parts, dim=1).double()


def with_noise(value: torch.Tensor, scale: float, seed: int = 0) -> torch.Tensor:
    random = torch.Generator().manual_seed(seed)
    return value + scale * torch.randn(value.shape, generator=random, dtype=value.dtype)


def cleaned(
    noisy: torch.Tensor,
    scale: float,
    shapes: tuple[tuple[int, int, int], ...] = SHAPES,
    counts: torch.Tensor | None = None,
) -> torch.Tensor:
    """One moment by itself, of classes of one size."""
    return denoised({1: noisy}, shapes, {1: scale}, torch.ones(len(noisy)) if counts is None else counts)[1]


def missed(found: torch.Tensor, value: torch.Tensor) -> float:
    return float((found - value).square().sum())


@pytest.mark.parametrize("size", [1, 2, 7, 32])
def test_the_waves_are_orthonormal(size: int) -> None:
    torch.testing.assert_close(cosines(size) @ cosines(size).T, torch.eye(size, dtype=torch.float64))


def test_large_layers_are_turned_one_side_after_the_other() -> None:
    """Not by a matrix of all places by all places, which at 224 x 224 takes 20 GB."""
    layer = torch.ones(2, 24, 40, 3, dtype=torch.float64)
    with FlopCounterMode(display=False) as counter:
        turned = _turned(layer)
    assert counter.get_total_flops() <= 2 * layer.numel() * (24 + 40)
    torch.testing.assert_close(_turned(turned, back=True), layer)


@pytest.mark.parametrize("counts", [[3.0], [1.0, 0.0], [0.0, 2.0], [10.0, 10.0, 10.0], [5.0, 1.0, 900.0]])
def test_what_classes_have_in_common_is_in_the_first_row(counts: list[float]) -> None:
    sizes = torch.tensor(counts)
    mirror = in_common_first(sizes)
    torch.testing.assert_close(mirror @ mirror, torch.eye(len(counts), dtype=torch.float64))
    turned = mirror @ sizes.double()
    torch.testing.assert_close(turned[0], torch.linalg.vector_norm(sizes.double()))
    torch.testing.assert_close(turned[1:], torch.zeros(len(counts) - 1, dtype=torch.float64), atol=1e-9, rtol=0)


@pytest.mark.parametrize("classes", [1, CLASSES])
def test_without_noise_nothing_changes(classes: int) -> None:
    value = smooth(classes)
    assert torch.equal(cleaned(value, 0.0), value)
    torch.testing.assert_close(cleaned(value, 1e-6), value, rtol=1e-6, atol=1e-4)


@pytest.mark.parametrize("classes", [1, CLASSES])
@pytest.mark.parametrize("scale", [100.0, 500.0, 2000.0])
def test_the_estimate_is_nearer_to_the_truth_than_the_release(scale: float, classes: int) -> None:
    value = smooth(classes)
    noisy = with_noise(value, scale)
    assert missed(cleaned(noisy, scale), value) < missed(noisy, value) / 5


def test_moments_help_each_other() -> None:
    value = smooth()
    noisy = {order: with_noise(value * order, 700.0 * order, seed=order) for order in (1, 2)}
    both = denoised(noisy, SHAPES, {1: 700.0, 2: 1400.0}, torch.ones(CLASSES))
    for order in (1, 2):
        assert missed(both[order], value * order) < 0.97 * missed(cleaned(noisy[order], 700.0 * order), value * order)


def test_of_noise_alone_almost_nothing_is_left() -> None:
    noise = with_noise(torch.zeros(CLASSES, sum(SIZES), dtype=torch.float64), 3.0)
    assert float(cleaned(noise, 3.0).square().sum()) < 0.02 * float(noise.square().sum())


@pytest.mark.parametrize("counts", [[1.0] * CLASSES, [0.1, 0.1, 0.4, 0.4, 4.0]])
def test_classes_that_are_alike_come_out_alike_however_large_they_are(counts: list[float]) -> None:
    sizes = torch.tensor(counts, dtype=torch.float64)
    value = sizes.unsqueeze(1) * smooth(1)
    found = cleaned(with_noise(value, 200.0), 200.0, counts=sizes)
    in_common = in_common_first(sizes) @ found
    assert float(in_common[1:].square().sum()) < 0.002 * float(found.square().sum())
    assert missed(found, value) < 0.02 * float(value.square().sum())


def test_the_counts_of_unequal_classes_help() -> None:
    sizes = torch.tensor([0.1, 0.1, 0.4, 0.4, 4.0], dtype=torch.float64)
    value = sizes.unsqueeze(1) * smooth(1)
    noisy = with_noise(value, 200.0)
    assert missed(cleaned(noisy, 200.0, counts=sizes), value) < 0.8 * missed(cleaned(noisy, 200.0), value)


def test_layers_that_do_not_lie_within_each_other_keep_all_their_waves() -> None:
    shapes = ((4, 8, 3), (8, 4, 3))
    random = torch.Generator().manual_seed(0)
    value = torch.randn(3, 2 * 96, generator=random, dtype=torch.float64)
    torch.testing.assert_close(cleaned(value, 1e-7, shapes), value, rtol=1e-5, atol=1e-5)


def test_numbers_without_a_signal_or_noise_stay_zero() -> None:
    nothing = torch.zeros(CLASSES, sum(SIZES), dtype=torch.float64)
    assert torch.equal(cleaned(nothing, 1.0), nothing)


@pytest.mark.parametrize("shape", [(3, 400), (40, 60), (400, 3), (1, 50), (50, 1)])
def test_singular_values_are_shrunk_towards_the_truth(shape: tuple[int, int]) -> None:
    """Better than the noisy matrix, than what stands out of it unshrunk, and than a bit less or more of the result."""
    random = torch.Generator().manual_seed(1)
    size = 1.6 * max(shape) ** 0.5
    left, right = (torch.randn(side, generator=random, dtype=torch.float64) for side in shape)
    value = size * torch.outer(left / left.norm(), right / right.norm())
    noisy = [with_noise(value, 1.0, seed) for seed in range(40)]
    found = [shrink_singular_values(each) for each in noisy]

    def loss(guesses: list[torch.Tensor]) -> float:
        return sum(missed(guess, value) for guess in guesses)

    plain = [_leading(each) for each in noisy]
    assert loss(found) < loss(plain)
    assert loss(found) < loss(noisy)
    assert loss(found) < loss([0.8 * each for each in found])
    assert loss(found) < loss([1.25 * each for each in found])


def _leading(matrix: torch.Tensor) -> torch.Tensor:
    left, values, right = torch.linalg.svd(matrix, full_matrices=False)
    return values[0] * torch.outer(left[:, 0], right[0])

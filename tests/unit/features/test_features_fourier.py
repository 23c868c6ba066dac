"""Random Fourier features: the kernel they stand for, and frequencies that are the same on every machine."""

from __future__ import annotations

import hashlib

import pytest
import torch

from simulacra.data.points import PixelPoints
from simulacra.features.fourier import CosineAndSine, RandomFourier


def test_the_frequencies_of_a_seed_are_pinned() -> None:
    """A release is of no use to a machine that draws other frequencies: a library that changes them must be noticed."""
    fourier = RandomFourier(PixelPoints(5), pairs=64, length_scales=[1.0], seed=0)
    digest = hashlib.sha256(fourier.frequencies.numpy().tobytes()).hexdigest()
    assert digest == "570e3ec1ed2bff2cf17658b0bbe95682eee94090df9f30fb0d51e595ae250133"


def test_the_batched_form_equals_the_differentiable_one() -> None:
    fourier = RandomFourier(PixelPoints(6), pairs=10, length_scales=[1.0, 0.5], seed=3)
    inputs = torch.rand(20, 6, dtype=torch.float64) * 2 - 1
    assert torch.allclose(fourier.batch(inputs), fourier.embed(fourier.points.of_records(inputs)), atol=1e-14)


def test_the_kernel_is_the_mean_of_the_gaussian_kernels_of_its_length_scales() -> None:
    fourier = RandomFourier(PixelPoints(3), pairs=40_000, length_scales=[0.5, 2.0], seed=1)
    one, two = torch.tensor([0.1, 0.7, 0.3]), torch.tensor([0.6, 0.2, 0.5])
    distance = float((one - two).square().sum())
    wanted = sum(torch.exp(torch.tensor(-distance / (2 * scale**2))) for scale in (0.5, 2.0)) / 2
    assert float(fourier.embed(one) @ fourier.embed(two)) == pytest.approx(float(wanted), abs=0.01)


def test_cosine_and_sine_have_the_right_gradients() -> None:
    angles = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(CosineAndSine.apply, (angles,))


def test_precision_follows_the_points() -> None:
    fourier = RandomFourier(PixelPoints(2), pairs=3, length_scales=[1.0], seed=0)
    for dtype in (torch.float32, torch.float64, torch.float32):
        assert fourier.embed(torch.zeros(1, 2, dtype=dtype)).dtype is dtype

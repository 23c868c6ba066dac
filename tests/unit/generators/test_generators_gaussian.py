"""The Gaussian generator: a mean and directions per class, as a generator like any other."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from simulacra.generators import GeneratorOptions, build
from simulacra.generators.gaussian import GaussianGenerator
from simulacra.generators.sampler import Sampler
from simulacra.schema import ImageShape, Schema

PICTURES = Schema(image=ImageShape(height=3, width=5, channels=1, classes=("a", "b")))
OPTIONS = GeneratorOptions(kind="gaussian", latent=4)


def filled(seed: int = 0) -> GaussianGenerator:
    generator = build(PICTURES, OPTIONS)
    assert isinstance(generator, GaussianGenerator)
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        generator.means.copy_(0.4 + 0.2 * torch.rand(2, 15, generator=random))
        generator.factors.copy_(0.02 * torch.randn(2, 15, 4, generator=random))
    return generator


def test_an_empty_one_is_grey() -> None:
    generator = build(PICTURES, OPTIONS)
    assert (generator.latent, generator.classes) == (4, 2)
    points = generator(torch.randn(6, 4), torch.eye(2)[torch.arange(6) % 2])
    assert torch.equal(points, torch.full((6, 15), 0.5))


@pytest.mark.parametrize(("schema", "latent"), [(PICTURES, 7), (Schema(image=ImageShape(height=3, width=5)), 1)])
def test_it_is_built_for_any_image(schema: Schema, latent: int) -> None:
    generator = build(schema, GeneratorOptions(kind="gaussian", latent=latent))
    assert generator(torch.randn(2, latent), torch.eye(schema.classes)[:1].expand(2, -1)).shape == (2, 15)


def test_samples_have_the_mean_and_covariance_of_their_class() -> None:
    generator = filled()
    random = torch.Generator().manual_seed(1)
    for label in range(2):
        one_hot = torch.eye(2)[label].expand(50_000, -1)
        with torch.no_grad():
            points = generator(torch.randn(50_000, 4, generator=random), one_hot)
        factor = generator.factors[label].detach()
        torch.testing.assert_close(points.mean(dim=0), generator.means[label].detach(), rtol=0, atol=1e-3)
        torch.testing.assert_close(points.T.cov(), factor @ factor.T, rtol=0, atol=2e-4)


def test_points_are_intensities_and_records_are_encoded() -> None:
    generator = filled()
    with torch.no_grad():
        points = generator(1e4 * torch.randn(50, 4), torch.eye(2)[torch.arange(50) % 2])
    assert points.min() == 0
    assert points.max() == 1
    records = generator.to_records(points, torch.Generator())
    assert records.min() == -1
    assert records.max() == 1


def test_a_sampler_with_it_is_saved_and_read_back(tmp_path: Path) -> None:
    before = Sampler(schema=PICTURES, options=OPTIONS, generator=filled(), class_shares=torch.tensor([0.3, 0.7]))
    before.save(tmp_path)
    after = Sampler.load(tmp_path, PICTURES)
    (one,), (two,) = before.records(40, seed=3), after.records(40, seed=3)
    assert torch.equal(one.inputs, two.inputs)
    assert torch.equal(one.labels, two.labels)

"""Moments: the bound and the sign are proven, sums equal the specification, and a sum can be taken apart again."""

from __future__ import annotations

import math

import pytest
import torch

from simulacra.errors import SettingError
from simulacra.features.combine import PerClass, Summed
from simulacra.features.moments import Moments
from simulacra.privacy.budget import Adjacency
from simulacra.privacy.query import FeatureMap, Step, sensitivity

NORM = 1.2
LABEL = torch.tensor(0)


def moments(pixels: int = 12, norm: float = NORM, count: float = 0.2, mean: float = 0.4) -> Moments:
    return Moments(pixels, norm=norm, count_weight=count, mean_weight=mean)


def records(count: int = 60, pixels: int = 12, seed: int = 0) -> torch.Tensor:
    return torch.rand(count, pixels, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 2 - 1


def test_a_record_as_long_as_the_norm_or_longer_has_length_one_and_none_is_longer() -> None:
    white, black = torch.ones(12, dtype=torch.float64), -torch.ones(12, dtype=torch.float64)
    assert float(moments().features(white, LABEL).norm()) == pytest.approx(1.0, abs=1e-12)
    assert float(moments().features(black, LABEL).norm()) == pytest.approx(0.2, abs=1e-12)
    for one in records():
        assert moments().features(one, LABEL).norm() <= 1 + 1e-12


@pytest.mark.parametrize("hostile", [5.0, -5.0, 1e308, -1e308, math.inf, -math.inf])
def test_pixels_outside_of_their_range_are_no_longer_and_not_negative(hostile: float) -> None:
    value = moments().features(torch.full((12,), hostile, dtype=torch.float64), LABEL)
    assert value.norm() <= 1 + 1e-12
    assert (value >= 0).all()


def test_products_keep_the_inner_product() -> None:
    """vech with sqrt(2) off the diagonal: <vech(xx), vech(yy)> = <x, y>^2, so nothing is counted twice."""
    short = moments(norm=100.0)
    one, two = ((each + 1) / 2 for each in records(2))
    mine = short.features(one * 2 - 1, LABEL) @ short.features(two * 2 - 1, LABEL)
    inner = float(one @ two) / 100.0**2
    assert float(mine) == pytest.approx(0.04 + 0.16 * inner + 0.8 * inner**2, abs=1e-12)


@pytest.mark.parametrize("wide", [False, True])
def test_two_records_are_at_most_the_root_of_two_apart(wide: bool) -> None:
    """Tight up to the constant: two bright images without a pixel in common differ by sqrt(2 (1 - a^2))."""
    feature_map = moments(count=0.001 if wide else 0.2, mean=0.001 if wide else 0.4)
    left, right = torch.full((2, 12), -1.0, dtype=torch.float64)
    left[:6], right[6:] = 1.0, 1.0
    apart = float((feature_map.features(left, LABEL) - feature_map.features(right, LABEL)).norm())
    assert apart == pytest.approx(math.sqrt(2 * (1 - feature_map.weights[0] ** 2)), abs=1e-9)
    charged = sensitivity(Step.asking("moments", feature_map), Adjacency.REPLACE_ONE)
    assert apart <= charged < math.sqrt(2) * 1.0001


def test_the_closed_sum_is_the_specification_for_every_class() -> None:
    feature_map = PerClass(moments(), 4)
    assert isinstance(feature_map.inner, Summed)
    inputs, labels = records(), torch.arange(60) % 3  # the last class has no records
    closed, specified = feature_map.clipped_sum(inputs, labels), FeatureMap.clipped_sum(feature_map, inputs, labels)
    assert closed.dtype == torch.float64
    torch.testing.assert_close(closed, specified, rtol=1e-12, atol=1e-12)
    assert not closed[3].any()


def test_a_sum_is_taken_apart_into_count_sum_and_products() -> None:
    inputs = records()
    points = moments().shortened(inputs)
    count, total, products = moments().parts(moments().clipped_sum(inputs, torch.zeros(60, dtype=torch.int64)))
    assert float(count) == pytest.approx(60)
    torch.testing.assert_close(total, points.sum(dim=0))
    torch.testing.assert_close(products, points.T @ points)


def test_short_records_keep_their_length_and_long_ones_their_direction() -> None:
    dark = torch.full((1, 12), -0.9, dtype=torch.float64)
    torch.testing.assert_close(moments().shortened(dark), (dark + 1) / 2)
    white = moments().shortened(torch.ones(1, 12, dtype=torch.float64))
    torch.testing.assert_close(white, torch.full_like(white, NORM / math.sqrt(12)))


def test_noise_on_the_products_has_the_size_that_is_stated() -> None:
    feature_map = moments(pixels=80)
    noise = torch.randn(feature_map.size, generator=torch.Generator().manual_seed(1), dtype=torch.float64) * 3
    _, _, products = feature_map.parts(noise)
    stated = feature_map.product_noise(3.0)
    above = products[torch.triu_indices(80, 80, 1).unbind()]
    assert torch.equal(products, products.T)
    assert float(above.std()) == pytest.approx(stated, rel=0.05)
    assert float(products.diagonal().std()) == pytest.approx(math.sqrt(2) * stated, rel=0.3)
    # The edge that eigenvalues are held against.
    assert float(torch.linalg.eigvalsh(products).max()) == pytest.approx(2 * stated * math.sqrt(80), rel=0.1)


def test_images_that_are_too_large_are_refused_at_once() -> None:
    with pytest.raises(SettingError, match="at most 200,000,000 are allowed"):
        moments(pixels=10**6)
    with pytest.raises(SettingError, match="at most 200,000,000 are allowed"):
        PerClass(moments(pixels=10_000), 5)

"""Sums of unit-length features, block by block, are what the plain formula says."""

from __future__ import annotations

import pytest
import torch

from simulacra.features.exact_sums import COLUMNS, add_unit_sums
from simulacra.features.unit_sums import FLOOR

SIZES = (7, COLUMNS, 2 * COLUMNS + 3)


def layers(dtype: torch.dtype = torch.float32, images: int = 5) -> list[torch.Tensor]:
    random = torch.Generator().manual_seed(0)
    return [
        torch.randn(images, size, generator=random).to(dtype) * scale
        for size, scale in zip(SIZES, (9, 1, 3), strict=True)
    ]


def plainly(order: int, found: list[torch.Tensor], chosen: torch.Tensor) -> torch.Tensor:
    """All at once in double precision: the definition."""
    power = torch.nan_to_num(torch.cat(found, dim=1).double(), nan=0.0, posinf=0.0, neginf=0.0) ** order
    return chosen @ (power / torch.linalg.vector_norm(power, dim=1, keepdim=True).clamp(min=FLOOR**order))


def blockwise(orders: tuple[int, ...], found: list[torch.Tensor], chosen: torch.Tensor) -> dict[int, torch.Tensor]:
    totals = {order: torch.zeros(len(chosen), sum(SIZES), dtype=torch.float64) for order in orders}
    add_unit_sums(totals, found, chosen)
    return totals


CHOSEN = torch.tensor([[1.0, 0, 1, 0, 0], [0, 1, 0, 0, 1], [0, 0, 0, 0, 0]], dtype=torch.float64)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("orders", [(1,), (2,), (1, 2)])
def test_blocks_add_up_to_the_whole(orders: tuple[int, ...], dtype: torch.dtype) -> None:
    before = layers(dtype)
    for order, total in blockwise(orders, before, CHOSEN).items():
        torch.testing.assert_close(total, plainly(order, before, CHOSEN), rtol=1e-12, atol=1e-15)
    assert all(torch.equal(a, b) for a, b in zip(before, layers(dtype), strict=True))  # nothing was written into


def test_sums_are_added_to_what_is_there() -> None:
    once, twice = blockwise((1,), layers(), CHOSEN)[1], torch.zeros(3, sum(SIZES), dtype=torch.float64)
    for _ in range(2):
        add_unit_sums({1: twice}, layers(), CHOSEN)
    torch.testing.assert_close(twice, 2 * once, rtol=1e-14, atol=0)


@pytest.mark.parametrize("wild", [torch.nan, torch.inf, -torch.inf])
def test_what_is_no_number_counts_as_zero_for_its_own_image_alone(wild: float) -> None:
    found = layers()
    found[2][1, COLUMNS + 1] = wild
    for order, total in blockwise((1, 2), found, CHOSEN).items():
        torch.testing.assert_close(total, plainly(order, found, CHOSEN), rtol=1e-12, atol=1e-15)
        assert not total[1, 7 + 2 * COLUMNS + 1].isnan()


def test_an_image_that_is_too_long_to_measure_adds_nothing_and_spoils_no_other() -> None:
    found = layers(torch.float64)
    found[0][1] = 1e200
    others = CHOSEN.clone()
    others[1, 1] = 0
    for order, total in blockwise((1, 2), found, CHOSEN).items():
        torch.testing.assert_close(total, plainly(order, layers(torch.float64), others), rtol=1e-12, atol=1e-15)


def test_in_single_precision_no_image_is_too_long() -> None:
    found = [torch.full((1, size), 3e38) for size in SIZES]
    for total in blockwise((1, 2), found, torch.ones(1, 1, dtype=torch.float64)).values():
        assert total.norm() == pytest.approx(1, rel=1e-12)


def test_an_image_without_features_stays_at_zero() -> None:
    found = [torch.zeros(5, size) for size in SIZES]
    assert not any(total.any() for total in blockwise((1, 2), found, CHOSEN).values())

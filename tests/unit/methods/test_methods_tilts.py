"""Tilts of classes: what noise may hide and what it must not, and that neighbouring cells help each other."""

from __future__ import annotations

import pytest
import torch

from simulacra.methods.markov import MarkovFitting, Target
from simulacra.methods.tilts import ROUGHNESS, likeliest, prior, with_tilts
from simulacra.schema import Boolean, Categorical, Numeric, Schema

BINS = 20
COLOURS = tuple("abcdefghijklmnopqrst")
AGE = Numeric(name="age", lower=0, upper=100, bins=BINS)
COLOUR = Categorical(name="colour", values=COLOURS)
SCHEMA = Schema(columns=(AGE, COLOUR, Boolean(name="ill")), label="ill")
FEATURES = 2 * BINS
ROWS = 100_000.0


def truth(share: float, slope: float) -> torch.Tensor:
    """Shares of (cell, class): the second class is tilted along the cells, which all records fill evenly."""
    given = torch.softmax(slope * torch.linspace(-1, 1, BINS, dtype=torch.float64), dim=0)
    rare = share * given
    return torch.stack([1 / BINS - rare, rare], dim=1)


def target(table: torch.Tensor, noise: float, seed: int = 0) -> Target:
    """Both columns have the same noisy table with the label, and nothing is said of the two together."""
    total = FEATURES + 2
    random = torch.Generator().manual_seed(seed)
    shares = table.sum(dim=0)
    cells = torch.cat([table.sum(dim=1), table.sum(dim=1), shares])
    pairs = torch.outer(cells, cells)
    noisy = table + noise * torch.randn(table.shape, generator=random, dtype=torch.float64)
    for start in (0, BINS):
        pairs[start : start + BINS, FEATURES:] = noisy
        pairs[FEATURES:, start : start + BINS] = noisy.T
    return Target(cells=cells, pairs=pairs, variance=torch.full((total, total), noise**2).double(), rows=ROWS)


def tables(found: Target) -> tuple[torch.Tensor, torch.Tensor]:
    """Of the ordered and of the unordered column with the label."""
    return found.pairs[:BINS, FEATURES:].double(), found.pairs[BINS:FEATURES, FEATURES:].double()


def test_without_noise_a_table_stays_as_it_is() -> None:
    table = truth(0.3, 1.5)
    for found in tables(with_tilts(target(table, 0.0), SCHEMA, MarkovFitting())):
        torch.testing.assert_close(found, table, rtol=0, atol=0)


def test_a_table_that_is_all_noise_says_nothing_about_a_class() -> None:
    table = truth(0.3, 1.5)
    for found in tables(with_tilts(target(table, 10.0), SCHEMA, MarkovFitting())):
        torch.testing.assert_close(found, torch.outer(table.sum(dim=1), table.sum(dim=0)), rtol=0.05, atol=0)


@pytest.mark.parametrize("noise", [0.0005, 0.001, 0.1])
def test_a_rare_class_keeps_its_share_and_has_a_little_of_every_cell(noise: float) -> None:
    table = truth(0.01, 3.0)
    for found in tables(with_tilts(target(table, noise), SCHEMA, MarkovFitting())):
        assert (found[:, 1] > 0).all()
        torch.testing.assert_close(found[:, 1].sum(), table[:, 1].sum(), rtol=1e-4, atol=0)


def test_a_class_with_many_records_in_a_cell_is_left_as_released_with_its_noise() -> None:
    released = target(truth(0.01, 3.0), 0.001)
    found = with_tilts(released, SCHEMA, MarkovFitting())
    assert torch.equal(found.pairs[:, FEATURES], released.pairs[:, FEATURES])
    assert torch.equal(found.variance[:, FEATURES], released.variance[:, FEATURES])
    assert found.variance[:FEATURES, FEATURES + 1].abs().max() == 0
    assert torch.equal(found.pairs, found.pairs.T)
    assert torch.equal(found.variance, found.variance.T)
    assert torch.equal(found.pairs[:FEATURES, :FEATURES], released.pairs[:FEATURES, :FEATURES])


def test_neighbours_say_together_what_no_cell_says_alone() -> None:
    """A class of 500 in 100,000, 25 records per cell on average, and a noise of 60: an ordered column knows more."""
    table, noise = truth(0.005, 4.0), 60 / ROWS
    gains = []
    for seed in range(10):
        ordered, unordered = tables(with_tilts(target(table, noise, seed), SCHEMA, MarkovFitting()))
        gains.append(float((unordered - table)[:, 1].abs().sum() / (ordered - table)[:, 1].abs().sum()))
    assert sum(gains) / len(gains) > 1.1
    alone = MarkovFitting(tilt_reach=0.0)
    torch.testing.assert_close(*tables(with_tilts(target(table, noise), SCHEMA, alone)))


def test_what_a_rare_class_clearly_has_more_of_is_kept_and_a_negative_count_empties_no_cell() -> None:
    table = truth(0.005, 0.0)
    table[3] += torch.tensor([-0.01, 0.01])  # 1,000 of the class in one cell, with a noise of 60
    wanted = target(table, 60 / ROWS)
    wanted.pairs[7, -1] = wanted.pairs[-1, 7] = -60 / ROWS
    ordered, unordered = tables(with_tilts(wanted, SCHEMA, MarkovFitting()))
    for found in (ordered, unordered):
        assert 0.75 * table[3, 1] < found[3, 1] < 1.1 * table[3, 1]
    assert ordered[7, 1] > 0.1 * table[7, 1]


def test_the_likeliest_tilts_have_no_slope_left() -> None:
    table, noise = truth(0.01, 2.0), 0.0005
    seen = target(table, noise).pairs[:BINS, FEATURES:].T.double()
    expected = torch.outer(table.sum(dim=0), table.sum(dim=1))
    scatter, covariance = torch.full_like(seen, noise**2), prior(AGE, width=2.0, reach=4.0)
    tilts = likeliest(seen, expected, scatter, covariance).requires_grad_()
    misfit = ((seen - expected * tilts.exp()).square() / scatter).sum() / 2
    (misfit + (tilts @ torch.linalg.inv(covariance) * tilts).sum() / 2).backward()
    assert tilts.grad is not None
    assert (tilts.grad @ covariance).abs().max() < 1e-2


def test_missing_and_unordered_cells_have_no_neighbours() -> None:
    gappy = Numeric(name="age", lower=0, upper=100, bins=3, missing=True)
    found = prior(gappy, width=2.0, reach=4.0)
    assert found[3, :3].abs().max() == 0
    assert 0 < found[0, 2] < found[0, 1] < found[0, 0] == found[3, 3] == 4 + ROUGHNESS**2
    alone = prior(COLOUR, width=2.0, reach=4.0)
    assert torch.equal(alone, alone.diagonal().diag())

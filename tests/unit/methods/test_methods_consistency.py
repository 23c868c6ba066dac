"""Consistency of noisy counts: the projection is the one least squares gives, and it helps."""

from __future__ import annotations

import math

import pytest
import torch

from simulacra.features.pairs import PairLayout
from simulacra.methods.consistency import Looks, consistent, nearest_shares

LAYOUTS = pytest.mark.parametrize("sizes", [(4, 1, 3, 2), (5, 2), (6,), (1, 1)], ids=str)


def looks(sizes: tuple[int, ...], noise: float, *, seed: int = 1, rows: int = 400) -> tuple[Looks, Looks]:
    """Counts of invented rows, exact and with noise; the first column's tables have twice as much of it."""
    random = torch.Generator().manual_seed(2)
    layout = PairLayout(sizes)
    drawn = [torch.randint(size, (rows,), generator=random) // (1 + torch.randint(2, (rows,))) for size in sizes]
    rows_of = [torch.nn.functional.one_hot(cell, size).double() for cell, size in zip(drawn, sizes, strict=True)]
    pairs = list(layout.tables(torch.zeros(layout.numbers)))
    tables = {(i, j): rows_of[i].T @ rows_of[j] for i, j in pairs}
    table_noise = {(i, j): noise * (2 if i == 0 else 1) for i, j in pairs}
    true = Looks(
        layout=layout,
        columns=[one.sum(dim=0) for one in rows_of],
        column_noise=noise / 2,
        tables=tables,
        table_noise=table_noise,
    )
    more = torch.Generator().manual_seed(seed)

    def spoilt(values: torch.Tensor, by: float) -> torch.Tensor:
        return values + by * torch.randn(values.shape, generator=more, dtype=torch.float64)

    noisy = Looks(
        layout=layout,
        columns=[spoilt(column, noise / 2) for column in true.columns],
        column_noise=noise / 2,
        tables={pair: spoilt(table, table_noise[pair]) for pair, table in tables.items()},
        table_noise=table_noise,
    )
    return true, noisy


@LAYOUTS
@pytest.mark.parametrize("noise", [0.0, 3.0])
def test_consistent_counts_are_left_as_they_are(sizes: tuple[int, ...], noise: float) -> None:
    true, _ = looks(sizes, noise)
    total, columns, tables = consistent(true)
    assert math.isclose(float(total), 400)
    for found, expected in zip(columns, true.columns, strict=True):
        torch.testing.assert_close(found, expected)
    for pair, table in tables.items():
        torch.testing.assert_close(table, true.tables[pair])


@LAYOUTS
def test_afterwards_all_counts_agree(sizes: tuple[int, ...]) -> None:
    _, noisy = looks(sizes, 20.0)
    total, columns, tables = consistent(noisy)
    for column in columns:
        torch.testing.assert_close(column.sum(), total)
    for (i, j), table in tables.items():
        torch.testing.assert_close(table.sum(dim=1), columns[i])
        torch.testing.assert_close(table.sum(dim=0), columns[j])


def test_it_is_the_weighted_least_squares_projection() -> None:
    """Against a solver that knows nothing of tables: the projection onto what all joint distributions span."""
    sizes = (3, 2, 4)
    _, noisy = looks(sizes, 7.0)
    joint = torch.cartesian_prod(*(torch.arange(size) for size in sizes))
    columns = [torch.nn.functional.one_hot(joint[:, k], size).double() for k, size in enumerate(sizes)]
    parts = [(one, noisy.columns[k], noisy.column_noise) for k, one in enumerate(columns)]
    for (i, j), table in noisy.tables.items():
        products = (columns[i].unsqueeze(2) * columns[j].unsqueeze(1)).flatten(1)
        parts.append((products, table.flatten(), noisy.table_noise[i, j]))
    design = torch.cat([products / noise for products, _, noise in parts], dim=1).T
    seen = torch.cat([values / noise for _, values, noise in parts])
    solved = torch.linalg.lstsq(design, seen, driver="gelsd").solution
    total, found, tables = consistent(noisy)
    torch.testing.assert_close(total, solved.sum())
    for (products, _, _), column in zip(parts, [*found, *tables.values()], strict=True):
        torch.testing.assert_close(column.flatten(), products.T @ solved)


def test_it_brings_noisy_counts_nearer_to_the_truth() -> None:
    before, after = 0.0, 0.0
    for seed in range(50):
        true, noisy = looks((4, 6, 3, 5, 2), 10.0, seed=seed)
        _, _, tables = consistent(noisy)
        before += sum(float((noisy.tables[pair] - true.tables[pair]).square().sum()) for pair in tables)
        after += sum(float((table - true.tables[pair]).square().sum()) for pair, table in tables.items())
    assert after < 0.85 * before


def test_the_nearest_shares_have_no_negative_entry_and_add_up_to_one() -> None:
    random = torch.Generator().manual_seed(0)
    for size in (1, 2, 40):
        found = nearest_shares(torch.randn(size, generator=random, dtype=torch.float64))
        assert (found >= 0).all()
        torch.testing.assert_close(found.sum(), torch.ones((), dtype=torch.float64))


def test_no_other_shares_are_nearer() -> None:
    random = torch.Generator().manual_seed(3)
    values = torch.randn(6, generator=random, dtype=torch.float64)
    found = nearest_shares(values)
    others = torch.distributions.Dirichlet(torch.ones(6, dtype=torch.float64)).sample(torch.Size([5000]))
    assert ((others - values).norm(dim=1) >= (found - values).norm()).all()


def test_shares_stay_as_they_are() -> None:
    shares = torch.tensor([0.5, 0.0, 0.25, 0.25], dtype=torch.float64)
    torch.testing.assert_close(nearest_shares(shares), shares)

"""Consistency: noisy counts of columns and of pairs of columns contradict each other; the nearest ones that do not."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from simulacra.features.pairs import PairLayout


@dataclass(frozen=True, kw_only=True)
class Looks:
    """Noisy counts: of every column, and of every pair of columns, with the standard deviation of their noise."""

    layout: PairLayout
    columns: list[torch.Tensor]
    column_noise: float
    tables: dict[tuple[int, int], torch.Tensor]
    table_noise: dict[tuple[int, int], float]


def consistent(looks: Looks) -> tuple[torch.Tensor, list[torch.Tensor], dict[tuple[int, int], torch.Tensor]]:
    """The total, the columns and the tables of the nearest counts that agree with each other.

    Least squares with all looks, each by its precision, in closed form: the total, the deviations of single columns and
    what is left of a table are orthogonal, so each is a weighted mean of its own. Without noise all looks count alike.
    """
    sizes = looks.layout.sizes
    exact = looks.column_noise == 0
    weight = 1.0 if exact else looks.column_noise**-2
    weights = {pair: 1.0 if exact else looks.table_noise[pair] ** -2 for pair in looks.tables}
    total = _mean(
        [
            *((column.sum(), weight / len(column)) for column in looks.columns),
            *((table.sum(), weights[pair] / table.numel()) for pair, table in looks.tables.items()),
        ]
    )
    seen = [[(column, weight)] for column in looks.columns]
    for (i, j), table in looks.tables.items():
        seen[i].append((table.sum(dim=1), weights[i, j] / sizes[j]))
        seen[j].append((table.sum(dim=0), weights[i, j] / sizes[i]))
    columns = [_summing_to(total, _mean(each)) for each in seen]
    tables = {}
    for (i, j), table in looks.tables.items():
        rows, across = columns[i] - table.sum(dim=1), columns[j] - table.sum(dim=0)
        # Both corrections hold the table's own correction of the total, which must count once.
        tables[i, j] = table + rows.unsqueeze(1) / sizes[j] + across / sizes[i] - rows.sum() / table.numel()
    return total, columns, tables


def nearest_shares(values: torch.Tensor) -> torch.Tensor:
    """The nearest vector that has no negative entry and adds up to one.

    All entries are lowered by the same amount and cut off at zero: so noise around empty cells is dropped, where merely
    cutting off and dividing would keep the half of it that is positive.
    """
    ordered = values.sort(descending=True).values
    excess = (ordered.cumsum(dim=0) - 1) / torch.arange(1, len(values) + 1, device=values.device)
    kept = int((ordered > excess).sum())
    return (values - excess[kept - 1]).clamp(min=0)


def _mean(looks: list[tuple[torch.Tensor, float]]) -> torch.Tensor:
    """The mean of several looks at the same thing, weighted by precision."""
    weighted = torch.stack([weight * value for value, weight in looks])
    return weighted.sum(dim=0) / sum(weight for _, weight in looks)


def _summing_to(total: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Shifted by the same number everywhere."""
    return values + (total - values.sum()) / len(values)

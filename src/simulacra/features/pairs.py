"""Pairs of columns: for every two columns of a table, a one in the cell of their cross table that the record is in."""

from __future__ import annotations

import itertools
import math
from typing import Any

import torch

from simulacra.data.cells import Cells
from simulacra.errors import SettingError
from simulacra.features.combine import MOST_NUMBERS
from simulacra.features.groups import Groups
from simulacra.networks.devices import memory
from simulacra.privacy.query import FeatureMap
from simulacra.schema import Schema

BYTES_PER_NUMBER = 48
"""What releasing or training holds for each released number: sums in float64, target, means and gradients."""
WIDEST_NAMED = 3


class PairLayout:
    """Where the cross tables of all pairs stand, one after the other, given the cells of each column.

    They are kept by their first column: its cells as rows, and side by side the cells of all later columns, which is
    what one matrix product gives. The last column has no later ones. A column that is alone is paired with nothing: its
    table is a column of its own shares.
    """

    def __init__(self, sizes: tuple[int, ...]) -> None:
        self.sizes = sizes
        self.total = sum(sizes)
        self.pairs = max(1, math.comb(len(sizes), 2))
        ends = tuple(itertools.accumulate(sizes))
        first = list(zip(sizes, ends, strict=True))
        # Per first column: where its cells begin and end, and how many cells the later columns have.
        self.rows = [(end - size, end, self.total - end) for size, end in first[:-1]] or [(0, self.total, 1)]
        lengths = [(end - start) * later for start, end, later in self.rows]
        self.starts = list(itertools.accumulate(lengths, initial=0))
        self.numbers = self.starts.pop()

    def blocks(self, values: torch.Tensor) -> list[torch.Tensor]:
        """The part of each first column in a vector of all tables, as (its cells, cells of later columns)."""
        parts = zip(self.starts, self.rows, strict=True)
        return [values[at : at + (e - s) * later].view(e - s, later) for at, (s, e, later) in parts]

    def tables(self, values: torch.Tensor) -> dict[tuple[int, int], torch.Tensor]:
        """The cross table of every pair of columns, as views; none if there is one column alone."""
        found = {}
        for i, block in enumerate(self.blocks(values) if len(self.sizes) > 1 else ()):
            for j, table in enumerate(torch.split(block, list(self.sizes[i + 1 :]), dim=1), start=i + 1):
                found[i, j] = table
        return found


class PairProducts(torch.autograd.Function):
    """All cross tables of weighted points: per first column a matrix product with the later ones.

    By hand, because the gradient of a slice is as large as what it was cut from, and there is a slice per column.
    """

    @staticmethod
    def forward(ctx: Any, points: torch.Tensor, weights: torch.Tensor, layout: PairLayout) -> torch.Tensor:
        weighted = points * weights.unsqueeze(1)
        ctx.save_for_backward(points, weighted, weights)
        ctx.layout = layout
        values = points.new_empty(layout.numbers)
        for block, (start, end, later) in zip(layout.blocks(values), layout.rows, strict=True):
            others = points[:, end:] if end < layout.total else points.new_ones(len(points), later)
            torch.mm(weighted[:, start:end].T, others, out=block)
        return values

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        points, weighted, weights = ctx.saved_tensors
        layout: PairLayout = ctx.layout
        result = torch.zeros_like(points)
        for block, (start, end, _) in zip(layout.blocks(gradients[0].contiguous()), layout.rows, strict=True):
            if end == layout.total:  # a column alone
                result += weights.unsqueeze(1) * block.T
                continue
            result[:, start:end].addmm_(weighted[:, end:], block.T)
            result[:, end:].addmm_(weighted[:, start:end], block)
        return result, None, None


class Pairs(FeatureMap):
    """The cells of a record in the cross tables of all pairs of columns, over the root of their number: norm exactly 1.

    The label, if there is one, is the last column and a column like any other: nothing is kept apart per class.
    """

    nonnegative = True

    def __init__(self, schema: Schema) -> None:
        self.cells = Cells(schema)
        self.classes = schema.classes if schema.labelled else 0
        self.layout = PairLayout((*self.cells.sizes, self.classes) if self.classes else self.cells.sizes)
        self.shape = (self.layout.numbers,)
        self.root = math.sqrt(self.layout.pairs)
        _refuse_too_many(schema, self.size)

    def features(self, inputs: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        row = self.cells.one_hot(inputs)
        chosen = torch.arange(self.classes, device=label.device) == label
        row = torch.cat([row, chosen.to(row)])
        if len(self.layout.sizes) == 1:
            return row
        products = [torch.outer(row[start:end], row[end:]).flatten() for start, end, _ in self.layout.rows]
        return torch.cat(products) / self.root

    def clipped_sum(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Whole counts of cells, so exact in any order; divided once."""
        cell = self.cells.index(inputs)
        if self.classes:
            cell = torch.cat([cell, labels.unsqueeze(1)], dim=1)
        counts = torch.empty(self.size, dtype=torch.float64, device=cell.device)
        offsets = torch.tensor([0, *itertools.accumulate(self.layout.sizes)][:-1], device=cell.device)
        for i, (block, (_, end, later)) in enumerate(zip(self.layout.blocks(counts), self.layout.rows, strict=True)):
            places = cell[:, i : i + 1] * later
            if i + 1 < cell.shape[1]:
                places = places + (cell[:, i + 1 :] + (offsets[i + 1 :] - end))
            block.copy_(torch.bincount(places.flatten(), minlength=block.numel()).view_as(block))
        return counts.div_(self.root)

    def class_sums(self, points: torch.Tensor, groups: Groups, label_scale: float = 1.0) -> torch.Tensor:
        """For training, (1, features): weighted means over points of products of probabilities.

        Given its latent code a generated row's columns are drawn independently, so this is the expected cross table.
        Pairs with the label are scaled by `label_scale`.
        """
        if self.classes:
            points = torch.cat([points, label_scale * groups.one_hot.to(points)], dim=1)
        values: torch.Tensor = PairProducts.apply(points, groups.point_weights, self.layout)  # type: ignore[no-untyped-call]
        return (values / self.root).unsqueeze(0)

    @property
    def working_size(self) -> int:
        """Scaled values, cells and places: a few copies of one number per column, and no features at all."""
        return 6 * len(self.layout.sizes)


def _refuse_too_many(schema: Schema, numbers: int) -> None:
    """Refuse tables that would not fit, before anything is built or spent, and say which columns are to blame."""
    fitting = min(MOST_NUMBERS, memory() // BYTES_PER_NUMBER)
    if numbers > fitting:
        widest = sorted(schema.columns, key=lambda column: column.cells, reverse=True)[:WIDEST_NAMED]
        named = ", ".join(f'"{column.name}" ({column.cells:,} cells)' for column in widest)
        raise SettingError(
            f"pairs: the cross tables of all pairs of columns have {numbers:,} cells, and at most {fitting:,} are "
            f"allowed here; the widest columns are {named}: declare groups of values, set fewer bins, or drop them"
        )

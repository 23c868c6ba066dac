"""Columns and pairs of columns: a one in the cell, or in the cell of the cross table, that the record is in."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

import torch

from simulacra.data.cells import Cells
from simulacra.errors import SettingError
from simulacra.features.combine import MOST_NUMBERS
from simulacra.features.groups import Groups
from simulacra.networks.devices import memory
from simulacra.privacy.query import FeatureMap
from simulacra.schema import Schema

BYTES_PER_NUMBER = 160
"""What releasing or fitting holds for each released number: sums in float64, and a dozen matrices of cells by cells."""
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

    def join(self, tables: Mapping[tuple[int, int], torch.Tensor]) -> torch.Tensor:
        """The vector with these cross tables."""
        values = next(iter(tables.values())).new_empty(self.numbers)
        for pair, place in self.tables(values).items():
            place.copy_(tables[pair])
        return values


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


class Columns(FeatureMap):
    """The cell of a record in every column, over the root of their number: norm exactly 1. The label comes last."""

    nonnegative = True

    def __init__(self, schema: Schema) -> None:
        self.cells = Cells(schema)
        self.classes = schema.classes if schema.labelled else 0
        self.sizes = (*self.cells.sizes, self.classes) if self.classes else self.cells.sizes
        self.shape = (sum(self.sizes),)
        self.root = math.sqrt(len(self.sizes))

    def features(self, inputs: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        chosen = torch.arange(self.classes, device=label.device) == label
        row = self.cells.one_hot(inputs)
        return torch.cat([row, chosen.to(row)]) / self.root

    def clipped_sum(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Whole counts of cells, so exact in any order; divided once."""
        cell = self.index(inputs, labels)
        starts = torch.tensor([0, *itertools.accumulate(self.sizes)][:-1], device=cell.device)
        return torch.bincount((cell + starts).flatten(), minlength=self.size).to(torch.float64) / self.root

    def index(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """The cell of every column, (n, columns); the label's is its class."""
        cell = self.cells.index(inputs)
        return torch.cat([cell, labels.unsqueeze(1)], dim=1) if self.classes else cell

    @property
    def working_size(self) -> int:
        """Scaled values, cells and places: a few copies of one number per column, and no features at all."""
        return 6 * len(self.sizes)


class Pairs(FeatureMap):
    """The cells of a record in the cross tables of all pairs of columns, weighted to norm exactly 1.

    The label, if there is one, is the last column and a column like any other: nothing is kept apart per class. But
    tables with the label may have another weight: `label_share` of the squared norm is theirs.
    """

    nonnegative = True

    def __init__(self, schema: Schema, *, label_share: float | None = None) -> None:
        self.columns = Columns(schema)
        self.cells, self.classes = self.columns.cells, self.columns.classes
        self.layout = PairLayout(self.columns.sizes)
        self.shape = (self.layout.numbers,)
        with_label = len(self.layout.sizes) - 1 if self.classes else 0
        without = self.layout.pairs - with_label
        share = with_label / self.layout.pairs if label_share is None else label_share
        # Where there is only one kind of table, it has all of the norm.
        share = float(not without) if not (with_label and without) else share
        self.label_scale = math.sqrt(share / with_label) if with_label else 0.0
        self.scale = math.sqrt((1 - share) / without) if without else 0.0
        _refuse_too_many(schema, self.size)

    def features(self, inputs: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        row = self.columns.features(inputs, label) * self.columns.root
        if len(self.layout.sizes) == 1:
            return row
        products = [torch.outer(row[start:end], row[end:]).flatten() for start, end, _ in self.layout.rows]
        return self.scaled(torch.cat(products))

    def clipped_sum(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Whole counts of cells, so exact in any order; scaled once."""
        cell = self.columns.index(inputs, labels)
        counts = torch.empty(self.size, dtype=torch.float64, device=cell.device)
        offsets = torch.tensor([0, *itertools.accumulate(self.layout.sizes)][:-1], device=cell.device)
        for i, (block, (_, end, later)) in enumerate(zip(self.layout.blocks(counts), self.layout.rows, strict=True)):
            places = cell[:, i : i + 1] * later
            if i + 1 < cell.shape[1]:
                places = places + (cell[:, i + 1 :] + (offsets[i + 1 :] - end))
            block.copy_(torch.bincount(places.flatten(), minlength=block.numel()).view_as(block))
        return self.scaled(counts)

    def class_sums(self, points: torch.Tensor, groups: Groups) -> torch.Tensor:
        """For training, (1, features): weighted means over points of products of probabilities.

        Given its latent code a generated row's columns are drawn independently, so this is the expected cross table.
        """
        if self.classes:
            points = torch.cat([points, groups.one_hot.to(points)], dim=1)
        values: torch.Tensor = PairProducts.apply(points, groups.point_weights, self.layout)  # type: ignore[no-untyped-call]
        return self.scaled(values).unsqueeze(0)

    def scaled(self, counts: torch.Tensor, *, back: bool = False) -> torch.Tensor:
        """Counts of cells times the weight of their tables; or `back` from released sums to counts."""
        if not self.classes:
            return counts / self.scale if back else counts * self.scale
        # The label is the last column: the right of every block.
        blocks = []
        for block, (_, _, later) in zip(self.layout.blocks(counts), self.layout.rows, strict=True):
            scales = block.new_full((later,), self.scale)
            scales[later - self.classes :] = self.label_scale
            blocks.append((block / scales if back else block * scales).flatten())
        return torch.cat(blocks)

    @property
    def working_size(self) -> int:
        """As for single columns: no features are formed."""
        return self.columns.working_size


def refuse_too_many_cells(schema: Schema) -> None:
    """Refuse a table whose random field would not fit: it couples every cell with every other, of any column."""
    cells = sum(column.cells for column in schema.columns)
    _refuse_too_many(schema, cells**2 // 2)


def _refuse_too_many(schema: Schema, numbers: int) -> None:
    """Refuse tables that would not fit, before anything is built or spent, and say which columns are to blame."""
    fitting = min(MOST_NUMBERS, memory() // BYTES_PER_NUMBER)
    if numbers > fitting:
        widest = sorted(schema.columns, key=lambda column: column.cells, reverse=True)[:WIDEST_NAMED]
        named = ", ".join(f'"{column.name}" ({column.cells:,} cells)' for column in widest)
        raise SettingError(
            f"pairs: there are {numbers:,} pairs of cells, and at most {fitting:,} are allowed here; the widest "
            f"columns are {named}: declare groups of values, set fewer bins, or drop them"
        )

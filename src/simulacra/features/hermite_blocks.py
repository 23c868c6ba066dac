"""Coordinates and their blocks: a record is a list of cell numbers, and each cell a row of at most length 1."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch

from simulacra.data.cells import Cells
from simulacra.features.groups import Groups
from simulacra.features.hermite import Hermite, HermiteSums
from simulacra.schema import Datetime, ImageShape, Numeric, Schema

LEVELS = 256
"""Intensities of a pixel; a record's pixels are moved to the nearest, by definition of the map."""
HISTOGRAM_NUMBERS = 4_000_000
"""A histogram of pixels has at most about this many numbers at once."""


class Blocks(ABC):
    """Every coordinate (a column, a pixel) as a block of features of norm at most 1.

    Points are what generators emit: intensities for pixels, probabilities per cell for tables. A record's point is
    its nearest intensities, or its one-hot cells.
    """

    widths: tuple[int, ...]
    """Features per coordinate."""
    nonnegative: bool
    """Whether no feature is ever negative."""
    bounds: tuple[float, ...]
    """The largest norm of each coordinate's block: at most 1, and less where few orders are kept."""
    points_width: int
    """Numbers per point."""

    @abstractmethod
    def of_records(self, inputs: torch.Tensor) -> torch.Tensor:
        """Records to points; total, and the same for one record or many."""

    @abstractmethod
    def rows(self, points: torch.Tensor) -> torch.Tensor:
        """All blocks side by side: (..., points' width) to (..., sum of widths)."""

    @abstractmethod
    def columns(self, points: torch.Tensor, coordinates: Sequence[int]) -> torch.Tensor:
        """The blocks of some coordinates, transposed: (n, points' width) to (their widths, n)."""

    @abstractmethod
    def class_sums(self, points: torch.Tensor, groups: Groups) -> torch.Tensor:
        """Weighted sums of rows per class, differentiable, without ever holding all rows."""

    @abstractmethod
    def record_sums(self, inputs: torch.Tensor, labels: torch.Tensor, classes: int) -> torch.Tensor:
        """Sums of the rows of records per class, from a histogram of their cells: exact counts, then one product."""


class PixelBlocks(Blocks):
    """Images: the Hermite features of each pixel's intensity."""

    def __init__(self, pixels: int, hermite: Hermite) -> None:
        self.pixels = pixels
        self.hermite = hermite
        self.widths = (hermite.width,) * pixels
        self.table = hermite.values(torch.arange(LEVELS, dtype=torch.float64) / (LEVELS - 1))
        self.nonnegative = hermite.order == 0
        self.bounds = (_longest(self.table),) * pixels
        self.points_width = pixels

    def of_records(self, inputs: torch.Tensor) -> torch.Tensor:
        return levels(inputs) / (LEVELS - 1)

    def rows(self, points: torch.Tensor) -> torch.Tensor:
        return self.hermite.values(points).flatten(-2)

    def columns(self, points: torch.Tensor, coordinates: Sequence[int]) -> torch.Tensor:
        return self.hermite.values(points[:, list(coordinates)].T, dim=1).flatten(0, 1)

    def class_sums(self, points: torch.Tensor, groups: Groups) -> torch.Tensor:
        sums: torch.Tensor = HermiteSums.apply(points, groups.averaging, self.hermite)  # type: ignore[no-untyped-call]
        return sums.flatten(1)

    def record_sums(self, inputs: torch.Tensor, labels: torch.Tensor, classes: int) -> torch.Tensor:
        whole = levels(inputs).long()
        at_once = max(1, HISTOGRAM_NUMBERS // (classes * LEVELS))
        parts = []
        for start in range(0, self.pixels, at_once):
            part = whole[:, start : start + at_once]
            pixel = torch.arange(part.shape[1], device=part.device)
            places = (labels.unsqueeze(1) * part.shape[1] + pixel) * LEVELS + part
            counts = torch.bincount(places.flatten(), minlength=classes * part.shape[1] * LEVELS)
            rows = counts.to(torch.float64).reshape(-1, LEVELS) @ self.table.to(counts.device)
            parts.append(rows.reshape(classes, -1))
        return torch.cat(parts, dim=1)


class PooledBlocks(Blocks):
    """Images: the Hermite features of the mean intensity of each small square of pixels, channel by channel.

    Fewer coordinates than pixels, so that a few products tell of the whole image. Squares at the right and lower edge
    may be cut off.
    """

    def __init__(self, image: ImageShape, side: int, hermite: Hermite) -> None:
        self.image = image
        self.side = side
        self.hermite = hermite
        self.widths = (hermite.width,) * squares(image, side)
        self.nonnegative = hermite.order == 0
        # Means are no levels, so no table holds all values: the bound of the whole expansion is what is proven.
        self.bounds = (1.0,) * len(self.widths)
        self.points_width = image.pixels

    def of_records(self, inputs: torch.Tensor) -> torch.Tensor:
        return levels(inputs) / (LEVELS - 1)

    def rows(self, points: torch.Tensor) -> torch.Tensor:
        return self.hermite.values(self._means(points)).flatten(-2)

    def columns(self, points: torch.Tensor, coordinates: Sequence[int]) -> torch.Tensor:
        return self.hermite.values(self._means(points)[:, list(coordinates)].T, dim=1).flatten(0, 1)

    def class_sums(self, points: torch.Tensor, groups: Groups) -> torch.Tensor:
        means = self._means(points)
        sums: torch.Tensor = HermiteSums.apply(means, groups.averaging, self.hermite)  # type: ignore[no-untyped-call]
        return sums.flatten(1)

    def record_sums(self, inputs: torch.Tensor, labels: torch.Tensor, classes: int) -> torch.Tensor:
        chosen = labels.unsqueeze(0) == torch.arange(classes, device=labels.device).unsqueeze(1)
        terms = self.hermite.terms(self.hermite.scaled(self._means(self.of_records(inputs))))
        return torch.stack([chosen.to(term) @ term for term in terms], dim=-1).flatten(1)

    def _means(self, points: torch.Tensor) -> torch.Tensor:
        image = self.image
        planes = points.reshape(*points.shape[:-1], image.channels, image.height, image.width)
        means = torch.nn.functional.avg_pool2d(planes, self.side, ceil_mode=True)
        return means.flatten(-3)


class TableBlocks(Blocks):
    """Tables: one-hot for unordered columns, Hermite features of the bin's centre for ordered ones.

    A missing value is a cell of its own, at right angles to all others. A column of few bins gets no more features
    than it has bins: polynomials of a lower degree than that already tell all of them apart.
    """

    def __init__(self, schema: Schema, *, order: int, length_scale: float) -> None:
        self.cells = Cells(schema)
        tables = []
        for column in schema.features:
            if isinstance(column, (Numeric, Datetime)):
                hermite = Hermite(order=min(order, column.bin_count - 1), length_scale=length_scale)
                centres = (torch.arange(column.bin_count, dtype=torch.float64) + 0.5) / column.bin_count
                table = torch.nn.functional.pad(hermite.values(centres), (0, column.missing, 0, column.missing))
                if column.missing:
                    table[-1, -1] = 1.0
                tables.append(table)
            else:
                tables.append(torch.eye(column.cells, dtype=torch.float64))
        self.widths = tuple(table.shape[1] for table in tables)
        self.tables = tables
        self._ready = {(torch.float64, torch.device("cpu")): tables}
        self.nonnegative = all(bool((table >= 0).all()) for table in tables)
        self.bounds = tuple(_longest(table) for table in tables)
        self.points_width = self.cells.total

    def of_records(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.cells.one_hot(inputs)

    def rows(self, points: torch.Tensor) -> torch.Tensor:
        cells = torch.split(points, list(self.cells.sizes), dim=-1)
        return torch.cat([part @ table for part, table in zip(cells, self._as(points), strict=True)], dim=-1)

    def columns(self, points: torch.Tensor, coordinates: Sequence[int]) -> torch.Tensor:
        cells = torch.split(points, list(self.cells.sizes), dim=-1)
        tables = self._as(points)
        return torch.cat([tables[at].T @ cells[at].T for at in coordinates])

    def class_sums(self, points: torch.Tensor, groups: Groups) -> torch.Tensor:
        return self.rows(groups.averaging @ points)  # linear: the mean point's rows are the mean of the rows

    def record_sums(self, inputs: torch.Tensor, labels: torch.Tensor, classes: int) -> torch.Tensor:
        offsets = torch.tensor(self.cells.offsets, device=inputs.device)
        places = self.cells.index(inputs) + offsets + self.cells.total * labels.unsqueeze(1)
        counts = torch.bincount(places.flatten(), minlength=classes * self.cells.total)
        return self.rows(counts.to(torch.float64).reshape(classes, -1))

    def _as(self, points: torch.Tensor) -> list[torch.Tensor]:
        """The tables in the precision and on the device of some points; kept for the next step."""
        kind = (points.dtype, points.device)
        if kind not in self._ready:
            self._ready[kind] = [table.to(points) for table in self.tables]
        return self._ready[kind]


def blocks_for(schema: Schema, *, order: int, length_scale: float, square: int = 1) -> Blocks:
    """The natural blocks of a schema; for images, of squares of pixels of a given side."""
    if schema.image is None:
        return TableBlocks(schema, order=order, length_scale=length_scale)
    hermite = Hermite(order=order, length_scale=length_scale)
    return PooledBlocks(schema.image, square, hermite) if square > 1 else PixelBlocks(schema.image.pixels, hermite)


def widths_for(schema: Schema, order: int, square: int = 1) -> tuple[int, ...]:
    """Features per coordinate, without building anything: what a plan needs to refuse sizes that do not fit."""
    if schema.image is not None:
        return (order + 1,) * squares(schema.image, square)
    return tuple(
        min(order + 1, column.bin_count) + column.missing if isinstance(column, (Numeric, Datetime)) else column.cells
        for column in schema.features
    )


def squares(image: ImageShape, side: int) -> int:
    """How many squares of a side cover an image, all channels counted."""
    return math.ceil(image.height / side) * math.ceil(image.width / side) * image.channels


def _longest(table: torch.Tensor) -> float:
    """The largest norm of any row, rounded up."""
    return min(1.0, float(torch.linalg.vector_norm(table, dim=1).max()) * (1 + 1e-9))


def levels(inputs: torch.Tensor) -> torch.Tensor:
    """The nearest level of each pixel of a record, 0 to 255; total."""
    centre = (LEVELS - 1) / 2
    return ((torch.nan_to_num(inputs) + 1) * centre).round().clamp(0, LEVELS - 1)

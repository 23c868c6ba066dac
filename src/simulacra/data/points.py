"""Points: the form in which features and generators meet.

A record enters the boundary as numbers in [-1, 1]; a generator emits something softer (probabilities per cell, pixel
intensities). Both become points of one space, and a feature map is a function of points.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch

from simulacra.data.cells import Cells
from simulacra.schema import Schema


class Points(ABC):
    """How records become points; works for one record or many."""

    width: int
    """Numbers per point."""
    spread: float
    """A public guess of the squared distance between two typical points, from which length scales are chosen."""

    @abstractmethod
    def of_records(self, inputs: torch.Tensor) -> torch.Tensor:
        """(..., schema.inputs) to (..., width)."""


class OneHotPoints(Points):
    """Tables: a one-hot block per column, numeric columns cut into the schema's bins."""

    def __init__(self, cells: Cells) -> None:
        self.cells = cells
        self.width = cells.total
        self.spread = float(len(cells.sizes))

    def of_records(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.cells.one_hot(inputs)


class PixelPoints(Points):
    """Images: intensities in [0, 1]."""

    def __init__(self, pixels: int) -> None:
        self.width = pixels
        self.spread = pixels / 8

    def of_records(self, inputs: torch.Tensor) -> torch.Tensor:
        return (inputs + 1) / 2


def points_for(schema: Schema) -> Points:
    """The natural points of a schema."""
    return PixelPoints(schema.image.pixels) if schema.image else OneHotPoints(Cells(schema))

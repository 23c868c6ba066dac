"""Histograms of several columns at once: what a private schema draft asks for."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from simulacra.privacy.query import FeatureMap


class ColumnHistogram(FeatureMap):
    """A one per column, in the column's bin or, if the value is missing, in the cell after the last bin.

    `places` says where in a record each column's position in [-1, 1] is; its missing flag comes next, and is set above
    0. A record adds exactly one per column, so its norm is the square root of the number of columns.
    """

    nonnegative = True

    def __init__(self, places: Sequence[int], bins: int) -> None:
        self.places = tuple(places)
        self.bins = bins
        self.shape = (len(self.places), bins + 1)
        self.norm_bound = math.sqrt(len(self.places))

    def features(self, inputs: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        cells = torch.arange(self.bins + 1, device=inputs.device)
        return (cells == self._cells(inputs).unsqueeze(-1)).to(self.dtype)

    def clipped_sum(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        rows, cells = self.shape
        flat = self._cells(inputs) + cells * torch.arange(rows, device=inputs.device)
        return torch.bincount(flat.flatten(), minlength=self.size).reshape(self.shape).to(torch.float64)

    @property
    def working_size(self) -> int:
        return len(self.places)

    def _cells(self, inputs: torch.Tensor) -> torch.Tensor:
        """(..., inputs) to (..., columns): the cell of each column."""
        places = torch.tensor(self.places, device=inputs.device)
        positions = torch.nan_to_num(inputs[..., places])
        cells = ((positions + 1) / 2 * self.bins).floor().clamp(0, self.bins - 1)
        return torch.where(inputs[..., places + 1] > 0, self.bins, cells).to(torch.int64)

"""The Markov generator: a table's columns as a pairwise Markov random field, sampled by Gibbs sweeps."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import torch
from torch import nn

if TYPE_CHECKING:
    from simulacra.data.cells import Cells

SWEEPS = 15
"""Of Gibbs sampling for a drawn row. Fitting matches rows of 10 to 20 sweeps: what is matched is what is drawn."""


class MarkovGenerator(nn.Module):
    """p(row) is proportional to exp(fields of its cells + couplings of all pairs of its cells).

    Of all distributions with given pairs of columns this is the one that assumes least (maximum entropy). The label, if
    there is one, is the last column, and is given when a row is drawn.
    """

    latent = 1
    """Nothing is made of latent noise: a row's randomness is in its sweeps."""

    def __init__(self, cells: Cells, classes: int, *, labelled: bool) -> None:
        super().__init__()
        self.cells, self.classes, self.labelled = cells, classes, labelled
        self.sizes = (*cells.sizes, classes) if labelled else cells.sizes
        ends = tuple(itertools.accumulate(self.sizes))
        # Where the feature columns begin and end; the label's cells come after them.
        self.columns = [(end - size, end) for size, end in zip(cells.sizes, ends, strict=False)]
        self.fields = nn.Parameter(torch.zeros(ends[-1]))
        self.couplings = nn.Parameter(torch.zeros(ends[-1], ends[-1]))

    def forward(self, noise: torch.Tensor, one_hot_labels: torch.Tensor) -> torch.Tensor:
        """Where the sweeps begin: per column probabilities that know the label alone, then the label's one-hot."""
        labels = one_hot_labels if self.labelled else one_hot_labels[:, :0]
        features = self.cells.total
        scores = self.fields[:features] + labels @ self.couplings[features:, :features]
        parts = torch.split(scores, list(self.cells.sizes), dim=1)
        return torch.cat([*(part.softmax(dim=1) for part in parts), labels], dim=1)

    def to_records(self, points: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Draw cells from the probabilities, sweep, and place each value inside its cell."""
        state = self.begin(points, generator)
        for _ in range(SWEEPS):
            self.sweep(state, generator)
        index = torch.stack([state[:, start:end].argmax(dim=1) for start, end in self.columns], dim=1)
        return self.cells.place(index, generator)

    @torch.no_grad()
    def begin(self, points: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """One-hot rows whose cells are drawn from the probabilities, column by column."""
        state = points.clone()
        for start, end in self.columns:
            draw_cells(points[:, start:end], state[:, start:end], generator)
        return state

    @torch.no_grad()
    def sweep(self, state: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Draw every column anew given the others, in place: one-hot rows (n, total). The label stays.

        Gives the probabilities each cell was drawn with; the label's are its one-hot.
        """
        chances = state.clone()
        for start, end in self.columns:
            scores = torch.addmm(self.fields[start:end], state, self.couplings[:, start:end])
            chances[:, start:end] = scores.softmax(dim=1)
            draw_cells(chances[:, start:end], state[:, start:end], generator)
        return chances


def draw_cells(chances: torch.Tensor, out: torch.Tensor, generator: torch.Generator) -> None:
    """Draw one cell per row with the given probabilities, (n, cells), and write its one-hot row to `out`."""
    sums = chances.cumsum(dim=1)
    level = torch.rand(len(sums), 1, generator=generator, device=sums.device, dtype=sums.dtype) * sums[:, -1:]
    cell = (sums <= level).sum(dim=1, keepdim=True).clamp_(max=sums.shape[1] - 1)
    out.zero_().scatter_(1, cell, 1.0)

"""The table generator: noise and a label in, one probability vector per column out."""

from __future__ import annotations

import torch
from torch import nn

from simulacra.data.cells import Cells


class TableGenerator(nn.Module):
    """A multilayer perceptron with a softmax head per column; its output is a soft one-hot row."""

    def __init__(self, cells: Cells, classes: int, *, latent: int, hidden: tuple[int, ...]) -> None:
        super().__init__()
        self.cells = cells
        self.latent = latent
        self.classes = classes
        layers: list[nn.Module] = []
        width = latent + classes
        for size in hidden:
            layers += [nn.Linear(width, size), nn.BatchNorm1d(size), nn.ReLU()]
            width = size
        layers.append(nn.Linear(width, cells.total))
        self.layers = nn.Sequential(*layers)

    def forward(self, noise: torch.Tensor, one_hot_labels: torch.Tensor) -> torch.Tensor:
        logits = self.layers(torch.cat([noise, one_hot_labels], dim=1))
        return torch.cat([head.softmax(dim=1) for head in torch.split(logits, list(self.cells.sizes), dim=1)], dim=1)

    def to_records(self, points: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Draw a cell per column from the probabilities, and a place inside each cell: encoded records."""
        heads = torch.split(points, list(self.cells.sizes), dim=1)
        chosen = [torch.multinomial(head, 1, generator=generator) for head in heads]
        return self.cells.place(torch.cat(chosen, dim=1), generator)

"""What a critic is shown of a generator: points that look like records, with a gradient."""

from __future__ import annotations

from typing import Any

import torch

from simulacra.data.cells import Cells
from simulacra.gradients.arithmetic import Precision, in_precision, precision_on
from simulacra.methods.replaying import matrix_units
from simulacra.schema import Schema

TEMPERATURE = 0.2


class Fakes:
    """Codes, labels and, for tables, what decides each cell: fixed buffers, so that a GPU can replay what uses them.

    A table's generator gives probabilities, and real rows are ones and zeros: a critic would only have to look for
    fractions. So a cell is drawn for each column (the largest of log p + Gumbel noise), and gradients pass as if the
    softmax of the same at a low temperature had been shown (Jang, Gu and Poole 2017).
    """

    def __init__(
        self,
        schema: Schema,
        generator: Any,
        size: int,
        shares: torch.Tensor,
        device: torch.device,
        precision: Precision = Precision.SINGLE,
    ) -> None:
        self.generator, self.size = generator, size
        self.device, self.precision = device, precision_on(device, precision)
        self.cells = Cells(schema) if schema.image is None else None
        self.edges = shares.cumsum(0)[:-1].to(device, torch.float32).contiguous()
        self.codes = torch.zeros(size, generator.latent, device=device)
        self.labels = torch.zeros(size, dtype=torch.int64, device=device)
        self._classes = torch.arange(schema.classes, device=device)
        self._picks = torch.zeros(size, device=device)
        self._gumbel = torch.zeros(size, self.cells.total, device=device) if self.cells else None

    def fresh(self, random: torch.Generator) -> None:
        """New codes and labels from the training's own random stream."""
        self.codes.normal_(generator=random)
        self._picks.uniform_(generator=random)
        if len(self.edges):
            torch.bucketize(self._picks, self.edges, right=True, out=self.labels)
        if self._gumbel is not None:
            self._gumbel.exponential_(generator=random).clamp_(min=1e-20).log_().neg_()

    def points(self) -> torch.Tensor:
        """(size, width), from the present codes and labels."""
        one_hot = (self.labels.unsqueeze(1) == self._classes).to(self.codes.dtype)
        with matrix_units(self.device), in_precision(self.precision, self.device):
            points: torch.Tensor = self.generator(self.codes, one_hot).float()
        if self.cells is None or self._gumbel is None:
            return points
        noisy = points.clamp(min=1e-20).log() + self._gumbel
        heads = [_drawn(head) for head in torch.split(noisy, list(self.cells.sizes), dim=1)]
        return torch.cat(heads, dim=1)


def _drawn(scores: torch.Tensor) -> torch.Tensor:
    soft = (scores / TEMPERATURE).softmax(dim=1)
    hard = torch.zeros_like(soft).scatter(1, scores.argmax(dim=1, keepdim=True), 1.0)
    return hard + (soft - soft.detach())

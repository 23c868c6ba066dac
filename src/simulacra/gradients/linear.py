"""Linear layers: the gradient of a record is an outer product, or a sum of a few."""

from __future__ import annotations

import torch
from torch import nn

from simulacra.gradients.contribution import Contribution, Lengths, kept, scaled


class LinearContribution(Contribution):
    """Inputs (n, ..., in) and signals (n, ..., out): a record's weight gradient is the sum over positions of s a^T.

    With one position its norm is |s| |a|. With several it comes from the products of all pairs of positions, or from
    the gradient itself, whichever is less work.
    """

    def __init__(self, layer: nn.Linear, inputs: torch.Tensor, signals: torch.Tensor) -> None:
        self.bias = layer.bias is not None
        self.inputs = inputs.reshape(len(inputs), -1, layer.in_features)
        self.signals = signals.reshape(len(signals), -1, layer.out_features)

    def lengths(self) -> Lengths:
        bulk = (self.inputs.norm(dim=2) * self.signals.norm(dim=2)).sum(dim=1)
        positions, wide, high = self.inputs.shape[1], self.inputs.shape[2], self.signals.shape[2]
        added = 2 * positions  # a length is off by so much, and its square twice
        if positions == 1:
            squared = bulk.square()
        elif positions * (wide + high) < wide * high:
            squared = pairwise(self.inputs, self.signals)
            added += wide + high
        else:
            squared = (self.signals.transpose(1, 2) @ self.inputs).flatten(1).square().sum(dim=1)
        if self.bias:
            squared = squared + self.signals.sum(dim=1).square().sum(dim=1)
            bulk = bulk + self.signals.norm(dim=2).sum(dim=1)
        return Lengths(squared, bulk, added + 4)

    def weighted(self, weights: torch.Tensor) -> tuple[torch.Tensor, ...]:
        signals = scaled(self.signals, weights).flatten(0, 1)
        weight = signals.T @ kept(self.inputs, weights).flatten(0, 1)
        return (weight, signals.sum(dim=0)) if self.bias else (weight,)


def pairwise(inputs: torch.Tensor, signals: torch.Tensor) -> torch.Tensor:
    """|sum over p of s_p a_p^T|^2 = sum over p, q of (a_p . a_q)(s_p . s_q): (n, positions, width) twice to (n,).

    Li et al. (2022) call it the ghost norm: the gradient itself, in x out numbers a record, is never formed.
    """
    return paired(inputs @ inputs.transpose(1, 2), signals @ signals.transpose(1, 2))


def paired(near: torch.Tensor, back: torch.Tensor) -> torch.Tensor:
    """The sum over pairs of positions, of which there are too many to be added up in float32: in float64."""
    return (near * back).sum(dim=(1, 2), dtype=torch.float64).to(near.dtype)

"""Contribution: what one layer adds to each record's gradient, without saying how it is held."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Lengths:
    """Of one layer's share of each record's gradient, (n,) each.

    `squared` is the squared L2 norm. `bulk` is the norm there would be if nothing cancelled in the products that are
    yet to be summed: over positions, |input| |signal|. Rounding errors are shares of the bulk, not of the norm.
    `added` is how many numbers were added up for a squared length, one to the other, where large ones may cancel.
    """

    squared: torch.Tensor
    bulk: torch.Tensor
    added: int = 4


class Contribution(ABC):
    """The gradients of one layer's parameters, a gradient for each record of a batch."""

    @abstractmethod
    def lengths(self) -> Lengths:
        """How long each record's gradient is."""

    @abstractmethod
    def weighted(self, weights: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The sum of all gradients times weights (n,), one tensor per parameter.

        Weight 0 adds exactly nothing, whatever the gradient: also if it is not a number.
        """


class Explicit(Contribution):
    """Gradients that are small enough to hold: one tensor (n, *shape) per parameter. What is held is what is summed."""

    def __init__(self, *gradients: torch.Tensor) -> None:
        self.gradients = gradients

    def lengths(self) -> Lengths:
        squared = torch.stack([gradient.flatten(1).square().sum(dim=1) for gradient in self.gradients]).sum(dim=0)
        return Lengths(squared, squared.sqrt())

    def weighted(self, weights: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(
            (weights @ kept(gradient, weights).flatten(1)).view(gradient.shape[1:]) for gradient in self.gradients
        )


def kept(values: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """`values` (n, ...) with zeros for the records of weight 0: zero times infinity would not be zero."""
    return torch.where(_beside(weights, values) > 0, values, 0.0)


def scaled(values: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """`values` (n, ...) times the weight of each record, and zeros for those of weight 0."""
    factors = _beside(weights, values)
    return torch.where(factors > 0, values * factors, 0.0)


def _beside(weights: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    return weights.view(-1, *[1] * (values.dim() - 1))

"""Groups: generated points that come sorted by class, and how much each counts in its class's mean."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch


@dataclass(frozen=True)
class Groups:
    """`sizes[c]` points of class c, one class after the other, each with weight `weights[c]`.

    Sizes are plain numbers, so that a map may slice by them without asking the device.
    """

    sizes: tuple[int, ...]
    weights: torch.Tensor

    @cached_property
    def labels(self) -> torch.Tensor:
        """The class of each point."""
        device = self.weights.device
        return torch.repeat_interleave(
            torch.arange(len(self.sizes), device=device), torch.tensor(self.sizes, device=device)
        )

    @cached_property
    def one_hot(self) -> torch.Tensor:
        """(points, classes)."""
        return torch.nn.functional.one_hot(self.labels, len(self.sizes)).to(self.weights.dtype)

    @cached_property
    def averaging(self) -> torch.Tensor:
        """(classes, points): times the features of all points, it gives the weighted sums per class."""
        return (self.one_hot * self.weights).T.contiguous()

    @cached_property
    def point_weights(self) -> torch.Tensor:
        """The weight of each point."""
        return self.weights[self.labels]


class Trainable(Protocol):
    """What matching needs of a map: weighted sums of features per class, differentiable in the points."""

    def class_sums(self, points: torch.Tensor, groups: Groups) -> torch.Tensor:
        """(points, width) to (classes, features), without ever holding points x features where that is large."""
        ...

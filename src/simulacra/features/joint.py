"""Joint: several maps as one, to train with; what each of them says counts as much as its weight."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from simulacra.features.groups import Groups, Trainable


@dataclass(frozen=True)
class Joint:
    """The features of several maps side by side, each scaled by the root of its weight in the loss.

    All classes stand in one row, because some maps keep classes apart and others do not.
    """

    parts: Sequence[tuple[Trainable, float]]

    def class_sums(self, points: torch.Tensor, groups: Groups) -> torch.Tensor:
        """Weighted sums of all parts, (1, their numbers)."""
        return self.side_by_side([part.class_sums(points, groups) for part, _ in self.parts])

    def side_by_side(self, values: Sequence[torch.Tensor]) -> torch.Tensor:
        """Sums of the parts, in their order, as one row."""
        weights = (weight for _, weight in self.parts)
        rows = [math.sqrt(weight) * value.flatten() for weight, value in zip(weights, values, strict=True)]
        return torch.cat(rows).unsqueeze(0)

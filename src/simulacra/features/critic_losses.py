"""The two halves of a critic's loss: what it loses on a real record, and on a fake one (Goodfellow et al. 2014)."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.functional import softplus

from simulacra.data.points import Points


class RealLoss(nn.Module):
    """-log D(x, y) for records; D is the sigmoid of the critic's number."""

    def __init__(self, critic: nn.Module, points: Points) -> None:
        super().__init__()
        self.critic = critic
        self.points = points

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return softplus(-self.critic(self.points.of_records(inputs), labels))


class FakeLoss(nn.Module):
    """-log(1 - D(x, y)) for points that a generator made."""

    def __init__(self, critic: nn.Module) -> None:
        super().__init__()
        self.critic = critic

    def forward(self, points: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return softplus(self.critic(points, labels))

"""LeNet with ReLU and max-pooling, as the condensation papers use it."""

from __future__ import annotations

import torch
from torch import nn

from simulacra.networks.condensation import first_padding, seen


class LeNet(nn.Module):
    """Two 5 x 5 convolutions (6 and 16 channels) and three linear layers (LeCun et al., 1998)."""

    LEAST_SIDE = 16

    def __init__(self, *, channels: int, height: int, width: int, classes: int) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(channels, 6, kernel_size=5, padding=first_padding(height, width, own=0)),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(6, 16, kernel_size=5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
        )
        self.head = nn.Sequential(
            nn.Linear(16 * self._left(height) * self._left(width), 120),
            nn.ReLU(),
            nn.Linear(120, 84),
            nn.ReLU(),
            nn.Linear(84, classes),
        )

    @staticmethod
    def _left(side: int) -> int:
        return ((seen(side) - 4) // 2 - 4) // 2

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.head(self.features(images))
        return scores

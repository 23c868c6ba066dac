"""AlexNet for small images, as the condensation papers use it."""

from __future__ import annotations

import torch
from torch import nn

from simulacra.networks.condensation import first_padding, seen


class AlexNet(nn.Module):
    """Five convolutions (128, 192, 256, 192 and 192 channels), three max-poolings and one linear layer."""

    LEAST_SIDE = 8

    def __init__(self, *, channels: int, height: int, width: int, classes: int) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(channels, 128, kernel_size=5, padding=first_padding(height, width, own=2)),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(128, 192, kernel_size=5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(192, 256, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.Conv2d(256, 192, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.Conv2d(192, 192, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
        )
        self.head = nn.Linear(192 * (seen(height) // 8) * (seen(width) // 8), classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.head(self.features(images))
        return scores

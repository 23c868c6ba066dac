"""The small convolutional network that judges grey digits in the DP-GAN papers."""

from __future__ import annotations

import torch
from torch import nn


class DigitCNN(nn.Module):
    """Two 3 x 3 convolutions without padding, one max-pooling, two linear layers, dropout before each of them.

    Bie, Kamath and Zhang, "Private GANs, revisited" (TMLR 2023), score their images with it.
    """

    LEAST_SIDE = 6

    def __init__(self, *, channels: int, height: int, width: int, classes: int) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(channels, 32, kernel_size=3),
            nn.ReLU(),
            nn.Conv2d(32, 64, kernel_size=3),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Dropout(0.25),
            nn.Flatten(),
        )
        self.head = nn.Sequential(
            nn.Linear(64 * ((height - 4) // 2) * ((width - 4) // 2), 128),
            nn.ReLU(),
            nn.Dropout(0.5),
            nn.Linear(128, classes),
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.head(self.features(images))
        return scores

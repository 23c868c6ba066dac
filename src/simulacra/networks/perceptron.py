"""The multi-layer perceptron of the condensation papers; not scikit-learn's, which is "mlp"."""

from __future__ import annotations

import torch
from torch import nn


class Perceptron(nn.Module):
    """Three linear layers with 128 hidden units and ReLU between them."""

    LEAST_SIDE = 1
    HIDDEN = 128

    def __init__(self, *, channels: int, height: int, width: int, classes: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Flatten(),
            nn.Linear(channels * height * width, self.HIDDEN),
            nn.ReLU(),
            nn.Linear(self.HIDDEN, self.HIDDEN),
            nn.ReLU(),
            nn.Linear(self.HIDDEN, classes),
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.layers(images)
        return scores

"""ResNet-9: the quickly trained residual network that judges colour images in DP-MEPF."""

from __future__ import annotations

import torch
from torch import nn


def _block(channels_in: int, channels_out: int, *, kernel: int = 3, stride: int = 1, padding: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels_in, channels_out, kernel, stride=stride, padding=padding, bias=False),
        nn.BatchNorm2d(channels_out),
        nn.ReLU(),
    )


class _Residual(nn.Module):
    """Adds what two blocks make of the input to the input."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.blocks = nn.Sequential(_block(channels, channels), _block(channels, channels))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        change: torch.Tensor = self.blocks(images)
        return images + change


class ResNet9(nn.Module):
    """Eight convolutions with batch normalisation and one linear layer whose output is scaled by 0.2.

    The network that the FFCV library (Leclerc et al., 2023) trains in seconds; DP-MEPF (Harder et al., 2023) uses it.
    """

    LEAST_SIDE = 11
    OUTPUT_SCALE = 0.2

    def __init__(self, *, channels: int, height: int, width: int, classes: int) -> None:
        super().__init__()
        self.features = nn.Sequential(
            _block(channels, 64),
            _block(64, 128, kernel=5, stride=2, padding=2),
            _Residual(128),
            _block(128, 256),
            nn.MaxPool2d(2),
            _Residual(256),
            _block(256, 128, padding=0),
            nn.AdaptiveMaxPool2d(1),
            nn.Flatten(),
        )
        self.head = nn.Linear(128, classes, bias=False)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.head(self.features(images))
        return scores * self.OUTPUT_SCALE

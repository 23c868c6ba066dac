"""Image generators: noise and a label in, pixel intensities in [0, 1] out."""

from __future__ import annotations

import torch
from torch import nn

from simulacra.generators.doubling import UpConvolution
from simulacra.schema import ImageShape


class ConvolutionalGenerator(nn.Module):
    """The small generator of DP-MERF: two linear layers, then two up-samplings with 5 x 5 convolutions.

    For sides that are multiples of 4 (28 and 32 pixels in the papers).
    """

    CHANNELS = (16, 8)

    def __init__(self, image: ImageShape, classes: int, *, latent: int, hidden: int) -> None:
        super().__init__()
        self.latent = latent
        self.classes = classes
        first, second = self.CHANNELS
        self.base = (first, image.height // 4, image.width // 4)
        flat = first * self.base[1] * self.base[2]
        self.dense = nn.Sequential(
            nn.Linear(latent + classes, hidden),
            nn.BatchNorm1d(hidden),
            nn.ReLU(),
            nn.Linear(hidden, flat),
            nn.BatchNorm1d(flat),
        )
        self.convolutions = nn.Sequential(
            UpConvolution(first, second, height=self.base[1], width=self.base[2]),
            nn.ReLU(),
            UpConvolution(second, image.channels, height=2 * self.base[1], width=2 * self.base[2]),
            nn.Sigmoid(),
        )

    def forward(self, noise: torch.Tensor, one_hot_labels: torch.Tensor) -> torch.Tensor:
        dense = self.dense(torch.cat([noise, one_hot_labels], dim=1))
        pixels: torch.Tensor = self.convolutions(dense.reshape(-1, *self.base))
        return pixels.flatten(1)

    def to_records(self, points: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Intensities to [-1, 1]."""
        return points * 2 - 1


class DenseGenerator(nn.Module):
    """A multilayer perceptron, for images of any size (DP-HP uses it for digits)."""

    def __init__(self, image: ImageShape, classes: int, *, latent: int, hidden: int) -> None:
        super().__init__()
        self.latent = latent
        self.classes = classes
        self.layers = nn.Sequential(
            nn.Linear(latent + classes, hidden),
            nn.BatchNorm1d(hidden),
            nn.ReLU(),
            nn.Linear(hidden, hidden),
            nn.BatchNorm1d(hidden),
            nn.ReLU(),
            nn.Linear(hidden, image.pixels),
            nn.Sigmoid(),
        )

    def forward(self, noise: torch.Tensor, one_hot_labels: torch.Tensor) -> torch.Tensor:
        pixels: torch.Tensor = self.layers(torch.cat([noise, one_hot_labels], dim=1))
        return pixels

    def to_records(self, points: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Intensities to [-1, 1]."""
        return points * 2 - 1

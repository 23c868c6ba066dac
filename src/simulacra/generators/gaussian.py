"""The Gaussian generator: a mean image per class and a few directions in which it varies. Nothing is trained."""

from __future__ import annotations

import torch
from torch import nn

from simulacra.schema import ImageShape


class GaussianGenerator(nn.Module):
    """mean + factors @ noise, clipped to intensities; grey and still until means and factors are filled in."""

    def __init__(self, image: ImageShape, classes: int, *, latent: int) -> None:
        super().__init__()
        self.latent = latent
        self.classes = classes
        self.means = nn.Parameter(torch.full((classes, image.pixels), 0.5))
        self.factors = nn.Parameter(torch.zeros(classes, image.pixels, latent))

    def forward(self, noise: torch.Tensor, one_hot_labels: torch.Tensor) -> torch.Tensor:
        points = one_hot_labels @ self.means
        # A class at a time: the factors of every row side by side would be rows x pixels x latent numbers.
        for label in range(self.classes):
            points = points + (noise * one_hot_labels[:, label : label + 1]) @ self.factors[label].T
        return points.clamp(0, 1)

    def to_records(self, points: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Intensities to [-1, 1]."""
        return points * 2 - 1

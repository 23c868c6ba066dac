"""The generator of a DCGAN without normalisation: transposed convolutions that double the side."""

from __future__ import annotations

import torch
from torch import nn

from simulacra.networks.critics import SLOPE, halving_kernel, halvings
from simulacra.schema import ImageShape

WIDEST = 512
NARROWEST = 32


class DeconvolutionalGenerator(nn.Module):
    """Of Bie, Kamath and Zhang, "Private GANs, revisited" (2023): 2.27 M weights for labelled 28 x 28 digits.

    Code and label are spread to the smallest side apart and laid side by side; then each layer takes back one halving
    of the critic and halves the channels. Without batch normalisation, samples do not depend on one another.
    """

    def __init__(self, image: ImageShape, classes: int, *, latent: int) -> None:
        super().__init__()
        self.latent = latent
        self.classes = classes
        sides = halvings(image.height, image.width)[::-1]
        labelled = classes > 1
        half = WIDEST // 2
        self.code = nn.ConvTranspose2d(latent, half if labelled else WIDEST, sides[0])
        self.label = nn.ConvTranspose2d(classes, half, sides[0]) if labelled else None
        layers: list[nn.Module] = [nn.LeakyReLU(SLOPE)]
        width = WIDEST
        for number, (high, wide) in enumerate(sides[1:], start=1):
            last = number == len(sides) - 1
            outputs = image.channels if last else max(width // 2, NARROWEST)
            layers.append(nn.ConvTranspose2d(width, outputs, halving_kernel(high, wide), 2, 1))
            layers += [] if last else [nn.LeakyReLU(SLOPE)]
            width = outputs
        if len(sides) == 1:
            layers.append(nn.Conv2d(width, image.channels, 3, padding=1))
        self.rest = nn.Sequential(*layers)

    def forward(self, noise: torch.Tensor, one_hot_labels: torch.Tensor) -> torch.Tensor:
        maps = self.code(noise[:, :, None, None])
        if self.label is not None:
            maps = torch.cat([maps, self.label(one_hot_labels[:, :, None, None])], dim=1)
        pixels: torch.Tensor = torch.sigmoid(2 * self.rest(maps))  # (tanh x + 1) / 2
        return pixels.flatten(1)

    def to_records(self, points: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Intensities to [-1, 1]."""
        return points * 2 - 1

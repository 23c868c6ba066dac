"""The residual generator of DP-MEPF and DP-NTK for colour images (ResNet-like, after Miyato et al. 2018)."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import nn

from simulacra.errors import SettingError
from simulacra.schema import ImageShape

NARROWEST = 64
"""Channels of the last block; each block before has twice as many."""


def fits(image: ImageShape) -> bool:
    """Square images whose side is 4, 8, 16, 32 and so on."""
    side = image.height
    return side == image.width and side >= 4 and side & (side - 1) == 0


class UpBlock(nn.Module):
    """Twice the side: two 3 x 3 convolutions, and a 1 x 1 convolution past them."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.BatchNorm2d(inputs), nn.ReLU(), nn.Upsample(scale_factor=2, mode="nearest"))
        self.second = nn.Sequential(
            nn.Conv2d(inputs, outputs, kernel_size=3, padding=1),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, kernel_size=3, padding=1),
        )
        # A 1 x 1 convolution and copying pixels commute: before copying it costs a quarter.
        self.past = nn.Sequential(nn.Conv2d(inputs, outputs, kernel_size=1), nn.Upsample(scale_factor=2))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.second(self.first(images)) + self.past(images)
        return result


class ResidualGenerator(nn.Module):
    """A 4 x 4 start from the latent code and the label, then blocks that double the side and halve the channels."""

    def __init__(self, image: ImageShape, classes: int, *, latent: int) -> None:
        super().__init__()
        if not fits(image):
            raise SettingError(
                f"the residual generator makes square images of side 4, 8, 16, 32, ...; got {image.height} x "
                f'{image.width}: set generator.kind to "convolutional" or "dense"'
            )
        self.latent = latent
        self.classes = classes
        blocks = int(math.log2(image.height)) - 2
        widths = [NARROWEST * 2 ** (blocks - number) for number in range(blocks + 1)]
        self.start = nn.ConvTranspose2d(latent + classes, widths[0], kernel_size=4, bias=False)
        self.blocks = nn.Sequential(*(UpBlock(wide, half) for wide, half in pairwise(widths)))
        self.finish = nn.Sequential(
            nn.BatchNorm2d(NARROWEST), nn.ReLU(), nn.Conv2d(NARROWEST, image.channels, kernel_size=3, padding=1)
        )
        for module in self.modules():
            if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)):
                nn.init.xavier_uniform_(module.weight)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # what a GPU's matrix units want

    def forward(self, noise: torch.Tensor, one_hot_labels: torch.Tensor) -> torch.Tensor:
        code = torch.cat([noise, one_hot_labels], dim=1)[:, :, None, None]
        # While it learns on a GPU, in half precision: what it is to match is noisy far beyond that.
        with torch.autocast(noise.device.type, torch.bfloat16, enabled=self.training and noise.is_cuda):
            maps = self.start(code).contiguous(memory_format=torch.channels_last)
            maps = self.finish(self.blocks(maps))
        pixels: torch.Tensor = torch.sigmoid(2 * maps.to(noise.dtype))  # (tanh x + 1) / 2
        return pixels.flatten(1)

    def to_records(self, points: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Intensities to [-1, 1]."""
        return points * 2 - 1

"""ConvNeXt (Liu et al., 2022) as an encoder, with torchvision's names."""

from __future__ import annotations

import torch
from torch import nn

from simulacra.networks.encoder import IMAGENET_MEAN, IMAGENET_SPREAD, Encoder

SIZES: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "convnext-tiny": ((96, 192, 384, 768), (3, 3, 9, 3)),
    "convnext-small": ((96, 192, 384, 768), (3, 3, 27, 3)),
    "convnext-base": ((128, 256, 512, 1024), (3, 3, 27, 3)),
    "convnext-large": ((192, 384, 768, 1536), (3, 3, 27, 3)),
}
"""Channels and blocks per stage."""
EPSILON = 1e-6


class ChannelNorm(nn.LayerNorm):
    """Layer normalisation over the channels of each pixel."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return super().forward(input.movedim(1, -1)).movedim(-1, 1)


class PixelsLast(nn.Module):
    """(n, channels, height, width) to (n, height, width, channels), or back."""

    def __init__(self, *, back: bool = False) -> None:
        super().__init__()
        self.back = back

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images.movedim(-1, 1) if self.back else images.movedim(1, -1)


class Block(nn.Module):
    """A 7 x 7 convolution of each channel by itself, then a perceptron at each pixel, scaled, and a way past them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer_scale = nn.Parameter(torch.full((width, 1, 1), 1e-6))
        self.block = nn.Sequential(
            nn.Conv2d(width, width, kernel_size=7, padding=3, groups=width),
            PixelsLast(),
            nn.LayerNorm(width, eps=EPSILON),
            nn.Linear(width, 4 * width),
            nn.GELU(),
            nn.Linear(4 * width, width),
            PixelsLast(back=True),
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = images + self.layer_scale * self.block(images)
        return result


class ConvNeXt(Encoder):
    """Patches of 4 x 4 pixels, then four stages with halved sides between them."""

    heads = ("classifier.",)

    def __init__(self, widths: tuple[int, ...], depths: tuple[int, ...]) -> None:
        super().__init__(least_side=32, mean=IMAGENET_MEAN, spread=IMAGENET_SPREAD)
        layers: list[nn.Module] = [
            nn.Sequential(nn.Conv2d(3, widths[0], kernel_size=4, stride=4), ChannelNorm(widths[0], eps=EPSILON))
        ]
        for number, (width, depth) in enumerate(zip(widths, depths, strict=True)):
            layers.append(nn.Sequential(*(Block(width) for _ in range(depth))))
            if number + 1 < len(widths):
                halving = nn.Conv2d(width, widths[number + 1], kernel_size=2, stride=2)
                layers.append(nn.Sequential(ChannelNorm(width, eps=EPSILON), halving))
        self.features = nn.Sequential(*layers)

    def trunk(self, images: torch.Tensor) -> torch.Tensor:
        last: torch.Tensor = self.features(images)
        return last

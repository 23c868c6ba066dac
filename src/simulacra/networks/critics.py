"""Critics: a record and its label in, one number out; large if the record looks real. No layer mixes records."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import torch
from torch import nn

from simulacra.errors import SettingError
from simulacra.networks.label_convolution import LabelConvolution
from simulacra.options import Options
from simulacra.schema import ImageShape

SLOPE = 0.2
SMALLEST_SIDE = 4


@dataclass(frozen=True, kw_only=True)
class CriticOptions(Options):
    """Kind and sizes of a critic; `auto` is residual for large colour images, convolutional for others, else dense."""

    kind: Literal["auto", "convolutional", "residual", "dense"] = "auto"
    channels: int = 64
    """Of the first convolution."""
    hidden: tuple[int, ...] = (256, 256)
    """Of a dense critic."""

    def __post_init__(self) -> None:
        if self.channels < 1:
            raise SettingError(f"critic.channels must be at least 1, got {self.channels}")
        if not self.hidden or min(self.hidden) < 1:
            raise SettingError(f"critic.hidden must be a list of positive sizes, got {self.hidden}")


def build_critic(options: CriticOptions, *, image: ImageShape | None, width: int, classes: int) -> nn.Module:
    """A new critic with random weights from torch's default generator; takes points (n, width) and labels (n,)."""
    kind = _kind_for(image) if options.kind == "auto" else options.kind
    if kind == "dense":
        return DenseCritic(width, classes, hidden=options.hidden)
    if image is None:
        raise SettingError(f'a {kind} critic judges images, and the schema describes a table; set critic.kind="dense"')
    if min(image.height, image.width) < SMALLEST_SIDE:
        raise SettingError(
            f"a {kind} critic needs sides of at least {SMALLEST_SIDE} pixels, got {image.height} x {image.width}: "
            'set critic.kind="dense"'
        )
    if kind == "residual":
        return ResidualCritic(image, classes, channels=options.channels)
    return ConvolutionalCritic(image, classes, channels=options.channels)


def halvings(height: int, width: int) -> list[tuple[int, int]]:
    """The sides of an image, halved and rounded up until the longer is at most 4: 28, 14, 7, 4."""
    sides = [(height, width)]
    while max(sides[-1]) > SMALLEST_SIDE:
        high, wide = sides[-1]
        sides.append((-(-high // 2), -(-wide // 2)))
    return sides


def halving_kernel(high: int, wide: int) -> tuple[int, int]:
    """With stride 2 and padding 1: 4 pixels where the side is even, 3 where it is odd."""
    return 4 - high % 2, 4 - wide % 2


class ConvolutionalCritic(nn.Module):
    """The critic of a DCGAN without normalisation (Bie, Kamath and Zhang 2023): 1.72 M weights for labelled digits.

    The image and the planes of its label are convolved apart and laid side by side; then each convolution halves the
    side and doubles the channels, up to eight times those of the first.
    """

    def __init__(self, image: ImageShape, classes: int, *, channels: int) -> None:
        super().__init__()
        self.shape = (image.channels, image.height, image.width)
        sides = halvings(image.height, image.width)
        # Small images are not halved at once: a layer in which image and label meet must come before the last.
        stride = 2 if len(sides) > 2 else 1
        kernel: int | tuple[int, int] = halving_kernel(*sides.pop(0)) if stride == 2 else 3
        labelled = classes > 1
        self.image = nn.Conv2d(image.channels, channels if labelled else 2 * channels, kernel, stride, 1)
        self.label: nn.Module | None = None
        if labelled:
            self.label = LabelConvolution(
                classes, channels, kernel=kernel, stride=stride, padding=1, height=image.height, width=image.width
            )
        layers: list[nn.Module] = [nn.LeakyReLU(SLOPE)]
        width = 2 * channels
        for high, wide in sides[:-1]:
            outputs = min(2 * width, 8 * channels)
            layers += [nn.Conv2d(width, outputs, halving_kernel(high, wide), 2, 1), nn.LeakyReLU(SLOPE)]
            width = outputs
        if len(sides) == 1:
            layers += [nn.Conv2d(width, 2 * width, 3, padding=1), nn.LeakyReLU(SLOPE)]
            width = 2 * width
        self.rest = nn.Sequential(*layers, nn.Conv2d(width, 1, sides[-1]))

    def forward(self, points: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        maps = self.image(points.view(-1, *self.shape))
        if self.label is not None:
            maps = torch.cat([maps, self.label(labels)], dim=1)
        logits: torch.Tensor = self.rest(_laid_out(maps))
        return logits.flatten()


class ResidualBlock(nn.Module):
    """Group normalisation, ReLU and a 3 x 3 convolution, twice; a 1 x 1 convolution past them; then half the side."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.through = nn.Sequential(
            _group_norm(inputs),
            nn.ReLU(),
            nn.Conv2d(inputs, outputs, 3, padding=1),
            _group_norm(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1),
            nn.AvgPool2d(2),
        )
        # Pooling and a 1 x 1 convolution commute: afterwards it costs a quarter.
        self.past = nn.Sequential(nn.AvgPool2d(2), nn.Conv2d(inputs, outputs, 1, bias=False))

    def forward(self, maps: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.through(maps) + self.past(maps)
        return result


class ResidualCritic(nn.Module):
    """Residual blocks with group normalisation down to 4 x 4 pixels; the label by projection (Miyato, Koyama 2018)."""

    def __init__(self, image: ImageShape, classes: int, *, channels: int) -> None:
        super().__init__()
        if image.height != image.width or image.height & (image.height - 1):
            raise SettingError(
                f"a residual critic judges square images of side 8, 16, 32, ...; got {image.height} x {image.width}: "
                'set critic.kind="convolutional"'
            )
        self.shape = (image.channels, image.height, image.width)
        blocks = int(math.log2(image.height)) - 2
        widths = [channels * min(2**number, 4) for number in range(blocks + 1)]
        self.first = nn.Conv2d(image.channels, channels, 3, padding=1)
        self.blocks = nn.Sequential(*(ResidualBlock(narrow, wide) for narrow, wide in pairwise(widths)))
        self.norm = _group_norm(widths[-1])
        self.judge = nn.Linear(widths[-1], 1)
        self.project = nn.Embedding(classes, widths[-1]) if classes > 1 else None

    def forward(self, points: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        maps = self.norm(self.blocks(_laid_out(self.first(points.view(-1, *self.shape))))).relu()
        features = maps.mean(dim=(2, 3))
        logits: torch.Tensor = self.judge(features).squeeze(1)
        if self.project is not None:
            logits = logits + (self.project(labels) * features).mean(dim=1)
        return logits


class DenseCritic(nn.Module):
    """A multilayer perceptron on the point and the one-hot label."""

    def __init__(self, width: int, classes: int, *, hidden: tuple[int, ...]) -> None:
        super().__init__()
        self.classes = classes
        layers: list[nn.Module] = []
        inputs = width + (classes if classes > 1 else 0)
        for size in hidden:
            layers += [nn.Linear(inputs, size), nn.LeakyReLU(SLOPE)]
            inputs = size
        self.layers = nn.Sequential(*layers, nn.Linear(inputs, 1))

    def forward(self, points: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        if self.classes > 1:
            # By comparison: torch's one_hot looks at the labels' values, which vmap and CUDA graphs cannot do.
            one_hot = (labels.unsqueeze(1) == torch.arange(self.classes, device=labels.device)).to(points.dtype)
            points = torch.cat([points, one_hot], dim=1)
        logits: torch.Tensor = self.layers(points)
        return logits.squeeze(1)


def _laid_out(maps: torch.Tensor) -> torch.Tensor:
    """The same numbers with the channels of a pixel side by side, which is how the matrix units of a GPU take them.

    All that follows keeps the layout. By permutations, because vmap knows no other way.
    """
    return maps.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2) if maps.is_cuda else maps


def _group_norm(channels: int) -> nn.GroupNorm:
    return nn.GroupNorm(math.gcd(channels, 16), channels)


def _kind_for(image: ImageShape | None) -> str:
    if image is None or min(image.height, image.width) < SMALLEST_SIDE:
        return "dense"
    square = image.height == image.width and image.height & (image.height - 1) == 0
    return "residual" if image.channels == 3 and square and image.height >= 32 else "convolutional"

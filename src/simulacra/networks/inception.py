"""The Inception network of 5 December 2015, from which FID and KID are computed, written for inference.

Szegedy et al., Rethinking the Inception Architecture (CVPR 2016); Heusel et al. (NeurIPS 2017) for its use. It differs
from later Inception networks: average pools leave the border out of the count, and the last block takes a maximum.

Three rearrangements make it quicker and change nothing but rounding. Batch norms are folded into the convolutions. The
1 x 1 convolutions that read the same input are one. An average pool before a 1 x 1 convolution comes after it, where
there are fewer channels: both are linear and the pool's weights add up to 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn
from torch.nn.functional import avg_pool2d, conv2d, max_pool2d

SIDE = 299
"""Images must be resized to this side."""


class Convolution(nn.Conv2d):
    """A convolution with its folded batch norm as the bias, then ReLU."""

    def __init__(
        self, inputs: int, outputs: int, kernel: int | tuple[int, int], *, stride: int = 1, same: bool = True
    ) -> None:
        height, width = kernel if isinstance(kernel, tuple) else (kernel, kernel)
        padding = (height // 2, width // 2) if same else (0, 0)
        super().__init__(inputs, outputs, (height, width), stride=stride, padding=padding)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return super().forward(input).relu_()


class Entry(nn.Conv2d):
    """All 1 x 1 convolutions that open a block, as one; the last `pooled` channels are averaged over 3 x 3 first."""

    def __init__(self, inputs: int, outputs: Sequence[int], *, pooled: int = 0) -> None:
        self.parts = [*outputs, pooled] if pooled else list(outputs)
        self.pooled = pooled
        super().__init__(inputs, sum(self.parts), 1)

    def forward(self, input: torch.Tensor) -> tuple[torch.Tensor, ...]:  # type: ignore[override]
        parts = list(torch.split(super().forward(input), self.parts, dim=1))
        if self.pooled:
            parts[-1] = avg_pool2d(parts[-1], 3, stride=1, padding=1, count_include_pad=False)
        return tuple(part.relu() for part in parts)


class BlockA(nn.Module):
    """35 x 35: 1 x 1, 5 x 5, two 3 x 3, and the pooled branch."""

    def __init__(self, inputs: int, pooled: int) -> None:
        super().__init__()
        self.entry = Entry(inputs, (64, 48, 64), pooled=pooled)
        self.five = Convolution(48, 64, 5)
        self.threes = nn.Sequential(Convolution(64, 96, 3), Convolution(96, 96, 3))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        one, five, threes, pooled = self.entry(images)
        return torch.cat([one, self.five(five), self.threes(threes), pooled], dim=1)


class BlockB(nn.Module):
    """35 x 35 to 17 x 17."""

    def __init__(self) -> None:
        super().__init__()
        self.three = Convolution(288, 384, 3, stride=2, same=False)
        self.threes = nn.Sequential(
            Convolution(288, 64, 1), Convolution(64, 96, 3), Convolution(96, 96, 3, stride=2, same=False)
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.three(images), self.threes(images), max_pool2d(images, 3, stride=2)], dim=1)


class BlockC(nn.Module):
    """17 x 17: 1 x 1, one and two pairs of 1 x 7 and 7 x 1, and the pooled branch."""

    def __init__(self, inner: int) -> None:
        super().__init__()
        self.entry = Entry(768, (192, inner, inner), pooled=192)
        self.pair = nn.Sequential(Convolution(inner, inner, (1, 7)), Convolution(inner, 192, (7, 1)))
        self.pairs = nn.Sequential(
            Convolution(inner, inner, (7, 1)),
            Convolution(inner, inner, (1, 7)),
            Convolution(inner, inner, (7, 1)),
            Convolution(inner, 192, (1, 7)),
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        one, pair, pairs, pooled = self.entry(images)
        return torch.cat([one, self.pair(pair), self.pairs(pairs), pooled], dim=1)


class BlockD(nn.Module):
    """17 x 17 to 8 x 8."""

    def __init__(self) -> None:
        super().__init__()
        self.entry = Entry(768, (192, 192))
        self.three = Convolution(192, 320, 3, stride=2, same=False)
        self.pair = nn.Sequential(
            Convolution(192, 192, (1, 7)), Convolution(192, 192, (7, 1)), Convolution(192, 192, 3, stride=2, same=False)
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        three, pair = self.entry(images)
        return torch.cat([self.three(three), self.pair(pair), max_pool2d(images, 3, stride=2)], dim=1)


class BlockE(nn.Module):
    """8 x 8: 1 x 1, two branches that split into 1 x 3 and 3 x 1, and a pooled branch."""

    def __init__(self, inputs: int, *, last: bool) -> None:
        super().__init__()
        self.entry = Entry(inputs, (320, 384, 448), pooled=0 if last else 192)
        # A maximum does not commute with a convolution, so the last block keeps the published order.
        self.after_maximum = Convolution(inputs, 192, 1) if last else None
        self.three = Convolution(448, 384, 3)
        self.splits = nn.ModuleList(Convolution(384, 384, kernel) for _ in range(2) for kernel in ((1, 3), (3, 1)))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        one, first, second, *pooled = self.entry(images)
        second = self.three(second)
        if self.after_maximum is not None:
            pooled = [self.after_maximum(max_pool2d(images, 3, stride=1, padding=1))]
        inputs = (first, first, second, second)
        branches = [split(branch) for split, branch in zip(self.splits, inputs, strict=True)]
        return torch.cat([one, *branches, *pooled], dim=1)


class Inception(nn.Module):
    """(n, 3, 299, 299) or grey (n, 1, 299, 299) in [-1, 1] to (n, 2048) features."""

    def __init__(self) -> None:
        super().__init__()
        self.first = Convolution(3, 32, 3, stride=2, same=False)
        self.stem = nn.Sequential(Convolution(32, 32, 3, same=False), Convolution(32, 64, 3))
        self.middle = nn.Sequential(Convolution(64, 80, 1), Convolution(80, 192, 3, same=False))
        self.blocks = nn.Sequential(
            BlockA(192, 32),
            BlockA(256, 64),
            BlockA(288, 64),
            BlockB(),
            BlockC(128),
            BlockC(160),
            BlockC(160),
            BlockC(192),
            BlockD(),
            BlockE(1280, last=False),
            BlockE(2048, last=True),
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        hidden = max_pool2d(self.stem(self._first(images)), 3, stride=2)
        hidden = max_pool2d(self.middle(hidden), 3, stride=2)
        features: torch.Tensor = self.blocks(hidden).mean(dim=(2, 3))
        return features

    def _first(self, images: torch.Tensor) -> torch.Tensor:
        if images.shape[1] == 3:
            opened: torch.Tensor = self.first(images)
            return opened
        # Grey stands for three equal channels, whose weights may as well be added beforehand.
        weight = self.first.weight.sum(dim=1, keepdim=True)
        return conv2d(images, weight, self.first.bias, stride=2).relu_()

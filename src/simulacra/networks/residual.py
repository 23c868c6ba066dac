"""Residual networks (He et al., 2016) as encoders, with torchvision's names; and a small one for small images."""

from __future__ import annotations

import torch
from torch import nn

from simulacra.networks.encoder import HALF, IMAGENET_MEAN, IMAGENET_SPREAD, Encoder, is_watched

STAGES = (64, 128, 256, 512)
DEPTHS: dict[str, tuple[tuple[int, ...], bool]] = {
    "resnet18": ((2, 2, 2, 2), False),
    "resnet34": ((3, 4, 6, 3), False),
    "resnet50": ((3, 4, 6, 3), True),
    "resnet101": ((3, 4, 23, 3), True),
    "resnet152": ((3, 8, 36, 3), True),
}
"""Blocks per stage, and whether they are bottlenecks."""


class Block(nn.Module):
    """Two 3 x 3 convolutions; or, as a bottleneck, one between two of 1 x 1; and a way past them."""

    def __init__(self, before: int, width: int, *, stride: int, bottleneck: bool) -> None:
        super().__init__()
        after = 4 * width if bottleneck else width
        kernels = (1, 3, 1) if bottleneck else (3, 3)
        strides = (1, stride, 1) if bottleneck else (stride, 1)
        widths = (before, width, width, after) if bottleneck else (before, width, after)
        self.depth = len(kernels)
        for number, (kernel, step) in enumerate(zip(kernels, strides, strict=True)):
            convolution = nn.Conv2d(
                widths[number], widths[number + 1], kernel, stride=step, padding=kernel // 2, bias=False
            )
            self.add_module(f"conv{number + 1}", convolution)
            self.add_module(f"bn{number + 1}", nn.BatchNorm2d(widths[number + 1]))
        self.downsample: nn.Module = nn.Identity()
        if stride != 1 or before != after:
            self.downsample = nn.Sequential(
                nn.Conv2d(before, after, kernel_size=1, stride=stride, bias=False), nn.BatchNorm2d(after)
            )

    def forward(self, images: torch.Tensor, maps: list[torch.Tensor] | None = None) -> torch.Tensor:
        """The block's result; what its watched convolutions make is added to `maps`."""
        hidden = images
        for number in range(1, self.depth + 1):
            convolution = getattr(self, f"conv{number}")
            hidden = convolution(hidden)
            if maps is not None and is_watched(convolution):
                maps.append(hidden)
            hidden = getattr(self, f"bn{number}")(hidden)
            if number < self.depth:
                hidden = hidden.relu()
        result: torch.Tensor = (hidden + self.downsample(images)).relu()
        return result


class ResNet(Encoder):
    """A first convolution, then four stages of blocks. The small form begins at full resolution, without pooling."""

    heads = ("fc.",)

    def __init__(self, depths: tuple[int, ...], *, bottleneck: bool, small: bool = False) -> None:
        mean, spread = (HALF, HALF) if small else (IMAGENET_MEAN, IMAGENET_SPREAD)
        super().__init__(least_side=1, mean=mean, spread=spread)
        self.conv1 = nn.Conv2d(
            3, STAGES[0], kernel_size=3 if small else 7, stride=1 if small else 2, padding=1 if small else 3, bias=False
        )
        self.bn1 = nn.BatchNorm2d(STAGES[0])
        self.maxpool: nn.Module = nn.Identity() if small else nn.MaxPool2d(3, stride=2, padding=1)
        before = STAGES[0]
        for number, (depth, width) in enumerate(zip(depths, STAGES, strict=True)):
            blocks = []
            for place in range(depth):
                stride = 2 if number > 0 and place == 0 else 1
                blocks.append(Block(before, width, stride=stride, bottleneck=bottleneck))
                before = 4 * width if bottleneck else width
            self.add_module(f"layer{number + 1}", nn.Sequential(*blocks))

    def trunk(self, images: torch.Tensor, maps: list[torch.Tensor] | None = None) -> torch.Tensor:
        first = self.conv1(images)
        if maps is not None:
            maps.append(first)
        hidden: torch.Tensor = self.maxpool(self.bn1(first).relu())
        for number in range(1, len(STAGES) + 1):
            for block in getattr(self, f"layer{number}"):
                hidden = block(hidden, maps)
        return hidden

    def maps(self, images: torch.Tensor) -> list[torch.Tensor]:
        found: list[torch.Tensor] = []
        self.trunk(self.standardised(images), found)
        return found

"""EfficientNetV2 (Tan and Le, 2021) as an encoder, with torchvision's names."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn

from simulacra.networks.encoder import HALF, IMAGENET_MEAN, IMAGENET_SPREAD, Encoder

EPSILON = 1e-3


class Stage(NamedTuple):
    """Blocks that share a width; `fused` ones widen with a full convolution instead of one per channel."""

    fused: bool
    widening: int
    stride: int
    before: int
    after: int
    depth: int


SIZES: dict[str, tuple[Stage, ...]] = {
    "efficientnet-s": (
        Stage(True, 1, 1, 24, 24, 2),
        Stage(True, 4, 2, 24, 48, 4),
        Stage(True, 4, 2, 48, 64, 4),
        Stage(False, 4, 2, 64, 128, 6),
        Stage(False, 6, 1, 128, 160, 9),
        Stage(False, 6, 2, 160, 256, 15),
    ),
    "efficientnet-m": (
        Stage(True, 1, 1, 24, 24, 3),
        Stage(True, 4, 2, 24, 48, 5),
        Stage(True, 4, 2, 48, 80, 5),
        Stage(False, 4, 2, 80, 160, 7),
        Stage(False, 6, 1, 160, 176, 14),
        Stage(False, 6, 2, 176, 304, 18),
        Stage(False, 6, 1, 304, 512, 5),
    ),
    "efficientnet-l": (
        Stage(True, 1, 1, 32, 32, 4),
        Stage(True, 4, 2, 32, 64, 7),
        Stage(True, 4, 2, 64, 96, 7),
        Stage(False, 4, 2, 96, 192, 10),
        Stage(False, 6, 1, 192, 224, 19),
        Stage(False, 6, 2, 224, 384, 25),
        Stage(False, 6, 1, 384, 640, 7),
    ),
}
LAST = 1280


def convolved(
    before: int, after: int, kernel: int, *, stride: int = 1, groups: int = 1, active: bool = True
) -> nn.Module:
    """A convolution, batch normalisation, and SiLU if `active`."""
    convolution = nn.Conv2d(before, after, kernel, stride=stride, padding=kernel // 2, groups=groups, bias=False)
    layers: list[nn.Module] = [convolution, nn.BatchNorm2d(after, eps=EPSILON)]
    return nn.Sequential(*layers, nn.SiLU()) if active else nn.Sequential(*layers)


class Excitation(nn.Module):
    """Every channel scaled by what the mean of all channels says."""

    def __init__(self, width: int, narrow: int) -> None:
        super().__init__()
        self.fc1 = nn.Conv2d(width, narrow, kernel_size=1)
        self.fc2 = nn.Conv2d(narrow, width, kernel_size=1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        mean = images.mean(dim=(2, 3), keepdim=True)
        scale: torch.Tensor = self.fc2(nn.functional.silu(self.fc1(mean))).sigmoid()
        return images * scale


class Block(nn.Module):
    """Widened, convolved and narrowed again, with a way past where shapes agree."""

    def __init__(self, stage: Stage, before: int, stride: int) -> None:
        super().__init__()
        wide, after = before * stage.widening, stage.after
        layers: list[nn.Module]
        if stage.fused and stage.widening == 1:
            layers = [convolved(before, after, 3, stride=stride)]
        elif stage.fused:
            layers = [convolved(before, wide, 3, stride=stride), convolved(wide, after, 1, active=False)]
        else:
            layers = [
                convolved(before, wide, 1),
                convolved(wide, wide, 3, stride=stride, groups=wide),
                Excitation(wide, max(1, before // 4)),
                convolved(wide, after, 1, active=False),
            ]
        self.block = nn.Sequential(*layers)
        self.past = stride == 1 and before == after

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.block(images)
        return images + result if self.past else result


class EfficientNet(Encoder):
    """A first convolution, the stages, and a last 1 x 1 convolution, which is not among the features."""

    heads = ("classifier.",)

    def __init__(self, stages: tuple[Stage, ...], *, halves: bool = False) -> None:
        mean, spread = (HALF, HALF) if halves else (IMAGENET_MEAN, IMAGENET_SPREAD)
        super().__init__(least_side=1, mean=mean, spread=spread)
        layers: list[nn.Module] = [convolved(3, stages[0].before, 3, stride=2)]
        for stage in stages:
            first = Block(stage, stage.before, stage.stride)
            layers.append(nn.Sequential(first, *(Block(stage, stage.after, 1) for _ in range(stage.depth - 1))))
        layers.append(convolved(stages[-1].after, LAST, 1))
        self.features = nn.Sequential(*layers)

    def trunk(self, images: torch.Tensor) -> torch.Tensor:
        last: torch.Tensor = self.features(images)
        return last

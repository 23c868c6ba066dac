"""ResNet-18 for small images, with instance normalisation."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from simulacra.networks.condensation import first_padding, instance_norm


class _Residual(nn.Module):
    """Two 3 x 3 convolutions beside a shortcut; the shortcut has a 1 x 1 convolution where the shape changes."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(before, after, kernel_size=3, stride=stride, padding=1, bias=False),
            instance_norm(after),
            nn.ReLU(),
            nn.Conv2d(after, after, kernel_size=3, padding=1, bias=False),
            instance_norm(after),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or before != after:
            self.shortcut = nn.Sequential(
                nn.Conv2d(before, after, kernel_size=1, stride=stride, bias=False), instance_norm(after)
            )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return functional.relu(self.main(images) + self.shortcut(images))


class ResNet18(nn.Module):
    """One convolution, four stages of two residual blocks (64, 128, 256 and 512 channels), the mean, one linear layer.

    The variant for small images (He et al., 2016, without the first stride and pooling), as the condensation papers
    use it.
    """

    LEAST_SIDE = 9
    STAGES = (64, 128, 256, 512)

    def __init__(self, *, channels: int, height: int, width: int, classes: int) -> None:
        super().__init__()
        before = self.STAGES[0]
        layers: list[nn.Module] = [
            nn.Conv2d(channels, before, kernel_size=3, padding=first_padding(height, width, own=1), bias=False),
            instance_norm(before),
            nn.ReLU(),
        ]
        for number, after in enumerate(self.STAGES):
            layers += [_Residual(before, after, stride=1 if number == 0 else 2), _Residual(after, after, stride=1)]
            before = after
        self.features = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(before, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.head(self.features(images))
        return scores

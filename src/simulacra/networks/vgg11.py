"""VGG11 for small images, with instance normalisation."""

from __future__ import annotations

import torch
from torch import nn

from simulacra.networks.condensation import first_padding, instance_norm, seen


class VGG11(nn.Module):
    """Eight 3 x 3 convolutions in five stages, each ended by max-pooling, and one linear layer.

    Below 32 pixels (28 are padded to that) the last stage would see single pixels, of which instance normalisation
    leaves nothing.
    """

    LEAST_SIDE = 28
    STAGES = ((64,), (128,), (256, 256), (512, 512), (512, 512))

    def __init__(self, *, channels: int, height: int, width: int, classes: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        before, padding = channels, first_padding(height, width, own=1)
        for stage in self.STAGES:
            for after in stage:
                layers += [nn.Conv2d(before, after, kernel_size=3, padding=padding), instance_norm(after), nn.ReLU()]
                before, padding = after, (1, 1)
            layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers, nn.Flatten())
        self.head = nn.Linear(before * (seen(height) // 32) * (seen(width) // 32), classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.head(self.features(images))
        return scores

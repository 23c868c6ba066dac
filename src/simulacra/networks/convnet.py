"""ConvNet: three blocks of convolution, instance normalisation, ReLU and average pooling."""

from __future__ import annotations

import torch
from torch import nn

from simulacra.networks.condensation import first_padding, instance_norm, seen


class ConvNet(nn.Module):
    """The network of the dataset-condensation papers (Zhao and Bilen, 2021 and 2023; Zheng and Li, 2023).

    `embed` gives the features before the linear layer: 2,048 of them for images of 28 or 32 pixels. With random
    weights they are the feature extractor of distribution matching, which may have another `depth` for other sizes.
    """

    LEAST_SIDE = 8
    WIDTH = 128
    DEPTH = 3

    def __init__(self, *, channels: int, height: int, width: int, classes: int, depth: int = DEPTH) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for number in range(depth):
            padding = first_padding(height, width, own=1) if number == 0 else (1, 1)
            layers += [
                nn.Conv2d(channels if number == 0 else self.WIDTH, self.WIDTH, kernel_size=3, padding=padding),
                instance_norm(self.WIDTH),
                nn.ReLU(),
                nn.AvgPool2d(2),
            ]
        self.features = nn.Sequential(*layers, nn.Flatten())
        self.head = nn.Linear(self.WIDTH * (seen(height) >> depth) * (seen(width) >> depth), classes)

    def embed(self, images: torch.Tensor) -> torch.Tensor:
        """The flattened features of each image."""
        features: torch.Tensor = self.features(images)
        return features

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.head(self.embed(images))
        return scores

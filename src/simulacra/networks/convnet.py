"""ConvNet: three blocks of convolution, instance normalisation, ReLU and average pooling."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional

from simulacra.networks.condensation import first_padding, instance_norm, seen
from simulacra.networks.pooling import Halving, normalised_and_pooled


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
                Halving(),
            ]
        self.features = nn.Sequential(*layers, nn.Flatten())
        self.head = nn.Linear(self.WIDTH * (seen(height) >> depth) * (seen(width) >> depth), classes)

    def embed(self, images: torch.Tensor) -> torch.Tensor:
        """The flattened features of each image."""
        features: torch.Tensor = self.features(images)
        return features

    def embed_untrained(self, images: torch.Tensor) -> torch.Tensor:
        """`embed` up to rounding, and quicker on a GPU, while normalisation has the scale and shift it began with.

        Biases have no part in it: normalisation takes off whatever is the same for all pixels of a channel.
        """
        for layer in self.features:
            if isinstance(layer, nn.Conv2d):
                seen_by = functional.conv2d(images, layer.weight, padding=layer.padding)
                images = normalised_and_pooled(seen_by)
        return images.flatten(1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.head(self.embed(images))
        return scores


class WeightsAtOnce:
    """All weights of a ConvNet's convolutions side by side, for a draw of all of them, and `more` uniform numbers.

    Where they are stays the same. Biases are nothing from here on: see `embed_untrained`.
    """

    def __init__(self, network: ConvNet, *, more: int) -> None:
        layers = [layer for layer in network.features if isinstance(layer, nn.Conv2d)]
        sizes = [layer.weight.numel() for layer in layers]
        first = layers[0].weight
        self._uniform = torch.zeros(sum(sizes) + more, dtype=first.dtype, device=first.device)
        self._weights = torch.zeros_like(self._uniform[: sum(sizes)])
        self._bounds = torch.cat([torch.full_like(layer.weight, weight_bound(layer)).flatten() for layer in layers])
        for layer, part in zip(layers, torch.split(self._weights, sizes), strict=True):
            layer.weight = nn.Parameter(part.view_as(layer.weight), requires_grad=False)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
        self.more = self._uniform[sum(sizes) :]
        """In [0, 1)."""

    def draw(self, random: torch.Generator) -> None:
        """Weights as `torch.nn.Conv2d` begins with them."""
        self._uniform.uniform_(generator=random)
        shares = self._uniform[: len(self._weights)]
        torch.addcmul(self._bounds, shares, self._bounds, value=-2, out=self._weights)


def weight_bound(layer: nn.Conv2d) -> float:
    """What torch.nn.Conv2d begins with is uniform, within 1 / sqrt(inputs of a unit)."""
    return 1 / math.sqrt(layer.weight[0].numel())

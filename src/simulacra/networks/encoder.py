"""Encoder: a public network read as a feature extractor; what it gives are the outputs of all its convolutions.

Harder et al., Pre-trained Perceptual Features Improve Differentially Private Image Generation (2023), count every
convolution whose kernel is larger than 1 x 1, before the activation that follows it. Encoders are always in evaluation
mode when they look at records: nothing in them mixes the images of a batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import nn

IMAGENET_MEAN, IMAGENET_SPREAD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of the channels, as torchvision's networks expect them to be taken out."""
HALF = (0.5, 0.5, 0.5)


class Encoder(nn.Module, ABC):
    """Takes (n, 3, height, width) with intensities in [0, 1].

    `trunk` runs the network as far as its last convolution; `maps` gives what the convolutions made on the way.
    """

    mean: torch.Tensor
    spread: torch.Tensor
    heads: ClassVar[tuple[str, ...]] = ()
    """Beginnings of the names of published weights that come after the last convolution, and are not needed."""

    def __init__(self, *, least_side: int, mean: Sequence[float], spread: Sequence[float]) -> None:
        super().__init__()
        self.least_side = least_side
        self.register_buffer("mean", torch.tensor(mean).reshape(1, 3, 1, 1), persistent=False)
        self.register_buffer("spread", torch.tensor(spread).reshape(1, 3, 1, 1), persistent=False)

    @abstractmethod
    def trunk(self, images: torch.Tensor) -> torch.Tensor:
        """The network on standardised images, down to the last map."""

    @property
    def watched(self) -> list[nn.Conv2d]:
        """The convolutions whose outputs are features, in the order of their definition."""
        return [module for module in self.modules() if isinstance(module, nn.Conv2d) and is_watched(module)]

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.trunk(self.standardised(images))

    def standardised(self, images: torch.Tensor) -> torch.Tensor:
        """As the network was trained on them."""
        return (images - self.mean) / self.spread

    def maps(self, images: torch.Tensor) -> list[torch.Tensor]:
        """The outputs of all watched convolutions, (n, channels, height, width) each, in order."""
        found: dict[int, torch.Tensor] = {}
        watched = self.watched

        def keep(number: int) -> object:
            def hook(_: nn.Module, __: object, output: torch.Tensor) -> None:
                found[number] = output

            return hook

        handles = [layer.register_forward_hook(keep(number)) for number, layer in enumerate(watched)]  # type: ignore[arg-type]
        try:
            self(images)
        finally:
            for handle in handles:
                handle.remove()
        return [found[number] for number in range(len(watched))]


class SequentialEncoder(Encoder):
    """An encoder whose layers simply follow one another: its maps are picked up on the way, without hooks.

    What a compiler is to fuse has to be plain to it, and hooks are not.
    """

    @property
    @abstractmethod
    def sequence(self) -> nn.Sequential:
        """All layers, in order."""

    def trunk(self, images: torch.Tensor) -> torch.Tensor:
        last: torch.Tensor = self.sequence(images)
        return last

    def maps(self, images: torch.Tensor) -> list[torch.Tensor]:
        found, current = [], self.standardised(images)
        for layer in self.sequence:
            current = layer(current)
            if isinstance(layer, nn.Conv2d) and is_watched(layer):
                found.append(current)
        return found


def is_watched(convolution: nn.Conv2d) -> bool:
    """Whether its outputs are features."""
    return max(_pair(convolution.kernel_size)) > 1


def _pair(kernel: int | tuple[int, ...]) -> tuple[int, ...]:
    return kernel if isinstance(kernel, tuple) else (kernel, kernel)

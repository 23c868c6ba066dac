"""Views: what a public network sees in an image, layer by layer; each image by itself.

A view takes points (intensities in [0, 1], see `data/points.py`) and gives a list of tensors, one row per image. It
knows nothing of moments or noise: these are the business of `features/perceptual.py`. Here are the networks' own views;
`features/refined_views.py` has those that read another one's features otherwise.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn.functional import interpolate

from simulacra.errors import SettingError
from simulacra.networks.inception import SIDE
from simulacra.schema import ImageShape

if TYPE_CHECKING:
    from simulacra.networks.encoder import Encoder

LARGEST_SIDE = 1024
"""To which a view may bring images."""
LEAST_WORK, FEATURES_PER_WORK = 4_000, 75
"""A network takes longer over larger images, as it says more of them: VGG19 is at the least at 32 x 32."""


class View(ABC):
    """(n, pixels) points to layers of (n, size) features, differentiable, on any device and in any precision."""

    image: ImageShape
    sizes: tuple[int, ...]
    """Numbers per image in each layer."""
    nonnegative: bool = False
    """Whether no feature is ever negative."""
    rearranges: bool = False
    """Whether `read` only puts the numbers of `look` in another order, so that no precision is lost in it."""
    work: int = LEAST_WORK
    """Roughly how long an image takes; see `Perceptual.working_size`."""

    @abstractmethod
    def look(self, points: torch.Tensor) -> list[torch.Tensor]:
        """The expensive part: what the network says of each image. Views of one network may share it."""

    @abstractmethod
    def read(self, looked: list[torch.Tensor]) -> list[torch.Tensor]:
        """The features of each image, layer by layer, out of what `look` gave."""

    def layers(self, points: torch.Tensor) -> list[torch.Tensor]:
        """Both in one."""
        return self.read(self.look(points))

    @property
    def width(self) -> int:
        """Numbers per image in all layers."""
        return sum(self.sizes)

    @property
    def shapes(self) -> tuple[tuple[int, int, int], ...]:
        """Height, width and channels of each layer, in the order of its numbers; without places, all are channels."""
        return tuple((1, 1, size) for size in self.sizes)


class NetworkView(View):
    """A view through one network, which follows the points to their device and precision."""

    def __init__(self, image: ImageShape, network: nn.Module) -> None:
        self.image = image
        # Pixel by pixel, as features are read: nothing has to be copied into that order then.
        self.network = network.eval().requires_grad_(False).to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def pictures(self, points: torch.Tensor) -> torch.Tensor:
        """(n, 3, height, width), grey as three equal channels."""
        self._follow(points)
        images = points.reshape(-1, self.image.channels, self.image.height, self.image.width)
        return images.expand(-1, 3, -1, -1) if self.image.channels == 1 else images

    def _follow(self, points: torch.Tensor) -> None:
        one = next(self.network.parameters())
        if one.device != points.device or one.dtype != points.dtype:
            self.network.to(points.device, points.dtype)
            if points.dtype != torch.float64:  # a processor has no quicker kernels for that
                self.network.to(memory_format=torch.channels_last)


class Perceived(NetworkView):
    """All outputs of an encoder's convolutions, pixel by pixel.

    `resize` brings images to another side first; without it the network sees them as they are.
    """

    rearranges = True

    def __init__(self, image: ImageShape, encoder: Encoder, *, name: str, resize: int | None = None) -> None:
        super().__init__(image, encoder)
        self.encoder, self.resize = encoder, resize
        height, width = (resize, resize) if resize else (image.height, image.width)
        least = encoder.least_side
        if min(height, width) < least:
            raise SettingError(
                f'the encoder "{name}" needs images of at least {least} x {least} pixels, got {height} x {width}; '
                f"set encoder.resize to {max(32, least)}, or choose another encoder"
            )
        with torch.no_grad():
            found = [layer.shape[1:] for layer in self.look(torch.zeros(1, image.pixels))]
        self._shapes = tuple((height, width, channels) for channels, height, width in found)
        self.sizes = tuple(math.prod(shape) for shape in self._shapes)
        self.work = max(LEAST_WORK, self.width // FEATURES_PER_WORK)

    @property
    def shapes(self) -> tuple[tuple[int, int, int], ...]:
        return self._shapes

    def look(self, points: torch.Tensor) -> list[torch.Tensor]:
        """(n, channels, height, width), one after the other."""
        images = self.pictures(points)
        if self.resize:
            images = interpolate(images, size=(self.resize, self.resize), mode="bilinear", align_corners=False)
        return self.encoder.maps(images)

    def read(self, looked: list[torch.Tensor]) -> list[torch.Tensor]:
        # Pixel by pixel, because that is how a GPU likes to hold them: no copy is made there.
        return [each.permute(0, 2, 3, 1).flatten(1) for each in looked]


class LastLayer(NetworkView):
    """The mean over all pixels of an encoder's last convolution, after a ReLU: few numbers, none of them negative."""

    nonnegative = True

    def __init__(self, perceived: Perceived) -> None:
        super().__init__(perceived.image, perceived.encoder)
        self.perceived, self.work = perceived, perceived.work
        with torch.no_grad():
            self.sizes = (self.layers(torch.zeros(1, self.image.pixels))[0].shape[1],)

    def look(self, points: torch.Tensor) -> list[torch.Tensor]:
        return self.perceived.look(points)

    def read(self, looked: list[torch.Tensor]) -> list[torch.Tensor]:
        return [looked[-1].relu().mean(dim=(2, 3))]


class InceptionView(NetworkView):
    """The last pooled features of the Inception that FID is computed with; none of them is negative."""

    nonnegative = rearranges = True
    sizes = (2048,)
    work = 40_000

    def look(self, points: torch.Tensor) -> list[torch.Tensor]:
        images = interpolate(self.pictures(points), size=(SIDE, SIDE), mode="bilinear", align_corners=False)
        features: torch.Tensor = self.network(images * 2 - 1)
        return [features]

    def read(self, looked: list[torch.Tensor]) -> list[torch.Tensor]:
        return looked

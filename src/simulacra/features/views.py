"""Views: what a public network sees in an image, layer by layer; each image by itself.

A view takes points (intensities in [0, 1], see `data/points.py`) and gives a list of tensors, one row per image. It
knows nothing of norms, moments or noise: these are the business of `features/perceptual.py`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn.functional import interpolate

from simulacra.errors import SettingError
from simulacra.features.unit_sums import FLOOR, raised
from simulacra.networks.inception import SIDE
from simulacra.schema import ImageShape

if TYPE_CHECKING:
    from simulacra.networks.encoder import Encoder

LARGEST_SIDE = 1024
"""To which a view may bring images."""
LOOKED_AT = 32
"""Public images at a time."""
LEAST_WORK, FEATURES_PER_WORK = 4_000, 75
"""A network takes longer over larger images, as it says more of them: VGG19 is at the least at 32 x 32."""


class View(ABC):
    """(n, pixels) points to layers of (n, size) features, differentiable, on any device and in any precision."""

    image: ImageShape
    sizes: tuple[int, ...]
    """Numbers per image in each layer."""
    nonnegative: bool = False
    """Whether no feature is ever negative."""
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

    nonnegative = True
    sizes = (2048,)
    work = 40_000

    def look(self, points: torch.Tensor) -> list[torch.Tensor]:
        images = interpolate(self.pictures(points), size=(SIDE, SIDE), mode="bilinear", align_corners=False)
        features: torch.Tensor = self.network(images * 2 - 1)
        return [features]

    def read(self, looked: list[torch.Tensor]) -> list[torch.Tensor]:
        return looked


class Within(View):
    """A view of what another one sees: the network is asked the same, and its answer is read otherwise."""

    def __init__(self, view: View) -> None:
        self.image, self.inner, self.work, self.sizes = view.image, view, view.work, view.sizes

    @property
    def shapes(self) -> tuple[tuple[int, int, int], ...]:
        return self.inner.shapes

    def look(self, points: torch.Tensor) -> list[torch.Tensor]:
        return self.inner.look(points)


class Projected(Within):
    """A view with each layer mapped to few numbers by a public matrix: noise then grows with the root of those.

    The matrices must not depend on private data. They change no bound: features are scaled to length 1 afterwards.
    """

    def __init__(self, view: View, matrices: Sequence[torch.Tensor]) -> None:
        if [matrix.shape[1] for matrix in matrices] != list(view.sizes):
            raise SettingError("the projection was made for another encoder, or for images of another size")
        super().__init__(view)
        self.sizes = tuple(matrix.shape[0] for matrix in matrices)
        self._following = Following([matrix.T.contiguous() for matrix in matrices])

    @property
    def shapes(self) -> tuple[tuple[int, int, int], ...]:
        return tuple((1, 1, size) for size in self.sizes)

    def read(self, looked: list[torch.Tensor]) -> list[torch.Tensor]:
        found = self.inner.read(looked)
        return [layer @ matrix for layer, matrix in zip(found, self._following.to(found[0]), strict=True)]


class Deepest(Within):
    """The last layers of a view alone: fewer numbers to add noise to, which tell kinds of images apart best."""

    def __init__(self, view: View, layers: int) -> None:
        if not 1 <= layers <= len(view.sizes):
            raise SettingError(f"layers.last must be from 1 to {len(view.sizes)} for this encoder, got {layers}")
        super().__init__(view)
        self.sizes, self.nonnegative = view.sizes[-layers:], view.nonnegative

    @property
    def shapes(self) -> tuple[tuple[int, int, int], ...]:
        return self.inner.shapes[-len(self.sizes) :]

    def read(self, looked: list[torch.Tensor]) -> list[torch.Tensor]:
        return self.inner.read(looked)[-len(self.sizes) :]


class Even(Within):
    """A view with each layer scaled to length 1, so that long ones do not leave the others to the noise.

    Noise is as strong in every number, and deep layers have few: with as much of the length they have more signal in
    each.
    """

    def __init__(self, view: View) -> None:
        super().__init__(view)
        self.nonnegative = view.nonnegative

    def read(self, looked: list[torch.Tensor]) -> list[torch.Tensor]:
        return [together_of_length_one([layer])[0] for layer in self.inner.read(looked)]


class Centred(Within):
    """A view about a public mean: what is said of any image is left out, and what is left has the length to itself.

    Features of length 1 are mostly what all images share, so a class's sum differs little from another's beside the
    noise. Scaled to length 1 after a mean is taken off, they differ by more. The mean must not depend on private data;
    it is of features that were scaled to length 1 as they are here.
    """

    def __init__(self, view: View, mean: Sequence[torch.Tensor]) -> None:
        if [len(part) for part in mean] != list(view.sizes):
            raise SettingError("the mean is of other features")
        super().__init__(view)
        self.mean, self._following = list(mean), Following(mean)

    def read(self, looked: list[torch.Tensor]) -> list[torch.Tensor]:
        found = together_of_length_one(self.inner.read(looked))
        return [layer - part for layer, part in zip(found, self._following.to(found[0]), strict=True)]


class Following:
    """Public tensors that go where features are, and take their precision; kept as they came for when these move."""

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        self.tensors = self._ready = list(tensors)

    def to(self, like: torch.Tensor) -> list[torch.Tensor]:
        """All of them, moved once for as long as features stay where they are."""
        if self._ready[0].device != like.device or self._ready[0].dtype != like.dtype:
            self._ready = [tensor.to(like) for tensor in self.tensors]
        return self._ready


@torch.no_grad()
def public_mean(view: View, points: torch.Tensor) -> list[torch.Tensor]:
    """What a view says of public images on average, layer by layer, each image's features scaled to length 1."""
    totals = [torch.zeros(size, dtype=torch.float64) for size in view.sizes]
    for start in range(0, len(points), LOOKED_AT):
        layers = view.layers(points[start : start + LOOKED_AT])
        for total, layer in zip(totals, together_of_length_one(layers), strict=True):
            total += layer.sum(dim=0)
    return [(total / len(points)).to(points.dtype) for total in totals]


def together_of_length_one(layers: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """All layers scaled to length 1, image by image. Zeros stay zeros, and their gradient is a number."""
    of_each = torch.stack([torch.linalg.vector_norm(raised(layer, 1), dim=1) for layer in layers])
    # Not the root of a sum of squares, whose gradient is no number at zero.
    lengths = torch.linalg.vector_norm(of_each, dim=0).clamp(min=FLOOR).unsqueeze(1)
    return [layer / lengths.to(layer.dtype) for layer in layers]

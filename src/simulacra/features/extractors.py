"""Extractors: random networks, fresh for every round, that turn records and synthetic points into embeddings.

A round draws a network and, for images, one augmentation with parameters for each class: the real and the synthetic
images of a class are changed alike (differentiable Siamese augmentation). All of it comes from a public seed and the
number of the round, and from generators of its own: nothing here touches the noise, nor the samples of records.
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch

from simulacra.data.cells import Cells
from simulacra.errors import SettingError
from simulacra.networks.augmentation import SHARES, apply, draw, parameters_of
from simulacra.networks.condensation import seen
from simulacra.networks.convnet import ConvNet, WeightsAtOnce, weight_bound
from simulacra.schema import ImageShape, Schema


class Extractor(ABC):
    """A function of one record at a time; the same between two calls of `draw_anew`."""

    inputs: int
    """Numbers per encoded record."""
    width: int
    """Numbers per embedding."""
    longest: float
    """No embedding is longer than this, whatever was drawn and whatever the record."""
    in_place: bool = False
    """Whether `draw_anew` changes tensors where they are and `variant` only, so that a graph can be captured."""
    variant: str = ""
    """What was drawn besides numbers: there is a graph for each."""

    def of_each_kind(self, seed: int, rounds: int, times: int) -> list[int]:
        """The first rounds of each kind that there is, so many of each: for trying them out."""
        return list(range(min(rounds, times)))

    @abstractmethod
    def draw_anew(self, seed: int, number: int) -> None:
        """The network and the augmentation of a round."""

    @abstractmethod
    def of_records(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Encoded records (n, schema.inputs) with classes (n,) to (n, width)."""

    @abstractmethod
    def of_points(self, points: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Points (see `data/points.py`) to (n, width); differentiable."""


class ConvolutionalExtractor(Extractor):
    """The ConvNet of the condensation papers with random weights, as torch draws them, and Siamese augmentation.

    In place, which is how it is on a GPU unless told otherwise, all numbers of a round are one draw, so that a round is
    two launches and not dozens. They are other numbers of the same distribution.
    """

    def __init__(
        self,
        image: ImageShape,
        classes: int,
        *,
        operations: Sequence[str],
        depth: int | None = None,
        device: str | torch.device = "cpu",
        network: type[ConvNet] = ConvNet,
        in_place: bool | None = None,
    ) -> None:
        depth = natural_depth(image) if depth is None else depth
        before_last = [seen(side) >> depth - 1 for side in (image.height, image.width)]
        if min(before_last) < 2:
            raise SettingError(
                f"images of {image.height} x {image.width} pixels have nothing left after {depth} poolings; "
                "lower depth, or use larger images"
            )
        self.image, self.classes, self.operations = image, classes, tuple(operations)
        self.inputs = image.pixels
        with torch.random.fork_rng(devices=[]):
            self.network = network(
                channels=image.channels, height=image.height, width=image.width, classes=1, depth=depth
            )
        self.network.to(device).requires_grad_(False)
        self.width = network.WIDTH * (before_last[0] // 2) * (before_last[1] // 2)
        # Normalised, a channel's squares add up to at most its number of pixels; ReLU only lowers that, and the mean of
        # four has a square of at most a quarter of their squares' sum.
        self.longest = math.sqrt(network.WIDTH * before_last[0] * before_last[1] / 4)
        self._random = torch.Generator(device=device)
        self._parameters = torch.zeros(classes, 1, device=device)
        self.in_place = torch.device(device).type == "cuda" if in_place is None else in_place
        if self.in_place:
            self._at_once = WeightsAtOnce(self.network, more=classes * SHARES)
            self._shares = self._at_once.more.view(classes, SHARES)

    def draw_anew(self, seed: int, number: int) -> None:
        self._random.manual_seed(mixed(seed, number))
        self.variant = self._variant(seed, number)
        if self.in_place:
            self._at_once.draw(self._random)
            return
        for layer in self.network.features:
            if isinstance(layer, torch.nn.Conv2d):
                bound = weight_bound(layer)
                layer.weight.uniform_(-bound, bound, generator=self._random)
                if layer.bias is not None:
                    layer.bias.uniform_(-bound, bound, generator=self._random)
        if self.variant:
            self._parameters = draw(
                self.variant,
                self.classes,
                height=self.image.height,
                width=self.image.width,
                device=self._random.device,
                generator=self._random,
            )

    def of_each_kind(self, seed: int, rounds: int, times: int) -> list[int]:
        """An augmentation is a kind: on a GPU there is a graph for each."""
        found: dict[str, list[int]] = {}
        wanted = times * max(1, len(self.operations))
        for number in range(rounds):
            numbers = found.setdefault(self._variant(seed, number), [])
            if len(numbers) < times:
                numbers.append(number)
            if sum(map(len, found.values())) == wanted:
                break
        return sorted(number for numbers in found.values() for number in numbers)

    def _variant(self, seed: int, number: int) -> str:
        """The augmentation of a round."""
        return self.operations[mixed(seed, number, "operation") % len(self.operations)] if self.operations else ""

    def of_records(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        images = inputs.reshape(-1, self.image.channels, self.image.height, self.image.width)
        if self.variant:
            drawn = self._parameters
            if self.in_place:
                drawn = parameters_of(self.variant, self._shares, height=self.image.height, width=self.image.width)
            images = apply(self.variant, images, drawn.to(images.dtype).index_select(0, labels))
        return self.network.embed_untrained(images) if self.in_place else self.network.embed(images)

    def of_points(self, points: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return self.of_records(points * 2 - 1, labels)


def natural_depth(image: ImageShape) -> int:
    """As many blocks as leave at least 4 x 4 places: three for 28 or 32 pixels, as in the papers; one for 8."""
    return max(1, min(seen(image.height), seen(image.width)).bit_length() - 3)


class LinearExtractor(Extractor):
    """Random projections of one-hot rows, for tables.

    With `rectified`, what is negative in them counts as nothing. Then sums over rows tell which cells go together, and
    not only how many rows are in each.
    """

    def __init__(
        self, schema: Schema, *, width: int, rectified: bool = False, device: str | torch.device = "cpu"
    ) -> None:
        self.cells, self.rectified = Cells(schema), rectified
        self.inputs, self.width = schema.inputs, width
        self._matrix = torch.zeros(self.cells.total, width, device=device)
        self._random = torch.Generator(device=device)
        # A row has a single one per column, no row of the matrix is longer than `ROWS_LENGTH`, and to drop what is
        # negative only shortens.
        self.longest = ROWS_LENGTH * len(self.cells.sizes)

    def draw_anew(self, seed: int, number: int) -> None:
        self._random.manual_seed(mixed(seed, number))
        self._matrix.normal_(generator=self._random).div_(self._matrix.norm(dim=1, keepdim=True).clamp(min=1e-12))

    def of_records(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        # In float64: the order of a sum may depend on the batch, and there that is far below the rounding charged for.
        return self.of_points(self.cells.one_hot(inputs).to(torch.float64), labels)

    def of_points(self, points: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        projected = points @ self._matrix.to(points.dtype)
        return projected.relu() if self.rectified else projected


ROWS_LENGTH = 1 + 1e-6
"""Unit rows in single precision."""


def mixed(seed: int, number: int, purpose: str = "") -> int:
    """A seed for one round and purpose, unrelated to all others."""
    digest = hashlib.sha256(f"{seed}/{number}/{purpose}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1

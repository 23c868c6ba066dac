"""Condensed sets: so many records of each class that are trained themselves, in place of a network that makes them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import nn

from simulacra.data.cells import Cells
from simulacra.errors import SettingError
from simulacra.networks.devices import memory
from simulacra.schema import ImageShape

BYTES_PER_NUMBER = 32
"""What training holds for each number of a set: the number, its point, the gradients of both and two moments."""
SURE = 4.0
"""The largest logit of a cell that a row begins in; all others have 0."""
SEED = 0
"""Where a row lies inside its cells is drawn once and for all: a set is the same rows whenever it is asked for."""


class Condensed(nn.Module, ABC):
    """`per_class` records of every class, one class after the other. It is a generator without any noise.

    `values`, (classes * per_class, width), are the records themselves and the only parameters: an optimiser that is
    given them trains the records. They begin as normal noise of standard deviation `spread` around nothing in
    particular; see `set_records` for another beginning.
    """

    def __init__(self, width: int, classes: int, *, per_class: int, spread: float) -> None:
        super().__init__()
        _refuse_too_many(classes * per_class * width, per_class)
        self.latent = 0
        self.classes = classes
        self.per_class = per_class
        self.values = nn.Parameter(torch.randn(classes * per_class, width) * spread)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def labels(self) -> torch.Tensor:
        """The class of each record."""
        return torch.arange(self.classes).repeat_interleave(self.per_class)

    @abstractmethod
    def points(self) -> torch.Tensor:
        """All records as points (records, width of a point), differentiable in `values`."""

    def free_points(self) -> torch.Tensor:
        """The same where nothing keeps `values` inside: for networks that take any numbers."""
        return self.points()

    def settle(self) -> None:
        """Bring what was moved by its free points back to where records are."""

    @abstractmethod
    def records(self) -> torch.Tensor:
        """All records, encoded in [-1, 1]: the same ones at every call."""

    @abstractmethod
    def set_records(self, inputs: torch.Tensor) -> None:
        """Begin with these encoded records, `per_class` of each class, one class after the other."""

    @abstractmethod
    def to_records(self, points: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Points to encoded records in [-1, 1]."""

    def forward(self, noise: torch.Tensor, one_hot_labels: torch.Tensor) -> torch.Tensor:
        """The records of a class in turn, and from the first again when all were had; the noise is empty."""
        labels = one_hot_labels.argmax(dim=1)
        places = labels * self.per_class + turns(one_hot_labels, labels) % self.per_class
        return self.points().index_select(0, places)


class CondensedImages(Condensed):
    """Images: `values` are pixels in [-1, 1], as records are encoded."""

    def __init__(self, image: ImageShape, classes: int, *, per_class: int, spread: float) -> None:
        super().__init__(image.pixels, classes, per_class=per_class, spread=spread)

    def points(self) -> torch.Tensor:
        """Intensities in [0, 1]."""
        inside: torch.Tensor = Inside.apply(self.values)  # type: ignore[no-untyped-call]
        return (inside + 1) / 2

    def free_points(self) -> torch.Tensor:
        return (self.values + 1) / 2

    @torch.no_grad()
    def settle(self) -> None:
        """Take contrast from an image until its largest value fits: cutting off would cost far more of what it shows.

        Noise makes images grow. Networks that normalise each image see the same at any contrast, so nothing holds the
        values back, and the larger they are the less a step of the same size turns them: a rate that falls by itself.
        """
        self.values.div_(self.values.abs().amax(dim=1, keepdim=True).clamp(min=1))

    def records(self) -> torch.Tensor:
        return self.values.detach().clamp(-1, 1).cpu()

    def set_records(self, inputs: torch.Tensor) -> None:
        with torch.no_grad():
            self.values.copy_(inputs)

    def to_records(self, points: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Intensities to [-1, 1]."""
        return points * 2 - 1


class CondensedRows(Condensed):
    """Rows of a table: `values` are logits, one for each cell of each column, and a row is in the likeliest cells."""

    def __init__(self, cells: Cells, classes: int, *, per_class: int, spread: float) -> None:
        super().__init__(cells.total, classes, per_class=per_class, spread=spread)
        self.cells = cells

    def points(self) -> torch.Tensor:
        """One-hot rows, with the gradient of the probabilities.

        Probabilities themselves would be matched by rows that are half one thing and half another, of which nothing is
        left once each is put into its likeliest cells.
        """
        soft = torch.cat([head.softmax(dim=1) for head in self._heads(self.values)], dim=1)
        return self.cells.one_hot_of(self._likeliest(self.values)) + (soft - soft.detach())

    def records(self) -> torch.Tensor:
        likeliest = self._likeliest(self.values.detach().cpu())
        return self.cells.place(likeliest, torch.Generator().manual_seed(SEED))

    def set_records(self, inputs: torch.Tensor) -> None:
        cells = self.cells.one_hot(inputs)
        # Some rows are surer of their cells than others: if all were as sure, all would leave them in the same step.
        sure = SURE * (1 - torch.rand(cells.shape, generator=torch.Generator().manual_seed(SEED)))
        with torch.no_grad():
            self.values.copy_(sure * cells)

    def to_records(self, points: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """The likeliest cell of each column, and a place inside it."""
        return self.cells.place(self._likeliest(points), generator)

    def _heads(self, values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.split(values, list(self.cells.sizes), dim=1)

    def _likeliest(self, values: torch.Tensor) -> torch.Tensor:
        return torch.stack([head.argmax(dim=1) for head in self._heads(values)], dim=1)


class Inside(torch.autograd.Function):
    """To [-1, 1], with a gradient that is dropped only where it leads further out.

    The gradient of a plain clamp is nothing outside, so that a pixel which stepped over the edge would never come back.
    """

    @staticmethod
    def forward(ctx: Any, values: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(values)
        return values.clamp(-1, 1)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        (values,) = ctx.saved_tensors
        (gradient,) = gradients
        outwards = ((values >= 1) & (gradient < 0)) | ((values <= -1) & (gradient > 0))
        return gradient.masked_fill(outwards, 0)


def turns(one_hot_labels: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """How many rows of its own class come before each row."""
    return one_hot_labels.long().cumsum(dim=0).gather(1, labels.unsqueeze(1))[:, 0] - 1


def _refuse_too_many(numbers: int, per_class: int) -> None:
    """Refuse a set that would not fit, before anything is built or spent."""
    fitting = memory() // BYTES_PER_NUMBER
    if numbers > fitting:
        raise SettingError(
            f"a condensed set of {per_class:,} records per class has {numbers:,} numbers, and at most {fitting:,} fit "
            "into the memory of this machine; lower generator.per_class"
        )

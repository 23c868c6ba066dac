"""Maps made of maps: class counts, and any map kept apart per class."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch

from simulacra.errors import SettingError
from simulacra.privacy.query import FeatureMap

MOST_NUMBERS = 200_000_000
"""What a release may hold: as float64 that is 1.6 GB, and exact noise on it takes 40 minutes of one core."""


class Inner(Protocol):
    """A map of inputs alone."""

    shape: tuple[int, ...]
    norm_bound: float
    nonnegative: bool
    dtype: torch.dtype

    @property
    def working_size(self) -> int:
        """How many numbers per record this holds at once."""
        ...

    def features(self, inputs: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        """The specification, one record at a time."""
        ...


class Batched(Inner, Protocol):
    """A map that can embed many records at once, each on its own."""

    def batch(self, inputs: torch.Tensor) -> torch.Tensor:
        """(n, schema.inputs) to (n, size), each row within the norm bound."""
        ...


@runtime_checkable
class Summed(Inner, Protocol):
    """A map that can sum many records by class without embedding each: for features too large to hold."""

    def sums_by_class(self, inputs: torch.Tensor, labels: torch.Tensor, classes: int) -> torch.Tensor:
        """(n, schema.inputs) to (classes, size); no record adds more than the norm bound, and only to its class."""
        ...


def refuse_too_many(numbers: int) -> None:
    """Refuse a release that would not fit, before anything is spent."""
    if numbers > MOST_NUMBERS:
        raise SettingError(
            f"this would release {numbers:,} numbers, and at most {MOST_NUMBERS:,} are allowed; "
            "choose fewer or narrower features"
        )


class ClassCount(FeatureMap):
    """A one in the record's class: the sum is the number of records per class."""

    nonnegative = True

    def __init__(self, classes: int) -> None:
        self.shape = (classes,)

    def features(self, inputs: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        return (torch.arange(self.shape[0], device=label.device) == label).to(self.dtype)

    def clipped_sum(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return torch.bincount(labels, minlength=self.shape[0]).to(torch.float64)


class PerClass(FeatureMap):
    """The outer product of a one-hot label and a map: one row per class, and a record fills only its own row.

    The sum is the inner map's own where it has one, else one matrix product of one-hot labels with features; never a
    tensor of records x classes x features.
    """

    def __init__(self, inner: Batched | Summed, classes: int) -> None:
        self.inner = inner
        self.classes = classes
        self.shape = (classes, *inner.shape)
        self.norm_bound = inner.norm_bound
        self.nonnegative = inner.nonnegative
        self.dtype = inner.dtype
        self.shared = getattr(inner, "shared", None)
        refuse_too_many(self.size)

    def features(self, inputs: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        chosen = (torch.arange(self.classes, device=label.device) == label).to(inputs.dtype)
        return torch.outer(chosen, self.inner.features(inputs, label))

    def clipped_sum(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        if isinstance(self.inner, Summed):
            return self.inner.sums_by_class(inputs, labels, self.classes)
        features = self.inner.batch(inputs)
        chosen = labels.unsqueeze(0) == torch.arange(self.classes, device=labels.device).unsqueeze(1)
        return chosen.to(features.dtype) @ features

    @property
    def working_size(self) -> int:
        return self.inner.working_size

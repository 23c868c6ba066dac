"""Maps made of maps: class counts, and any map kept apart per class."""

from __future__ import annotations

from typing import Protocol

import torch

from simulacra.privacy.query import FeatureMap


class Batched(Protocol):
    """A map that can embed many records at once, each on its own."""

    shape: tuple[int, ...]
    norm_bound: float
    nonnegative: bool

    def features(self, inputs: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        """The specification, one record at a time."""
        ...

    def batch(self, inputs: torch.Tensor) -> torch.Tensor:
        """(n, schema.inputs) to (n, size), each row within the norm bound."""
        ...


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

    The sum is one matrix product of one-hot labels with features, never a tensor of records x classes x features.
    """

    def __init__(self, inner: Batched, classes: int) -> None:
        self.inner = inner
        self.classes = classes
        self.shape = (classes, *inner.shape)
        self.norm_bound = inner.norm_bound
        self.nonnegative = inner.nonnegative

    def features(self, inputs: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        chosen = (torch.arange(self.classes, device=label.device) == label).to(inputs.dtype)
        return torch.outer(chosen, self.inner.features(inputs, label))

    def clipped_sum(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        features = self.inner.batch(inputs)
        chosen = labels.unsqueeze(0) == torch.arange(self.classes, device=labels.device).unsqueeze(1)
        return chosen.to(features.dtype) @ features

    @property
    def working_size(self) -> int:
        return self.size // self.classes

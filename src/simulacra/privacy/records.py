"""Records: a batch of encoded rows or images, the one form in which data meets the boundary."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import torch


@dataclass(frozen=True, kw_only=True)
class Records:
    """`inputs`: float32 of shape (n, schema.inputs) in [-1, 1]; `labels`: int64 of shape (n,), all 0 if unlabelled."""

    inputs: torch.Tensor
    labels: torch.Tensor


class Source(Protocol):
    """Where records come from: can be read again and again, in batches, never all at once."""

    def batches(self) -> Iterator[Records]:
        """A fresh pass over all records, in the same order each time."""
        ...

    def check(self) -> None:
        """Read the whole file once and raise DataError for a damaged one, before anything is spent."""
        ...

"""Mean and covariance of features as a stream in double precision, and a bounded sample of the features themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from simulacra.errors import DataError
from simulacra.evaluate.fidelity.extraction import Extractor

KEEP = 10_000
"""The most features that are kept for KID and for nearest neighbours; which ones does not depend on the batches."""


@dataclass(frozen=True, kw_only=True)
class Statistics:
    """All that the distances need of a set of images, on the CPU."""

    count: int
    mean: torch.Tensor
    covariance: torch.Tensor
    kept: torch.Tensor
    """(at most KEEP, features), single precision."""


class Stream:
    """Adds up features batch by batch; memory does not grow with their number."""

    def __init__(self) -> None:
        self.count = 0
        self._total: torch.Tensor | None = None
        self._products: torch.Tensor | None = None

    def add(self, features: torch.Tensor) -> None:
        """Take in one batch (n, features)."""
        doubles = features.double()
        if self._total is None or self._products is None:
            width = doubles.shape[1]
            self._total = torch.zeros(width, dtype=torch.float64, device=doubles.device)
            self._products = torch.zeros(width, width, dtype=torch.float64, device=doubles.device)
        self._total += doubles.sum(dim=0)
        self._products.addmm_(doubles.T, doubles)
        self.count += len(doubles)

    def moments(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Mean and unbiased covariance."""
        if self._total is None or self._products is None or self.count < 2:
            raise DataError("a spread needs at least 2 images")
        mean = self._total / self.count
        covariance = (self._products - self.count * torch.outer(mean, mean)) / (self.count - 1)
        return mean.cpu(), covariance.cpu()


def collect(
    images: NDArray[np.uint8], extractor: Extractor, *, progress: Callable[[int, int], None] | None = None
) -> Statistics:
    """One pass over (n, height, width, channels) bytes."""
    stream, kept = Stream(), []
    if progress is not None:
        progress(0, len(images))
    chosen = kept_indices(len(images))
    for features in extractor(images):
        first = stream.count
        stream.add(features)
        inside = chosen[(chosen >= first) & (chosen < stream.count)] - first
        kept.append(features[torch.from_numpy(inside).to(features.device)].cpu())
        if progress is not None:
            progress(stream.count, len(images))
    mean, covariance = stream.moments()
    return Statistics(count=stream.count, mean=mean, covariance=covariance, kept=torch.cat(kept))


def kept_indices(count: int) -> NDArray[np.int64]:
    """Which of `count` images are kept: all, or KEEP of them drawn with a fixed seed, in order."""
    if count <= KEEP:
        return np.arange(count)
    return np.sort(np.random.default_rng(0).choice(count, size=KEEP, replace=False)).astype(np.int64)

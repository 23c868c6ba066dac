"""Ways to break the vault on purpose. FOR TESTS: an audit that does not catch each of these is worth nothing.

Each is a context manager; inside it the machinery of the boundary is broken for the whole process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import torch

from simulacra.privacy.noise import NoiseSource
from simulacra.privacy.plan import PlannedStep
from simulacra.privacy.query import FeatureMap
from simulacra.privacy.release import Release
from simulacra.privacy.vault import Vault

Array = np.ndarray[Any, Any]
SEED = 1234


@contextmanager
def noise_halved() -> Iterator[None]:
    """Half of the noise that was charged for."""
    exact, fast = NoiseSource.exact, NoiseSource.fast
    with (
        mock.patch.object(NoiseSource, "exact", lambda self, values, std, *rest: exact(self, values, std / 2, *rest)),
        mock.patch.object(NoiseSource, "fast", lambda self, like, std: fast(self, like, std / 2)),
    ):
        yield


@contextmanager
def clipping_dropped() -> Iterator[None]:
    """Records count for as much as they like."""

    def unclipped(self: FeatureMap, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return torch.func.vmap(self.features)(inputs, labels).to(torch.float64).sum(dim=0)

    with mock.patch.object(FeatureMap, "clipped_sum", unclipped):
        yield


@contextmanager
def noise_reused() -> Iterator[None]:
    """One noise vector for all releases of a run: the difference of two releases has none."""
    exact, fast = NoiseSource.exact, NoiseSource.fast

    def kept(self: NoiseSource, size: int, draw: Callable[[], Array]) -> Array:
        store: dict[int, Array] = self.__dict__.setdefault("_kept", {})
        if size not in store:
            store[size] = draw()
        return store[size]

    def exact_again(self: NoiseSource, values: Array, std: float, *rest: Any) -> Array:
        noise = kept(self, values.size, lambda: exact(self, np.zeros(values.size), 1.0))
        return values + std * noise.reshape(values.shape)

    def fast_again(self: NoiseSource, like: torch.Tensor, std: float) -> torch.Tensor:
        flat = torch.zeros(like.numel(), dtype=torch.float64)
        noise = kept(self, like.numel(), lambda: fast(self, flat, 1.0).numpy())
        return torch.from_numpy(noise).reshape(like.shape).to(like) * std

    with mock.patch.object(NoiseSource, "exact", exact_again), mock.patch.object(NoiseSource, "fast", fast_again):
        yield


@contextmanager
def noise_seeded() -> Iterator[None]:
    """Noise of the right law from a fixed seed: anyone can draw it again and take it off."""

    def generator(self: NoiseSource) -> np.random.Generator:
        found: np.random.Generator = self.__dict__.setdefault("_seeded", np.random.default_rng(SEED))
        return found

    def exact(self: NoiseSource, values: Array, std: float, *rest: Any) -> Array:
        drawn: Array = values + std * generator(self).normal(size=values.shape)
        return drawn

    def fast(self: NoiseSource, like: torch.Tensor, std: float) -> torch.Tensor:
        return torch.from_numpy(generator(self).normal(size=tuple(like.shape)) * std).to(like)

    with mock.patch.object(NoiseSource, "exact", exact), mock.patch.object(NoiseSource, "fast", fast):
        yield


@contextmanager
def noise_from_training_seed() -> Iterator[None]:
    """Noise from torch's global generator, which training has just seeded: what the papers' own code does."""

    def exact(self: NoiseSource, values: Array, std: float, *rest: Any) -> Array:
        drawn: Array = values + std * torch.randn(values.shape, dtype=torch.float64).numpy()
        return drawn

    def fast(self: NoiseSource, like: torch.Tensor, std: float) -> torch.Tensor:
        return torch.randn_like(like) * std

    with mock.patch.object(NoiseSource, "exact", exact), mock.patch.object(NoiseSource, "fast", fast):
        yield


@contextmanager
def poisson_sample_seeded() -> Iterator[None]:
    """Samples that anyone can draw again: a known sample amplifies nothing."""

    def poisson(self: NoiseSource, records: int, rate: float, device: torch.device) -> torch.Tensor:
        found: np.random.Generator = self.__dict__.setdefault("_sampling", np.random.default_rng(SEED))
        return torch.from_numpy(np.flatnonzero(found.random(records) < rate)).to(device)

    with mock.patch.object(NoiseSource, "poisson", poisson):
        yield


@contextmanager
def count_from_data() -> Iterator[None]:
    """Released means: the noisy sum divided by the true number of records."""
    protect = Vault._protect

    def mean(self: Vault, planned: PlannedStep, total: torch.Tensor) -> Release:
        release = protect(self, planned, total)
        count = sum(len(batch.inputs) for batch in self._sealed._batches())
        return replace(release, value=release.value / count)

    with mock.patch.object(Vault, "_protect", mean):
        yield


@contextmanager
def count_without_noise() -> Iterator[None]:
    """The first number of each release (a count, say) goes out as it is."""
    protect = Vault._protect

    def bare(self: Vault, planned: PlannedStep, total: torch.Tensor) -> Release:
        release = protect(self, planned, total)
        value = release.value.clone()
        value.view(-1)[0] = total.reshape(-1)[0]
        return replace(release, value=value)

    with mock.patch.object(Vault, "_protect", bare):
        yield


Sabotage = Callable[[], AbstractContextManager[None]]
OF_RELEASES: tuple[Sabotage, ...] = (
    noise_halved,
    clipping_dropped,
    noise_reused,
    noise_seeded,
    noise_from_training_seed,
    count_from_data,
    count_without_noise,
)
"""What an audit of one-shot releases must catch."""

OF_LOOPS: tuple[Sabotage, ...] = (
    noise_halved,
    clipping_dropped,
    noise_reused,
    noise_seeded,
    noise_from_training_seed,
    poisson_sample_seeded,
)
"""What an audit of a training loop must catch."""

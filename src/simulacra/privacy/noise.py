"""Randomness that protects: from the operating system, never seeded, never logged, never shared with training.

Poisson samples are drawn here too, because a known sample voids the amplification that the accounting relies on.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from simulacra.errors import MissingDependency
from simulacra.privacy.query import GRID

Progress = Callable[[int, int], None]
"""Called with numbers done and numbers in all."""

CHUNK = 4096

SOURCES = {
    "exact": "exact discrete Gaussian on the grid 2^-40 (OpenDP), from the operating system's entropy",
    "fast": "floating-point Gaussian, OS-seeded, not cryptographic; NOT safe against floating-point attacks",
    "none": "no noise: NOT PRIVATE",
    "seeded": "noise from a fixed seed, for tests only: VOID",
}


@dataclass(kw_only=True)
class NoiseSource:
    """Draws the noise of one run. `seed` exists for tests: it is recorded, and voids the certificate."""

    seed: int | None = None
    _generators: dict[str, torch.Generator] = field(default_factory=dict, repr=False)
    _on_cpu: np.random.Generator | None = field(default=None, repr=False)
    _process: int = field(default_factory=os.getpid, repr=False)

    def exact(self, values: np.ndarray[Any, Any], std: float, progress: Progress | None = None) -> np.ndarray[Any, Any]:
        """Float64 values plus exact discrete Gaussian noise; a fresh array on the grid 2^-40.

        OpenDP rounds the values to the grid (charged in `query.sensitivity`) and samples from the operating system's
        entropy without floating point. It frees the interpreter lock, so the chunks run on all cores.
        """
        flat = np.ascontiguousarray(values, dtype=np.float64).ravel()
        result = np.empty_like(flat)
        if self.seed is not None:
            drawn = np.random.default_rng(self.seed).normal(size=flat.shape) * std
            result[:] = np.round((flat + drawn) / GRID) * GRID
            return result.reshape(values.shape)
        measurements = {
            size: _discrete_gaussian(size, std) for size in {min(CHUNK, flat.size), flat.size % CHUNK} - {0}
        }

        def fill(start: int) -> int:
            part = flat[start : start + CHUNK]
            result[start : start + CHUNK] = measurements[part.size](part)
            return part.size

        done = 0
        with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
            for size in pool.map(fill, range(0, flat.size, CHUNK)):
                done += size
                if progress:
                    progress(done, flat.size)
        return result.reshape(values.shape)

    def fast(self, like: torch.Tensor, std: float) -> torch.Tensor:
        """Gaussian noise of the shape, type and device of `like`: quick, and not floating-point safe."""
        if like.device.type == "cpu":
            return torch.from_numpy(self._philox().standard_normal(like.shape)).to(like.dtype).mul_(std)
        return torch.empty_like(like).normal_(generator=self._generator(like.device)).mul_(std)

    def poisson(self, records: int, rate: float, device: torch.device) -> torch.Tensor:
        """Which records are in this round's sample: each on its own with probability `rate`, so possibly none."""
        if device.type == "cpu":
            return torch.from_numpy((self._philox().random(records) < rate).nonzero()[0])
        draws = torch.rand(records, generator=self._generator(device), device=device, dtype=torch.float64)
        return (draws < rate).nonzero().squeeze(1)

    def _philox(self) -> np.random.Generator:
        """For CPUs: torch's own generator there keeps only 32 bits of a seed, which can be tried out in hours."""
        self._forget_if_forked()
        if self._on_cpu is None:
            key = secrets.randbits(128) if self.seed is None else self.seed
            self._on_cpu = np.random.Generator(np.random.Philox(key=key))
        return self._on_cpu

    def _generator(self, device: torch.device) -> torch.Generator:
        """For GPUs, whose generators take 64 bits."""
        self._forget_if_forked()
        key = str(device)
        if key not in self._generators:
            generator = torch.Generator(device=device)
            generator.manual_seed(secrets.randbits(63) if self.seed is None else self.seed)
            self._generators[key] = generator
        return self._generators[key]

    def _forget_if_forked(self) -> None:
        """A fork holds copies of the generators, and two sums with one noise give the records away: it begins anew."""
        if self._process != os.getpid():
            self._process, self._on_cpu = os.getpid(), None
            self._generators.clear()


def require_exact() -> None:
    """Refuse before anything is spent when exact noise was promised and OpenDP is not installed: no fallback."""
    try:
        import opendp  # noqa: F401
    except ImportError:
        raise MissingDependency(
            "the plan says exact noise, which needs OpenDP; release where it is installed: pip install 'opendp[numpy]'"
        ) from None


def _discrete_gaussian(size: int, std: float) -> Callable[[np.ndarray[Any, Any]], Any]:
    require_exact()
    # One by one: OpenDP's prelude brings scikit-learn along, which takes longer than the noise of a small release.
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_gaussian
    from opendp.metrics import l2_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    domain = vector_domain(atom_domain(T=float, nan=False), size=size)
    measurement: Callable[[np.ndarray[Any, Any]], Any] = make_gaussian(domain, l2_distance(T=float), scale=std, k=-40)
    return measurement

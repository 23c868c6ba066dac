"""What may be asked of private records: a bounded function of one record, summed; and what one record can do to it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import torch

from simulacra.errors import PlanError
from simulacra.privacy.budget import Adjacency

ROUNDING_MARGIN = 1e-5
"""Charged on top of every norm bound, as a share of it, for floating point.

Sums are taken in float64, so a record's features and the running sum are off by at most about 1e-11 of the bound
whatever shares the batch with it; the margin covers a million records that all round the worst way.
"""

GRID = 2.0**-40
"""Exact noise lives on this grid."""


class Shared(Protocol):
    """What maps that share their work keep of a chunk of records until all of them were asked about it."""

    def forget(self) -> None:
        """Keep nothing of any record."""
        ...


class FeatureMap(ABC):
    """A function of ONE record whose value never has an L2 norm above `norm_bound`.

    `features` is the specification. The vault runs it under `torch.func.vmap`, so it cannot mix records (batch
    statistics, dropout and torch randomness raise), replaces NaN by 0 and scales down what exceeds the bound.
    A map whose sum has a much faster closed form overrides `clipped_sum`; the conformance tests prove both equal.
    """

    shape: tuple[int, ...]
    """Shape of the value."""
    norm_bound: float = 1.0
    """No value is longer than this."""
    nonnegative: bool = False
    """Whether no entry is ever negative: then two values are at most sqrt(2) bounds apart, not 2."""
    dtype: torch.dtype = torch.float64
    """The precision the records arrive in."""
    shared: Shared | None = None
    """Maps with the same one are asked in turn about each chunk, and it forgets before the next."""

    @abstractmethod
    def features(self, inputs: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        """The value for one record: `inputs` of shape (schema.inputs,), `label` an int64 scalar."""

    def clipped_sum(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """The sum over a batch of the values, each clipped to the bound, in float64."""
        values = torch.func.vmap(self.features)(inputs, labels).to(torch.float64)
        values = torch.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)
        if self.nonnegative:
            values = values.clamp(min=0.0)
        norms = values.flatten(1).norm(dim=1)
        scale = (self.norm_bound / norms.clamp(min=self.norm_bound)).reshape(-1, *[1] * len(self.shape))
        total: torch.Tensor = (values * scale).sum(dim=0)
        return total

    @property
    def size(self) -> int:
        """How many numbers the value has."""
        return math.prod(self.shape)

    @property
    def working_size(self) -> int:
        """How many numbers per record `clipped_sum` holds at once; chunks are cut by it."""
        return self.size


class Noise(StrEnum):
    """Which sampler a step uses."""

    EXACT = "exact"
    """Discrete Gaussian of OpenDP on the grid 2^-40: safe against floating-point attacks; 12 microseconds a number."""
    FAST = "fast"
    """Floating-point Gaussian from a generator seeded by the operating system, for training loops; not float-safe."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One question of a plan, known before any data is: what is asked, how often, and its share of the noise.

    `relative_noise` compares the steps of one plan: 3 means three times the noise multiplier of a step with 1.
    `failure_delta` is what a threshold may fail with, charged on top of the noise (see `privacy/discovery.py`).
    """

    name: str
    size: int
    norm_bound: float = 1.0
    nonnegative: bool = False
    relative_noise: float = 1.0
    sample_rate: float = 1.0
    count: int = 1
    noise: Noise = Noise.EXACT
    failure_delta: float = 0.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.norm_bound) and self.norm_bound > 0):
            raise PlanError(f'step "{self.name}": norm_bound must be positive and finite, got {self.norm_bound}')
        if not (math.isfinite(self.relative_noise) and self.relative_noise > 0):
            raise PlanError(f'step "{self.name}": relative_noise must be positive, got {self.relative_noise}')
        if not 0 <= self.failure_delta < 1:
            raise PlanError(f'step "{self.name}": failure_delta must be in [0, 1), got {self.failure_delta}')
        if self.noise is Noise.EXACT and (self.count > 1 or self.sample_rate < 1):
            raise PlanError(f'step "{self.name}": exact noise is for one-shot releases; a loop says noise="fast"')

    @classmethod
    def asking(cls, name: str, feature_map: FeatureMap, *, relative_noise: float = 1.0) -> Step:
        """A one-shot step with the bounds of a map."""
        return cls(
            name=name,
            size=feature_map.size,
            norm_bound=feature_map.norm_bound,
            nonnegative=feature_map.nonnegative,
            relative_noise=relative_noise,
        )

    def admits(self, feature_map: FeatureMap) -> None:
        """Refuse a map that is not what the plan was calibrated for."""
        if feature_map.size != self.size:
            raise PlanError(f'step "{self.name}": planned for {self.size} numbers, asked for {feature_map.size}')
        if feature_map.norm_bound > self.norm_bound or (self.nonnegative and not feature_map.nonnegative):
            raise PlanError(f'step "{self.name}": the map may be longer or more varied than the plan was charged for')


def sensitivity(step: Step, adjacency: Adjacency) -> float:
    """How far one record can move the sum, rounding included: the only place where this is decided.

    Full-data sums: the bound under add-remove; twice the bound under replace-one, or sqrt(2) times if no entry is
    negative. Poisson-sampled sums: the bound under either relation, because the accountant doubles for itself.
    Exact noise starts from the sum rounded to the grid, which moves each number by at most half a grid step on
    either side.
    """
    factor = 1.0
    if step.sample_rate == 1 and adjacency is Adjacency.REPLACE_ONE:
        factor = math.sqrt(2) if step.nonnegative else 2.0
    charged = factor * step.norm_bound * (1 + ROUNDING_MARGIN)
    if step.noise is Noise.EXACT:
        charged += GRID * math.sqrt(step.size)
    return charged


def discretisation_delta(size: int, noise_std: float, epsilon: float) -> float:
    """What the exact sampler's grid costs in delta: the gap between discrete and rounded continuous Gaussian noise.

    Within t standard deviations the two probabilities of one number differ by a factor of at most exp(k), with
    k = t^2 / (8 s^2) and s the std in grid steps: the rounded Gaussian averages exp(-(2ku + u^2) / 2s^2) over a cell.
    Over all numbers that is exp(size * k); with t^2 = 2 (epsilon + ln size + 80) the tails weigh less than 1e-33.
    """
    steps = noise_std / GRID
    reach = 2 * (epsilon + math.log(size) + 80)
    return 3 * size * reach / (8 * steps**2) + 1e-33

"""Accounting: pure functions from events to (epsilon, delta) and back.

An event says how much noise was added, relative to what one record can do; it holds nothing about data. Three
accountants agree on what they can both do and are chosen by what the events need:

* full-data Gaussian releases, any number: the exact analytic formula;
* Poisson-sampled ones, and mixtures: privacy loss distributions (dp-accounting), pessimistically rounded and refined;
* Renyi divergence (`by="rdp"`): looser, kept so that a paper's figure can be shown beside the tight one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, overload

from simulacra.errors import BudgetError, PlanError
from simulacra.privacy import gaussian
from simulacra.privacy.budget import Adjacency

By = Literal["tight", "pld", "rdp"]


@dataclass(frozen=True, kw_only=True)
class Event:
    """`count` releases of a bounded sum with Gaussian noise.

    noise_multiplier: for a full-data release, noise std / sensitivity under `adjacency`; for a Poisson-sampled one
    (sample_rate < 1), noise std / norm bound under either relation. 0 means no noise: not private.
    failure_delta: probability charged on top of the Gaussian's own delta, per release (a category threshold, or the
    gap between discrete and continuous noise).

    >>> round(epsilon(Event(noise_multiplier=3.7306), delta=1e-5), 3)
    1.0
    """

    noise_multiplier: float
    sample_rate: float = 1.0
    count: int = 1
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    failure_delta: float = 0.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.noise_multiplier) and self.noise_multiplier >= 0):
            raise PlanError(f"noise_multiplier must be finite and not negative, got {self.noise_multiplier}")
        if not 0 < self.sample_rate <= 1:
            raise PlanError(f"sample_rate must be above 0 and at most 1, got {self.sample_rate}")
        if self.count < 1 or self.count != int(self.count):
            raise PlanError(f"count must be a whole number, at least 1, got {self.count}")
        if not 0 <= self.failure_delta < 1:
            raise PlanError(f"failure_delta must be in [0, 1), got {self.failure_delta}")
        object.__setattr__(self, "adjacency", Adjacency(self.adjacency))

    @property
    def sampled(self) -> bool:
        """Whether the release saw a Poisson sample rather than all records."""
        return self.sample_rate < 1

    def to_json(self) -> dict[str, Any]:
        """Plain values that `from_json` reads back to an equal event."""
        return {
            "noise_multiplier": self.noise_multiplier,
            "sample_rate": self.sample_rate,
            "count": self.count,
            "adjacency": str(self.adjacency),
            "failure_delta": self.failure_delta,
        }

    @classmethod
    def from_json(cls, values: Any) -> Event:
        """Read plain values; anything unexpected is refused, because an unknown key may change the meaning."""
        try:
            return cls(**values)
        except (TypeError, ValueError) as error:
            raise PlanError(f"this is not an event: {error}") from None


Events = Event | Sequence[Event]


def delta(events: Events, epsilon: float, *, by: By = "tight") -> float:
    """The delta at which the events together are (epsilon, delta)-differentially private."""
    chain = _chain(events)
    if not _private(chain):
        return 1.0
    extra = _failure(chain)
    if by == "tight" and not _needs_pld(chain):
        return min(1.0, gaussian.delta_of(total_mu(chain), epsilon) + extra)
    from simulacra.privacy import subsampled

    compute = subsampled.rdp_delta if by == "rdp" else subsampled.pld_delta
    return min(1.0, compute(chain, epsilon) + extra)


def epsilon(events: Events, delta: float, *, by: By = "tight") -> float:
    """The epsilon at which the events together are (epsilon, delta)-differentially private; infinite without noise."""
    if not 0 < delta < 1:
        raise BudgetError(f"delta must be between 0 and 1, got {delta}")
    chain = _chain(events)
    remaining = delta - _failure(chain)
    if not _private(chain) or remaining <= 0:
        return math.inf
    if by == "tight" and not _needs_pld(chain):
        return gaussian.epsilon_of(total_mu(chain), remaining)
    from simulacra.privacy import subsampled

    compute = subsampled.rdp_epsilon if by == "rdp" else subsampled.pld_epsilon
    return compute(chain, remaining)


@overload
def calibrate(events: Event, epsilon: float, delta: float, *, fixed: Sequence[Event] = ()) -> Event: ...
@overload
def calibrate(
    events: Sequence[Event], epsilon: float, delta: float, *, fixed: Sequence[Event] = ()
) -> tuple[Event, ...]: ...
def calibrate(
    events: Events, epsilon: float, delta: float, *, fixed: Sequence[Event] = ()
) -> Event | tuple[Event, ...]:
    """Scale all noise multipliers by one factor so that the events meet the target, and never pass it.

    The multipliers that come in say how the noise is shared out; `fixed` events are already spent and are not scaled.

    >>> round(calibrate(Event(noise_multiplier=1.0), epsilon=1.0, delta=1e-5).noise_multiplier, 3)
    3.731
    """
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise BudgetError(f"epsilon must be a positive, finite number, got {epsilon}")
    if not 0 < delta < 1:
        raise BudgetError(f"delta must be between 0 and 1, got {delta}")
    chain, spent = _chain(events), tuple(fixed)
    everything = _chain((*chain, *spent))
    if not _private(everything):
        raise PlanError("an event without noise cannot be calibrated")
    remaining = delta - _failure(everything)
    if remaining <= 0:
        raise BudgetError(f"delta {delta:g} is used up by failure probabilities of {_failure(everything):g}; raise it")
    if spent and accountant_epsilon(spent, delta) >= epsilon:
        raise BudgetError(f"epsilon {epsilon:g} is used up by what was spent before; raise it above that")
    if _needs_pld(everything):
        from simulacra.privacy import subsampled

        factor = subsampled.calibration_factor(chain, spent, epsilon, remaining)
    else:
        allowed = gaussian.mu_for(epsilon, remaining)
        left = math.sqrt(max(0.0, (allowed - total_mu(spent)) * (allowed + total_mu(spent))))
        if left <= allowed * 1e-3:  # nothing but rounding, or too little to be of any use
            raise BudgetError(f"epsilon {epsilon:g} is used up by what was spent before; raise it above that")
        factor = total_mu(chain) / left * (1 + 1e-12)
    growth = 1e-10  # the formulas round up; so does this, in ever longer strides
    while accountant_epsilon((*(scaled := _scaled(chain, factor)), *spent), delta) > epsilon:
        factor *= 1 + growth
        growth *= 2
        if growth > 1e3:
            raise BudgetError(f"epsilon {epsilon:g} is used up by what was spent before; raise it above that")
    return scaled[0] if isinstance(events, Event) else scaled


def total_mu(events: Sequence[Event]) -> float:
    """mu of full-data Gaussian events together: the square root of the sum of count / noise_multiplier^2."""
    if any(event.noise_multiplier * gaussian.LARGEST_MU < 1 for event in events):
        return math.inf
    return math.sqrt(math.fsum(event.count / event.noise_multiplier**2 for event in events))


# `calibrate` has arguments named epsilon and delta, as its callers expect; this is the function under another name.
accountant_epsilon = epsilon


def _scaled(chain: Sequence[Event], factor: float) -> tuple[Event, ...]:
    return tuple(replace(event, noise_multiplier=event.noise_multiplier * factor) for event in chain)


def _chain(events: Events) -> tuple[Event, ...]:
    chain = (events,) if isinstance(events, Event) else tuple(events)
    if len({event.adjacency for event in chain}) > 1:
        raise PlanError("events under different neighbouring relations cannot be added up; use one relation")
    return chain


def _private(chain: Sequence[Event]) -> bool:
    return all(event.noise_multiplier > 0 for event in chain)


def _needs_pld(chain: Sequence[Event]) -> bool:
    return any(event.sampled for event in chain)


def _failure(chain: Sequence[Event]) -> float:
    return math.fsum(event.failure_delta * event.count for event in chain)

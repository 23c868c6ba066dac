"""Accounting for Poisson-sampled Gaussian events: privacy loss distributions and Renyi divergence (dp-accounting).

dp-accounting is imported late: only planning and verifying need it, never the execution of a calibrated plan.

The conventions (design: an event's multiplier is std / norm bound when sampled, std / sensitivity when not):
* a sampled event under replace-one is handed over with REPLACE_ONE, which doubles the distance inside;
* a full-data event is one Gaussian pair at distance 1 whatever the relation, since its sensitivity already knows it.
"""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from simulacra.errors import BudgetError, PlanError
from simulacra.privacy import gaussian
from simulacra.privacy.budget import Adjacency

if TYPE_CHECKING:
    from simulacra.privacy.accountant import Event

COARSEST, FINEST = 1e-3, 1e-7
ENOUGH = 0.005
"""A figure is final when a four times finer grid moves it by less than this share."""

SMALLEST_DELTA = 1e-12
"""A delta below this is given as this. Tails of up to 1e-15 are cut off each time distributions are composed, and what
is left is a difference of rounded numbers: a smaller figure would be noise, and may even be negative."""

POINTS = 4_000_000
"""Refinement stops at this many grid points, to bound memory; the figure stays an upper bound."""


def pld_epsilon(events: Sequence[Event], delta: float) -> float:
    """Epsilon by privacy loss distributions: an upper bound, refined until it stands still."""
    return _refined(tuple(events), lambda loss: float(loss.get_epsilon_for_delta(delta)))


def pld_delta(events: Sequence[Event], epsilon: float) -> float:
    """Delta by privacy loss distributions: an upper bound, refined until it stands still."""
    figure = _refined(tuple(events), lambda loss: float(loss.get_delta_for_epsilon(epsilon)), least=SMALLEST_DELTA)
    return max(SMALLEST_DELTA, figure)


def rdp_epsilon(events: Sequence[Event], delta: float) -> float:
    """Epsilon by Renyi divergence with the improved conversion: looser, as papers report it."""
    with _quietly():
        return float(_rdp(events).get_epsilon(delta))


def rdp_delta(events: Sequence[Event], epsilon: float) -> float:
    """Delta by Renyi divergence."""
    with _quietly():
        return float(_rdp(events).get_delta(epsilon))


def rdp_curve(event: Event, orders: Sequence[float]) -> list[float]:
    """Renyi divergence of all of an event's releases at the given orders; it adds up over adaptively chosen events."""
    from dp_accounting.rdp import rdp_privacy_accountant

    accountant = rdp_privacy_accountant.RdpAccountant(orders)
    _compose(accountant, event)
    return [float(value) for value in accountant._rdp]


def calibration_factor(events: Sequence[Event], fixed: Sequence[Event], epsilon: float, delta: float) -> float:
    """The smallest factor on the events' noise that meets the target, to 0.01 percent and never below it."""

    def reached(factor: float) -> float:
        scaled = [replace(event, noise_multiplier=event.noise_multiplier * factor) for event in events]
        return pld_epsilon([*scaled, *fixed], delta)

    from simulacra.privacy import accountant

    # Full-data releases alone need so much noise; a loss distribution with far less would not fit into memory.
    alone = accountant.total_mu([event for event in events if not event.sampled])
    low = high = max(1.0, alone / gaussian.mu_for(epsilon, delta))
    at_low = at_high = reached(high)
    while at_high > epsilon:
        low, at_low, high = high, at_high, high * 2
        at_high = reached(high)
        if high > 1e9:
            raise BudgetError(f"epsilon {epsilon:g} is used up by what was spent before; raise it above that")
    while at_low <= epsilon:
        high, at_high, low = low, at_low, low / 2
        at_low = reached(low)
    # The target lies between: `low` misses it and `high` meets it, at every moment. The figure is monotone up to the
    # grid's rounding and nearly a power of the factor, so a straight line in logarithms guesses it well. Points a bit
    # above and a bit below the guess are tried in turn, to close in from both ends; halving ends it for sure.
    side = 1
    for step in itertools.count():
        width = math.log(high / low)
        if width <= 1e-4:
            return high
        middle = math.sqrt(low * high)
        if step < 12 and 0 < at_high < at_low < math.inf:
            share = math.log(at_low / epsilon) / math.log(at_low / at_high)
            guess = low * math.exp(width * share + side * max(4e-5, 0.03 * width))
            middle = guess if low < guess < high else middle
        figure = reached(middle)
        meets = figure <= epsilon
        if meets:
            high, at_high = middle, figure
        else:
            low, at_low = middle, figure
        side = -1 if meets else 1
    raise AssertionError("unreachable")


def _refined(events: tuple[Event, ...], read: Callable[[Any], float], *, least: float = 0.0) -> float:
    interval = COARSEST
    previous = read(_loss(events, interval))
    while interval > FINEST and previous > least:
        interval /= 4
        loss = _loss(events, interval)
        figure = min(previous, read(loss))
        if previous - figure <= ENOUGH * figure or _points(loss) > POINTS:
            return figure
        previous = figure
    return previous


@lru_cache(maxsize=8)
def _loss(events: tuple[Event, ...], interval: float) -> Any:
    """The composed privacy loss distribution on a grid of that step."""
    from dp_accounting.pld import privacy_loss_distribution

    total = None
    full = math.fsum(event.count / event.noise_multiplier**2 for event in events if not event.sampled)
    if full > 0:
        total = privacy_loss_distribution.from_gaussian_mechanism(
            1 / math.sqrt(full), value_discretization_interval=interval
        )
    for event in events:
        if event.sampled:
            part = privacy_loss_distribution.from_gaussian_mechanism(
                event.noise_multiplier,
                value_discretization_interval=interval,
                sampling_prob=event.sample_rate,
                neighboring_relation=_relation(event),
            ).self_compose(event.count)
            total = part if total is None else total.compose(part)
    assert total is not None
    return total


def _points(loss: Any) -> int:
    return int(getattr(loss._pmf_remove, "size", 0))


def _rdp(events: Sequence[Event]) -> Any:
    from dp_accounting.rdp import rdp_privacy_accountant

    accountant = rdp_privacy_accountant.RdpAccountant()
    for event in events:
        _compose(accountant, event)
    return accountant


def _compose(accountant: Any, event: Event) -> None:
    import dp_accounting

    multiplier = event.noise_multiplier
    if event.sampled:
        if event.adjacency is Adjacency.REPLACE_ONE:
            raise PlanError("Renyi accounting of sampled releases under replace-one is not supported; use add-remove")
        accountant.compose(
            dp_accounting.PoissonSampledDpEvent(event.sample_rate, dp_accounting.GaussianDpEvent(multiplier)),
            event.count,
        )
    else:
        accountant.compose(dp_accounting.GaussianDpEvent(multiplier), event.count)


@contextmanager
def _quietly() -> Iterator[None]:
    """dp-accounting logs each Renyi order that it leaves out; fewer orders only make the figure looser."""
    logger = logging.getLogger("absl")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def _relation(event: Event) -> Any:
    import dp_accounting

    relation = dp_accounting.NeighboringRelation
    return relation.REPLACE_ONE if event.adjacency is Adjacency.REPLACE_ONE else relation.ADD_OR_REMOVE_ONE

"""Accounting: the exact figures, agreement with independent implementations, and never a promise that is too small."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import dp_accounting
import mpmath
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from simulacra.errors import BudgetError, PlanError
from simulacra.privacy import gaussian, subsampled
from simulacra.privacy.accountant import Event, calibrate, delta, epsilon
from simulacra.privacy.budget import Adjacency

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
CONDENSATION = Event(noise_multiplier=1.0, sample_rate=50 / 5421, count=50)
SMALLEST = Event(noise_multiplier=20.0, sample_rate=0.001, count=1000)
"""A training loop of epsilon near 0.005, where a grid of 1e-4 is twice too loose."""

epsilons = st.floats(0.01, 50.0)
deltas = st.floats(-12, -2).map(lambda power: 10.0**power)
multipliers = st.floats(0.3, 300.0)


# -- figures ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "releases", "expected"), [(1.0, 1, 3.730), (1.0, 2, 5.276), (10.0, 1, 0.500), (0.2, 1, 16.30)]
)
def test_the_exact_noise_of_gaussian_releases(target: float, releases: int, expected: float) -> None:
    events = calibrate([Event(noise_multiplier=1.0)] * releases, target, 1e-5)
    tolerance = 0.005 if expected > 10 else 0.002
    assert all(event.noise_multiplier == pytest.approx(expected, abs=tolerance) for event in events)
    together = calibrate(Event(noise_multiplier=1.0, count=releases), target, 1e-5)
    assert together.noise_multiplier == pytest.approx(events[0].noise_multiplier, rel=1e-9)


@pytest.mark.parametrize(("rounds", "tight", "renyi"), [(50, 0.54, 1.10), (10_000, 5.63, 6.11)])
def test_the_figures_of_dataset_condensation(rounds: int, tight: float, renyi: float) -> None:
    event = replace(CONDENSATION, count=rounds)
    assert epsilon(event, 1e-5) == pytest.approx(tight, abs=0.01)
    assert epsilon(event, 1e-5, by="rdp") == pytest.approx(renyi, abs=0.01)


# -- full-data Gaussian releases ----------------------------------------------------------------------------------


def reference_delta(mu: float, at: float) -> float:
    """The analytic formula with 60 digits."""
    with mpmath.workdps(60):
        mu, at = mpmath.mpf(mu), mpmath.mpf(at)
        return float(mpmath.ncdf(mu / 2 - at / mu) - mpmath.exp(at) * mpmath.ncdf(-mu / 2 - at / mu))


@pytest.mark.parametrize("at", [0.0, 0.01, 0.1, 1.0, 5.0, 20.0, 50.0])
@pytest.mark.parametrize("multiplier", [0.05, 0.1, 0.3, 1.0, 3.73, 30.0, 1000.0])
def test_delta_agrees_with_the_formula_in_sixty_digits(multiplier: float, at: float) -> None:
    expected = reference_delta(1 / multiplier, at)
    assume_zero = expected < 1e-300
    assert delta(Event(noise_multiplier=multiplier), at) == pytest.approx(
        0.0 if assume_zero else expected, rel=1e-9, abs=1e-300
    )


@pytest.mark.parametrize("target", [0.01, 0.1, 1.0, 10.0, 50.0])
@pytest.mark.parametrize("at", [1e-12, 1e-9, 1e-5, 1e-2])
def test_epsilon_agrees_with_the_formula_in_sixty_digits(target: float, at: float) -> None:
    event = calibrate(Event(noise_multiplier=1.0), target, at)
    assert reference_delta(1 / event.noise_multiplier, target) == pytest.approx(at, rel=1e-6)
    assert reference_delta(1 / event.noise_multiplier, target) <= at * (1 + 1e-9)
    assert epsilon(event, at) == pytest.approx(target, rel=1e-6)


@settings(max_examples=60, deadline=None)
@given(multiplier=multipliers, at=st.floats(0.0, 30.0))
def test_delta_agrees_with_scipy(multiplier: float, at: float) -> None:
    mu = 1 / multiplier
    first, second = stats.norm.cdf(mu / 2 - at / mu), stats.norm.logcdf(-mu / 2 - at / mu) + at
    assert delta(Event(noise_multiplier=multiplier), at) == pytest.approx(first - math.exp(second), rel=1e-6, abs=1e-13)


@pytest.mark.parametrize("multiplier", [0.5, 1.0, 4.0, 40.0])
@pytest.mark.parametrize("at", [1e-12, 1e-5])
def test_the_exact_formula_agrees_with_privacy_loss_distributions(multiplier: float, at: float) -> None:
    loss = privacy_loss_distribution.from_gaussian_mechanism(multiplier, value_discretization_interval=1e-4)
    exact = epsilon(Event(noise_multiplier=multiplier), at)
    assert exact <= loss.get_epsilon_for_delta(at) + 1e-9
    assert exact == pytest.approx(loss.get_epsilon_for_delta(at), rel=0.002, abs=2e-4)


@settings(max_examples=60, deadline=None)
@given(multiplier=multipliers, at=deltas)
def test_epsilon_and_delta_are_inverse(multiplier: float, at: float) -> None:
    event = Event(noise_multiplier=multiplier)
    reached = epsilon(event, at)
    assert delta(event, reached) <= at
    if reached > 0:
        assert delta(event, reached) == pytest.approx(at, rel=1e-6)


@settings(max_examples=60, deadline=None)
@given(first=multipliers, second=multipliers, at=deltas)
def test_more_noise_costs_less_and_more_releases_cost_more(first: float, second: float, at: float) -> None:
    low, high = sorted((first, second))
    less, more = Event(noise_multiplier=high), Event(noise_multiplier=low)
    hair = 1 + 1e-10  # figures are rounded up by steps of 1e-12, which can be more than two multipliers differ by
    assert epsilon(less, at) <= epsilon(more, at) * hair
    assert epsilon(more, at) <= epsilon([less, more], at) * hair
    assert epsilon(more, at) <= epsilon(more, at / 2) * hair


@settings(max_examples=30, deadline=None)
@given(parts=st.lists(multipliers, min_size=1, max_size=6), at=deltas)
def test_several_releases_cost_what_one_of_their_joint_noise_costs(parts: list[float], at: float) -> None:
    one = Event(noise_multiplier=1 / math.sqrt(sum(1 / part**2 for part in parts)))
    assert epsilon([Event(noise_multiplier=part) for part in parts], at) == pytest.approx(
        epsilon(one, at), rel=1e-6, abs=1e-9
    )


# -- calibration --------------------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(
    target=epsilons,
    at=deltas,
    shares=st.lists(st.floats(0.1, 10.0), min_size=1, max_size=5),
    counts=st.integers(1, 1000),
    relation=st.sampled_from(Adjacency),
    failure=st.floats(0, 1e-4),
)
def test_calibration_reaches_the_target_and_never_passes_it(
    target: float, at: float, shares: list[float], counts: int, relation: Adjacency, failure: float
) -> None:
    events = [
        Event(noise_multiplier=share, count=counts, adjacency=relation, failure_delta=failure * at / counts)
        for share in shares
    ]
    found = calibrate(events, target, at)
    assert epsilon(found, at) <= target
    assert epsilon(found, at) == pytest.approx(target, rel=1e-4)
    assert [one.noise_multiplier / found[0].noise_multiplier for one in found] == pytest.approx(
        [share / shares[0] for share in shares]
    )


def check_calibration(target: float, at: float, rate: float, count: int, also_full: bool) -> None:
    events = [Event(noise_multiplier=1.0, sample_rate=rate, count=count)]
    if also_full:
        events.append(Event(noise_multiplier=3.0))
    found = calibrate(events, target, at)
    assert 0.98 * target <= epsilon(found, at) <= target


@pytest.mark.parametrize(
    ("target", "at", "rate", "count", "also_full"), [(2.0, 1e-5, 0.01, 100, False), (0.5, 1e-9, 0.1, 30, True)]
)
def test_calibration_of_sampled_releases_never_passes_the_target(
    target: float, at: float, rate: float, count: int, also_full: bool
) -> None:
    check_calibration(target, at, rate, count, also_full)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(
    target=st.floats(0.1, 8.0),
    at=st.sampled_from([1e-9, 1e-5]),
    rate=st.floats(0.001, 0.5),
    count=st.integers(1, 1000),
    also_full=st.booleans(),
)
def test_calibration_of_any_sampled_releases_never_passes_the_target(
    target: float, at: float, rate: float, count: int, also_full: bool
) -> None:
    check_calibration(target, at, rate, count, also_full)


@pytest.mark.parametrize("share", [1e-6, 0.01])
def test_a_full_data_release_with_a_tiny_share_of_the_noise_is_calibrated_in_memory(share: float) -> None:
    """Beside a loop: at a factor of 1 its loss distribution would have petabytes."""
    loop = Event(noise_multiplier=1.0, sample_rate=0.01, count=50)
    found = calibrate((Event(noise_multiplier=share), loop), 1.0, 1e-5)
    assert 0.99 < epsilon(found, 1e-5) <= 1.0
    assert math.isclose(found[0].noise_multiplier / found[1].noise_multiplier, share)


def test_what_was_spent_before_is_paid_from_the_same_budget() -> None:
    spent = Event(noise_multiplier=6.0)
    found = calibrate(Event(noise_multiplier=1.0), 1.0, 1e-5, fixed=[spent])
    assert 0.9999 <= epsilon([found, spent], 1e-5) <= 1.0
    with pytest.raises(BudgetError, match="used up"):
        calibrate(Event(noise_multiplier=1.0), 1.0, 1e-5, fixed=[Event(noise_multiplier=2.0)])


def test_impossible_targets_are_refused() -> None:
    event = Event(noise_multiplier=1.0)
    for target in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(BudgetError, match="epsilon"):
            calibrate(event, target, 1e-5)
    for at in (0.0, 1.0, math.nan):
        with pytest.raises(BudgetError, match="delta"):
            calibrate(event, 1.0, at)
        with pytest.raises(BudgetError, match="delta"):
            epsilon(event, at)
    with pytest.raises(PlanError, match="without noise"):
        calibrate(Event(noise_multiplier=0.0), 1.0, 1e-5)


# -- failure probabilities, relations, no noise -------------------------------------------------------------------


def test_failure_probabilities_are_added_to_delta() -> None:
    clean, risky = Event(noise_multiplier=2.0), Event(noise_multiplier=2.0, failure_delta=4e-6)
    assert delta(risky, 1.0) == pytest.approx(delta(clean, 1.0) + 4e-6, rel=1e-12)
    assert epsilon(risky, 1e-5) == pytest.approx(epsilon(clean, 6e-6), rel=1e-9)
    assert delta(replace(risky, count=3), 1.0) == pytest.approx(delta(replace(clean, count=3), 1.0) + 12e-6, rel=1e-9)
    assert math.isinf(epsilon(replace(risky, count=3), 1e-5))
    with pytest.raises(BudgetError, match="failure"):
        calibrate(replace(risky, count=3), 1.0, 1e-5)


def test_relations_are_not_mixed() -> None:
    mixed = [Event(noise_multiplier=1.0), Event(noise_multiplier=1.0, adjacency=REPLACE)]
    for attempt in (lambda: epsilon(mixed, 1e-5), lambda: delta(mixed, 1.0), lambda: calibrate(mixed, 1.0, 1e-5)):
        with pytest.raises(PlanError, match="different neighbouring relations"):
            attempt()


@pytest.mark.parametrize("multiplier", [0.0, 1e-300, 1e-8])
def test_no_noise_to_speak_of_is_an_infinite_epsilon(multiplier: float) -> None:
    assert math.isinf(epsilon([Event(noise_multiplier=multiplier), Event(noise_multiplier=5.0)], 1e-5))
    assert delta(Event(noise_multiplier=multiplier), 1.0) == 1.0


def test_a_full_data_event_costs_the_same_under_either_relation() -> None:
    """Its multiplier is relative to the sensitivity, which already knows the relation."""
    assert epsilon(Event(noise_multiplier=2.0), 1e-5) == epsilon(Event(noise_multiplier=2.0, adjacency=REPLACE), 1e-5)


# -- Poisson-sampled releases -------------------------------------------------------------------------------------


def sampled_delta_by_integration(multiplier: float, rate: float, at: float, relation: Adjacency) -> float:
    """delta of one Poisson-sampled Gaussian release straight from its definition, the worse of both directions."""

    def mixture(x: np.ndarray, shift: float) -> np.ndarray:
        return (1 - rate) * stats.norm.pdf(x, 0, multiplier) + rate * stats.norm.pdf(x, shift, multiplier)

    x = np.linspace(-12 * multiplier - 1, 12 * multiplier + 1, 400_001)
    with_one = mixture(x, 1.0)
    without = mixture(x, -1.0) if relation is REPLACE else stats.norm.pdf(x, 0, multiplier)
    excess = [np.maximum(0, left - math.exp(at) * right) for left, right in ((with_one, without), (without, with_one))]
    return max(float(integrate.trapezoid(each, x)) for each in excess)


@pytest.mark.parametrize("relation", list(Adjacency))
@pytest.mark.parametrize(("multiplier", "rate"), [(1.0, 0.1), (2.0, 0.5), (0.7, 0.01)])
@pytest.mark.parametrize("at", [0.1, 0.5])
def test_one_sampled_release_agrees_with_its_definition(
    multiplier: float, rate: float, at: float, relation: Adjacency
) -> None:
    expected = sampled_delta_by_integration(multiplier, rate, at, relation)
    found = delta(Event(noise_multiplier=multiplier, sample_rate=rate, adjacency=relation), at)
    assert found >= expected * (1 - 1e-6)
    assert found == pytest.approx(expected, rel=0.01, abs=1e-9)


@pytest.mark.parametrize(("event", "at"), [(CONDENSATION, 1e-5), (SMALLEST, 1e-5)], ids=["condensation", "smallest"])
def test_the_figure_stands_still_against_a_four_times_finer_grid(
    event: Event, at: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    genuine, grids = subsampled._loss, []

    def watched(events: tuple[Event, ...], interval: float) -> Any:
        grids.append(interval)
        return genuine(events, interval)

    monkeypatch.setattr(subsampled, "_loss", watched)
    figure = epsilon(event, at)
    finer = float(genuine((event,), min(grids) / 4).get_epsilon_for_delta(at))
    assert finer <= figure <= finer * 1.005


def test_a_delta_too_small_to_be_told_is_an_upper_bound_and_costs_no_refinement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is left of tails that were cut off is noise, and was a negative delta on certificates."""
    event = Event(noise_multiplier=1.0, sample_rate=0.002, count=2000)
    genuine, grids = subsampled._loss, []

    def watched(events: tuple[Event, ...], interval: float) -> Any:
        grids.append(interval)
        return genuine(events, interval)

    monkeypatch.setattr(subsampled, "_loss", watched)
    at = epsilon(event, 1e-5)
    grids.clear()
    found = [delta(event, share * at) for share in (4, 8, 16)]
    assert found == [subsampled.SMALLEST_DELTA] * 3
    assert set(grids) == {subsampled.COARSEST}
    assert subsampled.SMALLEST_DELTA < delta(event, at / 2) < 1


def test_a_tiny_epsilon_is_not_lost_in_the_grid() -> None:
    figure = epsilon(SMALLEST, 1e-5)
    assert 0.002 < figure < 0.008
    coarse = privacy_loss_distribution.from_gaussian_mechanism(
        SMALLEST.noise_multiplier, sampling_prob=SMALLEST.sample_rate, value_discretization_interval=1e-4
    ).self_compose(SMALLEST.count)
    assert figure < coarse.get_epsilon_for_delta(1e-5)


def test_sampled_figures_agree_with_dp_accounting() -> None:
    event = Event(noise_multiplier=1.3, sample_rate=0.02, count=200)
    for relation, theirs in ((ADD, "ADD_OR_REMOVE_ONE"), (REPLACE, "REPLACE_ONE")):
        loss = privacy_loss_distribution.from_gaussian_mechanism(
            1.3,
            sampling_prob=0.02,
            value_discretization_interval=1e-4,
            neighboring_relation=dp_accounting.NeighboringRelation[theirs],
        ).self_compose(200)
        mine = epsilon(replace(event, adjacency=relation), 1e-5)
        assert mine == pytest.approx(loss.get_epsilon_for_delta(1e-5), rel=0.01)


def test_replacing_costs_more_than_adding_and_less_than_twice_the_distance_unsampled() -> None:
    event = Event(noise_multiplier=1.5, sample_rate=0.05, count=50)
    add, replaced = epsilon(event, 1e-5), epsilon(replace(event, adjacency=REPLACE), 1e-5)
    unsampled = epsilon(Event(noise_multiplier=0.75, count=50), 1e-5)
    assert add < replaced < unsampled


def test_sampling_never_costs_more_than_not_sampling() -> None:
    for rate in (0.01, 0.3, 0.99):
        event = Event(noise_multiplier=2.0, sample_rate=rate, count=4)
        assert epsilon(event, 1e-5) <= epsilon(replace(event, sample_rate=1.0), 1e-5) * 1.005


def test_a_mixture_costs_more_than_its_parts_and_less_than_their_sum() -> None:
    full = Event(noise_multiplier=5.0)
    together = epsilon([full, CONDENSATION], 1e-5)
    assert max(epsilon(full, 1e-5), epsilon(CONDENSATION, 1e-5)) < together
    assert together < epsilon(full, 5e-6) + epsilon(CONDENSATION, 5e-6)


def test_a_mixture_under_replace_one_takes_the_full_part_as_it_is() -> None:
    full = Event(noise_multiplier=5.0, adjacency=REPLACE)
    faint = Event(noise_multiplier=50.0, sample_rate=1e-4, adjacency=REPLACE)
    assert epsilon([full, faint], 1e-5) == pytest.approx(epsilon(full, 1e-5), rel=0.01)


@pytest.mark.parametrize(
    "events",
    [
        [Event(noise_multiplier=1.0)],
        [Event(noise_multiplier=3.73), Event(noise_multiplier=10.0, count=5)],
        [CONDENSATION],
        [CONDENSATION, Event(noise_multiplier=5.0)],
        [Event(noise_multiplier=4.0, sample_rate=0.5, count=30)],
    ],
)
def test_renyi_accounting_is_never_below_the_tight_figure(events: list[Event]) -> None:
    for at in (1e-9, 1e-5):
        assert epsilon(events, at) <= epsilon(events, at, by="rdp")
    assert delta(events, 2.0) <= delta(events, 2.0, by="rdp")


def test_renyi_accounting_of_sampled_releases_under_replace_one_is_refused() -> None:
    with pytest.raises(PlanError, match="not supported"):
        epsilon(replace(CONDENSATION, adjacency=REPLACE), 1e-5, by="rdp")


# -- the formula's corners ----------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(mu=st.floats(1e-4, 100.0), at=st.floats(0.0, 200.0))
def test_delta_is_a_probability_that_falls_with_epsilon(mu: float, at: float) -> None:
    assert 0 <= gaussian.delta_of(mu, at * 1.01 + 1e-3) <= gaussian.delta_of(mu, at) <= 1


@settings(max_examples=60, deadline=None)
@given(target=epsilons, at=deltas)
def test_the_largest_mu_keeps_the_promise_in_sixty_digits(target: float, at: float) -> None:
    mu = gaussian.mu_for(target, at)
    assume(mu < 1e3)
    assert reference_delta(mu, target) <= at * (1 + 1e-9)
    assert reference_delta(mu * 1.001, target) > at


def test_a_budget_that_equals_what_was_spent_is_refused_and_does_not_hang() -> None:
    """What is left is then rounding; growing the noise by tiny steps towards it took minutes."""
    spent = calibrate([Event(noise_multiplier=1.0)], 5.0, 1e-5)
    for epsilon_wanted in (5.0, 5.0 * (1 + 1e-13)):
        with pytest.raises(BudgetError, match="used up"):
            calibrate([Event(noise_multiplier=1.0)], epsilon_wanted, 1e-5, fixed=spent)

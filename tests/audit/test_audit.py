"""The audit: an honest vault passes and the attack is strong enough to mean something; every sabotaged one is caught.

Bounds hold with a confidence of 1 - 1e-6, so an honest vault fails here less than once in a million runs.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from simulacra.audit import AuditResult, audit_loop, audit_release, epsilon_lower_bound, gaussian_lower_bound, sabotage
from simulacra.audit.worst_case import worst_neighbours
from simulacra.features import examples
from simulacra.privacy.budget import Adjacency, Budget
from simulacra.privacy.gaussian import epsilon_of
from simulacra.privacy.query import FeatureMap, Noise

TWICE = range(2)


def budget(epsilon: float, adjacency: Adjacency = Adjacency.ADD_REMOVE) -> Budget:
    return Budget(epsilon=epsilon, delta=1e-5, adjacency=adjacency)


# -- an honest vault ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("noise", list(Noise))
def test_one_shot_releases_keep_their_claim_and_the_attack_comes_close_to_it(
    adjacency: Adjacency, noise: Noise
) -> None:
    result = audit_release(budget(4.0, adjacency), noise=noise)
    print(result)
    assert result.passed, result
    assert result.claimed_epsilon == pytest.approx(4.0, rel=1e-6)
    assert result.lower_bound > 0.5 * result.claimed_epsilon


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_a_training_loop_keeps_its_claim_and_the_attack_comes_close_to_it(adjacency: Adjacency) -> None:
    result = audit_loop(adjacency=adjacency, noise_multiplier=1.2 if adjacency is Adjacency.REPLACE_ONE else 0.8)
    print(result)
    assert result.passed, result
    assert result.lower_bound > 0.2 * result.claimed_epsilon


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_a_long_attack_on_a_training_loop_comes_closer(adjacency: Adjacency) -> None:
    noise_multiplier = 1.2 if adjacency is Adjacency.REPLACE_ONE else 0.8
    result = audit_loop(adjacency=adjacency, noise_multiplier=noise_multiplier, trials=25_000)
    print(result)
    assert result.passed, result
    assert result.lower_bound > 0.5 * result.claimed_epsilon


@pytest.mark.slow
@pytest.mark.parametrize("sample_rate", [0.1, 0.5])
def test_a_longer_training_loop_keeps_its_claim(sample_rate: float) -> None:
    result = audit_loop(sample_rate=sample_rate, rounds=10, trials=10_000)
    assert result.passed, result


LONG = ("tangent", "critic", "hermite-product", "moments-per-class", "perceptual")
"""Maps that take seconds to audit: in the quick tests under one relation, which the bound of norms decides in both."""
AUDITED = [
    pytest.param(example, adjacency, id=f"{adjacency}-{example[0]}", marks=[pytest.mark.slow] if later else [])
    for adjacency in Adjacency
    for example in examples()
    for later in [adjacency is Adjacency.REPLACE_ONE and example[0].startswith(LONG)]
]


@pytest.mark.parametrize(("example", "adjacency"), AUDITED)
def test_every_map_keeps_its_claim(example: tuple[str, FeatureMap, int, int], adjacency: Adjacency) -> None:
    _, feature_map, inputs, classes = example
    result = audit_release(budget(4.0, adjacency), feature_map=feature_map, inputs=inputs, classes=classes, trials=800)
    assert result.passed, result


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("epsilon", [1.0, 8.0])
def test_one_shot_releases_keep_their_claim_under_a_long_attack(adjacency: Adjacency, epsilon: float) -> None:
    result = audit_release(budget(epsilon, adjacency), trials=50_000)
    assert result.passed, result
    assert result.lower_bound > 0.5 * result.claimed_epsilon


# -- a sabotaged one ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("attempt", TWICE)
@pytest.mark.parametrize("broken", sabotage.OF_RELEASES, ids=lambda each: each.__name__)
def test_a_sabotaged_release_is_caught_each_time(broken: sabotage.Sabotage, attempt: int) -> None:
    with broken():
        result = audit_release(budget(2.0), trials=600)
    assert not result.passed, (attempt, result)


@pytest.mark.parametrize("attempt", TWICE)
@pytest.mark.parametrize("broken", sabotage.OF_LOOPS, ids=lambda each: each.__name__)
def test_a_sabotaged_training_loop_is_caught_each_time(broken: sabotage.Sabotage, attempt: int) -> None:
    with broken():
        result = audit_loop(trials=100)
    assert not result.passed, (attempt, result)


@pytest.mark.slow
@pytest.mark.parametrize("attempt", range(3))
@pytest.mark.parametrize("broken", sabotage.OF_RELEASES, ids=lambda each: each.__name__)
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_a_sabotaged_release_is_caught_many_times(
    broken: sabotage.Sabotage, attempt: int, adjacency: Adjacency
) -> None:
    with broken():
        result = audit_release(budget(1.0, adjacency), trials=1000)
    assert not result.passed, (attempt, result)


@pytest.mark.parametrize("broken", [sabotage.noise_halved, sabotage.clipping_dropped], ids=lambda each: each.__name__)
def test_too_little_noise_is_proven_by_the_attack_alone(broken: sabotage.Sabotage) -> None:
    with broken():
        result = audit_release(budget(2.0), trials=6000)
    assert result.lower_bound > result.claimed_epsilon, result


def test_dropped_clipping_in_a_loop_is_proven_by_the_attack_alone() -> None:
    with sabotage.clipping_dropped():
        result = audit_loop(noise_multiplier=2.0, trials=600)
    assert result.lower_bound > result.claimed_epsilon, result


def test_an_honest_vault_passes_the_short_audits_that_catch_the_sabotaged_ones() -> None:
    for _ in range(2):
        release, loop = audit_release(budget(2.0), trials=600), audit_loop(trials=100)
        assert release.passed, release
        assert loop.passed, loop


def test_sabotage_ends_with_its_context() -> None:
    for broken in {*sabotage.OF_RELEASES, *sabotage.OF_LOOPS}:
        with broken():
            pass
    assert audit_release(budget(2.0), trials=200).passed


def test_an_audit_leaves_the_seeds_of_training_alone() -> None:
    import torch

    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002
    expected = torch.rand(1).item(), np.random.rand()  # noqa: NPY002
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002
    audit_release(budget(2.0), trials=50)
    assert (torch.rand(1).item(), np.random.rand()) == expected  # noqa: NPY002


def test_a_finding_alone_fails_an_audit() -> None:
    good = AuditResult(claimed_epsilon=1.0, lower_bound=1.0, delta=1e-5, trials=1, confidence=0.9)
    assert good.passed
    assert not AuditResult(
        claimed_epsilon=1.0, lower_bound=0.1, delta=1e-5, trials=1, confidence=0.9, findings=("x",)
    ).passed
    assert not AuditResult(claimed_epsilon=1.0, lower_bound=1.1, delta=1e-5, trials=1, confidence=0.9).passed


# -- the bounds themselves ----------------------------------------------------------------------------------------


def scores(mu: float, trials: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    return generator.normal(size=trials), generator.normal(loc=mu, size=trials)


@pytest.mark.parametrize("mu", [0.5, 1.0, 2.0])
def test_the_gaussian_bound_approaches_the_truth_from_below(mu: float) -> None:
    truth = epsilon_of(mu, 1e-5)
    found = [gaussian_lower_bound(*scores(mu, n, 1), delta=1e-5, confidence=0.999) for n in (1000, 100_000)]
    assert found[0] < found[1] < truth
    assert found[1] > 0.85 * truth


@pytest.mark.parametrize("delta", [0.05, 0.2])
def test_the_counting_bound_approaches_the_truth_from_below(delta: float) -> None:
    truth = epsilon_of(1.0, delta)
    found = [epsilon_lower_bound(*scores(1.0, n, 2), delta=delta, confidence=0.999) for n in (1000, 200_000)]
    assert found[0] < found[1] < truth
    assert found[1] > 0.85 * truth


@pytest.mark.parametrize("bound", [gaussian_lower_bound, epsilon_lower_bound])
def test_a_bound_is_wrong_no_more_often_than_it_says(bound: object) -> None:
    truth = epsilon_of(1.0, 0.05)
    wrong = sum(
        bound(*scores(1.0, 400, seed), delta=0.05, confidence=0.8) > truth  # type: ignore[operator]
        for seed in range(100)
    )
    assert wrong <= stats.binom.isf(1e-6, 100, 0.2)


@pytest.mark.parametrize("bound", [gaussian_lower_bound, epsilon_lower_bound])
def test_no_difference_proves_nothing_and_a_full_one_proves_much(bound: object) -> None:
    same = scores(0.0, 4000, 3)
    assert bound(*same, delta=1e-5, confidence=0.9999) < 0.05  # type: ignore[operator]
    apart = scores(40.0, 4000, 4)
    assert bound(*apart, delta=1e-5, confidence=0.9999) > 5  # type: ignore[operator]
    assert bound(*apart[::-1], delta=1e-5, confidence=0.9999) >= 0  # type: ignore[operator]


def test_the_counting_bound_sees_a_difference_in_either_direction() -> None:
    without, present = scores(2.0, 4000, 5)
    up = epsilon_lower_bound(without, present, delta=0.01, confidence=0.99)
    down = epsilon_lower_bound(present, without, delta=0.01, confidence=0.99)
    assert up > 1
    assert down == 0, "a score that is high for the wrong data set is no attack"


def test_the_worst_neighbours_are_as_far_apart_as_the_bound_allows() -> None:
    from simulacra.audit.worst_case import StretchedInputs

    feature_map = StretchedInputs(4)
    for adjacency, expected in ((Adjacency.ADD_REMOVE, 1.0), (Adjacency.REPLACE_ONE, 2.0)):
        without, present = worst_neighbours(feature_map, 4, 1, adjacency)
        move = feature_map.clipped_sum(present.inputs, present.labels) - feature_map.clipped_sum(
            without.inputs, without.labels
        )
        assert float(move.norm()) == pytest.approx(expected, rel=1e-6)

"""The noise itself: the right scale is accepted, 2/3 and 3/2 of it are rejected, and nobody can seed it.

Nothing here is seeded, because the real samplers are what is tested; each threshold raises a false alarm less than
once in a million runs.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats

from simulacra.errors import MissingDependency
from simulacra.privacy.noise import NoiseSource, require_exact
from simulacra.privacy.query import GRID

FALSE_ALARM = 1e-7
CPU = torch.device("cpu")


def scale_is(samples: np.ndarray, std: float) -> bool:
    """Whether centred Gaussian samples have that standard deviation: a two-sided chi-squared test."""
    flat = np.asarray(samples, dtype=np.float64).ravel()
    statistic = float(np.sum((flat / std) ** 2))
    low, high = stats.chi2.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], df=flat.size)
    return bool(low <= statistic <= high)


def exact(count: int, std: float) -> np.ndarray:
    return NoiseSource().exact(np.zeros(count), std)


def fast(count: int, std: float) -> np.ndarray:
    return NoiseSource().fast(torch.zeros(count, dtype=torch.float64), std).numpy()


def fast_float32(count: int, std: float) -> np.ndarray:
    return NoiseSource().fast(torch.zeros(count, dtype=torch.float32), std).numpy()


Sampler = Callable[[int, float], np.ndarray]
samplers = pytest.mark.parametrize("sampler", [exact, fast, fast_float32])


@samplers
@pytest.mark.parametrize("std", [0.01, 3.73, 1000.0])
@pytest.mark.parametrize("count", [2000, 6000])
def test_the_right_scale_is_accepted_and_two_thirds_and_three_halves_are_not(
    sampler: Sampler, std: float, count: int
) -> None:
    samples = sampler(count, std)
    assert scale_is(samples, std)
    assert not scale_is(samples, std * 2 / 3)
    assert not scale_is(samples, std * 3 / 2)
    assert not scale_is(sampler(count, std * 2 / 3), std)
    assert not scale_is(sampler(count, std * 3 / 2), std)


@samplers
def test_noise_is_normal_and_centred(sampler: Sampler) -> None:
    samples = sampler(20_000, 3.73)
    assert stats.kstest(samples / 3.73, "norm").pvalue > FALSE_ALARM
    assert abs(samples.mean()) < 5.4 * 3.73 / np.sqrt(samples.size)


@samplers
def test_the_coordinates_of_a_draw_are_independent(sampler: Sampler) -> None:
    samples = sampler(20_000, 1.0).reshape(-1, 4)
    correlations = np.corrcoef(samples.T)[np.triu_indices(4, 1)]
    assert np.abs(correlations).max() < 6 / np.sqrt(len(samples))
    flat = samples.ravel()
    for lag in (1, 2, 7, 4096):
        assert abs(np.mean(flat[lag:] * flat[:-lag])) < 6 / np.sqrt(flat.size - lag)


@samplers
def test_two_draws_differ_in_every_coordinate(sampler: Sampler) -> None:
    first, second = sampler(1000, 3.73), sampler(1000, 3.73)
    same = np.mean(first == second)
    assert same == 0 if sampler is not fast_float32 else same < 0.01
    assert abs(np.corrcoef(first, second)[0, 1]) < 6 / np.sqrt(1000)


def test_two_draws_of_one_source_differ_too() -> None:
    source = NoiseSource()
    like = torch.zeros(1000, dtype=torch.float64)
    assert not torch.isclose(source.fast(like, 1.0), source.fast(like, 1.0), atol=1e-12).any()
    assert not np.isclose(source.exact(like.numpy(), 1.0), source.exact(like.numpy(), 1.0), atol=1e-12).any()


# -- the exact sampler --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("std", [0.5, 3.73, 250.0])
def test_exact_noise_lives_on_its_grid_whatever_the_sum(std: float) -> None:
    values = np.array([0.1, -1 / 3, 1e-15, 1000.123456789, 5e-324] * 200)
    noisy = NoiseSource().exact(values, std)
    on_grid = noisy / GRID
    assert np.array_equal(on_grid, np.round(on_grid))
    assert noisy.dtype == np.float64


def test_exact_noise_uses_the_fine_bits_of_its_grid() -> None:
    steps = np.round(exact(4000, 1.0) / GRID).astype(np.int64)
    odd = np.count_nonzero(steps % 2)
    assert abs(odd - 2000) < 5.4 * np.sqrt(1000)


def test_exact_noise_is_added_to_the_values_and_keeps_their_shape() -> None:
    values = np.linspace(-500, 500, 6000).reshape(60, 100)
    noisy = NoiseSource().exact(values, 2.0)
    assert noisy.shape == values.shape
    assert scale_is(noisy - values, 2.0)
    assert values[0, 0] == -500


@pytest.mark.parametrize("count", [1, 4095, 4096, 4097, 9000])
def test_every_chunk_gets_noise_and_progress_ends_at_the_whole(count: int) -> None:
    told: list[tuple[int, int]] = []
    noisy = NoiseSource().exact(np.zeros(count), 3.0, lambda done, whole: told.append((done, whole)))
    assert np.count_nonzero(noisy) == count
    assert told[-1] == (count, count)


def test_exact_noise_is_never_replaced_by_another_where_opendp_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opendp", None)
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    with pytest.raises(MissingDependency, match="OpenDP"):
        require_exact()
    with pytest.raises(MissingDependency):
        exact(3, 1.0)


def test_a_missing_opendp_leaves_the_ledger_untouched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from simulacra.privacy.budget import Adjacency, Budget
    from simulacra.privacy.ledger import Ledger
    from simulacra.privacy.plan import make_plan
    from simulacra.privacy.query import Step
    from simulacra.privacy.sealed import Sealed
    from simulacra.privacy.vault import Vault
    from simulacra.schema import Numeric, Schema

    budget = Budget(epsilon=1.0, delta=1e-5, adjacency=Adjacency.ADD_REMOVE)
    ledger = Ledger.create(tmp_path / "data.ledger", adjacency=budget.adjacency)
    before = (tmp_path / "data.ledger").read_bytes()
    monkeypatch.setitem(sys.modules, "opendp", None)
    with pytest.raises(MissingDependency):
        Vault(
            sealed=Sealed(None, Schema(columns=(Numeric(name="x", lower=0, upper=1),))),  # type: ignore[arg-type]
            plan=make_plan([Step(name="sum", size=3)], budget),
            ledger=ledger,
            run="run",
            folder=tmp_path / "releases",
        )
    assert (tmp_path / "data.ledger").read_bytes() == before


# -- nobody seeds it ----------------------------------------------------------------------------------------------


def poisson(count: int, rate: float) -> np.ndarray:
    return NoiseSource().poisson(count, rate, CPU).numpy()


@pytest.mark.parametrize("sampler", [exact, fast, poisson])
def test_the_seeds_of_training_have_no_influence(sampler: Sampler) -> None:
    drawn = []
    for _ in range(2):
        torch.manual_seed(0)
        np.random.seed(0)  # noqa: NPY002
        drawn.append(sampler(500, 0.5))
    assert not np.array_equal(drawn[0], drawn[1])


@pytest.mark.parametrize("sampler", [exact, fast, poisson])
def test_drawing_noise_does_not_disturb_training(sampler: Sampler) -> None:
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002
    expected = torch.rand(3).tolist(), np.random.rand(3).tolist()  # noqa: NPY002
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002
    sampler(500, 0.5)
    assert (torch.rand(3).tolist(), np.random.rand(3).tolist()) == expected  # noqa: NPY002


def test_a_fixed_seed_is_for_tests_and_repeats_itself() -> None:
    values = np.arange(5.0)
    assert np.array_equal(NoiseSource(seed=3).exact(values, 1.0), NoiseSource(seed=3).exact(values, 1.0))
    assert not np.array_equal(NoiseSource(seed=3).exact(values, 1.0), NoiseSource(seed=4).exact(values, 1.0))


def test_a_source_does_not_show_its_generators() -> None:
    source = NoiseSource()
    source.fast(torch.zeros(1), 1.0)
    assert repr(source) == "NoiseSource(seed=None)"


def test_a_fork_does_not_draw_the_same_noise_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of the generators in another process: two sums with one noise would give the records away."""
    source, like = NoiseSource(), torch.zeros(64, dtype=torch.float64)
    source.fast(like, 1.0)
    forked = copy.deepcopy(source)
    with monkeypatch.context() as patch:
        patch.setattr("simulacra.privacy.noise.os.getpid", lambda: -1)
        theirs, sampled = forked.fast(like, 1.0), forked.poisson(4096, 0.5, CPU)
        assert not torch.equal(theirs, forked.fast(like, 1.0))  # and goes on with the generator it has made
    assert not torch.equal(theirs, source.fast(like, 1.0))
    assert not torch.equal(sampled, source.poisson(4096, 0.5, CPU))


# -- Poisson samples ----------------------------------------------------------------------------------------------


def test_a_poisson_sample_has_a_varying_size_of_the_right_mean_and_variance() -> None:
    records, rate, rounds = 400, 0.1, 4000
    source = NoiseSource()
    sizes = np.array([len(source.poisson(records, rate, CPU)) for _ in range(rounds)])
    mean, variance = records * rate, records * rate * (1 - rate)
    assert abs(sizes.mean() - mean) < 5.4 * np.sqrt(variance / rounds)
    assert abs(sizes.var() / variance - 1) < 5.4 * np.sqrt(2 / rounds) * 1.1
    assert len(set(sizes.tolist())) > 15


def test_every_record_is_chosen_equally_often_and_on_its_own() -> None:
    records, rate, rounds = 20, 0.3, 4000
    source = NoiseSource()
    chosen = np.zeros((rounds, records))
    for number in range(rounds):
        sample = source.poisson(records, rate, CPU).numpy()
        assert len(set(sample.tolist())) == len(sample)
        chosen[number, sample] = 1
    spread = 5.8 * np.sqrt(rate * (1 - rate) / rounds)
    assert np.abs(chosen.mean(axis=0) - rate).max() < spread
    assert np.abs(np.corrcoef(chosen.T)[np.triu_indices(records, 1)]).max() < 6.2 / np.sqrt(rounds)


def test_an_empty_poisson_sample_is_allowed() -> None:
    sample = NoiseSource().poisson(100, 1e-12, CPU)
    assert sample.shape == (0,)
    assert sample.dtype == torch.int64


def test_no_records_give_an_empty_sample_and_rate_one_gives_all() -> None:
    assert NoiseSource().poisson(0, 0.5, CPU).shape == (0,)
    assert NoiseSource().poisson(50, 1.0, CPU).tolist() == list(range(50))


def test_the_fast_sampler_has_more_streams_than_anyone_can_try() -> None:
    """torch's CPU generator keeps 32 bits of a seed: streams that differ in the high bits only would be the same."""
    like = torch.zeros(64, dtype=torch.float64)
    low, high = NoiseSource(seed=1), NoiseSource(seed=1 + 2**40)
    assert not torch.equal(low.fast(like, 1.0), high.fast(like, 1.0))
    cpu = torch.device("cpu")
    assert not torch.equal(low.poisson(4096, 0.5, cpu), high.poisson(4096, 0.5, cpu))

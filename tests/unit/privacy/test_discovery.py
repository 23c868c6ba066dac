"""Values nobody has listed: what many records share leaves, what one record has does not."""

from __future__ import annotations

import copy
import math
import pickle
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from invented import Counts, open_vault
from scipy.stats import binom, norm

from simulacra.errors import CertificateError, PlanError
from simulacra.privacy.budget import Adjacency, Budget
from simulacra.privacy.discovery import above_threshold, admit, count, discovery_step, threshold
from simulacra.privacy.ledger import Ledger
from simulacra.privacy.noise import NoiseSource
from simulacra.privacy.plan import Plan, PlannedStep, make_plan, make_plan_without_privacy
from simulacra.privacy.query import Noise, Step
from simulacra.privacy.sealed import SealedValues

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
NAME = "categories-1"


def plan(*, failure_delta: float = 5e-7, delta: float = 1e-6, adjacency: Adjacency = ADD, epsilon: float = 1.0) -> Plan:
    return make_plan(
        [discovery_step(NAME, failure_delta=failure_delta)], Budget(epsilon=epsilon, delta=delta, adjacency=adjacency)
    )


def planned(**settings: object) -> PlannedStep:
    return plan(**settings).step(NAME)  # type: ignore[arg-type]


def column(*parts: list[str | None]) -> SealedValues:
    return SealedValues(lambda: [pa.array(part, pa.large_string()) for part in parts])


# -- the threshold ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("adjacency", "values"), [(ADD, 1), (REPLACE, 2)])
@pytest.mark.parametrize("failure_delta", [1e-3, 1e-6, 1e-12])
def test_the_values_that_one_record_can_add_pass_with_the_charged_probability_at_most(
    adjacency: Adjacency, values: int, failure_delta: float
) -> None:
    step = planned(failure_delta=failure_delta, delta=2 * failure_delta, adjacency=adjacency)
    passing = values * norm.sf((threshold(step) - 1) / step.noise_std)
    assert 0.999 * failure_delta < passing < failure_delta


@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
def test_the_measured_rate_of_single_values_is_the_planned_one(adjacency: Adjacency) -> None:
    """Many lonely values and a threshold loose enough to see it work."""
    lonely, failure_delta = 20_000, 0.02
    step = planned(failure_delta=failure_delta, delta=0.05, adjacency=adjacency)
    beta = failure_delta if adjacency is ADD else failure_delta / 2
    passed = len(above_threshold({f"value {i}": 1 for i in range(lonely)}, step, NoiseSource()))
    assert binom.sf(passed, lonely, beta) > 1e-6
    assert binom.cdf(passed, lonely, beta) > 1e-6  # and the threshold is not needlessly high


def test_no_lonely_value_leaves_at_a_small_delta() -> None:
    counts = {f"value {i}": 1 for i in range(5000)}
    assert above_threshold(counts, planned(failure_delta=1e-11, delta=1e-6), NoiseSource()) == {}


def test_a_heavy_value_always_leaves_with_its_noisy_count() -> None:
    step = planned()
    for _ in range(20):
        found = above_threshold({"rare": 1, "heavy": 10_000}, step, NoiseSource())
        assert list(found) == ["heavy"]
        assert abs(found["heavy"] - 10_000) < 8 * step.noise_std


def test_the_noise_has_the_planned_scale() -> None:
    step = planned()
    draws = np.array([*above_threshold({f"{i}": 10**6 for i in range(4000)}, step, NoiseSource()).values()]) - 10**6
    assert len(draws) == 4000
    assert 0.93 < draws.std() / step.noise_std < 1.07


def test_the_noise_does_not_follow_the_seeds_of_training() -> None:
    answers = []
    for _ in range(2):
        torch.manual_seed(0)
        np.random.seed(0)  # noqa: NPY002
        answers.append(above_threshold({"heavy": 10_000}, planned(), NoiseSource())["heavy"])
    assert answers[0] != answers[1]


# -- what is charged ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("adjacency", "move"), [(ADD, 1.0), (REPLACE, math.sqrt(2))])
def test_one_record_moves_the_counts_by_at_most_the_charged_sensitivity(adjacency: Adjacency, move: float) -> None:
    rows: list[str | None] = ["a", "a", "b", None, " b "]
    neighbour = rows[1:] if adjacency is ADD else ["b", *rows[1:]]
    before, after = count(column(rows)), count(column(list(neighbour)))
    moved = math.sqrt(sum((before[key] - after[key]) ** 2 for key in before | after))
    charged = planned(adjacency=adjacency).sensitivity
    assert moved == pytest.approx(move)
    assert moved <= charged < 1.001 * move


def test_the_threshold_is_charged_on_top_and_survives_the_json() -> None:
    made = plan(failure_delta=4e-7)
    event = made.step(NAME).event
    assert 4e-7 <= event.failure_delta < 4e-7 + 1e-15
    assert 0.999 < made.epsilon(1e-6) <= 1.0
    assert made.epsilon(4e-7) == math.inf
    again = Plan.from_json(made.to_json())
    assert again.steps == made.steps
    values = made.to_json()
    values["steps"][0]["failure_delta"] = 0.0
    with pytest.raises(PlanError, match="does not charge"):
        Plan.from_json(values)
    del values["steps"][0]["threshold_delta"]  # a plan from before there were thresholds
    assert Plan.from_json(values).steps[0].step.failure_delta == 0.0


@pytest.mark.parametrize("wrong", [-0.1, 1.0, math.nan])
def test_an_impossible_failure_is_refused(wrong: float) -> None:
    with pytest.raises(PlanError, match="failure_delta"):
        discovery_step(NAME, failure_delta=wrong)


@pytest.mark.parametrize(
    "change", [{"failure_delta": 0.0}, {"norm_bound": 0.5}, {"size": 1}, {"noise": Noise.FAST}, {"failure_delta": 0.6}]
)
def test_a_step_that_was_not_charged_for_it_discovers_nothing(change: dict[str, float]) -> None:
    step = planned()
    with pytest.raises(PlanError, match=NAME):
        admit(replace(step, step=replace(step.step, **change)))  # type: ignore[arg-type]


# -- counting -----------------------------------------------------------------------------------------------------


def test_values_are_trimmed_and_null_and_blank_are_one_value() -> None:
    assert count(column(["a", " a\t", None], [], ["", "  ", "A"])) == Counter({"": 3, "a": 2, "A": 1})


def test_sealed_values_show_nothing() -> None:
    box = column(["secret"])
    assert repr(box) == str(box) == "SealedValues()"
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="not pickled"):
            attempt(box)  # type: ignore[operator]
    with pytest.raises(TypeError):
        len(box)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        iter(box)  # type: ignore[call-overload]


# -- through the vault --------------------------------------------------------------------------------------------


def test_the_vault_writes_the_ledger_before_it_reads_and_answers_once(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "data.ledger", adjacency=ADD)
    vault = open_vault(tmp_path, plan(), ledger=ledger)
    kinds_at_reading: list[list[str]] = []

    def read() -> list[pa.Array]:
        kinds_at_reading.append([entry["kind"] for entry in ledger.entries()])
        return [pa.array(["heavy"] * 5000 + ["rare"])]

    found = vault.discover(NAME, SealedValues(read))
    assert list(found) == ["heavy"]
    assert kinds_at_reading == [["open", "reserve", "ask"]]
    assert [entry["kind"] for entry in ledger.entries()] == ["open", "reserve", "ask", "answer"]
    assert vault.discover(NAME, SealedValues(read)) == found
    assert len(kinds_at_reading) == 1


@pytest.mark.parametrize("rows", [[], ["heavy"] * 5000])
def test_a_resumed_vault_gives_the_same_answer_and_reads_nothing(tmp_path: Path, rows: list[str | None]) -> None:
    found = open_vault(tmp_path, plan()).discover(NAME, column(rows))
    assert list(found) == list(dict.fromkeys(rows))
    again = open_vault(tmp_path, plan(), resume=True)
    assert again.discover(NAME, column(["other"] * 5000)) == found
    (tmp_path / "releases" / f"{NAME}.values.json").write_text("[1, 2")
    with pytest.raises(CertificateError, match=NAME):
        open_vault(tmp_path, plan(), resume=True).discover(NAME, column(rows))


def test_the_vault_discovers_only_what_was_planned_as_a_discovery(tmp_path: Path) -> None:
    step = Step.asking("class-counts", Counts())
    vault = open_vault(tmp_path, make_plan([step], Budget(epsilon=1.0, delta=1e-6, adjacency=ADD)))
    for name in ("class-counts", NAME):
        with pytest.raises(PlanError):
            vault.discover(name, column(["a"]))
    bare = make_plan_without_privacy([discovery_step(NAME, failure_delta=1e-6)], ADD)
    with pytest.raises(PlanError, match="without noise"):
        open_vault(tmp_path, bare, run="bare", releases="bare").discover(NAME, column(["a"]))


def test_a_seeded_answer_says_so(tmp_path: Path) -> None:
    open_vault(tmp_path, plan(), noise=NoiseSource(seed=1)).discover(NAME, column(["heavy"] * 5000))
    assert '"noise":"seeded"' in (tmp_path / "releases" / f"{NAME}.json").read_text()

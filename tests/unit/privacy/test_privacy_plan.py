"""Budgets, sensitivities and plans: all that is decided before any data is seen."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from invented import ONE, Counts, Inputs, loop_plan, one_shot_plan

from simulacra.errors import BudgetError, PlanError
from simulacra.privacy.accountant import Event, epsilon
from simulacra.privacy.budget import Adjacency, Budget
from simulacra.privacy.plan import Plan, make_plan, make_plan_without_privacy
from simulacra.privacy.query import GRID, ROUNDING_MARGIN, Noise, Step, discretisation_delta, sensitivity

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE


# -- budgets ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf, "1", None])
def test_an_impossible_epsilon_is_refused(value: Any) -> None:
    with pytest.raises(BudgetError, match="epsilon must be a positive"):
        Budget(epsilon=value, delta=1e-5, adjacency=ADD)


@pytest.mark.parametrize("value", [0.0, 1.0, -1e-5, 2.0, math.nan, math.inf, "1e-5", None])
def test_an_impossible_delta_is_refused(value: Any) -> None:
    with pytest.raises(BudgetError, match="delta must be between 0 and 1"):
        Budget(epsilon=1.0, delta=value, adjacency=ADD)


def test_the_relation_has_no_default_and_a_typo_gets_a_suggestion() -> None:
    with pytest.raises(TypeError, match="adjacency"):
        Budget(epsilon=1.0, delta=1e-5)  # type: ignore[call-arg]
    with pytest.raises(BudgetError, match='did you mean "replace-one"'):
        Budget(epsilon=1.0, delta=1e-5, adjacency="replace_one")  # type: ignore[arg-type]
    assert Budget(epsilon=1.0, delta=1e-5, adjacency="add-remove").adjacency is ADD  # type: ignore[arg-type]


# -- sensitivities ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("adjacency", "nonnegative", "sample_rate", "factor"),
    [
        (ADD, False, 1.0, 1.0),
        (ADD, True, 1.0, 1.0),
        (REPLACE, False, 1.0, 2.0),
        (REPLACE, True, 1.0, math.sqrt(2)),
        (ADD, False, 0.1, 1.0),
        (ADD, True, 0.1, 1.0),
        (REPLACE, False, 0.1, 1.0),
        (REPLACE, True, 0.1, 1.0),
    ],
)
@pytest.mark.parametrize("bound", [0.25, 1.0, 7.0])
def test_the_table_of_sensitivities(
    adjacency: Adjacency, nonnegative: bool, sample_rate: float, factor: float, bound: float
) -> None:
    step = Step(
        name="x", size=100, norm_bound=bound, nonnegative=nonnegative, sample_rate=sample_rate, noise=Noise.FAST
    )
    assert sensitivity(step, adjacency) == pytest.approx(factor * bound * (1 + ROUNDING_MARGIN), rel=1e-15)
    assert sensitivity(step, adjacency) > factor * bound


def test_exact_noise_charges_its_grid() -> None:
    step = Step(name="x", size=10_000)
    assert sensitivity(step, ADD) - sensitivity(replace(step, noise=Noise.FAST), ADD) == pytest.approx(
        GRID * 100, rel=1e-3
    )


def test_the_cost_of_the_grid_in_delta_is_small_and_grows_with_the_numbers() -> None:
    costs = [discretisation_delta(size, 3.73, 1.0) for size in (1, 1000, 1_000_000)]
    assert costs == sorted(costs)
    assert 0 < costs[-1] < 1e-14


@pytest.mark.parametrize(
    "wrong",
    [
        {"norm_bound": 0.0},
        {"norm_bound": math.inf},
        {"norm_bound": math.nan},
        {"relative_noise": 0.0},
        {"relative_noise": math.nan},
        {"count": 2},
        {"sample_rate": 0.5},
    ],
)
def test_a_step_that_cannot_be_charged_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(PlanError, match='step "x"'):
        Step(name="x", size=3, **wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        {"noise_multiplier": -1.0},
        {"noise_multiplier": math.nan},
        {"noise_multiplier": math.inf},
        {"noise_multiplier": 1.0, "sample_rate": 0.0},
        {"noise_multiplier": 1.0, "sample_rate": 1.5},
        {"noise_multiplier": 1.0, "count": 0},
        {"noise_multiplier": 1.0, "count": 1.5},
        {"noise_multiplier": 1.0, "failure_delta": 1.0},
        {"noise_multiplier": 1.0, "failure_delta": -0.1},
    ],
)
def test_an_impossible_event_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(PlanError):
        Event(**wrong)


@pytest.mark.parametrize("values", [{}, {"noise_multiplier": 1.0, "new": 1}, [1], "x", {"noise_multiplier": "1"}])
def test_what_is_not_an_event_is_not_read_as_one(values: Any) -> None:
    with pytest.raises(PlanError, match="not an event"):
        Event.from_json(values)


# -- plans --------------------------------------------------------------------------------------------------------


def test_a_plan_keeps_its_budget_and_shares_the_noise_out_as_asked() -> None:
    plan = one_shot_plan()
    counts, inputs = plan.steps
    assert 0.999 < plan.epsilon(1e-5) <= 1.0
    assert counts.event.noise_multiplier == pytest.approx(2 * inputs.event.noise_multiplier)
    assert inputs.noise_std == inputs.event.noise_multiplier * inputs.sensitivity


def test_a_plan_pays_for_what_was_spent_before() -> None:
    prior = Event(noise_multiplier=5.0)
    plan = make_plan([Step.asking("inputs", Inputs())], ONE, prior=[prior])
    assert 0.999 < epsilon([*plan.events, prior], 1e-5) == plan.epsilon(1e-5) <= 1.0
    with pytest.raises(BudgetError, match="used up"):
        make_plan([Step.asking("inputs", Inputs())], ONE, prior=[Event(noise_multiplier=1.0)])


@pytest.mark.parametrize("plan", [one_shot_plan(), one_shot_plan(None), loop_plan()], ids=["one-shot", "none", "loop"])
def test_a_plan_survives_json(plan: Plan) -> None:
    again = Plan.from_json(json.loads(json.dumps(plan.to_json())))
    assert again.steps == plan.steps
    assert again.to_json() == plan.to_json()


def test_a_plan_under_replace_one_survives_json_with_its_prior() -> None:
    budget = Budget(epsilon=1.0, delta=1e-5, adjacency=REPLACE)
    prior = Event(noise_multiplier=9.0, adjacency=REPLACE, failure_delta=1e-7)
    plan = make_plan([Step.asking("counts", Counts())], budget, prior=[prior])
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))).prior == (prior,)


@pytest.mark.parametrize("key", ["sensitivity", "noise_std", "norm_bound", "noise_multiplier", "size"])
@pytest.mark.parametrize("factor", [0.5, 2])
def test_a_plan_whose_numbers_do_not_follow_is_refused(key: str, factor: float) -> None:
    values = json.loads(json.dumps(one_shot_plan().to_json()))
    values["steps"][1][key] *= factor * (10_000_000 if key == "size" else 1)
    with pytest.raises(PlanError, match="do not follow"):
        Plan.from_json(values)


@pytest.mark.parametrize("key", ["steps", "adjacency", "prior", "private", "delta"])
def test_a_plan_with_a_part_missing_is_refused(key: str) -> None:
    values = one_shot_plan().to_json()
    del values[key]
    with pytest.raises(PlanError, match="not a plan"):
        Plan.from_json(values)


def test_a_plan_needs_steps_with_names_of_their_own() -> None:
    step = Step.asking("inputs", Inputs())
    with pytest.raises(PlanError, match="at least one"):
        make_plan([], ONE)
    with pytest.raises(PlanError, match="same name"):
        make_plan([step, step], ONE)
    with pytest.raises(PlanError, match="same name"):
        make_plan_without_privacy([step, step], ADD)


def test_a_plan_without_privacy_has_no_noise_and_no_promise() -> None:
    plan = one_shot_plan(None)
    assert not plan.private
    assert all(planned.noise_std == 0 for planned in plan.steps)
    assert math.isinf(plan.epsilon(1e-5))
    assert plan.to_json()["epsilon"] is None

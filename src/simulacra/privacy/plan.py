"""Plan: every question that will be asked, with its noise, fixed before any data is seen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from simulacra.errors import PlanError, suggestion
from simulacra.privacy import accountant, gaussian
from simulacra.privacy.accountant import Event
from simulacra.privacy.budget import Adjacency, Budget
from simulacra.privacy.query import Noise, Step, discretisation_delta, sensitivity


@dataclass(frozen=True, kw_only=True)
class PlannedStep:
    """A step with the noise it was given."""

    step: Step
    event: Event
    sensitivity: float

    @property
    def transient(self) -> bool:
        """Whether this is a training loop, whose releases are counted and not stored."""
        return self.step.count > 1 or self.step.sample_rate < 1

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise on each number: multiplier times what the multiplier is relative to."""
        return self.event.noise_multiplier * self.sensitivity

    def to_json(self) -> dict[str, Any]:
        """The stable form of `plan --json` and of certificates."""
        return {
            "name": self.step.name,
            "noise_multiplier": self.event.noise_multiplier,
            "sample_rate": self.event.sample_rate,
            "count": self.event.count,
            "sensitivity": self.sensitivity,
            "norm_bound": self.step.norm_bound,
            "nonnegative": self.step.nonnegative,
            "size": self.step.size,
            "noise_std": self.noise_std,
            "noise": str(self.step.noise),
            "relative_noise": self.step.relative_noise,
            "failure_delta": self.event.failure_delta,
            "threshold_delta": self.step.failure_delta,
        }


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Calibrated steps, the budget they keep (None: no noise, not private), and what was spent before on the schema."""

    steps: tuple[PlannedStep, ...]
    budget: Budget | None
    adjacency: Adjacency
    prior: tuple[Event, ...] = ()

    def step(self, name: str) -> PlannedStep:
        """The step of that name."""
        for planned in self.steps:
            if planned.step.name == name:
                return planned
        raise PlanError(f'"{name}" is not in the plan{suggestion(name, [p.step.name for p in self.steps])}')

    @property
    def events(self) -> tuple[Event, ...]:
        """What this plan itself spends."""
        return tuple(planned.event for planned in self.steps)

    @property
    def private(self) -> bool:
        """Whether there is any promise."""
        return self.budget is not None

    def epsilon(self, delta: float) -> float:
        """Epsilon of the plan and of what was spent before it."""
        return accountant.epsilon((*self.events, *self.prior), delta)

    def to_json(self) -> dict[str, Any]:
        """The stable form of `plan --json`."""
        return {
            "private": self.private,
            "epsilon": None if self.budget is None else self.epsilon(self.budget.delta),
            "delta": None if self.budget is None else self.budget.delta,
            "adjacency": str(self.adjacency),
            "steps": [planned.to_json() for planned in self.steps],
            "prior": [event.to_json() for event in self.prior],
        }

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Plan:
        """Read back a plan, recomputing every sensitivity: a plan whose numbers do not follow is refused."""
        try:
            adjacency = Adjacency(values["adjacency"])
            prior = tuple(Event.from_json(event) for event in values["prior"])
            steps = tuple(_planned_from_json(step, adjacency) for step in values["steps"])
            _check_names([planned.step for planned in steps])
            budget = None
            if values["private"]:
                budget = Budget(epsilon=values["epsilon"], delta=values["delta"], adjacency=adjacency)
        except (KeyError, TypeError, ValueError) as error:
            raise PlanError(f"this is not a plan: {error!r}") from None
        return cls(steps=steps, budget=budget, adjacency=adjacency, prior=prior)


def make_plan(steps: Sequence[Step], budget: Budget, *, prior: Sequence[Event] = ()) -> Plan:
    """Turn steps and a budget into noise. `prior` events were spent on the schema; the budget covers them too."""
    _check_names(steps)
    templates = []
    for step in steps:
        failure = step.failure_delta
        if step.noise is Noise.EXACT:
            # The gap shrinks as noise grows, and no plan within the budget has less noise than one release alone.
            least = sensitivity(step, budget.adjacency) / gaussian.mu_for(budget.epsilon, budget.delta)
            failure += discretisation_delta(step.size, least, budget.epsilon)
        templates.append(
            Event(
                noise_multiplier=step.relative_noise,
                sample_rate=step.sample_rate,
                count=step.count,
                adjacency=budget.adjacency,
                failure_delta=failure,
            )
        )
    events = accountant.calibrate(templates, budget.epsilon, budget.delta, fixed=prior)
    planned = tuple(
        PlannedStep(step=step, event=event, sensitivity=sensitivity(step, budget.adjacency))
        for step, event in zip(steps, events, strict=True)
    )
    return Plan(steps=planned, budget=budget, adjacency=budget.adjacency, prior=tuple(prior))


def make_plan_without_privacy(steps: Sequence[Step], adjacency: Adjacency) -> Plan:
    """The same questions with no noise at all, for a paper's epsilon = infinity rows."""
    _check_names(steps)
    return Plan(
        steps=tuple(
            PlannedStep(
                step=step,
                event=Event(noise_multiplier=0.0, sample_rate=step.sample_rate, count=step.count, adjacency=adjacency),
                sensitivity=sensitivity(step, adjacency),
            )
            for step in steps
        ),
        budget=None,
        adjacency=adjacency,
    )


def _check_names(steps: Sequence[Step]) -> None:
    names = [step.name for step in steps]
    if not names:
        raise PlanError("a plan needs at least one step")
    if len(set(names)) < len(names):
        raise PlanError("two steps of a plan have the same name")


def _planned_from_json(values: dict[str, Any], adjacency: Adjacency) -> PlannedStep:
    step = Step(
        name=values["name"],
        size=values["size"],
        norm_bound=values["norm_bound"],
        nonnegative=values["nonnegative"],
        relative_noise=values["relative_noise"],
        sample_rate=values["sample_rate"],
        count=values["count"],
        noise=Noise(values["noise"]),
        failure_delta=values.get("threshold_delta", 0.0),  # plans written before there were thresholds have none
    )
    event = Event(
        noise_multiplier=values["noise_multiplier"],
        sample_rate=values["sample_rate"],
        count=values["count"],
        adjacency=adjacency,
        failure_delta=values["failure_delta"],
    )
    planned = PlannedStep(step=step, event=event, sensitivity=sensitivity(step, adjacency))
    if event.noise_multiplier > 0 and event.failure_delta < step.failure_delta:
        raise PlanError(f'step "{step.name}": its event does not charge the delta of its threshold')
    for claimed, right in ((values["sensitivity"], planned.sensitivity), (values["noise_std"], planned.noise_std)):
        if not math.isclose(claimed, right, rel_tol=1e-12):
            raise PlanError(f'step "{step.name}": its numbers do not follow from its bounds')
    return planned

"""Attacks on the real vault, with data invented to be as bad as the map allows.

Two data sets that differ in one record, as far apart as the map can put them, go through the whole machinery: Sealed,
Plan, Ledger, sums, noise. A few runs are complete; the many trials an attack needs redraw the noise of the same sums
through the vault's own function. Only invented records are ever audited: this module looks behind the glass.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from simulacra.audit.detectors import correlation_findings, repeat_findings, sample_findings, scale_findings
from simulacra.audit.lower_bound import epsilon_lower_bound, gaussian_lower_bound
from simulacra.privacy import accountant
from simulacra.privacy.budget import Adjacency, Budget
from simulacra.privacy.ledger import Ledger
from simulacra.privacy.plan import Plan, PlannedStep, make_plan, make_plan_without_privacy
from simulacra.privacy.query import FeatureMap, Noise, Step
from simulacra.privacy.records import Records
from simulacra.privacy.sealed import Sealed
from simulacra.privacy.summing import sum_over
from simulacra.privacy.vault import Vault
from simulacra.schema import ImageShape, Numeric, Schema

Array = np.ndarray[Any, np.dtype[np.float64]]
STEPS = ("first", "second")
FRESH_RUNS = 3
OTHERS = 3
"""Records that both data sets share: few, so that anything divided by a true count shows."""


@dataclass(frozen=True, kw_only=True)
class AuditResult:
    """`lower_bound` holds with `confidence`; the claim is broken if it is above `claimed_epsilon`, both at `delta`.

    `findings` are faults seen directly: noise of the wrong scale, missing, repeated or predictable.
    """

    claimed_epsilon: float
    lower_bound: float
    delta: float
    trials: int
    confidence: float
    findings: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether nothing speaks against the claim."""
        return self.lower_bound <= self.claimed_epsilon and not self.findings


class StretchedInputs(FeatureMap):
    """The record, stretched far beyond the bound: without clipping one record would move the sum by much more."""

    def __init__(self, inputs: int) -> None:
        self.shape = (inputs,)

    def features(self, inputs: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        return inputs * 4


class WhichRecord(FeatureMap):
    """Numbers the records: the first input holds which one it is, the sum says which were there."""

    nonnegative = True

    def __init__(self, records: int) -> None:
        self.shape = (records,)

    def features(self, inputs: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        places = torch.linspace(-1, 1, self.shape[0], dtype=inputs.dtype)
        return ((places - inputs[0]).abs() < 0.5 / self.shape[0]).to(inputs.dtype)


@dataclass(frozen=True, kw_only=True)
class Invented:
    """Invented records as a source."""

    records: Records

    def batches(self) -> Iterator[Records]:
        """All at once: there are few."""
        yield self.records

    def check(self) -> None:
        """Nothing to check."""


def audit_release(
    budget: Budget,
    *,
    feature_map: FeatureMap | None = None,
    inputs: int = 4,
    classes: int = 1,
    trials: int = 10_000,
    confidence: float = 1 - 1e-6,
    noise: Noise = Noise.EXACT,
) -> AuditResult:
    """Attack a plan that asks a map twice, at its budget. `trials` runs on each of two neighbouring data sets.

    A map takes `inputs` numbers and one of `classes` labels, as `simulacra.features.examples()` lists them.
    """
    feature_map = feature_map or StretchedInputs(inputs)
    schema = invented_schema(inputs, classes)
    without, present = worst_neighbours(feature_map, inputs, classes, budget.adjacency)
    steps = [replace(Step.asking(name, feature_map), noise=noise) for name in STEPS]
    plan = make_plan(steps, budget)
    findings: list[str] = []
    scores = []
    sums = [_sums(Sealed(Invented(records=each), schema), feature_map) for each in (without, present)]
    direction = (sums[1] - sums[0]).flatten().numpy()
    if np.linalg.norm(direction) > plan.steps[0].sensitivity:
        findings.append("one record moves the sum by more than was charged")
    stds = [planned.noise_std for planned in plan.steps]
    for side, records, total in zip(("without", "present"), (without, present), sums, strict=True):
        fresh = []
        for _ in range(FRESH_RUNS):
            with _vault(plan, records, schema) as vault:
                answers = vault.ask_all(dict.fromkeys(STEPS, feature_map))
            fresh += [
                (answers[name].value - total).flatten().numpy() / std for name, std in zip(STEPS, stds, strict=True)
            ]
        findings += repeat_findings(fresh, f"fresh runs, record {side}")
        with _vault(plan, records, schema) as vault:
            drawn = [_redraw(vault, planned, total, trials) for planned in plan.steps]
        residuals = [values - total.flatten().numpy() for values in drawn]
        for name, std, residual in zip(STEPS, stds, residuals, strict=True):
            findings += scale_findings(residual, std, f'step "{name}", record {side}')
        findings += correlation_findings(residuals[0] / stds[0], residuals[1] / stds[1], f"record {side}")
        # The best score there is: the likelihood ratio of two Gaussians, from what is released and nothing else.
        scores.append(sum(values @ direction / std**2 for values, std in zip(drawn, stds, strict=True)))
    claimed = plan.epsilon(budget.delta)
    share = 1 - (1 - confidence) / 2
    lower = max(
        gaussian_lower_bound(scores[0], scores[1], delta=budget.delta, confidence=share),
        epsilon_lower_bound(scores[0], scores[1], delta=budget.delta, confidence=share),
    )
    return AuditResult(
        claimed_epsilon=claimed,
        lower_bound=lower,
        delta=budget.delta,
        trials=trials,
        confidence=confidence,
        findings=tuple(dict.fromkeys(findings)),
    )


def audit_loop(
    *,
    noise_multiplier: float = 0.8,
    sample_rate: float = 0.8,
    rounds: int = 2,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
    delta: float = 0.1,
    inputs: int = 4,
    trials: int = 4000,
    confidence: float = 1 - 1e-6,
) -> AuditResult:
    """Attack a training loop of Poisson-sampled rounds. The claim is the accountant's epsilon at `delta`.

    The claim is a whole curve; a large delta asks it where a few thousand trials can see it best.
    """
    feature_map = StretchedInputs(inputs)
    schema = invented_schema(inputs, 1)
    without, present = worst_neighbours(feature_map, inputs, 1, adjacency)
    step = Step(name="loop", size=feature_map.size, sample_rate=sample_rate, count=rounds, noise=Noise.FAST)
    event = accountant.Event(
        noise_multiplier=noise_multiplier, sample_rate=sample_rate, count=rounds, adjacency=adjacency
    )
    charged = make_plan_without_privacy([step], adjacency).steps[0].sensitivity
    promise = Budget(epsilon=accountant.epsilon(event, delta), delta=delta, adjacency=adjacency)
    scores = []
    findings = _loop_noise(step, event, charged, promise, schema) + _loop_samples(adjacency)
    # One long loop holds all trials; each group of `rounds` draws is one run of the claim.
    many = rounds * trials
    plan = Plan(
        steps=(PlannedStep(step=replace(step, count=many), event=replace(event, count=many), sensitivity=charged),),
        budget=promise,
        adjacency=adjacency,
    )
    sums = [_sums(Sealed(Invented(records=each), schema), feature_map).flatten().numpy() for each in (without, present)]
    direction = (sums[1] - sums[0]) / np.linalg.norm(sums[1] - sums[0])
    if np.linalg.norm(sums[1] - sums[0]) > charged * (2 if adjacency is Adjacency.REPLACE_ONE else 1):
        findings.append("one record moves the sum by more than was charged")
    std = plan.steps[0].noise_std
    before, after = (float(total @ direction) / std for total in sums)
    for records in (without, present):
        with _vault(plan, records, schema) as vault, vault.loop("loop", block=many) as draw:
            values = np.stack([draw(feature_map).flatten().numpy() for _ in range(many)])
        position = values @ direction / std
        ratio = _log_mixture(position, after, sample_rate) - _log_mixture(position, before, sample_rate)
        scores.append(ratio.reshape(trials, rounds).sum(axis=1))
    return AuditResult(
        claimed_epsilon=promise.epsilon,
        lower_bound=epsilon_lower_bound(scores[0], scores[1], delta=delta, confidence=confidence),
        delta=delta,
        trials=trials,
        confidence=confidence,
        findings=tuple(dict.fromkeys(findings)),
    )


def invented_schema(inputs: int, classes: int) -> Schema:
    """A schema of that many numbers and classes, for invented records."""
    if classes == 1:
        return Schema(columns=tuple(Numeric(name=f"x{i}", lower=-1, upper=1) for i in range(inputs)))
    return Schema(image=ImageShape(height=1, width=inputs, classes=tuple(f"class {i}" for i in range(classes))))


def worst_neighbours(
    feature_map: FeatureMap, inputs: int, classes: int, adjacency: Adjacency, *, candidates: int = 256
) -> tuple[Records, Records]:
    """Two neighbouring data sets that the map puts as far apart as a search over invented records can.

    Corners of the cube and random points compete. Add-remove: `present` has one record more, the longest found.
    Replace-one: one record is replaced by the one that is farthest from it.
    """
    generator = torch.Generator().manual_seed(0)
    points = torch.rand(candidates, inputs, generator=generator) * 2 - 1
    points[::2] = points[::2].sign()
    points[0], points[1] = 1.0, -1.0
    labels = torch.arange(candidates) // 2 % classes
    rows = [
        feature_map.clipped_sum(points[i : i + 1].to(feature_map.dtype), labels[i : i + 1]) for i in range(candidates)
    ]
    values = torch.stack(rows).flatten(1)
    others, other_labels = torch.zeros(OTHERS, inputs), torch.zeros(OTHERS, dtype=torch.int64)

    def with_record(index: int) -> Records:
        return Records(
            inputs=torch.cat([others, points[index : index + 1]]),
            labels=torch.cat([other_labels, labels[index : index + 1]]),
        )

    if adjacency is Adjacency.ADD_REMOVE:
        longest = int(values.norm(dim=1).argmax())
        return Records(inputs=others, labels=other_labels), with_record(longest)
    farthest = int(torch.cdist(values, values).argmax())
    return with_record(farthest // candidates), with_record(farthest % candidates)


def _sums(sealed: Sealed, feature_map: FeatureMap) -> torch.Tensor:
    return sum_over(sealed, {"sum": feature_map})["sum"]


def _redraw(vault: Vault, planned: PlannedStep, total: torch.Tensor, trials: int) -> Array:
    """What the vault would have released, again and again: its own function on many copies of its own sum."""
    copies = total.flatten().repeat(trials, 1)
    return vault._protect(planned, copies).value.numpy()


def _log_mixture(position: Array, shift: float, rate: float) -> Array:
    """Logarithm of a sampled record's likelihood ratio against no record, in units of the noise."""
    ratio: Array = np.log1p(rate * np.expm1(np.minimum(position * shift - shift**2 / 2, 500.0)))
    return ratio


def _loop_noise(
    step: Step, event: accountant.Event, charged: float, promise: Budget, schema: Schema, draws: int = 600
) -> list[str]:
    """Over no records at all, what a loop gives is its noise."""
    nobody = Records(inputs=torch.zeros(0, schema.inputs), labels=torch.zeros(0, dtype=torch.int64))
    planned = PlannedStep(step=replace(step, count=draws), event=replace(event, count=draws), sensitivity=charged)
    plan = Plan(steps=(planned,), budget=promise, adjacency=promise.adjacency)
    feature_map = StretchedInputs(schema.inputs)
    fresh: list[Array] = []
    findings: list[str] = []
    for _ in range(FRESH_RUNS):
        with _vault(plan, nobody, schema) as vault, vault.loop(step.name, block=draws) as draw:
            noise = np.stack([draw(feature_map).numpy() for _ in range(draws)])
        fresh += list(noise[:4] / planned.noise_std)
        findings += scale_findings(noise, planned.noise_std, "loop")
    return findings + repeat_findings(fresh, "loop")


def _loop_samples(adjacency: Adjacency, records: int = 16, rounds: int = 12) -> list[str]:
    """Without noise, what a loop gives tells which records were sampled; fresh runs must not sample alike."""
    feature_map = WhichRecord(records)
    step = Step(name="loop", size=records, nonnegative=True, sample_rate=0.5, count=rounds, noise=Noise.FAST)
    plan = make_plan_without_privacy([step], adjacency)
    everyone = Records(
        inputs=torch.linspace(-1, 1, records).unsqueeze(1), labels=torch.zeros(records, dtype=torch.int64)
    )
    seen = []
    for _ in range(FRESH_RUNS):
        with _vault(plan, everyone, invented_schema(1, 1)) as vault, vault.loop("loop") as draw:
            seen.append([frozenset(draw(feature_map).nonzero().flatten().tolist()) for _ in range(rounds)])
    return sample_findings(seen, "loop")


@contextmanager
def _vault(plan: Plan, records: Records, schema: Schema) -> Iterator[Vault]:
    """A fresh vault over invented records, with its own ledger, in a process whose training seeds are fixed."""
    legacy = np.random.get_state()  # noqa: NPY002
    with tempfile.TemporaryDirectory(prefix="simulacra-audit-") as folder, torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        np.random.seed(0)  # noqa: NPY002
        try:
            yield Vault(
                sealed=Sealed(Invented(records=records), schema),
                plan=plan,
                ledger=Ledger.create(Path(folder) / "audit.ledger", adjacency=plan.adjacency),
                run="audit",
                folder=Path(folder) / "releases",
            )
        finally:
            np.random.set_state(legacy)  # noqa: NPY002

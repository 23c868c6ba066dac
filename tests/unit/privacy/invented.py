"""Invented records, maps and plans that the tests of the boundary share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch

from simulacra.privacy.accountant import Event
from simulacra.privacy.budget import Adjacency, Budget
from simulacra.privacy.ledger import Ledger
from simulacra.privacy.noise import NoiseSource
from simulacra.privacy.plan import Plan, PlannedStep, make_plan, make_plan_without_privacy
from simulacra.privacy.query import FeatureMap, Noise, Step, sensitivity
from simulacra.privacy.records import Records
from simulacra.privacy.sealed import Sealed
from simulacra.privacy.vault import Vault
from simulacra.schema import Categorical, Numeric, Schema

SCHEMA = Schema(
    columns=(
        Numeric(name="height", lower=0, upper=2),
        Numeric(name="weight", lower=0, upper=200),
        Categorical(name="group", values=("a", "b", "c")),
    ),
    label="group",
)
ONE = Budget(epsilon=1.0, delta=1e-5, adjacency=Adjacency.ADD_REMOVE)


class Counts(FeatureMap):
    """How many records each class has."""

    nonnegative = True

    def __init__(self, classes: int = 3) -> None:
        self.shape = (classes,)

    def features(self, inputs: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        return (torch.arange(self.shape[0]) == label).to(inputs.dtype)


class Inputs(FeatureMap):
    """The record itself, stretched so that clipping has work to do."""

    def __init__(self, inputs: int = 2, bound: float = 1.0) -> None:
        self.shape, self.norm_bound = (inputs,), bound

    def features(self, inputs: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        return inputs * 3


@dataclass
class InMemory:
    """A source that counts how often it is read."""

    inputs: torch.Tensor
    labels: torch.Tensor
    batch: int = 3
    passes: int = field(default=0)

    def batches(self) -> Iterator[Records]:
        self.passes += 1
        for start in range(0, len(self.inputs), self.batch):
            stop = start + self.batch
            yield Records(inputs=self.inputs[start:stop], labels=self.labels[start:stop])

    def check(self) -> None:
        return None


def source(records: int = 5) -> InMemory:
    inputs = torch.linspace(-1, 1, 2 * records).reshape(records, 2)
    return InMemory(inputs=inputs, labels=torch.arange(records) % 3)


def one_shot_plan(budget: Budget | None = ONE) -> Plan:
    """Two exact releases: class counts and the inputs."""
    steps = (Step.asking("class-counts", Counts(), relative_noise=2.0), Step.asking("inputs", Inputs()))
    return make_plan(steps, budget) if budget else make_plan_without_privacy(steps, Adjacency.ADD_REMOVE)


def loop_plan(count: int = 10) -> Plan:
    """A training loop over Poisson samples; 8 keeps epsilon below 1 without calibrating for seconds."""
    step = Step(name="gradient", size=2, sample_rate=0.5, count=count, noise=Noise.FAST)
    event = Event(noise_multiplier=8.0, sample_rate=0.5, count=count)
    planned = PlannedStep(step=step, event=event, sensitivity=sensitivity(step, ONE.adjacency))
    return Plan(steps=(planned,), budget=ONE, adjacency=ONE.adjacency)


def open_vault(
    folder: Path,
    plan: Plan,
    *,
    run: str = "run",
    records: InMemory | None = None,
    resume: bool = False,
    ledger: Ledger | None = None,
    noise: NoiseSource | None = None,
    releases: str = "releases",
) -> Vault:
    """A vault in a folder, on the ledger in that folder unless another is given."""
    return Vault(
        sealed=Sealed(records or source(), SCHEMA),
        plan=plan,
        ledger=ledger or Ledger.open_or_create(folder / "data.ledger", adjacency=plan.adjacency),
        run=run,
        folder=folder / releases,
        noise=noise,
        resume=resume,
    )


def damage(path: Path) -> Iterator[int]:
    """Flip each byte of a file in turn (two ways), give its position, and put the file back."""
    whole = path.read_bytes()
    for position in range(len(whole)):
        for flip in (0x01, 0xFF):
            broken = bytearray(whole)
            broken[position] ^= flip
            path.write_bytes(bytes(broken))
            yield position
    path.write_bytes(whole)

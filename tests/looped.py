"""A tiny method that draws while it learns: noisy class means of tables, averaged over the rounds. For tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar
from unittest import mock

import torch

from simulacra import methods
from simulacra.data.points import points_for
from simulacra.features.combine import ClassCount, PerClass
from simulacra.generators import GeneratorOptions, build
from simulacra.generators.sampler import Sampler
from simulacra.methods.base import Context
from simulacra.methods.looping import PrivateLoop, Rounds, loop_step
from simulacra.privacy.query import FeatureMap, Step
from simulacra.privacy.release import Release
from simulacra.schema import Schema

AT_TURN: list[Callable[[int], None]] = []
"""What tests do between a draw and the next turn."""


class Points(FeatureMap):
    """A record as a one-hot row of length 1."""

    nonnegative = True

    def __init__(self, schema: Schema) -> None:
        self.points = points_for(schema)
        self.shape = (self.points.width,)
        self.scale = len(schema.features) ** 0.5

    def features(self, inputs: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        return self.batch(inputs)

    def batch(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.points.of_records(inputs) / self.scale


@dataclass
class Mean:
    """The sum of all draws so far, and how many there were."""

    total: torch.Tensor
    draws: int = 0
    seen: list[float] = field(default_factory=list)

    def state(self) -> dict[str, torch.Tensor]:
        return {"total": self.total, "draws": torch.tensor(self.draws)}

    def load(self, state: Mapping[str, torch.Tensor]) -> None:
        self.total, self.draws = state["total"], int(state["draws"])


@dataclass(frozen=True, kw_only=True)
class LoopedMeans(PrivateLoop):
    """Class counts once; then class sums over Poisson samples, round after round."""

    name: ClassVar[str] = "looped-means"
    summary: ClassVar[str] = "For tests."
    tables: ClassVar[bool] = True
    images: ClassVar[bool] = False

    rounds: int = 40
    rate: float = 0.25
    last: ClassVar[Mean]

    def questions(self, schema: Schema) -> Mapping[str, FeatureMap]:
        return {"class-counts": ClassCount(schema.classes)}

    def noise_shares(self, schema: Schema) -> Mapping[str, float]:
        return {"class-counts": 3.0}

    def loops(self, schema: Schema) -> Sequence[Step]:
        return [loop_step("sums", self._map(schema), sample_rate=self.rate, rounds=self.rounds)]

    def remarks(self, schema: Schema) -> Sequence[str]:
        return ["each record fills the row of its class only"]

    def fit(
        self, schema: Schema, releases: Mapping[str, Release], rounds: Mapping[str, Rounds], context: Context
    ) -> Sampler:
        mean = Mean(total=torch.zeros(schema.classes, points_for(schema).width, dtype=torch.float64))
        sums = rounds["sums"]
        for number in sums.turns(mean):
            mean.total = mean.total + sums.draw(self._map(schema))
            mean.draws += 1
            assert mean.draws == number + 1
            for act in AT_TURN:
                act(number)
        type(self).last = mean
        options = GeneratorOptions(hidden=(4,))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(context.seed)
            network = build(schema, options)
        shares = releases["class-counts"].value.clamp(min=1.0)
        return Sampler(schema=schema, options=options, generator=network, class_shares=(shares / shares.sum()).float())

    def _map(self, schema: Schema) -> PerClass:
        return PerClass(Points(schema), schema.classes)


def known() -> Any:
    """A patch under which the method can be found by its name."""
    return mock.patch.object(methods, "all_methods", return_value={LoopedMeans.name: LoopedMeans})

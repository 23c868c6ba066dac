"""LDPDC: linear dataset condensation (Zheng and Li, Differentially Private Dataset Condensation, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from simulacra.errors import PlanError
from simulacra.features.combine import PerClass
from simulacra.features.itself import Itself
from simulacra.generators import GeneratorOptions
from simulacra.generators.condensed import Condensed, CondensedRows
from simulacra.generators.sampler import Sampler
from simulacra.methods.base import Context
from simulacra.methods.condensation import Condensation, fresh_set
from simulacra.methods.looping import Rounds, loop_step
from simulacra.privacy.query import FeatureMap, Step
from simulacra.privacy.release import Release
from simulacra.schema import Schema

LEAST_WEIGHT = 1e-6
"""What a cell weighs, as a share, when noise left it nothing: a column must be drawable."""


@dataclass
class Means:
    """The noisy sums of the rounds so far, (rounds, classes, width)."""

    sums: list[torch.Tensor]

    def state(self) -> dict[str, torch.Tensor]:
        return {"sums": torch.stack(self.sums)}

    def load(self, state: Mapping[str, torch.Tensor]) -> None:
        self.sums = list(state["sums"])


@dataclass(frozen=True, kw_only=True)
class LDPDC(Condensation):
    """Each synthetic record is the noisy mean of a random group of its class; nothing is trained.

    A round makes one record of every class. Rows of tables are drawn from the noisy cell frequencies of their group, so
    that they are valid rows.
    """

    name: ClassVar[str] = "ldpdc"
    summary: ClassVar[str] = "A small set of records per class, each the noisy mean of a random group. Draws in rounds."
    tables: ClassVar[bool] = True
    images: ClassVar[bool] = True

    count_noise: float = 100.0
    """There are few rounds, so that the loop's own noise multiplier is small."""

    def set_options(self) -> GeneratorOptions:
        return GeneratorOptions(kind="condensed", per_class=self.per_class, init="grey")

    def loops(self, schema: Schema) -> Sequence[Step]:
        return [loop_step("means", _map(schema), sample_rate=self.sample_rate(schema), rounds=self.per_class)]

    def fit(
        self, schema: Schema, releases: Mapping[str, Release], rounds: Mapping[str, Rounds], context: Context
    ) -> Sampler:
        means, feature_map = Means([]), _map(schema)
        drawing = rounds["means"]
        for number in drawing.turns(means):
            means.sums.append(drawing.draw(feature_map).cpu())
            if context.on_step:
                context.on_step(number + 1, drawing.total, 0.0)
        if not means.sums:
            raise PlanError("no round was drawn, so that there is nothing to make records of; resume the run")
        records = torch.stack(means.sums, dim=1) / self.expected(schema, releases).reshape(-1, 1, 1)
        options = replace(self.set_options(), per_class=len(means.sums))  # a crash may have cost some
        held = fresh_set(schema, options, context.seed)
        fill(held, records.flatten(0, 1), context.seed)
        return self.sampler(schema, held, options, releases["class-counts"].value)


def _map(schema: Schema) -> FeatureMap:
    return PerClass(Itself(schema), schema.classes)


def fill(held: Condensed, means: torch.Tensor, seed: int) -> None:
    """Images are the means themselves; the cells of a row are drawn from them, as from probabilities."""
    if not isinstance(held, CondensedRows):
        held.set_records(means.float())
        return
    random = torch.Generator().manual_seed(seed)
    heads = torch.split(means, list(held.cells.sizes), dim=1)
    chosen = [torch.multinomial(head.clamp(min=0.0) + LEAST_WEIGHT, 1, generator=random) for head in heads]
    held.set_records(held.cells.place(torch.cat(chosen, dim=1), random))

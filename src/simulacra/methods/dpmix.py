"""DPMix: noisy mixtures of records and of their labels (Lee et al., ISIT 2019); a baseline for condensation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from simulacra.errors import PlanError, SchemaError
from simulacra.features.itself import WithLabel
from simulacra.generators import GeneratorOptions
from simulacra.generators.sampler import Sampler
from simulacra.methods.base import Context
from simulacra.methods.condensation import Condensation, fresh_set
from simulacra.methods.ldpdc import Means, fill
from simulacra.methods.looping import Rounds, loop_step
from simulacra.privacy.query import Step
from simulacra.privacy.release import Release
from simulacra.schema import Schema


@dataclass(frozen=True, kw_only=True)
class DPMix(Condensation):
    """Each synthetic record is the noisy mean of a random group of all classes, and so is its label.

    Unlike the published method, groups are Poisson samples, and a label is made one class in the end: every class takes
    the mixtures that have most of it, `per_class` of them. LDPDC, which keeps classes apart, is the better method.
    """

    name: ClassVar[str] = "dpmix"
    summary: ClassVar[str] = (
        "A baseline: noisy mixtures of records of all classes and of their labels. Draws in rounds."
    )
    tables: ClassVar[bool] = True
    images: ClassVar[bool] = True

    def groups(self, schema: Schema) -> int:
        return 1

    def remarks(self, schema: Schema) -> Sequence[str]:
        return ("one sampling rate, fixed before any data was seen; the number of records comes from the noisy counts",)

    def set_options(self) -> GeneratorOptions:
        return GeneratorOptions(kind="condensed", per_class=self.per_class, init="grey")

    def loops(self, schema: Schema) -> Sequence[Step]:
        if not schema.labelled:
            raise SchemaError("dpmix mixes labels too, and the schema has none; name a label, or use ldpdc")
        rounds = self.per_class * schema.classes
        return [loop_step("mixtures", WithLabel(schema), sample_rate=self.sample_rate(schema), rounds=rounds)]

    def fit(
        self, schema: Schema, releases: Mapping[str, Release], rounds: Mapping[str, Rounds], context: Context
    ) -> Sampler:
        means, feature_map = Means([]), WithLabel(schema)
        drawing = rounds["mixtures"]
        for number in drawing.turns(means):
            means.sums.append(drawing.draw(feature_map).cpu())
            if context.on_step:
                context.on_step(number + 1, drawing.total, 0.0)
        per_class = len(means.sums) // schema.classes  # a crash may have cost some
        if per_class == 0:
            raise PlanError("too few rounds were drawn for a record of each class; resume the run")
        mixtures = torch.stack(means.sums) / self.expected(schema, releases).sum()
        chosen = _shared_out(mixtures[:, feature_map.itself.size :], per_class)
        options = replace(self.set_options(), per_class=per_class)
        held = fresh_set(schema, options, context.seed)
        fill(held, mixtures[chosen, : feature_map.itself.size] * feature_map.itself.norm_bound, context.seed)
        return self.sampler(schema, held, options, releases["class-counts"].value)


def _shared_out(labels: torch.Tensor, per_class: int) -> torch.Tensor:
    """Which mixtures each class takes, one class after the other, those with most of it; none is taken twice."""
    left, taken = labels.clone(), []
    for label in range(labels.shape[1]):
        best = left[:, label].argsort(descending=True)[:per_class]
        left[best] = -math.inf
        taken.append(best)
    return torch.cat(taken)

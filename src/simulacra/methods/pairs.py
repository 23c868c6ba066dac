"""Pairs: the noisy cross tables of all pairs of columns, from one release; a generator is trained to match them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch

from simulacra.features.combine import ClassCount
from simulacra.features.groups import Groups
from simulacra.features.pairs import PairLayout, Pairs
from simulacra.generators import GeneratorOptions
from simulacra.generators.sampler import Sampler
from simulacra.methods.base import Context, ReleaseOnce, check_shares
from simulacra.methods.matching import Training, train_to_match
from simulacra.privacy.query import FeatureMap
from simulacra.privacy.release import Release
from simulacra.schema import Schema


@dataclass(frozen=True)
class LabelWeighted:
    """The map with pairs that hold the label scaled by the root of their weight in the loss."""

    pairs: Pairs
    weight: float

    def class_sums(self, points: torch.Tensor, groups: Groups) -> torch.Tensor:
        """(1, features) of generated points."""
        return self.pairs.class_sums(points, groups, math.sqrt(self.weight))

    def scaled(self, values: torch.Tensor) -> torch.Tensor:
        """Released sums on the same scale, (1, features). The label is the last column: the right of every block."""
        values = values.clone()
        if self.pairs.classes:
            for block in self.pairs.layout.blocks(values):
                block[:, -self.pairs.classes :] *= math.sqrt(self.weight)
        return values.unsqueeze(0)


@dataclass(frozen=True, kw_only=True)
class AllPairs(ReleaseOnce):
    """Two releases: the class counts, and the cross tables of all pairs of columns, the label among them.

    A method of our own. The tables are made consistent (by least squares) before training. The generator has a softmax
    per column, and its cross tables are means of products of probabilities: exact, without drawing a row.
    """

    name: ClassVar[str] = "pairs"
    summary: ClassVar[str] = (
        "The noisy cross tables of all pairs of columns, from one release; a generator matches them."
    )
    tables: ClassVar[bool] = True
    images: ClassVar[bool] = False

    count_noise: float = 5.0
    """Noise multiplier of the counts, relative to the cross tables'."""
    label_weight: float = 16.0
    """Of pairs with the label in the loss, relative to others."""
    # Small batches and few steps did better for classifiers in trials on held-back training rows (see the docs).
    training: Training = field(default_factory=lambda: Training(steps=1000, batch=300))
    generator: GeneratorOptions = field(default_factory=GeneratorOptions)

    def __post_init__(self) -> None:
        check_shares("pairs", count_noise=self.count_noise, label_weight=self.label_weight)

    def questions(self, schema: Schema) -> Mapping[str, FeatureMap]:
        return {"class-counts": ClassCount(schema.classes), "pairs": Pairs(schema)}

    def noise_shares(self) -> Mapping[str, float]:
        return {"class-counts": self.count_noise}

    def asking(self) -> Mapping[str, Any]:
        return {"count_noise": self.count_noise}

    def train(self, schema: Schema, releases: Mapping[str, Release], context: Context) -> Sampler:
        pairs = Pairs(schema)
        released, counts = releases["pairs"], releases["class-counts"]
        noise = counts.noise_std / (released.noise_std * pairs.root) if released.noise_std else 1.0
        tables, total, label = consistent(pairs.layout, released.value * pairs.root, counts.value, noise=noise)
        weighted = LabelWeighted(pairs, self.label_weight)
        return train_to_match(
            schema,
            weighted,
            embedding=weighted.scaled(tables / pairs.root),
            counts=label if pairs.classes else total.unsqueeze(0),
            generator=self.generator,
            training=self.training,
            context=context,
        )


def consistent(
    layout: PairLayout, values: torch.Tensor, counts: torch.Tensor, *, noise: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The nearest cross tables that agree on the total and on the shares of every column; the total; the last column.

    `counts` are another look at the last column (or, if they are of another length, at the total alone), with `noise`
    times the standard deviation of a cell. Least squares with all of these, in closed form: the total, the deviations
    of single columns and what is left of a table are orthogonal, so each is a mean of its own, weighted by precision.
    """
    values = values.clone()
    tables, sizes = layout.tables(values), layout.sizes
    sums = [(table.sum(), 1 / table.numel()) for table in tables.values()] or [(values.sum(), 1 / values.numel())]
    total = _mean([*sums, (counts.sum(), 1 / (noise**2 * len(counts)))])
    looks: list[list[tuple[torch.Tensor, float]]] = [[] for _ in sizes]
    for (i, j), table in tables.items():
        looks[i].append((table.sum(dim=1), 1 / sizes[j]))
        looks[j].append((table.sum(dim=0), 1 / sizes[i]))
    if not tables:
        looks[0].append((values, 1.0))
    if len(counts) == sizes[-1]:
        looks[-1].append((counts, 1 / noise**2))
    columns = [_summing_to(total, _mean(each)) for each in looks]
    for (i, j), table in tables.items():
        rows, across = columns[i] - table.sum(dim=1), columns[j] - table.sum(dim=0)
        # Both corrections hold the table's own correction of the total, which must count once.
        table += rows.unsqueeze(1) / sizes[j] + across / sizes[i] - rows.sum() / table.numel()
    if not tables:
        values = columns[0].clone()
    return values, total, columns[-1]


def _mean(looks: list[tuple[torch.Tensor, float]]) -> torch.Tensor:
    """The mean of several looks at the same thing, weighted by precision."""
    weighted = torch.stack([weight * value for value, weight in looks])
    return weighted.sum(dim=0) / sum(weight for _, weight in looks)


def _summing_to(total: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Shifted by the same number everywhere."""
    return values + (total - values.sum()) / len(values)

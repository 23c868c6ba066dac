"""Pairs: noisy counts of all columns and all pairs of columns, from one release; a random field is fitted to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch

from simulacra.errors import SettingError
from simulacra.features.pairs import Columns, Pairs, refuse_too_many_cells
from simulacra.generators import GeneratorOptions, build
from simulacra.generators.sampler import Sampler
from simulacra.methods.base import Context, check_shares
from simulacra.methods.consistency import Looks, consistent, nearest_shares
from simulacra.methods.markov import MarkovFitting, Target, fit_field
from simulacra.methods.matching import Matched, MatchedMethod, Training
from simulacra.methods.replaying import matrix_units
from simulacra.methods.tilts import with_tilts
from simulacra.privacy.query import FeatureMap, Step
from simulacra.privacy.release import Release
from simulacra.schema import Schema

LEAST_SHARE = 1e-3
PAIRS_TRAINING = Training(steps=1000, batch=300)


@dataclass(frozen=True, kw_only=True)
class AllPairs(MatchedMethod):
    """Two releases: the cells of every column, and the cross tables of all pairs of columns, the label among them.

    A method of our own. Counts are made consistent by least squares, and a Markov random field with a coupling for
    every pair of cells is fitted to them: the distribution with these pairs that assumes least. How strongly a coupling
    is trusted follows from the noise, which is known.
    """

    name: ClassVar[str] = "pairs"
    summary: ClassVar[str] = (
        "The noisy cross tables of all pairs of columns, from one release; a Markov random field has them."
    )
    tables: ClassVar[bool] = True
    images: ClassVar[bool] = False
    own_kinds: ClassVar[tuple[str, ...]] = ("markov",)

    column_noise: float = 3.0
    """Noise multiplier of single columns, relative to that of the cross tables."""
    label_share: float = 0.5
    """Of the squared norm of a record's cross tables, what those with the label have."""
    fitting: MarkovFitting = field(default_factory=MarkovFitting)
    """Of the random field, which is the kind of generator that is used unless another is asked for."""
    generator: GeneratorOptions = field(default_factory=lambda: GeneratorOptions(kind="markov"))
    training: Training = PAIRS_TRAINING
    """Of a generator of any other kind."""

    def __post_init__(self) -> None:
        check_shares("pairs", column_noise=self.column_noise)
        if not LEAST_SHARE <= self.label_share <= 1 - LEAST_SHARE:
            raise SettingError(f"pairs: label_share must be from {LEAST_SHARE:g} to {1 - LEAST_SHARE:g}")
        if self.generator.kind == "markov" and self.training != PAIRS_TRAINING:
            raise SettingError(
                "pairs: training.* is for generators that are trained, and a random field is fitted: set fitting.*, "
                "or generator.kind=auto as well"
            )

    def plan(self, schema: Schema) -> Sequence[Step]:
        if self.generator.kind == "markov":
            refuse_too_many_cells(schema)
        return super().plan(schema)

    def questions(self, schema: Schema) -> Mapping[str, FeatureMap]:
        return {"columns": Columns(schema), "pairs": Pairs(schema, label_share=self.label_share)}

    def of_all_classes(self, schema: Schema) -> frozenset[str]:
        return frozenset(self.questions(schema))

    def counted(self, schema: Schema, releases: Mapping[str, Release]) -> torch.Tensor | None:
        if "columns" not in releases:
            return None
        single = Columns(schema)
        cells = releases["columns"].value.double() * single.root
        # Every column's cells add up to the number of records; the label's are the classes.
        return cells[-schema.classes :] if schema.labelled else cells.sum().unsqueeze(0) / len(single.sizes)

    def noise_shares(self, schema: Schema) -> Mapping[str, float]:
        return {"columns": self.column_noise}

    def asking(self) -> Mapping[str, Any]:
        return {"column_noise": self.column_noise, "label_share": self.label_share}

    def train(self, schema: Schema, releases: Mapping[str, Release], context: Context) -> Sampler:
        if self.generator.kind != "markov":
            return super().train(schema, releases, context)
        looks = self._looks(schema, releases)
        total, columns, tables = consistent(looks)
        target = _target(looks, max(1.0, float(total)), columns, tables)
        # No class is given up: what was measured of it may be noise alone, but someone may ask for its rows.
        shares = target.cells[-schema.classes :].clamp(min=1 / target.rows) if schema.labelled else torch.ones(1)
        shares = shares / shares.sum()
        if schema.labelled:
            target = with_tilts(target, schema, self.fitting)
        random_field = build(schema, self.generator)
        with matrix_units(torch.device(context.device)):
            fit_field(random_field, target, shares, self.fitting, context)
        return Sampler(schema=schema, options=self.generator, generator=random_field, class_shares=shares.float())

    def matched(self, schema: Schema, releases: Mapping[str, Release]) -> Matched:
        """The tables that agree with one another, as something to train with; the field does not need this."""
        pairs = Pairs(schema, label_share=self.label_share)
        total, columns, tables = consistent(self._looks(schema, releases))
        return Matched(
            features=pairs,
            sums=pairs.scaled(pairs.layout.join(tables) if tables else columns[0]).unsqueeze(0),
            counts=columns[-1] if schema.labelled else total.unsqueeze(0),
            noise_std=releases["pairs"].noise_std,
        )

    def _looks(self, schema: Schema, releases: Mapping[str, Release]) -> Looks:
        """Released sums as counts, with the noise of each."""
        single, pairs = Columns(schema), Pairs(schema, label_share=self.label_share)
        label = len(pairs.layout.sizes) - 1 if pairs.classes else -1
        tables = pairs.layout.tables(pairs.scaled(releases["pairs"].value.double(), back=True))
        noise = releases["pairs"].noise_std
        return Looks(
            layout=pairs.layout,
            columns=list(torch.split(releases["columns"].value.double() * single.root, list(single.sizes))),
            column_noise=releases["columns"].noise_std * single.root,
            tables=tables,
            table_noise={(i, j): noise / (pairs.label_scale if j == label else pairs.scale) for i, j in tables},
        )


def _target(
    looks: Looks, rows: float, columns: list[torch.Tensor], tables: dict[tuple[int, int], torch.Tensor]
) -> Target:
    """Counts over the total. Tables keep their negative entries: to cut them off would add records elsewhere."""
    sizes = looks.layout.sizes
    ends = torch.tensor(sizes).cumsum(dim=0).tolist()
    places = [slice(end - size, end) for size, end in zip(sizes, ends, strict=True)]
    pairs = torch.zeros(ends[-1], ends[-1])
    variance = torch.ones_like(pairs)
    for (i, j), table in tables.items():
        pairs[places[i], places[j]] = table / rows
        variance[places[i], places[j]] = (looks.table_noise[i, j] / rows) ** 2
    lower = torch.tril(torch.ones_like(pairs, dtype=torch.bool), diagonal=-1)
    return Target(
        cells=torch.cat([nearest_shares(column / rows) for column in columns]),
        pairs=torch.where(lower, pairs.T, pairs),
        variance=torch.where(lower, variance.T, variance),
        rows=rows,
    )

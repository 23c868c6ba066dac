"""NDPDC: nonlinear dataset condensation (Zheng and Li, Differentially Private Dataset Condensation, Algorithm 2)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self

import torch

from simulacra.errors import SettingError
from simulacra.features.embedding import ClippedEmbedding
from simulacra.features.extractors import ConvolutionalExtractor, Extractor, LinearExtractor
from simulacra.generators import GeneratorOptions
from simulacra.generators.beginning import begin_with_samples
from simulacra.generators.sampler import Sampler
from simulacra.methods.base import Context, check_shares
from simulacra.methods.condensation import Condensation, fresh_set
from simulacra.methods.condensing import Condensing, Matching
from simulacra.methods.looping import Rounds, loop_step
from simulacra.methods.matching import cosine
from simulacra.methods.moments import MomentsMethod
from simulacra.networks.augmentation import OPERATIONS
from simulacra.privacy.query import FeatureMap, Step
from simulacra.privacy.release import Release
from simulacra.schema import Schema

BATCH_STEP = 16
"""Batches of records have a multiple of this many rows."""
MOST_ROWS = 1024
"""And at most this many, for the memory of what the network holds."""

MOMENTS = "moments"
"""The step that a set may begin with."""
BEGINNING = MomentsMethod(radius=0.3, count_weight=0.2, mean_weight=0.4)
"""What is asked there."""

MOST_SAMPLED = 0.1
"""Of a table, unless it is told otherwise: larger samples cost almost what they gain."""

TRIED = 3
"""Rounds of each augmentation that are tried out on a device before anything is drawn."""


@dataclass(frozen=True, kw_only=True)
class NDPDC(Condensation):
    """Synthetic records are moved until random networks see the same in them as in the real ones, on average.

    Every round has a fresh random network, a Poisson sample of the records, one augmentation with parameters per class
    that real and synthetic images share, clipped embeddings, a noisy sum per class, and a step of SGD with momentum.
    All classes are one batch. Unlike the published code, augmentation and networks have generators of their own, so
    that no public seed ever touches the noise; see `methods/condensation.py` for rates and counts.
    """

    name: ClassVar[str] = "ndpdc"
    summary: ClassVar[str] = "A small set of records per class, matched through fresh random networks. Draws in rounds."
    tables: ClassVar[bool] = True
    images: ClassVar[bool] = True

    rounds: int = 10_000
    """I: how many networks are drawn."""
    clip: float | None = 1.0
    """G: no embedding counts for more; none leaves them as long as they can be."""
    learning_rate: float = 1.0
    final_rate: float = 0.05
    """The learning rate falls along a half cosine to this share of it, which averages noise; 1 leaves it as it is."""
    momentum: float = 0.5
    begin: Literal["noise", "moments"] = "noise"
    """What the set begins as: noise, or samples of Gaussians that have noisy moments of the images, paid for first."""
    begin_noise: float = 3.0
    """Noise multiplier of those moments, relative to that of the rounds."""
    spread: float = 1.0
    """Standard deviation of the noise that the set begins with."""
    augmentation: str = "auto"
    """Operations, joined by underscores; auto is all of them, but mirrors colour images only."""
    depth: int | None = None
    """Blocks of the ConvNet; by default as many as leave 4 x 4 places, which are three for 28 or 32 pixels."""
    width: int = 256
    """Numbers per embedding of a table's row; images have those of the ConvNet."""
    activation: Literal["linear", "relu"] = "relu"
    """Of a table's embedding: a random projection as it is, as published, or without what is negative in it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_shares("ndpdc", begin_noise=self.begin_noise)
        if self.rounds < 1 or self.width < 1 or (self.depth is not None and not 1 <= self.depth <= 8):
            raise SettingError("ndpdc: rounds and width must be at least 1, and depth from 1 to 8")
        if self.clip is not None and not 1e-6 <= self.clip <= 1e6:
            raise SettingError(f"ndpdc: clip must be from 1e-6 to 1e6, got {self.clip:g}")
        if self.learning_rate <= 0 or not 0 < self.final_rate <= 1 or not 0 <= self.momentum < 1:
            raise SettingError(
                "ndpdc: learning_rate must be positive, final_rate in (0, 1], and momentum at least 0 and below 1"
            )
        unknown = set(self.augmentation.split("_")) - {*OPERATIONS, "auto", "none"}
        if unknown or ("_" in self.augmentation and {"auto", "none"} & set(self.augmentation.split("_"))):
            raise SettingError(
                f'ndpdc: augmentation must be auto, none, or some of {"_".join(OPERATIONS)}, got "{self.augmentation}"'
            )

    def suited_to(self, schema: Schema) -> Self:
        """Tables: extractors differ less from each other than networks do, so fewer rounds will do, of more records."""
        if schema.image is not None:
            return self
        group = 500.0 if schema.rows is None else min(500.0, MOST_SAMPLED * schema.rows / schema.classes)
        return replace(self, rounds=1000, group=group, learning_rate=0.5)

    def questions(self, schema: Schema) -> Mapping[str, FeatureMap]:
        asked = super().questions(schema)
        if self.begin == "noise":
            return asked
        if schema.image is None:
            raise SettingError("ndpdc: begin=moments is for images; a table's set begins as noise")
        return {**asked, **BEGINNING.questions(schema)}

    def noise_shares(self, schema: Schema) -> Mapping[str, float]:
        return {**super().noise_shares(schema), MOMENTS: self.begin_noise}

    def set_options(self) -> GeneratorOptions:
        return GeneratorOptions(kind="condensed", per_class=self.per_class, spread=self.spread)

    def loops(self, schema: Schema) -> Sequence[Step]:
        feature_map = ClippedEmbedding(self._extractor(schema, "cpu"), schema.classes, clip=self.clip)
        return [loop_step("embeddings", feature_map, sample_rate=self.sample_rate(schema), rounds=self.rounds)]

    def fit(
        self, schema: Schema, releases: Mapping[str, Release], rounds: Mapping[str, Rounds], context: Context
    ) -> Sampler:
        options, drawing = self.set_options(), rounds["embeddings"]
        held = fresh_set(schema, options, context.seed)
        if MOMENTS in releases:
            gaussians = BEGINNING.train(schema, {MOMENTS: releases[MOMENTS]}, Context(seed=context.seed))
            begin_with_samples(held, gaussians, seed=context.seed)
        learned = Condensing(held, context.device)
        extractor = self._extractor(schema, context.device)
        expected = self.expected(schema, releases)
        feature_map = ClippedEmbedding(extractor, schema.classes, clip=self.clip, rows=batch_rows(expected))
        if schema.image is not None and torch.device(context.device).type != "cpu":  # where tests have shown it
            for number in extractor.of_each_kind(context.seed, drawing.total, TRIED):
                extractor.draw_anew(context.seed, number)
                feature_map.require_same_everywhere(context.device)
        weights = expected.to(context.device, torch.float32).unsqueeze(1)
        match = Matching(learned, extractor, weights=weights, clip=feature_map.norm_bound, momentum=self.momentum)
        # A gradient grows with the square of the group; rates for tables are those of groups of 50, so one suits all.
        fitting = 1.0 if schema.image is not None else float((50 / expected.mean()) ** 2)
        shown = max(1, drawing.total // 200)
        for number in drawing.turns(learned):
            extractor.draw_anew(context.seed, number)
            noisy = drawing.draw(feature_map)
            rate = fitting * self.learning_rate * cosine(number / drawing.total, self.final_rate)
            loss = match(noisy, rate=rate)
            if (number + 1) % shown == 0 or number + 1 == drawing.total:
                _show(context, number + 1, drawing.total, loss.item())
        learned.held.settle()
        return self.sampler(schema, learned.held, options, releases["class-counts"].value)

    def _extractor(self, schema: Schema, device: str) -> Extractor:
        if schema.image is None:
            rectified = self.activation == "relu"
            return LinearExtractor(schema, width=self.width, rectified=rectified, device=device)
        chosen = self.augmentation.split("_")
        if chosen == ["auto"]:
            chosen = [name for name in OPERATIONS if name != "flip" or schema.image.channels == 3]
        elif chosen == ["none"]:
            chosen = []
        return ConvolutionalExtractor(schema.image, schema.classes, operations=chosen, depth=self.depth, device=device)


def batch_rows(expected: torch.Tensor) -> int:
    """A batch shape that a sample seldom overflows, from noisy counts; a larger sample takes more batches."""
    mean = float(expected.sum())
    return int(min(MOST_ROWS, BATCH_STEP * math.ceil((mean + 3 * math.sqrt(mean)) / BATCH_STEP)))


def _show(context: Context, number: int, total: int, loss: float) -> None:
    if not math.isfinite(loss):
        raise SettingError("condensing diverged: the loss is not a number; lower learning_rate")
    context.curve.append((number, loss))
    if context.on_step:
        context.on_step(number, total, loss)

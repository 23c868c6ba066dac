"""DP-MERF: mean embeddings with random features (Harder, Adamczewski and Park, AISTATS 2021)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

from simulacra.data.points import points_for
from simulacra.errors import SettingError
from simulacra.features.combine import ClassCount, PerClass
from simulacra.features.fourier import RandomFourier
from simulacra.generators import GeneratorOptions
from simulacra.generators.sampler import Sampler
from simulacra.methods.base import Context, check_shares
from simulacra.methods.matching import Matched, MatchedMethod, Training, train_to_match
from simulacra.methods.reweighting import Reweighting
from simulacra.privacy.query import FeatureMap
from simulacra.privacy.release import Release
from simulacra.schema import Schema

MOST_PAIRS = 1_000_000


@dataclass(frozen=True, kw_only=True)
class DPMERF(MatchedMethod):
    """Two releases: the class counts, and the per-class sums of Fourier features (Eq. 7 of the paper).

    Unlike the published code: categories and binned numbers are one-hot, the length scale is a public constant (a
    share of the schema's size, never a statistic of the data), and labels are drawn from the noisy counts.
    """

    name: ClassVar[str] = "dp-merf"
    summary: ClassVar[str] = "One noisy mean of random Fourier features per class; a generator is trained to match it."
    tables: ClassVar[bool] = True
    images: ClassVar[bool] = True

    pairs: int = 2000
    length_scales: tuple[float, ...] = (1.5,)
    """Of the kernel; several take turns over the frequencies. In units of the root of the points' typical spread."""
    count_noise: float = 5.0
    """Noise multiplier of the counts, relative to the embedding's."""
    feature_seed: int = 0
    reweighting: Reweighting = field(default_factory=Reweighting)
    training: Training = field(default_factory=lambda: Training(steps=2000, batch=2000))
    generator: GeneratorOptions = field(default_factory=GeneratorOptions)

    def __post_init__(self) -> None:
        check_shares("dp-merf", count_noise=self.count_noise)
        if self.pairs < 1 or not self.length_scales or min(self.length_scales) <= 0 or self.count_noise <= 0:
            raise SettingError("dp-merf: pairs, length_scales and count_noise must be positive")
        if not 0 <= self.feature_seed < 2**63 or self.pairs > MOST_PAIRS:
            raise SettingError(f"dp-merf: feature_seed must be from 0 to 2^63 - 1 and pairs at most {MOST_PAIRS:,}")
        if min(self.length_scales) < 1e-6:
            raise SettingError("dp-merf: a length scale below 1e-6 leaves nothing but noise; use one near 1")

    def suited_to(self, schema: Schema) -> Self:
        """Images take the paper's 10,000 features and a narrower kernel; tables need fewer features."""
        if schema.image is None:
            return self
        return replace(self, pairs=5000, length_scales=(0.7,), training=Training(steps=3000, batch=1000))

    def questions(self, schema: Schema) -> Mapping[str, FeatureMap]:
        return {
            "class-counts": ClassCount(schema.classes),
            "embedding": PerClass(self._fourier(schema), schema.classes),
        }

    def noise_shares(self, schema: Schema) -> Mapping[str, float]:
        return {"class-counts": self.count_noise}

    def asking(self) -> Mapping[str, Any]:
        return {
            "pairs": self.pairs,
            "length_scales": self.length_scales,
            "feature_seed": self.feature_seed,
            "count_noise": self.count_noise,
        }

    def train(self, schema: Schema, releases: Mapping[str, Release], context: Context) -> Sampler:
        return train_to_match(
            schema,
            self.matched(schema, releases),
            generator=self.generator,
            training=self.training,
            context=context,
            weights=self.reweighting.of(self._fourier(schema), self._scales(schema)),
        )

    def matched(self, schema: Schema, releases: Mapping[str, Release]) -> Matched:
        return Matched(
            features=self._fourier(schema),
            sums=releases["embedding"].value,
            counts=releases["class-counts"].value,
            noise_std=releases["embedding"].noise_std,
        )

    def _fourier(self, schema: Schema) -> RandomFourier:
        scales = self._scales(schema)
        return RandomFourier(points_for(schema), pairs=self.pairs, length_scales=scales, seed=self.feature_seed)

    def _scales(self, schema: Schema) -> list[float]:
        return [scale * math.sqrt(points_for(schema).spread) for scale in self.length_scales]

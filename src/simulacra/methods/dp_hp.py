"""DP-HP: mean embeddings with Hermite polynomial features (Vinaroz, Charusaie, Harder, Adamczewski and Park, 2022)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

from simulacra.errors import SettingError
from simulacra.features.combine import MOST_NUMBERS, ClassCount, PerClass
from simulacra.features.hermite import NARROWEST, WIDEST
from simulacra.features.hermite_blocks import blocks_for, widths_for
from simulacra.features.hermite_kernels import ProductKernel, SumKernel, draw_subsets
from simulacra.features.joint import Joint
from simulacra.generators import GeneratorOptions
from simulacra.methods.base import check_shares
from simulacra.methods.matching import Matched, MatchedMethod, Training
from simulacra.privacy.query import FeatureMap
from simulacra.privacy.release import Release
from simulacra.schema import Schema

MOST_COLUMNS, MOST_SUBSETS = 100, 100_000

Kernel = SumKernel | ProductKernel


@dataclass(frozen=True, kw_only=True)
class DPHP(MatchedMethod):
    """Three releases: the class counts, the sum kernel's embedding and the product kernels'.

    Unlike the published code: one release holds many product kernels, instead of one release per epoch for one kernel
    each; every map is kept apart per class; length scales are public constants; categories are one-hot.
    """

    name: ClassVar[str] = "dp-hp"
    summary: ClassVar[str] = (
        "Noisy means of Hermite features, of single columns and of pairs; a generator matches them."
    )
    tables: ClassVar[bool] = True
    images: ClassVar[bool] = True

    order: int = 10
    """Highest order of the features of single numbers."""
    length_scale: float = 0.1
    """Of the sum kernel, as a share of a column's range."""
    product_order: int = 5
    product_length_scale: float = 0.2
    product_columns: int = 2
    """Columns (or pixels) per product; all of them, if there are fewer."""
    product_square: int = 1
    """For images: products are of the mean intensities of squares of pixels, of this side."""
    subsets: int = 1000
    """Products; all there are, if that is fewer. With 0, the product kernels are not asked for."""
    product_noise: float = 1.0
    """Noise multiplier of the products, relative to the sum's."""
    product_weight: float = 1.0
    """Of the products in the loss, relative to the sum."""
    count_noise: float = 5.0
    """Noise multiplier of the counts, relative to the sum's."""
    feature_seed: int = 0
    training: Training = field(default_factory=lambda: Training(steps=2000, batch=2000))
    generator: GeneratorOptions = field(default_factory=GeneratorOptions)

    def __post_init__(self) -> None:
        check_shares(
            "dp-hp", count_noise=self.count_noise, product_noise=self.product_noise, product_weight=self.product_weight
        )
        if min(self.order, self.product_order) < 0 or max(self.order, self.product_order) > 1000:
            raise SettingError("dp-hp: order and product_order must be from 0 to 1000")
        if not all(NARROWEST <= scale <= WIDEST for scale in (self.length_scale, self.product_length_scale)):
            raise SettingError(f"dp-hp: length scales must be from {NARROWEST:g} to {WIDEST:g} of a column's range")
        if not 1 <= self.product_square <= 4096:
            raise SettingError(f"dp-hp: product_square must be from 1 to 4096, got {self.product_square}")
        if not (1 <= self.product_columns <= MOST_COLUMNS and 0 <= self.subsets <= MOST_SUBSETS):
            raise SettingError(
                f"dp-hp: product_columns must be from 1 to {MOST_COLUMNS} and subsets from 0 to {MOST_SUBSETS:,}"
            )
        if min(self.count_noise, self.product_noise, self.product_weight) <= 0:
            raise SettingError("dp-hp: count_noise, product_noise and product_weight must be positive")
        if not 0 <= self.feature_seed < 2**63:
            raise SettingError("dp-hp: feature_seed must be from 0 to 2^63 - 1")

    def suited_to(self, schema: Schema) -> Self:
        """Images get products of several of the about 7 x 7 squares that cover them; one column has no products."""
        if schema.image is None:
            return self if len(schema.features) > 1 else replace(self, subsets=0)
        return replace(
            self,
            order=5,
            length_scale=0.4,
            product_order=1,
            product_length_scale=0.4,
            product_columns=6,
            product_square=max(1, round(min(schema.image.height, schema.image.width) / 7)),
            subsets=300,
            product_weight=10.0,
            training=Training(steps=3000, batch=1000),
        )

    def questions(self, schema: Schema) -> Mapping[str, FeatureMap]:
        kernels = {name: PerClass(kernel, schema.classes) for name, kernel, _ in self._kernels(schema)}
        return {"class-counts": ClassCount(schema.classes), **kernels}

    def noise_shares(self, schema: Schema) -> Mapping[str, float]:
        return {"class-counts": self.count_noise, "product-embedding": self.product_noise}

    def asking(self) -> Mapping[str, Any]:
        free = {"product_weight", "training", "generator"}
        return {name: value for name, value in vars(self).items() if name not in free}

    def matched(self, schema: Schema, releases: Mapping[str, Release]) -> Matched:
        kernels = self._kernels(schema)
        joint = Joint([(kernel, weight) for _, kernel, weight in kernels])
        return Matched(
            features=joint,
            sums=joint.side_by_side([releases[name].value for name, _, _ in kernels]),
            counts=releases["class-counts"].value,
            noise_std=releases["sum-embedding"].noise_std,
        )

    def _kernels(self, schema: Schema) -> list[tuple[str, Kernel, float]]:
        """Names of steps, their maps, and their weights in the loss. Sizes are checked before anything is built."""
        classes, widths = schema.classes, widths_for(schema, self.order)
        _check_size("order", classes * sum(widths))
        blocks = blocks_for(schema, order=self.order, length_scale=self.length_scale)
        kernels: list[tuple[str, Kernel, float]] = [("sum-embedding", SumKernel(blocks), 1.0)]
        if not self.subsets:
            return kernels
        widths = widths_for(schema, self.product_order, self.product_square)
        size = min(self.product_columns, len(widths))
        subsets = draw_subsets(len(widths), size, self.subsets, self.feature_seed)
        numbers = sum(math.prod(widths[at] for at in subset) for subset in subsets)
        _check_size("product_order, product_columns or subsets", classes * numbers)
        blocks = blocks_for(
            schema,
            order=self.product_order,
            length_scale=self.product_length_scale,
            square=self.product_square,
        )
        return [*kernels, ("product-embedding", ProductKernel(blocks, subsets), self.product_weight)]


def _check_size(settings: str, numbers: int) -> None:
    if numbers > MOST_NUMBERS:
        raise SettingError(
            f"dp-hp: this would release {numbers:,} numbers, more than {MOST_NUMBERS:,}; lower {settings}"
        )

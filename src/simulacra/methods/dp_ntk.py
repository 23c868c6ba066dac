"""DP-NTK: mean embeddings with neural tangent features (Yang, Adamczewski, Li, Sutherland and Park, 2023)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

from simulacra.data.points import points_for
from simulacra.errors import SettingError
from simulacra.features.combine import ClassCount, PerClass
from simulacra.features.tangent import Tangent
from simulacra.features.tangent_networks import network
from simulacra.generators import GeneratorOptions
from simulacra.methods.base import check_shares
from simulacra.methods.matching import Matched, MatchedMethod, Training
from simulacra.privacy.query import FeatureMap
from simulacra.privacy.release import Release
from simulacra.schema import Schema


@dataclass(frozen=True, kw_only=True)
class DPNTK(MatchedMethod):
    """Two releases: the class counts, and per class the sum of unit gradients of an untrained network (section 3).

    Unlike the published code: inputs are scaled by the schema, labels are drawn from noisy counts, the noise has the
    size that the map's bound asks for, latent codes are fresh in every step, and of the output layer's equal blocks
    one is released, scaled, which keeps the kernel.
    """

    name: ClassVar[str] = "dp-ntk"
    summary: ClassVar[str] = "One noisy mean of an untrained network's gradients per class; a generator matches it."
    tables: ClassVar[bool] = True
    images: ClassVar[bool] = True

    network: Literal["fc_1l", "fc_2l", "cnn_2l"] = "fc_1l"
    """One or two hidden layers, or a network that begins entry by entry; see `features/tangent_networks.py`."""
    widths: tuple[int, ...] = (200,)
    """Of the hidden layers."""
    inputs: Literal["unit", "signed"] = "unit"
    """What the network sees of a point: from 0 to 1, or from -1 to 1."""
    count_noise: float = 5.0
    """Noise multiplier of the counts, relative to the embedding's."""
    feature_seed: int = 0
    training: Training = field(default_factory=lambda: Training(steps=2000, batch=2000))
    generator: GeneratorOptions = field(default_factory=GeneratorOptions)

    def __post_init__(self) -> None:
        check_shares("dp-ntk", count_noise=self.count_noise)
        if not self.widths or min(self.widths) < 1 or self.count_noise <= 0:
            raise SettingError("dp-ntk: widths must be positive whole numbers, and count_noise positive")
        if not 0 <= self.feature_seed < 2**63:
            raise SettingError("dp-ntk: feature_seed must be from 0 to 2^63 - 1")

    def suited_to(self, schema: Schema) -> Self:
        """Images take the paper's width of 800, and three times its steps at a fifth of its batch.

        Colours are seen from -1 to 1, as there.
        """
        if schema.image is None:
            return self
        inputs: Literal["unit", "signed"] = "signed" if schema.image.channels == 3 else "unit"
        return replace(self, widths=(800,), inputs=inputs, training=Training(steps=6000, batch=1000))

    def questions(self, schema: Schema) -> Mapping[str, FeatureMap]:
        return {
            "class-counts": ClassCount(schema.classes),
            "embedding": PerClass(self._tangent(schema), schema.classes),
        }

    def noise_shares(self, schema: Schema) -> Mapping[str, float]:
        return {"class-counts": self.count_noise}

    def asking(self) -> Mapping[str, Any]:
        return {
            "network": self.network,
            "widths": self.widths,
            "inputs": self.inputs,
            "feature_seed": self.feature_seed,
            "count_noise": self.count_noise,
        }

    def matched(self, schema: Schema, releases: Mapping[str, Release]) -> Matched:
        return Matched(
            features=self._tangent(schema),
            sums=releases["embedding"].value,
            counts=releases["class-counts"].value,
            noise_std=releases["embedding"].noise_std,
        )

    def _tangent(self, schema: Schema) -> Tangent:
        points = points_for(schema)
        untrained = network(self.network, width=points.width, hidden=self.widths, outputs=schema.classes)
        return Tangent(points, untrained, seed=self.feature_seed, signed=self.inputs == "signed")

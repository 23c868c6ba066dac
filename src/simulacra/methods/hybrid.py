"""Hybrid: the maps of several methods under one budget, and a generator that matches all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol, Self, cast

from simulacra.errors import SettingError, suggestion
from simulacra.features.joint import Joint
from simulacra.generators import GeneratorOptions
from simulacra.generators.sampler import Sampler
from simulacra.methods.base import Context, ReleaseOnce, check_shares
from simulacra.methods.matching import Matched, Training, train_to_match
from simulacra.options import parse_assignments
from simulacra.privacy.query import FeatureMap
from simulacra.privacy.release import Release
from simulacra.schema import Schema

COUNTS = "class-counts"
"""What several parts ask is asked once."""
OWN = ("training", "generator", "fitting", "reweighting", "count_noise", "feature_seed")
"""Settings that a hybrid has once for all parts, or that only matter where a part is trained by itself."""


class Matchable(Protocol):
    """A release-once method whose answers a generator can be trained to match."""

    def matched(self, schema: Schema, releases: Mapping[str, Release]) -> Matched:
        """What was released, as something to train with."""
        ...


@dataclass(frozen=True, kw_only=True)
class Hybrid(ReleaseOnce):
    """The releases of all parts, with the class counts once. A method of our own.

    Two maps see different things: moments know how bright pixels go together and nothing beyond pairs of them, while
    random features see a little of everything. What each part says counts in the loss by its noise: squared distances
    are divided by the variance of the noise on them, as in a likelihood.
    """

    name: ClassVar[str] = "hybrid"
    summary: ClassVar[str] = "The maps of several methods under one budget; a generator matches all of them."
    tables: ClassVar[bool] = True
    images: ClassVar[bool] = True

    parts: tuple[str, ...] = ("pairs", "dp-merf")
    """Methods whose maps are asked for."""
    shares: tuple[float, ...] = (1.0, 1.0)
    """What each part has of the budget, in squared noise multipliers: twice the share is half of the variance."""
    details: tuple[str, ...] = ()
    """Settings of the parts that differ from their own, as PART.SETTING=VALUE."""
    count_noise: float = 5.0
    """Noise multiplier of the counts, relative to that of a part with a share of 1."""
    feature_seed: int = 0
    """Of all parts that have one."""
    training: Training = field(default_factory=lambda: Training(steps=2000, batch=2000))
    generator: GeneratorOptions = field(default_factory=GeneratorOptions)

    def __post_init__(self) -> None:
        check_shares("hybrid", count_noise=self.count_noise, **{f"shares[{i}]": s for i, s in enumerate(self.shares)})
        if len(self.parts) != len(self.shares):
            raise SettingError(f"hybrid: {len(self.parts)} parts need as many shares, got {len(self.shares)}")
        if not self.parts or len(set(self.parts)) < len(self.parts):
            raise SettingError("hybrid: parts must be different methods, one at least")
        for part in self.parts:
            _kind(part)
        self._details()

    def suited_to(self, schema: Schema) -> Self:
        """Images have moments of pixels instead of pairs of columns, and a narrower kernel for what those miss."""
        if schema.image is None:
            return self
        return replace(
            self,
            parts=("moments", "dp-merf"),
            shares=(0.3, 1.0),
            details=("dp-merf.length_scales=0.5",),
            training=Training(steps=3000, batch=1000),
        )

    def questions(self, schema: Schema) -> Mapping[str, FeatureMap]:
        return {
            _named(part, step): feature_map
            for part, method in self._methods(schema).items()
            for step, feature_map in method.questions(schema).items()
        }

    def noise_shares(self, schema: Schema) -> Mapping[str, float]:
        noise: dict[str, float] = {}
        for (part, method), share in zip(self._methods(schema).items(), self.shares, strict=True):
            own = method.noise_shares(schema)
            noise |= {_named(part, step): own.get(step, 1.0) / share**0.5 for step in method.questions(schema)}
        return noise | {COUNTS: self.count_noise}

    def asking(self) -> Mapping[str, Any]:
        free = {"training", "generator"}
        return {name: value for name, value in vars(self).items() if name not in free}

    def train(self, schema: Schema, releases: Mapping[str, Release], context: Context) -> Sampler:
        return train_to_match(
            schema,
            self.matched(schema, releases),
            generator=self.generator,
            training=self.training,
            context=context,
        )

    def matched(self, schema: Schema, releases: Mapping[str, Release]) -> Matched:
        """All parts as one."""
        found = []
        for part, method in self._methods(schema).items():
            own = {step: releases[_named(part, step)] for step in method.questions(schema)}
            found.append(cast(Matchable, method).matched(schema, own))
        least = min(each.noise_std for each in found)
        if least > 0:
            weights = [(least / each.noise_std) ** 2 for each in found]
        else:  # without privacy, as if there were a little noise
            weights = [share / max(self.shares) for share in self.shares]
        joint = Joint([(each.features, weight) for each, weight in zip(found, weights, strict=True)])
        return Matched(
            features=joint,
            sums=joint.side_by_side([each.sums for each in found]),
            counts=releases[COUNTS].value if COUNTS in releases else found[0].counts,
            noise_std=least,
        )

    def _methods(self, schema: Schema) -> dict[str, ReleaseOnce]:
        """The parts, with their settings for this kind of data."""
        from simulacra.methods import make_method

        details = self._details()
        found = {}
        for part in self.parts:
            settings: dict[str, Any] = dict(details.get(part, {}))
            if "feature_seed" in vars(_kind(part)()):
                settings.setdefault("feature_seed", self.feature_seed)
            method = make_method(part, settings, schema)
            assert isinstance(method, ReleaseOnce)
            found[part] = method
        return found

    def _details(self) -> dict[str, dict[str, str]]:
        """Settings of each part, by name."""
        found: dict[str, dict[str, str]] = {}
        for name, value in parse_assignments(self.details).items():
            part, _, setting = name.partition(".")
            if part not in self.parts or not setting:
                raise SettingError(
                    f'hybrid: details want PART.SETTING=VALUE for one of the parts, got "{name}={value}"'
                )
            if setting.partition(".")[0] in OWN:
                raise SettingError(f"hybrid: a part is not trained by itself; set {setting} of the hybrid instead")
            _kind(part)().replace({setting: value})
            found.setdefault(part, {})[setting] = value
        return found


def _kind(part: str) -> type[ReleaseOnce]:
    """The method of that name, if a hybrid can be made of it."""
    from simulacra.methods import all_methods

    known = {
        name: kind
        for name, kind in all_methods().items()
        if issubclass(kind, ReleaseOnce) and hasattr(kind, "matched") and kind is not Hybrid
    }
    if part not in known:
        raise SettingError(f'hybrid: parts can be {", ".join(known)}; got "{part}"{suggestion(part, known)}')
    return known[part]


def _named(part: str, step: str) -> str:
    """Of a part's step in the plan; the counts are everyone's."""
    return step if step == COUNTS else f"{part}-{step}"

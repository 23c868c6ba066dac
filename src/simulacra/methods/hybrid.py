"""Hybrid: the maps of several methods under one budget, and a generator that matches all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

from simulacra.errors import SettingError, suggestion
from simulacra.features.joint import Joint
from simulacra.generators import GeneratorOptions
from simulacra.methods.base import check_shares
from simulacra.methods.matching import Matched, MatchedMethod, Training
from simulacra.privacy.query import FeatureMap
from simulacra.privacy.release import Release
from simulacra.schema import Schema

COUNTS = "class-counts"
"""What several parts ask is asked once."""
OWN = ("count_noise", "feature_seed")
"""Settings that a hybrid has once for all parts."""
BESIDE_OTHERS: dict[str, dict[str, Any]] = {"dp-merf": {"length_scales": (0.5,)}}
"""Settings of parts for images that differ from those they have alone: a narrower kernel, for what moments miss."""


@dataclass(frozen=True, kw_only=True)
class Hybrid(MatchedMethod):
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
    """Settings that decide what the parts ask, as PART.SETTING=VALUE, a list of values with colons. A run has all of
    them written out, so that it does not depend on what anybody's defaults will be."""
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
        if not 0 <= self.feature_seed < 2**63:
            raise SettingError("hybrid: feature_seed must be from 0 to 2^63 - 1")
        for part in self.parts:
            _kind(part)
        for part, settings in self._details().items():
            _kind(part)().replace(settings)

    def suited_to(self, schema: Schema) -> Self:
        """Images have moments of pixels instead of pairs of columns."""
        if schema.image is None:
            return self
        return replace(
            self,
            parts=("moments", "dp-merf"),
            shares=(0.3, 1.0),
            training=Training(steps=3000, batch=1000),
        )

    def resolved(self, schema: Schema) -> Self:
        written = []
        for part, method in self._methods(schema).items():
            asked = {name: value for name, value in method.asking().items() if name not in OWN}
            written += [f"{part}.{name}={_text(value)}" for name, value in sorted(asked.items())]
        return replace(self, details=tuple(written))

    def questions(self, schema: Schema) -> Mapping[str, FeatureMap]:
        return {
            _named(part, step): feature_map
            for part, method in self._methods(schema).items()
            for step, feature_map in method.questions(schema).items()
        }

    def of_all_classes(self, schema: Schema) -> frozenset[str]:
        parts = self._methods(schema).items()
        return frozenset(_named(part, step) for part, method in parts for step in method.of_all_classes(schema))

    def noise_shares(self, schema: Schema) -> Mapping[str, float]:
        noise: dict[str, float] = {}
        for (part, method), share in zip(self._methods(schema).items(), self.shares, strict=True):
            own = method.noise_shares(schema)
            noise |= {_named(part, step): own.get(step, 1.0) / share**0.5 for step in method.questions(schema)}
        return noise | {COUNTS: self.count_noise}

    def asking(self) -> Mapping[str, Any]:
        free = {"training", "generator"}
        return {name: value for name, value in vars(self).items() if name not in free}

    def matched(self, schema: Schema, releases: Mapping[str, Release]) -> Matched:
        """All parts as one."""
        found = []
        for part, method in self._methods(schema).items():
            own = {step: releases[_named(part, step)] for step in method.questions(schema)}
            found.append(method.matched(schema, own))
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

    def _methods(self, schema: Schema) -> dict[str, MatchedMethod]:
        """The parts, with their settings for this kind of data."""
        from simulacra.methods import make_method

        details = self._details()
        found = {}
        for part in self.parts:
            settings: dict[str, Any] = {} if schema.image is None else dict(BESIDE_OTHERS.get(part, {}))
            if "feature_seed" in vars(_kind(part)()):
                settings["feature_seed"] = self.feature_seed
            method = make_method(part, {**settings, **details.get(part, {})}, schema)
            assert isinstance(method, MatchedMethod)
            found[part] = method
        return found

    def _details(self) -> dict[str, dict[str, str]]:
        """Settings of each part, by name."""
        found: dict[str, dict[str, str]] = {}
        for one in self.details:
            name, equals, value = (word.strip() for word in one.partition("="))
            part, _, setting = name.partition(".")
            if not equals or part not in self.parts:
                raise SettingError(f'hybrid: details are PART.SETTING=VALUE of one of the parts, got "{one}"')
            known = [each for each in _kind(part)().asking() if each not in OWN]
            if setting in OWN:
                raise SettingError(f"hybrid: {setting} is the same for all parts; set it without {part}.")
            if setting not in known:
                raise SettingError(f'hybrid: of {part} one can set {", ".join(known)}; got "{setting}"')
            if setting in found.setdefault(part, {}):
                raise SettingError(f"hybrid: {name} is set twice; keep one")
            found[part][setting] = value.replace(":", ",")
        return found


def _text(value: Any) -> str:
    """As `details` have it."""
    return ":".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _kind(part: str) -> type[MatchedMethod]:
    """The method of that name, if a hybrid can be made of it."""
    from simulacra.methods import all_methods

    known = {
        name: kind for name, kind in all_methods().items() if issubclass(kind, MatchedMethod) and kind is not Hybrid
    }
    if part not in known:
        raise SettingError(f'hybrid: parts can be {", ".join(known)}; got "{part}"{suggestion(part, known)}')
    return known[part]


def _named(part: str, step: str) -> str:
    """Of a part's step in the plan; the counts are everyone's."""
    return step if step == COUNTS else f"{part}-{step}"

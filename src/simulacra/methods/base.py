"""Method: what a paper adds. It plans without data, is handed answers, and returns a sampler.

`ReleaseOnce` methods ask everything at once; `PrivateLoop` methods (`methods/looping.py`) draw while they learn.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

import torch

from simulacra.errors import SettingError
from simulacra.generators import GeneratorOptions, try_out
from simulacra.generators.sampler import Sampler
from simulacra.options import Options
from simulacra.privacy.query import FeatureMap, Step
from simulacra.privacy.release import Release
from simulacra.schema import Schema

SMALLEST_SHARE = 1e-6
NOTHING_TO_BEGIN_WITH = (
    "generator.init=samples begins with the sampler of a run that was trained before; train one first, or use noise"
)

Ask = Callable[[Mapping[str, FeatureMap]], Mapping[str, Release]]
"""What a method gets instead of data: questions in, releases out."""


@dataclass(kw_only=True)
class Context:
    """Where and how training runs; nothing here changes what is promised.

    `checkpoint` is a folder for resuming; `on_step(step, steps, loss)` shows progress, and `on_look(step, sampler)` has
    what would be the result if training ended there; `curve` collects the losses, and `curves` what else a method
    watches, by name. `pictures` has, by step, what a generator of images made of the same
    codes, as uint8 (n, height, width, channels). `diverged` says that training was ended by numbers that are none.
    `samples` opens the sampler that a condensed set begins with.
    """

    seed: int = 0
    device: str = "cpu"
    checkpoint: Path | None = None
    on_step: Callable[[int, int, float], None] | None = None
    on_look: Callable[[int, Sampler], None] | None = None
    curve: list[tuple[int, float]] = field(default_factory=list)
    curves: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    pictures: dict[int, torch.Tensor] = field(default_factory=dict)
    stopped_early: bool = False
    diverged: bool = False
    samples: Callable[[], Sampler] | None = None

    def beginning(self) -> Sampler:
        """The sampler to begin with, if there is one."""
        if self.samples is None:
            raise SettingError(NOTHING_TO_BEGIN_WITH)
        return self.samples()


@dataclass(frozen=True, kw_only=True)
class Method(Options, ABC):
    """A method's settings are its fields. `tables` and `images` say what it can synthesise."""

    name: ClassVar[str]
    summary: ClassVar[str]
    tables: ClassVar[bool]
    images: ClassVar[bool]
    needs_public_data: ClassVar[bool] = False

    def suited_to(self, schema: Schema) -> Self:
        """The defaults for a kind of data, from public facts alone; a user's settings come on top."""
        return self

    def resolved(self, schema: Schema) -> Self:
        """With everything written out that would else follow from the defaults of other methods."""
        return self

    def public_files(self) -> Sequence[Path]:
        """Files of public networks that training elsewhere needs beside the release."""
        return ()

    def learned_from(self) -> Sequence[str]:
        """Names of the public data that networks and projections of this method come from."""
        return ()

    def of_all_classes(self, schema: Schema) -> frozenset[str]:
        """Steps whose answers are about all records together; others are split by class where their size allows it."""
        return frozenset()

    def counted(self, schema: Schema, releases: Mapping[str, Release]) -> torch.Tensor | None:
        """Noisy records per class, as far as the releases tell: for the report, and for how many rows to draw."""
        found = releases.get("class-counts")
        return None if found is None else found.value

    @abstractmethod
    def plan(self, schema: Schema) -> Sequence[Step]:
        """All questions, before any data is seen."""


def check_shares(method: str, **shares: float) -> None:
    """Refuse noise shares and weights that are not positive, or so far from 1 that arithmetic gives out."""
    for name, value in shares.items():
        if not SMALLEST_SHARE <= value <= 1 / SMALLEST_SHARE:
            raise SettingError(f"{method}: {name} must be positive, from {SMALLEST_SHARE:g} to {1 / SMALLEST_SHARE:g}")


@dataclass(frozen=True, kw_only=True)
class ReleaseOnce(Method):
    """Methods that ask everything at once: release today, train and tune for ever, on any machine."""

    own_kinds: ClassVar[tuple[str, ...]] = ()
    """Kinds of generator that this method fits in a way of its own."""

    @abstractmethod
    def questions(self, schema: Schema) -> Mapping[str, FeatureMap]:
        """The maps, by step name; the same on every machine."""

    @abstractmethod
    def noise_shares(self, schema: Schema) -> Mapping[str, float]:
        """Relative noise per step; steps not named have 1."""

    @abstractmethod
    def asking(self) -> Mapping[str, Any]:
        """The settings that decide what is asked: fixed once released, while all others stay free."""

    @abstractmethod
    def train(self, schema: Schema, releases: Mapping[str, Release], context: Context) -> Sampler:
        """Post-processing: from releases alone to a sampler."""

    def remarks(self, schema: Schema) -> Sequence[str]:
        """What the certificate should say besides, of public networks and data that took part."""
        return ()

    def plan(self, schema: Schema) -> Sequence[Step]:
        options = getattr(self, "generator", None)
        if isinstance(options, GeneratorOptions):
            if options.condensed and options.init == "samples":
                raise SettingError(NOTHING_TO_BEGIN_WITH)
            # A generator that does not fit must be refused before anything is spent.
            try_out(schema, options, own_kinds=self.own_kinds)
        shares = self.noise_shares(schema)
        return [
            Step.asking(name, feature_map, relative_noise=shares.get(name, 1.0))
            for name, feature_map in self.questions(schema).items()
        ]

    def fit(self, schema: Schema, ask: Ask, context: Context) -> Sampler:
        """Ask, then train. Nothing but the answers may influence the sampler."""
        return self.train(schema, ask(self.questions(schema)), context)

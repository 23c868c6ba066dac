"""PrivateLoop: methods that ask the records again and again while they learn: noisy sums over fresh samples.

    def fit(self, schema, releases, rounds, context):
        learned = MyState(...)                         # `state()` and `load(state)`: what a checkpoint holds
        for number in rounds["gradient"].turns(learned):
            total = rounds["gradient"].draw(MyMap(learned))   # the noisy clipped sum; the records stay in the vault
            learned.update(total)
        return Sampler(...)

There may be fewer turns than planned: a crash swallows the rest of a block of draws, and Ctrl-C ends the loop early.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from simulacra.errors import SettingError
from simulacra.generators.sampler import Sampler
from simulacra.methods.base import Context, Method
from simulacra.privacy.query import FeatureMap, Noise, Step
from simulacra.privacy.release import Release
from simulacra.schema import Schema

MOST_ROUNDS = 100_000_000


class Learned(Protocol):
    """All that a training loop changes, so that it can be put aside and taken up again; nothing private."""

    def state(self) -> dict[str, torch.Tensor]:
        """Tensors, by name; on any device."""
        ...

    def load(self, state: Mapping[str, torch.Tensor]) -> None:
        """Go on from such a state; the tensors come on the CPU."""
        ...


class Rounds(Protocol):
    """One loop of the plan. A turn makes one draw; draws and turns are counted, and never made twice."""

    @property
    def total(self) -> int:
        """How many turns there will have been in the end, those before a restart included: as planned, or fewer."""
        ...

    def turns(self, learned: Learned) -> Iterator[int]:
        """Restore `learned` from the last checkpoint, then give the number of each turn; checkpoints in between."""
        ...

    def draw(self, feature_map: FeatureMap) -> torch.Tensor:
        """The noisy clipped sum over a fresh Poisson sample, in float64 on the training's device."""
        ...


def loop_step(
    name: str, feature_map: FeatureMap, *, sample_rate: float, rounds: int, relative_noise: float = 1.0
) -> Step:
    """A step that is drawn `rounds` times, each time from a Poisson sample of that rate, with the bounds of a map."""
    if not 0 < sample_rate <= 1:
        raise SettingError(
            f'the sampling rate of "{name}" would be {sample_rate:g}, and a rate is above 0 and at most 1; '
            "choose smaller groups, or a smaller rate"
        )
    if not 1 <= rounds <= MOST_ROUNDS:
        raise SettingError(f'the rounds of "{name}" must be from 1 to {MOST_ROUNDS:,}, got {rounds}')
    if rounds == 1 and sample_rate == 1:
        raise SettingError(f'one round of "{name}" over all records is no loop; choose more rounds, or a smaller rate')
    return Step(
        name=name,
        size=feature_map.size,
        norm_bound=feature_map.norm_bound,
        nonnegative=feature_map.nonnegative,
        relative_noise=relative_noise,
        sample_rate=sample_rate,
        count=rounds,
        noise=Noise.FAST,
    )


@dataclass(frozen=True, kw_only=True)
class PrivateLoop(Method):
    """Some questions that are asked once (class counts, say), and loops that draw while they learn.

    Such a method cannot be trained again from its releases: `fit` is the only way, and every run pays anew.
    """

    @abstractmethod
    def questions(self, schema: Schema) -> Mapping[str, FeatureMap]:
        """The maps that are asked once, with exact noise, before the loops begin; may be empty."""

    @abstractmethod
    def noise_shares(self, schema: Schema) -> Mapping[str, float]:
        """Relative noise per question; those not named have 1, as a loop has."""

    @abstractmethod
    def loops(self, schema: Schema) -> Sequence[Step]:
        """The loops, made with `loop_step`: rates and rounds are public and fixed before any data is seen."""

    @abstractmethod
    def fit(
        self, schema: Schema, releases: Mapping[str, Release], rounds: Mapping[str, Rounds], context: Context
    ) -> Sampler:
        """Learn from answers and draws. Nothing else may influence the sampler."""

    def remarks(self, schema: Schema) -> Sequence[str]:
        """What the certificate should say about how the loops are accounted for."""
        return ()

    def plan(self, schema: Schema) -> Sequence[Step]:
        shares = self.noise_shares(schema)
        asked = [
            Step.asking(name, feature_map, relative_noise=shares.get(name, 1.0))
            for name, feature_map in self.questions(schema).items()
        ]
        return [*asked, *self.loops(schema)]

"""Choosing: of several records that a generator makes for one label, the one that a critic would rather call real.

A critic that tells records from made ones by a logit says that a record is exp(logit) times as likely among records as
among made ones, as far as it can see. Drawing one of a few candidates with these odds (sampling importance resampling)
brings what comes out closer to the records, the closer the more there are; Azadi et al., Discriminator Rejection
Sampling (ICLR 2019), throw candidates away by the same odds. It costs no privacy: the critic is an answer already.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from simulacra.data.points import points_for
from simulacra.errors import SettingError
from simulacra.networks.critics import CriticOptions, build_critic
from simulacra.schema import Schema

MOST_CANDIDATES = 1000


@dataclass(frozen=True, kw_only=True)
class Chooser:
    """A critic, the settings that rebuild it, and how many candidates there are for each record; 1 takes the first."""

    critic: Any
    options: CriticOptions
    candidates: int

    def __post_init__(self) -> None:
        check_candidates(self.candidates)

    def to_mapping(self) -> dict[str, Any]:
        """All but the weights; `blank` reads it."""
        return {"critic": self.options.to_mapping(), "candidates": self.candidates}

    @torch.no_grad()
    def choose(
        self, schema: Schema, inputs: torch.Tensor, labels: torch.Tensor, random: torch.Generator
    ) -> torch.Tensor:
        """Of encoded candidates (n * candidates, inputs), those of one record side by side, one for each label (n,)."""
        critic = self.critic.to(inputs.device).eval()
        points = points_for(schema).of_records(inputs)
        logits = critic(points, labels.repeat_interleave(self.candidates)).view(len(labels), self.candidates)
        # The largest of logit + Gumbel noise is a draw with those odds. A critic that says NaN has no say.
        gumbel = torch.empty_like(logits).exponential_(generator=random).clamp(min=1e-20).log().neg()
        chosen = (torch.nan_to_num(logits) + gumbel).argmax(dim=1)
        return inputs.view(len(labels), self.candidates, -1)[torch.arange(len(labels), device=inputs.device), chosen]


def check_candidates(candidates: int) -> None:
    """Refuse a number that makes no sense."""
    if not 1 <= candidates <= MOST_CANDIDATES:
        raise SettingError(f"candidates must be from 1 to {MOST_CANDIDATES:,}, got {candidates}")


def blank(schema: Schema, said: Mapping[str, Any]) -> Chooser:
    """A chooser as `said` describes it, whose critic has yet to be given its weights."""
    options = CriticOptions.from_mapping(said["critic"])
    width = points_for(schema).width
    critic = build_critic(options, image=schema.image, width=width, classes=schema.classes)
    return Chooser(critic=critic, options=options, candidates=int(said["candidates"]))

"""Public pretraining: critic and generator first meet a named public data set, as often as they like, without noise.

The private run then begins from what they learned there: the DP-GAN baseline of Harder et al., Pre-trained Perceptual
Features Improve Differentially Private Image Generation (2023). Nothing private is read here; that the data set is
public, and of other people, is for the owner to say, and the certificate repeats it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from simulacra import datasets
from simulacra.data import open_source
from simulacra.errors import SettingError
from simulacra.options import Options
from simulacra.privacy.query import FeatureMap
from simulacra.schema import Schema

if TYPE_CHECKING:
    from simulacra.methods.gan_training import Adversaries


@dataclass(frozen=True, kw_only=True)
class Pretraining(Options):
    """Which public data set, and for how long; with no name there is none."""

    data: str | None = None
    steps: int = 10_000
    """Critic steps; a generator step follows each."""

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise SettingError(f"pretraining.steps must be at least 1, got {self.steps}")

    def check(self, schema: Schema) -> None:
        """Refuse, before anything is spent, a public data set whose records have another form."""
        if self.data is None:
            return
        public = datasets.schema(self.data)
        if public.image is None or schema.image is None:
            raise SettingError("pretraining is for images; the columns of two tables are never the same")
        theirs, ours = public.image, schema.image
        if (theirs.height, theirs.width, theirs.channels) != (ours.height, ours.width, ours.channels):
            raise SettingError(
                f'pretraining.data: images of "{self.data}" are {theirs.height} x {theirs.width} x {theirs.channels}, '
                f"and these are {ours.height} x {ours.width} x {ours.channels}"
            )


def pretrain(adversaries: Adversaries, pretraining: Pretraining, schema: Schema, *, seed: int) -> None:
    """Play on public images, then forget moments, pace and curves; the weights stay.

    Public classes stand for ours in turn: what a class means is learned from the private records.
    """
    assert pretraining.data is not None
    pretraining.check(schema)
    found = datasets.load(pretraining.data)
    batches = list(open_source(found.data, found.schema).batches())
    inputs = torch.cat([batch.inputs for batch in batches]).clamp(-1, 1).to(adversaries.device)
    labels = torch.cat([batch.labels for batch in batches]).to(adversaries.device) % schema.classes
    random = torch.Generator(device=adversaries.device).manual_seed(seed)

    def draw(feature_map: FeatureMap) -> torch.Tensor:
        size = (adversaries.batch,)
        chosen = torch.randint(len(inputs), size, generator=random, device=adversaries.device)
        return feature_map.clipped_sum(inputs[chosen].to(feature_map.dtype), labels[chosen])

    for _ in range(pretraining.steps):
        adversaries.critic_step(draw)
        adversaries.generator_step()
    adversaries.begin_again()

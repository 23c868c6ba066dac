"""DP-GAN: a critic that learns from noisy gradients (Bie, Kamath and Zhang, Private GANs, Revisited, TMLR 2023)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, Self

import torch

from simulacra.errors import SettingError
from simulacra.features.combine import ClassCount
from simulacra.generators import GeneratorOptions, try_out
from simulacra.generators.choosing import Chooser, check_candidates
from simulacra.generators.sampler import Sampler
from simulacra.methods.base import Context, check_shares
from simulacra.methods.gan_pretraining import Pretraining, pretrain
from simulacra.methods.gan_schedule import Schedule
from simulacra.methods.gan_training import LOSS, Adversaries, Diverged, critic_map
from simulacra.methods.looping import PrivateLoop, Rounds, loop_step
from simulacra.methods.replaying import matrix_units
from simulacra.networks.critics import SMALLEST_SIDE, CriticOptions
from simulacra.privacy.query import FeatureMap, Step
from simulacra.privacy.release import Release
from simulacra.schema import Schema

MOST_FAKES = 1_000_000
LOOKS = 200
"""So often in a run the curves are noted, and the state is kept if all of it is finite."""
PICTURES = 10


@dataclass(frozen=True, kw_only=True)
class DPGAN(PrivateLoop):
    """The class counts once; then the clipped gradient of the critic's loss, `steps` times, from Poisson samples.

    Unlike the published code: the sampling rate is a public setting and never a batch size over the number of records,
    noise and samples come from the operating system, and labels of fakes may follow the noisy counts.
    """

    name: ClassVar[str] = "dp-gan"
    summary: ClassVar[str] = "A generator against a critic that sees the records only through noisy gradients."
    tables: ClassVar[bool] = True
    images: ClassVar[bool] = True

    rate: float = 0.01
    """Each record is in a batch with this probability."""
    steps: int = 5000
    """Critic steps: this many noisy gradients are paid for."""
    batch: int | None = None
    """Fakes per step, and the records expected in one; `auto` is the rate times the noisy count."""
    clip: float = 1.0
    """No record's gradient is longer."""
    count_noise: float = 5.0
    """Noise multiplier of the counts, relative to the gradients'."""
    fake_labels: Literal["counted", "uniform"] = "counted"
    """Fakes have the classes in their noisy shares, or all alike."""
    learning_rate: float = 1e-3
    final_rate: float = 1.0
    """The learning rate falls along a half cosine to this share of it; 1 leaves it as it is, as published."""
    momentum: float = 0.5
    """Adam's first moment; the second is 0.999."""
    average: float = 0.999
    """The result is an average of the generator's weights over its steps with this decay; 0 takes the last ones."""
    candidates: int = 1
    """Each sample is chosen by the critic among so many that the generator makes; sampling may name another number."""
    precision: Literal["mixed", "single"] = "mixed"
    """On a GPU: mixed adds records up in single precision, while the networks compute in bfloat16."""
    schedule: Schedule = field(default_factory=Schedule)
    critic: CriticOptions = field(default_factory=CriticOptions)
    generator: GeneratorOptions = field(default_factory=GeneratorOptions)
    pretraining: Pretraining = field(default_factory=Pretraining)

    def __post_init__(self) -> None:
        check_shares("dp-gan", count_noise=self.count_noise)
        if self.batch is not None and not 1 <= self.batch <= MOST_FAKES:
            raise SettingError(f"dp-gan: batch must be from 1 to {MOST_FAKES:,}, got {self.batch}")
        if self.clip <= 0 or not 0 < self.learning_rate <= 1 or not 0 <= self.momentum < 1:
            raise SettingError("dp-gan: clip must be positive, learning_rate in (0, 1] and momentum in [0, 1)")
        if not 0 < self.final_rate <= 1:
            raise SettingError(f"dp-gan: final_rate must be above 0 and at most 1, got {self.final_rate:g}")
        if not 0 <= self.average < 1:
            raise SettingError(f"dp-gan: average must be at least 0 and below 1, got {self.average:g}")
        check_candidates(self.candidates)
        if self.generator.condensed or self.generator.kind == "gaussian":
            raise SettingError(
                f"dp-gan: a {self.generator.kind} generator does not learn from a critic; choose another"
            )

    def suited_to(self, schema: Schema) -> Self:
        """Images take the paper's generator and learning rate."""
        if schema.image is None:
            return self
        small = min(schema.image.height, schema.image.width) < SMALLEST_SIDE
        generator = self.generator if small else replace(self.generator, kind="deconvolutional")
        return replace(self, learning_rate=2e-4, generator=generator)

    def questions(self, schema: Schema) -> Mapping[str, FeatureMap]:
        return {"class-counts": ClassCount(schema.classes)}

    def noise_shares(self, schema: Schema) -> Mapping[str, float]:
        return {"class-counts": self.count_noise}

    def loops(self, schema: Schema) -> Sequence[Step]:
        try_out(schema, self.generator)  # what does not fit must be refused before anything is spent
        self.pretraining.check(schema)
        gradient = critic_map(self, schema, seed=0, device=torch.device("cpu"), batch=None)
        return (loop_step("gradient", gradient, sample_rate=self.rate, rounds=self.steps),)

    def remarks(self, schema: Schema) -> Sequence[str]:
        if self.pretraining.data is None:
            return ()
        return (f'critic and generator were pretrained on the public data set "{self.pretraining.data}"',)

    def fit(
        self, schema: Schema, releases: Mapping[str, Release], rounds: Mapping[str, Rounds], context: Context
    ) -> Sampler:
        counts = releases["class-counts"].value.clamp(min=1.0)
        shares = counts / counts.sum()
        expected = self.batch or min(MOST_FAKES, max(1, round(self.rate * float(counts.sum()))))
        device = torch.device(context.device)
        gradients = rounds["gradient"]
        with matrix_units(device, beside_records=True):
            adversaries = Adversaries(
                self,
                schema,
                shares=torch.full_like(shares, 1 / len(shares)) if self.fake_labels == "uniform" else shares,
                batch=expected,
                seed=context.seed,
                device=device,
                curves=context.curves,
                pictures=context.pictures,
            )
            every = max(1, gradients.total // LOOKS)
            try:
                if self.pretraining.data is not None and not _begun(context):
                    pretrain(adversaries, self.pretraining, schema, seed=context.seed)
                for turn in gradients.turns(adversaries):
                    adversaries.slow_down(turn / gradients.total)
                    if adversaries.critic_step(gradients.draw):
                        adversaries.generator_step()
                    if turn % every == 0 or turn + 1 == gradients.total:
                        loss = adversaries.look(turn + 1)
                        if turn % (every * LOOKS // PICTURES) == 0 or turn + 1 == gradients.total:
                            adversaries.show(turn + 1)
                        if context.on_step:
                            context.on_step(turn + 1, gradients.total, loss)
            except Diverged:
                # What was drawn is spent; the last state in which all weights were numbers is worth keeping.
                adversaries.back_to_good()
                context.diverged = True
        context.curve[:] = context.curves.get(LOSS, [])
        return Sampler(
            schema=schema,
            options=self.generator,
            generator=adversaries.result.eval(),
            class_shares=shares.float(),
            # With the critic at hand another number of candidates can be asked of a run that is paid for.
            chooser=Chooser(critic=adversaries.critic, options=self.critic, candidates=self.candidates),
        )


def _begun(context: Context) -> bool:
    """Whether there is a checkpoint to go on from, so that pretraining is behind us."""
    return context.checkpoint is not None and any(context.checkpoint.glob("*.safetensors"))

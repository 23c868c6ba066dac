"""Matching: train a generator until the mean of its features meets the released one; for all release-once methods."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from simulacra.errors import SettingError
from simulacra.features.groups import Groups, Trainable
from simulacra.generators import GeneratorOptions, build
from simulacra.generators.beginning import begin_with_samples
from simulacra.generators.condensed import Condensed
from simulacra.generators.sampler import Sampler
from simulacra.methods.base import Context, ReleaseOnce
from simulacra.methods.checkpoints import CHECKPOINTS, restore, save
from simulacra.methods.keeping import Best
from simulacra.methods.replaying import laid_out_as, matrix_units, replayable
from simulacra.options import Options
from simulacra.privacy.release import Release
from simulacra.schema import Schema


@dataclass(frozen=True, kw_only=True)
class Training(Options):
    """How long and how fast: Adam with the learning rate falling along a half cosine to `final_rate` of its start."""

    steps: int = 2000
    batch: int = 1000
    learning_rate: float = 0.01
    final_rate: float = 0.05

    def __post_init__(self) -> None:
        if self.steps < 1 or self.batch < 2:
            raise SettingError(f"training needs steps >= 1 and batch >= 2, got {self.steps} and {self.batch}")
        if self.learning_rate <= 0 or not 0 < self.final_rate <= 1:
            raise SettingError("training.learning_rate must be positive and training.final_rate in (0, 1]")


class Weights(Protocol):
    """Weights of features that learn while the generator does; see `methods/reweighting.py`."""

    every: int

    @property
    def state(self) -> torch.Tensor:
        """All that changes in training."""
        ...

    def to(self, device: torch.device) -> Any:
        """Move everything to a device."""
        ...

    def restore(self, state: torch.Tensor) -> None:
        """Continue from a state."""
        ...

    def distance(self, squared: torch.Tensor) -> torch.Tensor:
        """The weighted sum of squared differences, (classes, features)."""
        ...

    def learn(self, squared: torch.Tensor) -> None:
        """Learn from squared differences."""
        ...


@dataclass(frozen=True, kw_only=True)
class Matched:
    """What a generator is to have: noisy sums of some features, (classes, features) or all in one row, and counts.

    `noise_std` is the noise on each of the sums. It says how much they are worth beside those of another map.
    """

    features: Trainable
    sums: torch.Tensor
    counts: torch.Tensor
    noise_std: float


class MatchedMethod(ReleaseOnce):
    """A release-once method whose answers a generator is trained to match, by itself or together with others'."""

    training: Training
    generator: GeneratorOptions

    @abstractmethod
    def matched(self, schema: Schema, releases: Mapping[str, Release]) -> Matched:
        """What was released, as something to train with."""

    def train(self, schema: Schema, releases: Mapping[str, Release], context: Context) -> Sampler:
        return train_to_match(
            schema,
            self.matched(schema, releases),
            generator=self.generator,
            training=self.training,
            context=context,
        )


def train_to_match(
    schema: Schema,
    matched: Matched,
    *,
    generator: GeneratorOptions,
    training: Training,
    context: Context,
    weights: Weights | None = None,
) -> Sampler:
    """A sampler from noisy sums and noisy counts: what every release-once method does."""
    counts = matched.counts.clamp(min=1.0)
    total = counts.sum()
    shares = counts / total
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(context.seed)
        network = build(schema, generator)
    if isinstance(network, Condensed) and generator.init == "samples":
        begin_with_samples(network, context.beginning(), seed=context.seed)
    with matrix_units(torch.device(context.device)), in_memory(generator):
        match(
            network,
            matched.features,
            target=matched.sums / total,
            shares=shares,
            training=training,
            context=context,
            weights=weights,
        )
    return Sampler(schema=schema, options=generator, generator=network, class_shares=shares.float())


def match(
    generator: Any,
    features: Trainable,
    *,
    target: torch.Tensor,
    shares: torch.Tensor,
    training: Training,
    context: Context,
    weights: Weights | None = None,
) -> None:
    """Minimise || target_c - share_c * mean of features(generator(noise, c)) ||^2 summed over classes c.

    `target` is (classes, features), or all of it in one row: sums over a public or noisy total. `shares` are the class
    shares; `weights`, if any, weigh the features in the norm, and learn every few steps.
    Ctrl-C stops early and keeps what was learned. Of a condensed set the best is kept, see `methods/keeping.py`.
    """
    device = torch.device(context.device)
    generator.to(device).train()
    target, shares = target.to(device, torch.float32), shares.to(device, torch.float32)
    groups = groups_for(generator, shares, training.batch)
    random = torch.Generator(device=device).manual_seed(context.seed)
    parameters = list(generator.parameters())
    optimiser = _adam(parameters, training.learning_rate, device)
    best = Best(generator) if isinstance(generator, Condensed) else None
    start = restore(context, generator, optimiser, random, weights.to(device) if weights else None, best)
    scale = 1 / float(target.square().sum().clamp(min=1e-12))
    every = max(1, training.steps // CHECKPOINTS)
    noise = torch.empty(sum(groups.sizes), generator.latent, device=device)

    def learn() -> tuple[torch.Tensor, torch.Tensor]:
        mean = features.class_sums(generator(noise, groups.one_hot), groups)
        squared = (target - mean).square()
        loss = (weights.distance(squared) if weights else squared.sum()) * scale
        for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
            parameter.grad = laid_out_as(parameter, gradient)
        optimiser.step()
        return squared.detach(), loss.detach()

    try:
        one_step = replayable(learn, generator, optimiser, device)
        for step in range(start, training.steps):
            rate = training.learning_rate * cosine(step / training.steps, training.final_rate)
            for group in optimiser.param_groups:
                set_rate(group, rate)
            noise.normal_(generator=random)
            last = step + 1 == training.steps
            told = step % max(1, training.steps // 200) == 0 or last
            if best and told:
                best.look()
            squared, loss = one_step()
            if weights and (step + 1) % weights.every == 0:
                weights.learn(squared)
            if told:
                value = loss.item()
                if not math.isfinite(value):
                    raise SettingError("training diverged: the loss is not a number; lower training.learning_rate")
                context.curve.append((step + 1, value))
                if best:
                    best.judge(squared.sum().item())  # weights that learn would be another yardstick at every step
                if context.on_step:
                    context.on_step(step + 1, training.steps, value)
            if context.checkpoint and (step + 1) % every == 0 and not last:
                save(context.checkpoint, generator, optimiser, random, step + 1, context.curve, weights, best)
    except KeyboardInterrupt:
        context.stopped_early = True
    if best:
        best.take()
    generator.eval()


@contextmanager
def in_memory(generator: GeneratorOptions, *, what: str = "a training step", less: str | None = None) -> Iterator[None]:
    """Where memory runs out, say which setting asks for less of it: one of training, or what `less` says."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:  # torch has an error of its own for a GPU, and none for a processor
        if not isinstance(error, (MemoryError, torch.OutOfMemoryError)) and "allocate" not in str(error):
            raise
        size = "generator.per_class" if generator.condensed else "training.batch"
        raise SettingError(f"{what} does not fit into memory; {less or f'lower {size}'}") from None


def groups_for(generator: Any, shares: torch.Tensor, batch: int) -> Groups:
    """How many rows of each class a step has. Their mean is weighted by the share, so the loss is unbiased in them."""
    if isinstance(generator, Condensed):  # all of the set in every step: there is nothing else to match
        per_class = torch.full_like(shares, generator.per_class, dtype=torch.int64)
    else:  # every class gets rows, rare ones too
        per_class = torch.clamp((shares * batch).round().long(), min=max(2, batch // (8 * len(shares))))
    return Groups(sizes=tuple(per_class.tolist()), weights=shares / per_class)


def _adam(parameters: list[torch.nn.Parameter], rate: float, device: torch.device) -> torch.optim.Adam:
    """On a GPU with the rate on the device, so that a captured step follows it."""
    if device.type != "cuda":
        return torch.optim.Adam(parameters, lr=rate)
    return torch.optim.Adam(parameters, lr=torch.tensor(rate, device=device), capturable=True, fused=True)


def cosine(progress: float, final: float) -> float:
    """From 1 along a half cosine to `final`."""
    return final + (1 - final) * (1 + math.cos(math.pi * progress)) / 2


def set_rate(group: dict[str, Any], rate: float) -> None:
    """Of a group of weights; in place where a captured step reads it."""
    group["lr"] = group["lr"].fill_(rate) if isinstance(group["lr"], torch.Tensor) else rate

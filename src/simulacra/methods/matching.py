"""Matching: train a generator until the mean of its features meets the released one; for all release-once methods."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save

from simulacra.errors import CertificateError, SettingError
from simulacra.methods.base import Context
from simulacra.options import Options
from simulacra.privacy.durable import write_durably

CHECKPOINT = "training.safetensors"
CHECKPOINTS = 20
"""A run is checkpointed this many times."""


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


def match(
    generator: Any,
    embed: Callable[[torch.Tensor], torch.Tensor],
    *,
    target: torch.Tensor,
    shares: torch.Tensor,
    training: Training,
    context: Context,
) -> None:
    """Minimise || target_c - share_c * mean of embed(generator(noise, c)) ||^2 summed over classes c.

    `target` is (classes, features): per-class sums over a public or noisy total; `shares` are the class shares.
    Ctrl-C stops early and keeps what was learned.
    """
    device = torch.device(context.device)
    classes = len(shares)
    generator.to(device).train()
    target, shares = target.to(device, torch.float32), shares.to(device, torch.float32)
    # Every class gets rows, rare ones too; their mean is weighted by the share, so the loss is unbiased in them.
    per_class = torch.clamp((shares * training.batch).round().long(), min=max(2, training.batch // (8 * classes)))
    labels = torch.repeat_interleave(torch.arange(classes, device=device), per_class)
    one_hot = torch.nn.functional.one_hot(labels, classes).to(torch.float32)
    averaging = (one_hot * (shares / per_class)).T.contiguous()
    random = torch.Generator(device=device).manual_seed(context.seed)
    optimiser = torch.optim.Adam(generator.parameters(), lr=training.learning_rate)
    start = _restore(context, generator, optimiser, random)
    scale = 1 / float(target.square().sum().clamp(min=1e-12))
    every = max(1, training.steps // CHECKPOINTS)
    try:
        for step in range(start, training.steps):
            for group in optimiser.param_groups:
                group["lr"] = training.learning_rate * _cosine(step / training.steps, training.final_rate)
            noise = torch.randn(len(labels), generator.latent, generator=random, device=device)
            mean = averaging @ embed(generator(noise, one_hot))
            loss = (target - mean).square().sum() * scale
            optimiser.zero_grad(set_to_none=True)
            torch.autograd.backward(loss)
            optimiser.step()
            last = step + 1 == training.steps
            if step % max(1, training.steps // 200) == 0 or last:
                value = loss.item()
                if not math.isfinite(value):
                    raise SettingError("training diverged: the loss is not a number; lower training.learning_rate")
                context.curve.append((step + 1, value))
                if context.on_step:
                    context.on_step(step + 1, training.steps, value)
            if context.checkpoint and (step + 1) % every == 0 and not last:
                _save(context.checkpoint, generator, optimiser, random, step + 1, context.curve)
    except KeyboardInterrupt:
        context.stopped_early = True
    generator.eval()


def _cosine(progress: float, final: float) -> float:
    return final + (1 - final) * (1 + math.cos(math.pi * progress)) / 2


def _save(
    folder: Path,
    generator: Any,
    optimiser: torch.optim.Adam,
    random: torch.Generator,
    step: int,
    curve: list[tuple[int, float]],
) -> None:
    tensors = {f"generator.{name}": value.cpu() for name, value in generator.state_dict().items()}
    for index, state in optimiser.state_dict()["state"].items():
        tensors |= {f"optimiser.{index}.{name}": value.cpu() for name, value in state.items()}
    tensors |= {"random": random.get_state(), "step": torch.tensor(step)}
    tensors["curve"] = torch.tensor(curve, dtype=torch.float64)
    folder.mkdir(parents=True, exist_ok=True)
    write_durably(folder / CHECKPOINT, save({name: value.contiguous() for name, value in tensors.items()}))


def _restore(context: Context, generator: Any, optimiser: torch.optim.Adam, random: torch.Generator) -> int:
    """Continue from a checkpoint if there is one: the same numbers as if training had never stopped."""
    folder = context.checkpoint
    if folder is None or not (folder / CHECKPOINT).exists():
        return 0
    try:
        tensors = load_file(folder / CHECKPOINT)
        weights = {k.removeprefix("generator."): v for k, v in tensors.items() if k.startswith("generator.")}
        state: dict[int, dict[str, torch.Tensor]] = {}
        for name, value in tensors.items():
            if name.startswith("optimiser."):
                _, index, key = name.split(".", 2)
                state.setdefault(int(index), {})[key] = value
        generator.load_state_dict(weights)
        optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})
        random.set_state(tensors["random"])
        context.curve[:] = [(int(at), loss) for at, loss in tensors["curve"].tolist()]
        return int(tensors["step"])
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError):
        raise CertificateError(f'the checkpoint in "{folder}" is damaged; remove that folder and train again') from None

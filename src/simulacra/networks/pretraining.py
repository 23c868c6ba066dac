"""Pretraining: an encoder learns to name the classes of public images, and its weights are kept without the head."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy, pad

from simulacra.errors import DataError, SettingError
from simulacra.networks import encoder_files, encoders, public_images
from simulacra.networks.allocation import freed_memory_kept
from simulacra.networks.encoder import Encoder
from simulacra.networks.public_images import PublicImages
from simulacra.networks.small_encoder import WIDTHS

WARM_UP, WEIGHT_DECAY = 0.1, 5e-4
SHIFT = 8
"""Images are shifted by up to an eighth of their side; colour images are mirrored, too."""


@dataclass(frozen=True, kw_only=True)
class Schooling:
    """How an encoder is trained: AdamW, with a rate that rises for a tenth of the steps and then falls to nothing."""

    epochs: int = 15
    batch: int = 256
    learning_rate: float = 1e-3
    side: int | None = None
    """Images are brought to this side first."""
    seed: int = 0
    device: str = "cpu"

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.batch < 2 or not 0 < self.learning_rate <= 1:
            raise SettingError("epochs must be at least 1, batch at least 2, and the learning rate in (0, 1]")
        if self.side is not None and not 1 <= self.side <= 1024:
            raise SettingError(f"the side must be from 1 to 1024, got {self.side}")


@freed_memory_kept()
def pretrain(
    network: str,
    *,
    data: str,
    out: str | Path,
    widths: Sequence[int] = WIDTHS,
    schooling: Schooling | None = None,
    on_step: Callable[[int, int, float], None] | None = None,
) -> dict[str, str]:
    """Train the encoder `network` on a known public data set; writes OUT and the facts beside it, and gives these."""
    schooling = schooling or Schooling()
    path = encoder_files.new_file(out)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(schooling.seed)
        encoder = encoders.build(network, widths=widths)
        # Both now: whatever is missing is told before an hour of training and not after it.
        images, held_out = public_images.load(data), public_images.load(data, "test")
        side = schooling.side or min(images.pixels.shape[2:])
        if side < encoder.least_side:
            raise SettingError(
                f'the encoder "{network}" needs images of side {encoder.least_side}, got {side}; choose a larger side'
            )
        if images.classes < 2:
            raise DataError(f'"{data}" has no classes to learn; choose a labelled data set')
        with torch.no_grad():
            channels = encoder(torch.zeros(1, 3, side, side)).shape[1]
        head = nn.Linear(channels, images.classes)
    _learn(encoder, head, images, schooling, on_step)
    accuracy = _accuracy(encoder, head, held_out, schooling)
    facts = {
        "network": network,
        "widths": ",".join(map(str, widths)) if network == encoders.SMALL else "",
        "data": data,
        "data_checksum": images.checksum,
        "accuracy": f"{accuracy:.4f}",
        "epochs": str(schooling.epochs),
        "side": str(side),
        "seed": str(schooling.seed),
    }
    checksum = encoder_files.save(path, encoder.state_dict(), facts)
    return {**facts, "contents": checksum}


def _learn(
    encoder: Encoder,
    head: nn.Module,
    images: PublicImages,
    schooling: Schooling,
    on_step: Callable[[int, int, float], None] | None,
) -> None:
    device = torch.device(schooling.device)
    encoder.to(device).train()
    head.to(device)
    weights = [*encoder.parameters(), *head.parameters()]
    optimiser = torch.optim.AdamW(weights, lr=schooling.learning_rate, weight_decay=WEIGHT_DECAY)
    random = torch.Generator().manual_seed(schooling.seed)
    per_epoch = max(1, len(images.labels) // schooling.batch)
    steps = per_epoch * schooling.epochs
    for step in range(steps):
        if step % per_epoch == 0:
            order = torch.randperm(len(images.labels), generator=random)
        rate = schooling.learning_rate * _rate((step + 1) / steps)
        for group in optimiser.param_groups:
            group["lr"] = rate
        start = step % per_epoch * schooling.batch
        chosen = order[start : start + schooling.batch]
        batch = images.batch(chosen, side=schooling.side, device=device)
        batch = _varied(batch, mirrored=images.pixels.shape[1] == 3, random=random)
        with _arithmetic(device):
            loss = cross_entropy(head(_pooled(encoder, batch)).float(), images.labels[chosen].to(device))
        optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(weights, 5.0)
        optimiser.step()
        if step % 50 == 0 or step + 1 == steps:
            value = loss.item()
            if not math.isfinite(value):
                raise SettingError("pretraining diverged: the loss is not a number; lower the learning rate")
            if on_step:
                on_step(step + 1, steps, value)
    encoder.eval()


@torch.no_grad()
def _accuracy(encoder: Encoder, head: nn.Module, images: PublicImages, schooling: Schooling) -> float:
    """On public test images, which nothing else is done with."""
    right = 0
    for start in range(0, len(images.labels), 500):
        rows = slice(start, start + 500)
        batch = images.batch(rows, side=schooling.side, device=schooling.device)
        guesses = head(_pooled(encoder, batch)).argmax(dim=1).cpu()
        right += int((guesses == images.labels[rows]).sum())
    return right / max(1, len(images.labels))


def _pooled(encoder: Encoder, images: torch.Tensor) -> torch.Tensor:
    pooled: torch.Tensor = encoder(images).relu().mean(dim=(2, 3))
    return pooled


def _varied(images: torch.Tensor, *, mirrored: bool, random: torch.Generator) -> torch.Tensor:
    """The whole batch shifted alike, and mirrored or not: cheap, and different in every step."""
    height, width = images.shape[2:]
    down, right = max(1, height // SHIFT), max(1, width // SHIFT)
    top = int(torch.randint(2 * down + 1, (), generator=random))
    left = int(torch.randint(2 * right + 1, (), generator=random))
    shifted = pad(images, (right, right, down, down))[:, :, top : top + height, left : left + width]
    if mirrored and bool(torch.rand((), generator=random) < 0.5):
        shifted = shifted.flip(3)
    return shifted


def _rate(progress: float) -> float:
    if progress < WARM_UP:
        return progress / WARM_UP
    return (1 + math.cos(math.pi * (progress - WARM_UP) / (1 - WARM_UP))) / 2


def _arithmetic(device: torch.device) -> AbstractContextManager[Any]:
    return torch.autocast("cuda", dtype=torch.bfloat16) if device.type == "cuda" else nullcontext()

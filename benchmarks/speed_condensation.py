"""Speed of a round of NDPDC with all classes in one batch, against a loop over the classes in the same run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.speed_networks import DEVICE, _wait, seconds
from simulacra.features.embedding import ClippedEmbedding
from simulacra.features.extractors import ConvolutionalExtractor
from simulacra.generators import GeneratorOptions
from simulacra.methods.condensation import fresh_set
from simulacra.methods.condensing import Condensing, Matching
from simulacra.methods.ndpdc import batch_rows
from simulacra.networks.augmentation import apply, draw
from simulacra.privacy.accountant import Event
from simulacra.privacy.budget import Adjacency
from simulacra.privacy.loop import Loop
from simulacra.privacy.noise import NoiseSource
from simulacra.privacy.plan import PlannedStep
from simulacra.privacy.query import Noise, Step, sensitivity
from simulacra.privacy.records import Records
from simulacra.schema import ImageShape, Schema

OPERATIONS = ("color", "crop", "cutout", "scale", "rotate")
NOISE = 3.2
MANY = 10_000_000


class _NoBook:
    """Accounts of nothing: these records are invented."""

    path = Path("none")

    def reserved(self, run: str, step: str, event: Event | None = None) -> int:
        return 0

    def asked(self, run: str, step: str, event: Event | None = None) -> int:
        return 0

    def allow(self, events: Sequence[Event]) -> None: ...

    def reserve(self, run: str, steps: Sequence[str], events: Sequence[Event], *, at_most: int | None = None) -> str:
        return ""

    def ask(self, run: str, step: str, event: Event) -> None: ...

    def answer(self, run: str, step: str, sha256: str) -> None: ...


def condensation() -> dict[str, Any]:
    """60,000 grey images of 28 pixels in ten classes, groups of 50, 50 synthetic images per class (few on a CPU)."""
    classes, group, per_class, rounds = (10, 50, 50, 50) if DEVICE == "cuda" else (10, 4, 4, 1)
    image = ImageShape(height=28, width=28, classes=tuple(map(str, range(classes))))
    random = torch.Generator().manual_seed(0)
    inputs = (torch.rand(60_000, image.pixels, generator=random) * 2 - 1).to(DEVICE)
    labels = (torch.arange(60_000) % classes).to(DEVICE)
    rate = group / 6000
    learned = Condensing(
        fresh_set(Schema(image=image), GeneratorOptions(kind="condensed", per_class=per_class, spread=1.0), 0), DEVICE
    )
    extractor = ConvolutionalExtractor(image, classes, operations=OPERATIONS, device=DEVICE)
    rows = batch_rows(torch.full((classes,), float(group)))
    feature_map = ClippedEmbedding(extractor, classes, clip=1.0, rows=rows)
    step = Step(name="embeddings", size=feature_map.size, sample_rate=rate, count=MANY, noise=Noise.FAST)
    event = Event(noise_multiplier=NOISE, sample_rate=rate, count=MANY)
    planned = PlannedStep(step=step, event=event, sensitivity=sensitivity(step, Adjacency.ADD_REMOVE))
    noise = NoiseSource()
    loop = Loop(
        records=Records(inputs=inputs, labels=labels),
        planned=planned,
        private=True,
        book=_NoBook(),
        run="",
        noise=noise,
        block=MANY,
    )

    weights = torch.full((classes, 1), float(group), device=DEVICE)
    match = Matching(learned, extractor, weights=weights, clip=1.0, momentum=0.5)

    def together() -> None:
        for number in range(rounds):
            extractor.draw_anew(0, number)
            match(loop(feature_map), rate=1.0)
        _wait()

    of_class = [(labels == label).nonzero().squeeze(1) for label in range(classes)]

    def clipped(images: torch.Tensor) -> torch.Tensor:
        embedded = extractor.network.embed(images)
        return embedded / embedded.detach().norm(dim=1, keepdim=True).clamp(min=1.0)

    def class_by_class() -> None:
        """As in the published code: for each class its own sample, augmentation and passes."""
        for number in range(rounds):
            extractor.draw_anew(0, number)
            loss = torch.zeros((), device=DEVICE)
            for label in range(classes):
                operation = OPERATIONS[(number + label) % len(OPERATIONS)]
                parameters = draw(operation, 1, height=28, width=28, device=DEVICE)
                chosen = of_class[label][noise.poisson(len(of_class[label]), rate, inputs.device)]
                real = inputs[chosen].reshape(-1, 1, 28, 28)
                with torch.no_grad():
                    total = clipped(apply(operation, real, parameters.expand(len(real), -1))).sum(dim=0)
                total = total + noise.fast(total, NOISE)
                own = learned.held.values[label * per_class : (label + 1) * per_class].reshape(-1, 1, 28, 28)
                synthetic = clipped(apply(operation, own, parameters.expand(per_class, -1))).mean(dim=0)
                loss = loss + (total - group * synthetic).square().sum()
            (gradient,) = torch.autograd.grad(loss, [learned.held.values])
            learned.step(gradient, rate=1.0, momentum=0.5)
        _wait()

    one, loop_over = (seconds(work) / rounds for work in (together, class_by_class))
    return {
        "device": DEVICE,
        "group": group,
        "per_class": per_class,
        "seconds_per_round": one,
        "class_by_class_seconds_per_round": loop_over,
        "times_faster": loop_over / one,
        "seconds_for_10000_rounds": one * 10_000,
    }

"""Speed of DP-MEPF: a release against the network's forward pass alone, and training steps per second."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from benchmarks.speed_networks import DEVICE

IMAGES, SIDE, CLASSES, BATCH = 512, 32, 10, 128


def perceptual() -> dict[str, Any]:
    """VGG19 at 32 x 32 pixels, ten classes, both moments; invented images, and weights as torch draws them."""
    from simulacra.features.combine import PerClass
    from simulacra.features.perceptual import OnePass, Perceptual
    from simulacra.features.views import Perceived
    from simulacra.networks import encoders
    from simulacra.privacy.records import Records
    from simulacra.privacy.summing import add_in_turn
    from simulacra.schema import ImageShape

    random = torch.Generator().manual_seed(0)
    image = ImageShape(height=SIDE, width=SIDE, channels=3)
    torch.manual_seed(0)
    view = Perceived(image, encoders.build("vgg19"), name="vgg19")
    inputs = torch.rand(IMAGES, image.pixels, generator=random) * 2 - 1
    records = Records(inputs=inputs, labels=torch.randint(0, CLASSES, (IMAGES,), generator=random))
    pictures = ((inputs + 1) / 2).reshape(IMAGES, 3, SIDE, SIDE)

    rows = OnePass(view).rows

    def forward() -> None:
        with torch.no_grad():
            for start in range(0, IMAGES, rows):
                view.encoder(pictures[start : start + rows])

    def release() -> None:
        passing = OnePass(view)
        passing._steady = True  # found out once in a release, and not with every batch
        maps = {str(order): PerClass(Perceptual(passing, order=order), CLASSES) for order in (1, 2)}
        totals = {name: torch.zeros(each.shape, dtype=torch.float64) for name, each in maps.items()}
        add_in_turn(totals, maps, records)

    forward()
    # Turn by turn, since a shared machine may slow down between two measurements.
    turns = [(_took(forward), _took(release)) for _ in range(3)]
    alone, whole = min(turn[0] for turn in turns), min(turn[1] for turn in turns)
    return {
        "device": DEVICE,
        "images": IMAGES,
        "forward_processor_seconds": alone,
        "release_processor_seconds": whole,
        "ratio_to_forward": whole / alone,
        **_training(view, image),
    }


def _took(work: Callable[[], None]) -> float:
    """Seconds of the processor, whatever else it was doing in between."""
    began = time.process_time()
    work()
    return time.process_time() - began


def _training(view: Any, image: Any) -> dict[str, Any]:
    """Steps per second at the paper's batch of 128, labelled, first moment, with a residual generator."""
    from simulacra.generators import GeneratorOptions, build
    from simulacra.methods.base import Context
    from simulacra.methods.perceptual_matching import PerceptualTraining, match_moments
    from simulacra.schema import ImageShape, Schema

    names = tuple(map(str, range(CLASSES)))
    schema = Schema(image=ImageShape(height=image.height, width=image.width, channels=3, classes=names))
    steps = 600 if DEVICE == "cuda" else 3
    target = torch.rand(CLASSES, view.width) / view.width**0.5
    runs: list[tuple[str, str, bool]] = [("averaged", "single", False)]
    if DEVICE == "cuda":
        runs += [(loss, "bf16", fused) for loss in ("averaged", "tracked") for fused in (False, True)]
    found: dict[str, Any] = {}
    for loss, precision, fused in runs:
        marks: list[tuple[int, float]] = []

        def mark(step: int, steps: int, _: float, marks: list[tuple[int, float]] = marks) -> None:
            marks.append((step, time.perf_counter()))

        training = PerceptualTraining(steps=steps, batch=BATCH, precision=precision, loss=loss, fused=fused)  # type: ignore[arg-type]
        context = Context(device=DEVICE, on_step=mark)
        generator = build(schema, GeneratorOptions())
        shares = torch.full((CLASSES,), 1 / CLASSES)
        match_moments(generator, view, targets={1: target}, shares=shares, training=training, context=context)
        (first, began), (last, ended) = marks[len(marks) // 3], marks[-1]
        name = "_".join([loss, precision, *(["fused"] if fused else []), "steps_per_second"])
        found[name] = (last - first) / (ended - began)
    return found

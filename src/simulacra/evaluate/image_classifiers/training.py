"""Networks trained on synthetic images, one for each seed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

import numpy as np
import torch
from numpy.typing import NDArray

from simulacra.evaluate.image_classifiers.answer import Answer
from simulacra.evaluate.image_classifiers.capture import capture
from simulacra.evaluate.image_classifiers.learner import Learner
from simulacra.evaluate.image_classifiers.material import as_material, channels_first
from simulacra.evaluate.image_classifiers.recipes import Recipe
from simulacra.evaluate.image_classifiers.timetable import Timetable, held_out_images, timetable
from simulacra.networks.devices import arithmetic

Progress = Callable[[str], None]


def train(
    recipe: Recipe,
    images: NDArray[np.uint8],
    labels: NDArray[np.int64],
    test_images: NDArray[np.uint8],
    *,
    classes: int,
    seeds: Sequence[int],
    device: str = "cpu",
    progress: Progress | None = None,
) -> list[Answer]:
    """Train a network for each seed on images (n, height, width, channels) and ask it about the test images.

    A seed decides the first weights, the order of the images, which are held out, dropout and augmentation. On a GPU,
    networks of all seeds learn at once from captured steps, and share the stream of random numbers of the last two.
    """
    table = timetable(recipe, images=len(images) - held_out_images(recipe, len(images)), channels=images.shape[3])
    material = as_material(recipe, images, labels, classes=classes, device=device)
    started = time.perf_counter()
    with _arithmetic(recipe, material.device):
        learners = []
        for seed in seeds:
            with _seeded(seed, 0, material.device):
                learners.append(Learner(recipe, material, table, seed=seed))
        captured = material.device.type == "cuda" and _train_captured(learners, table, seeds[0], progress)
        if not captured:
            for seed, learner in zip(seeds, learners, strict=True):
                with _seeded(seed, 1, material.device):
                    _train_eagerly(learner, table, progress)
        asked = channels_first(test_images)
        finished = [
            (learner.finish(), learner.answers(asked).cpu().numpy(), bool(learner.diverged.item()))
            for learner in learners
        ]
    return [
        Answer(
            seed=seed,
            predicted=None if diverged else predicted,
            seconds=(time.perf_counter() - started) / len(seeds),
            steps=table.steps,
            details={"epochs": table.epochs, "captured": captured} | details,
        )
        for seed, (details, predicted, diverged) in zip(seeds, finished, strict=True)
    ]


def _train_eagerly(learner: Learner, table: Timetable, progress: Progress | None) -> None:
    for epoch in range(table.epochs):
        _tell(progress, learner.recipe, epoch, table.epochs)
        learner.shuffle()
        for size, operation in table.epoch(epoch):
            learner.step(size, operation)
        learner.end_epoch(epoch)


def _train_captured(learners: Sequence[Learner], table: Timetable, seed: int, progress: Progress | None) -> bool:
    """The same loop for all networks together; False if steps cannot be captured here, and nothing was done."""
    device = learners[0].material.device
    with torch.cuda.device(device), _seeded(seed, 1, device):
        graphs = capture(learners, table.kinds())
        if graphs is None:
            return False
        for epoch in range(table.epochs):
            _tell(progress, learners[0].recipe, epoch, table.epochs)
            for learner in learners:
                learner.shuffle()
            for kind in table.epoch(epoch):
                graphs[kind].replay()
            for learner in learners:
                learner.end_epoch(epoch)
        torch.cuda.synchronize()
    return True


def _tell(progress: Progress | None, recipe: Recipe, epoch: int, epochs: int) -> None:
    """Ten times in a run, however many epochs it has."""
    if progress is not None and epoch % max(1, epochs // 10) == 0:
        progress(f"{recipe.title}: epoch {epoch + 1} of {epochs}")


@contextmanager
def _seeded(seed: int, part: int, device: torch.device) -> Iterator[None]:
    """Torch's default generators start from a seed in here, and go on outside as if nothing had happened."""
    number = int(np.random.SeedSequence((seed, part)).generate_state(1)[0])
    on_gpu = device.type == "cuda"
    with torch.random.fork_rng(devices=[device] if on_gpu else [], device_type="cuda"):
        torch.default_generator.manual_seed(number)
        if on_gpu:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(number)
        yield


def _arithmetic(recipe: Recipe, device: torch.device) -> AbstractContextManager[None]:
    """The precision a recipe names, on GPUs, where torch's convolutions would round to TF32 unasked."""
    if device.type != "cuda":
        return nullcontext()
    return arithmetic(rounded=recipe.arithmetic != "float32")

"""What a recipe comes to for a number of images: how many steps, at which rate and with which augmentation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from simulacra.evaluate.image_classifiers.recipes import Recipe


@dataclass(frozen=True, kw_only=True)
class Timetable:
    """The steps of a training run, known before it begins; the same for every seed."""

    epochs: int
    sizes: tuple[int, ...]
    """The number of images in each batch of an epoch."""
    rates: tuple[float, ...]
    """The learning rate of each step."""
    operations: tuple[str, ...]
    """The augmentation of each step; an empty text is none."""

    @property
    def steps(self) -> int:
        return self.epochs * len(self.sizes)

    def epoch(self, number: int) -> Iterator[tuple[int, str]]:
        """Batch size and operation of each step of an epoch, counted from 0."""
        first = number * len(self.sizes)
        return zip(self.sizes, self.operations[first : first + len(self.sizes)], strict=True)

    def kinds(self) -> list[tuple[int, str]]:
        """Every pair of a batch size and an operation that occurs."""
        return list(dict.fromkeys(kind for number in range(self.epochs) for kind in self.epoch(number)))


def held_out_images(recipe: Recipe, images: int) -> int:
    """How many of the synthetic images are held out; none, if there are too few to spare one."""
    return int(images * recipe.held_out + 1e-9)


def timetable(recipe: Recipe, *, images: int, channels: int) -> Timetable:
    """The steps for so many training images, held-out ones not counted."""
    batch = min(recipe.batch, images)
    sizes = [batch] * (images // batch)
    if recipe.keep_last_batch and images % batch:
        sizes.append(images % batch)
    epochs = recipe.epochs
    if recipe.most_steps is not None:
        epochs = max(1, min(epochs, recipe.most_steps // len(sizes)))
    steps = epochs * len(sizes)
    flips = recipe.augmentation and recipe.mirrors(channels)
    choices = (*recipe.augmentation, "flip") if flips else recipe.augmentation
    operations = [""] * steps
    if choices:
        # One stream for all seeds: on a GPU the networks of all seeds take their steps together.
        drawn = torch.randint(len(choices), (steps,), generator=torch.Generator().manual_seed(0))
        operations = [choices[number] for number in drawn.tolist()]
    return Timetable(
        epochs=epochs,
        sizes=tuple(sizes),
        rates=tuple(recipe.rate * _share(recipe.schedule, step / steps) for step in range(steps)),
        operations=tuple(operations),
    )


def _share(schedule: str, time: float) -> float:
    """The share of the recipe's rate at a time from 0 to 1."""
    if schedule == "triangle":
        return 1 - abs(2 * time - 1)
    if schedule == "drop":
        return 1.0 if time < 0.5 else 0.1
    return 1.0

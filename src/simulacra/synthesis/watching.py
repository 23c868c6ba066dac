"""Watcher: who is told how far long work has come. The command line draws bars; a program may do as it likes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulacra.generators.sampler import Sampler


class Watcher:
    """Says nothing; override what you want to see. No call ever carries a private value, not even a row count."""

    def stage(self, name: str) -> None:
        """A new stage of work begins."""

    def on_batch(self) -> None:
        """One more batch of records was read."""

    def on_noise(self, done: int, total: int) -> None:
        """So many of the released numbers have their noise."""

    def on_count(self, done: int, total: int) -> None:
        """So many images were measured; only scoring counts records, which is outside the guarantee anyway."""

    def on_step(self, step: int, steps: int, loss: float) -> None:
        """A training step, and the loss."""

    def on_look(self, step: int, sampler: Sampler) -> None:
        """What training would give if it ended here, now and then; of methods that look at it themselves."""

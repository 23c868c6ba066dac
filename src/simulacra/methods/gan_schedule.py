"""How many critic steps come before a generator step: fixed, or more and more as the critic falls behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from simulacra.errors import SettingError
from simulacra.options import Options


@dataclass(frozen=True, kw_only=True)
class Schedule(Options):
    """The adaptive schedule of Bie, Kamath and Zhang (2023), section 5.2; a single number of steps is a fixed one.

    Before each generator step, the critic's accuracy on a fresh fake batch enters a moving average. When that is at
    most `threshold`, and `grace` generator steps have passed since the last change, the next number of steps is taken.
    Only fakes are looked at, so this costs no privacy.
    """

    critic_steps: tuple[int, ...] = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
    """Critic steps per generator step, one after the other."""
    threshold: float = 0.6
    smoothing: float = 0.99
    """Of the moving average: the weight of the past."""
    grace: int = 200
    """Generator steps; the paper has 2 / (1 - smoothing)."""

    def __post_init__(self) -> None:
        if not self.critic_steps or min(self.critic_steps) < 1:
            raise SettingError(f"schedule.critic_steps must be a list of positive numbers, got {self.critic_steps}")
        if not 0 <= self.threshold <= 1 or not 0 <= self.smoothing < 1 or self.grace < 0:
            raise SettingError(
                "schedule.threshold must be from 0 to 1, schedule.smoothing from 0 to below 1 and schedule.grace not "
                "negative"
            )


class Pace:
    """Where a run stands in its schedule."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.level = self.since_change = self.since_generator = 0
        self.accuracy: float | None = None

    @property
    def critic_steps(self) -> int:
        """Critic steps per generator step, at present."""
        return self.schedule.critic_steps[self.level]

    def critic_stepped(self) -> bool:
        """Count a critic step; whether the generator's turn has come."""
        self.since_generator += 1
        return self.since_generator >= self.critic_steps

    def generator_stepped(self, accuracy: float) -> None:
        """Count a generator step, before which the critic told so large a share of fakes from real records."""
        smoothing = self.schedule.smoothing
        self.since_generator = 0
        self.since_change += 1
        self.accuracy = accuracy if self.accuracy is None else smoothing * self.accuracy + (1 - smoothing) * accuracy
        last = self.level + 1 == len(self.schedule.critic_steps)
        if self.since_change >= self.schedule.grace and self.accuracy <= self.schedule.threshold and not last:
            self.level += 1
            self.since_change = 0

    def state(self) -> torch.Tensor:
        """All that changes, as numbers."""
        accuracy = -1.0 if self.accuracy is None else self.accuracy
        return torch.tensor([self.level, self.since_change, self.since_generator, accuracy], dtype=torch.float64)

    def load(self, state: torch.Tensor) -> None:
        """Go on from there."""
        level, since_change, since_generator, accuracy = state.tolist()
        self.level, self.since_change, self.since_generator = int(level), int(since_change), int(since_generator)
        self.accuracy = None if accuracy < 0 else accuracy


def curves_to_state(curves: Mapping[str, list[tuple[int, float]]]) -> dict[str, torch.Tensor]:
    """Curves as tensors, for a checkpoint."""
    return {
        f"curve.{name}": torch.tensor(points, dtype=torch.float64).reshape(-1, 2) for name, points in curves.items()
    }


def curve_from_state(values: torch.Tensor) -> list[tuple[int, float]]:
    """A curve, from a checkpoint."""
    return [(int(at), value) for at, value in values.tolist()]

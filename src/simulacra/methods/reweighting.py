"""Reweighting: frequencies on which the generator is still wrong count more (after PEARL: Liew, Takahashi, Ueno 2022).

All of it is post-processing: it sees released numbers and generated points alone, and costs no privacy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from simulacra.errors import SettingError
from simulacra.features.fourier import RandomFourier
from simulacra.options import Options


@dataclass(frozen=True, kw_only=True)
class Reweighting(Options):
    """How often and how far the weights of frequencies move; `every = 0` leaves them all at 1.

    No weight is more than `strength` times another. That is the floor which noise makes necessary: a released number is
    as noisy at frequencies that matter as at those that do not, and an adversary without bounds would chase that noise.
    """

    every: int = 0
    learning_rate: float = 0.05
    strength: float = 4.0

    def __post_init__(self) -> None:
        if self.every < 0:
            raise SettingError(f"reweighting.every must be 0 (off) or a number of steps, got {self.every}")
        if not 0 < self.learning_rate <= 1:
            raise SettingError(f"reweighting.learning_rate must be in (0, 1], got {self.learning_rate:g}")
        if not 1 < self.strength <= 1e6:
            raise SettingError(f"reweighting.strength must be above 1 and at most 1e6, got {self.strength:g}")

    def of(self, fourier: RandomFourier, length_scales: Sequence[float]) -> FrequencyWeights | None:
        """The weights at the start of training; None if this is off."""
        if not self.every:
            return None
        scales = torch.tensor(length_scales).repeat(math.ceil(fourier.pairs / len(length_scales)))[: fourier.pairs]
        return FrequencyWeights(fourier.frequencies * scales.unsqueeze(1), self)


class FrequencyWeights:
    """A weight per frequency, of mean 1: how likely it is under another Gaussian than the one it was drawn from.

    That Gaussian's precisions are those of the drawing less a shift per dimension, all 0 at first; ascent on the
    weighted distance moves the shifts. So a few numbers say which kind of frequency counts, and none is picked for its
    own sake. Shifts stay in a ball, and the logarithm of the density ratio is bent into a range of log(strength).
    """

    def __init__(self, standard: torch.Tensor, options: Reweighting) -> None:
        """`standard` has the frequencies in units of their length scale: rows of N(0, 1)."""
        self.every = options.every
        self.rate = options.learning_rate
        self.limit = math.log(options.strength) / 2
        # Less their mean, which no normalised weight depends on: what is left has a standard deviation of sqrt(2).
        self._squares = standard.square() - 1
        self._shifts = torch.zeros(standard.shape[1])
        self._weights = torch.ones(2 * len(standard))

    def to(self, device: torch.device) -> FrequencyWeights:
        """Move everything to a device."""
        self._squares, self._shifts = self._squares.to(device), self._shifts.to(device)
        self._weights = self._weights.to(device)
        return self

    @property
    def state(self) -> torch.Tensor:
        """All that changes in training."""
        return self._shifts

    def restore(self, state: torch.Tensor) -> None:
        """Continue from a state."""
        self._shifts.copy_(state)
        self._weights.copy_(self._of(self._shifts))

    def distance(self, squared: torch.Tensor) -> torch.Tensor:
        """The weighted sum of squared differences, (classes, features)."""
        return (squared * self._weights).sum()

    def learn(self, squared: torch.Tensor) -> None:
        """A step towards the end of the ball at which the distance is largest, to first order (Frank and Wolfe)."""
        shifts = self._shifts.clone().requires_grad_()
        (gradient,) = torch.autograd.grad((self._of(shifts) * squared.detach().sum(dim=0)).sum(), shifts)
        radius = math.sqrt(2) * self.limit  # there, log ratios have a standard deviation of `limit`
        goal = gradient * (radius / gradient.norm().clamp(min=1e-30))
        # A precision must stay positive: its shift is below 1.
        # In place, because a captured training step goes on reading the same memory.
        self._shifts.copy_(((1 - self.rate) * self._shifts + self.rate * goal).clamp(max=0.99))
        self._weights.copy_(self._of(self._shifts))

    def _of(self, shifts: torch.Tensor) -> torch.Tensor:
        """Weights of cosines, then of sines: the same for both halves of a pair."""
        ratios = torch.exp(self.limit * torch.tanh(self._squares @ shifts / 2 / self.limit))
        weights = ratios / ratios.mean()
        return torch.cat([weights, weights])

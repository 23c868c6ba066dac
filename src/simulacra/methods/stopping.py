"""When to stop, privately: the checkpoint whose images look most like noisy moments that were paid for.

Harder et al. (2023), section 3.2: first and second moments of a few features, released with ten times the noise of the
embedding, stand in for FID. The published code leaves that noise out, which voids its promise; here both moments are
steps of the plan. All that happens afterwards is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch

from simulacra.errors import SettingError
from simulacra.features.perceptual import OnePass, Perceptual
from simulacra.features.unit_sums import unit_sums
from simulacra.features.views import View
from simulacra.options import Options
from simulacra.privacy.query import FeatureMap

FIRST, SECOND = "stopping-first", "stopping-second"
BATCH = 250
CURVE = "distance to the stopping proxy"
LEAST, SEEN = "least distance", "distances"


@dataclass(frozen=True, kw_only=True)
class Stopping(Options):
    """Through which features checkpoints are judged, with how much noise, how often and by how many samples.

    `auto` is Inception's last pooled features if its weights are here, else the encoder's own last layer.
    """

    proxy: Literal["none", "auto", "encoder", "inception"] = "none"
    noise: float = 10.0
    """Noise multiplier of either moment, relative to the embedding's."""
    checks: int = 40
    samples: int = 5000
    choice: Literal["best", "last"] = "best"
    """Which checkpoint becomes the sampler; the judgement is in training.json either way."""

    def __post_init__(self) -> None:
        if not 1 <= self.checks <= 100_000 or not 2 <= self.samples <= 1_000_000:
            raise SettingError("stopping.checks must be from 1 to 100,000 and stopping.samples from 2 to 1,000,000")

    def questions(self, passing: OnePass) -> Mapping[str, FeatureMap]:
        """Both moments, of all records together."""
        return {FIRST: Perceptual(passing, order=1), SECOND: Perceptual(passing, order=2)}


class Judge:
    """Keeps the generator whose samples come nearest to the released moments, of those that were looked at."""

    def __init__(
        self, view: View, targets: tuple[torch.Tensor, torch.Tensor], *, shares: torch.Tensor, samples: int, seed: int
    ) -> None:
        self._view, self._targets, self._shares = view, targets, shares
        self._samples, self._seed = samples, seed
        self._kept: dict[str, torch.Tensor] = {}
        self._least = math.inf
        self.curve: list[tuple[int, float]] = []
        """Step and squared distance, of every look."""

    @torch.no_grad()
    def judge(self, generator: Any, step: int) -> float:
        """The squared distance to the proxy, from the same codes each time; keeps what is better than all before."""
        device = next(generator.parameters()).device
        random = torch.Generator(device=device).manual_seed(self._seed)
        labels = torch.multinomial(self._shares.cpu(), self._samples, replacement=True, generator=_on_cpu(self._seed))
        one_hot = torch.nn.functional.one_hot(labels, len(self._shares)).to(device, torch.float32)
        totals = [torch.zeros_like(target, dtype=torch.float64, device=device) for target in self._targets]
        generator.eval()
        for start in range(0, self._samples, BATCH):
            part = one_hot[start : start + BATCH]
            points = generator(torch.randn(len(part), generator.latent, generator=random, device=device), part)
            found = unit_sums(points.new_ones(1, len(part)), self._view.layers(points.float()), (1, 2))
            for total, values in zip(totals, found, strict=True):
                total += values.squeeze(0)
        generator.train()
        distance = sum(
            float((total.cpu() / self._samples - target).square().sum())
            for total, target in zip(totals, self._targets, strict=True)
        )
        if distance < self._least:
            self._least = distance
            self._kept = {name: value.detach().clone() for name, value in generator.state_dict().items()}
        self.curve.append((step, distance))
        return distance

    def take(self, generator: Any) -> None:
        """Put the best into the generator."""
        if self._kept:
            generator.load_state_dict(self._kept)

    @property
    def state(self) -> dict[str, torch.Tensor]:
        """All that changes in training."""
        curve = torch.tensor(self.curve, dtype=torch.float64).reshape(-1, 2)
        return {**self._kept, LEAST: torch.tensor(self._least, dtype=torch.float64), SEEN: curve}

    def restore(self, state: dict[str, torch.Tensor]) -> None:
        """Continue from a state."""
        self._least = float(state[LEAST])
        self._kept = {name: value for name, value in state.items() if name not in (LEAST, SEEN)}
        self.curve[:] = [(int(step), distance) for step, distance in state[SEEN].tolist()]


def _on_cpu(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)

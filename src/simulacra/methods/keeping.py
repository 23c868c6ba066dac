"""The best of a condensed set so far: rows of a table jump from cell to cell, and the last jumps may be bad ones."""

from __future__ import annotations

import math

import torch

from simulacra.generators.condensed import Condensed


class Best:
    """The values at which the loss was least, of those that were looked at.

    The loss is exact, because all of the set is in it, and it is of released numbers alone.
    """

    def __init__(self, held: Condensed) -> None:
        self._held = held
        self._seen = held.values.detach().clone()
        self._kept = self._seen.clone()
        self._least = math.inf

    def look(self) -> None:
        """Note the values as they are before a step, of which the step will tell the loss."""
        self._seen.copy_(self._held.values.detach())

    def judge(self, loss: float) -> None:
        """Keep the values that were noted, if their loss is the least so far."""
        if loss < self._least:
            self._least = loss
            self._kept.copy_(self._seen)

    def take(self) -> None:
        """Put the best values into the set."""
        if math.isfinite(self._least):
            with torch.no_grad():
                self._held.values.copy_(self._kept)

    @property
    def state(self) -> dict[str, torch.Tensor]:
        """All that changes in training."""
        return {"kept": self._kept, "least": torch.tensor(self._least, dtype=torch.float64)}

    def restore(self, state: dict[str, torch.Tensor]) -> None:
        """Continue from a state."""
        self._kept.copy_(state["kept"])
        self._least = float(state["least"])

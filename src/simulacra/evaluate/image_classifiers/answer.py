"""What a classifier answered."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One seed's answers to the test images, or None where its training came to nothing."""

    seed: int
    predicted: NDArray[np.int64] | None
    seconds: float
    """Its share of the time, where several seeds were trained at once."""
    steps: int
    details: dict[str, Any] = field(default_factory=dict)

    def named(self, labels: NDArray[np.int64]) -> Answer:
        """The same answers for classifiers that were taught the places of labels in a list."""
        return self if self.predicted is None else replace(self, predicted=labels[self.predicted])


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """The class predicted for each test image by a classifier trained on synthetic images."""

    seed: int
    predicted: NDArray[np.int64]
    seconds: float
    steps: int
    """Optimiser steps, or iterations of L-BFGS; 0 if nothing was trained."""
    engine: str
    note: str = ""
    details: dict[str, Any] = field(default_factory=dict)

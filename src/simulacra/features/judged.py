"""Where a public classifier puts one record: what paid scores ask for.

The classifier was trained on synthetic records, and the edges of the bins come from these too, so neither costs
anything. It is shown one record at a time, even where many are summed: in a batch, rounding would depend on the other
records, and a score next to an edge would change its bin when somebody else is removed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from simulacra.errors import SettingError
from simulacra.privacy.query import FeatureMap

Judge = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""The encoded inputs of one record to a number per class, larger for likelier."""

CHUNK_SHARE = 40_000
"""Chunks of about a hundred records: a judgement takes a hundred times as long as adding it up, and a whole chunk is
rehearsed before anything is asked, which took a forest a quarter of a minute with ten times as many."""


class _OneByOne(torch.autograd.Function):
    """A judge, inside torch and under vmap: it meets each record alone."""

    @staticmethod
    def forward(inputs: torch.Tensor, judge: Judge, classes: int) -> torch.Tensor:
        return _judged(inputs, judge, classes)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """There is no gradient."""

    @staticmethod
    def vmap(info: Any, in_dims: Any, inputs: torch.Tensor, judge: Judge, classes: int) -> tuple[torch.Tensor, int]:
        rows = [_judged(row, judge, classes) for row in inputs.movedim(in_dims[0], 0)]
        return (torch.stack(rows) if rows else inputs.new_zeros(0, classes)), 0


def _judged(inputs: torch.Tensor, judge: Judge, classes: int) -> torch.Tensor:
    """Total: whatever the judge says becomes a finite number per class."""
    values = np.asarray(judge(inputs.numpy()), dtype=np.float64)
    if values.shape != (classes,):
        raise SettingError(f"a judge gave {values.size} numbers, and there are {classes} classes")
    return torch.from_numpy(np.nan_to_num(values, nan=0.0, posinf=1e300, neginf=-1e300))


def _scores(inputs: torch.Tensor, judge: Judge, classes: int) -> torch.Tensor:
    found: torch.Tensor = _OneByOne.apply(inputs, judge, classes)  # type: ignore[no-untyped-call]
    return found


class Guesses(FeatureMap):
    """A one in the cell (class, guessed class): the sum is the confusion matrix, which has the accuracy."""

    nonnegative = True

    def __init__(self, judge: Judge, classes: int) -> None:
        self.judge = judge
        self.shape = (classes, classes)

    def features(self, inputs: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        classes = self.shape[0]
        scores = _scores(inputs, self.judge, classes)
        numbers = torch.arange(classes)
        return torch.outer((numbers == label).to(self.dtype), (numbers == scores.argmax()).to(self.dtype))

    @property
    def working_size(self) -> int:
        return max(self.size, CHUNK_SHARE)


class ScoreBins(FeatureMap):
    """A one per class in the cell (class, whether it is the record's, bin of its score): histograms that rank.

    With two classes the second alone is looked at, and its score is by how much it is ahead of the first. `edges` has a
    line of bounds between bins for each class that is looked at. A record adds exactly one per line.
    """

    nonnegative = True

    def __init__(self, judge: Judge, classes: int, edges: NDArray[np.float64]) -> None:
        self.judge, self.classes = judge, classes
        self.edges = torch.from_numpy(np.sort(np.atleast_2d(np.asarray(edges, dtype=np.float64)), axis=1))
        looked_at = 1 if classes == 2 else classes
        if len(self.edges) != looked_at:
            raise SettingError(f"there must be {looked_at} lines of edges, got {len(self.edges)}")
        self.shape = (looked_at, 2, self.edges.shape[1] + 1)
        self.norm_bound = math.sqrt(looked_at)

    def features(self, inputs: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        scores = _scores(inputs, self.judge, self.classes)
        if self.classes == 2:
            scores, mine = (scores[1] - scores[0]).unsqueeze(0), (label == 1).unsqueeze(0)
        else:
            mine = torch.arange(self.classes) == label
        # How many edges lie below the score: its bin.
        bins = (self.edges < scores.unsqueeze(1)).sum(dim=1)
        in_bin = torch.arange(self.shape[2]) == bins.unsqueeze(1)
        sides = torch.stack([~mine, mine], dim=1)
        return (sides.unsqueeze(2) & in_bin.unsqueeze(1)).to(self.dtype)

    @property
    def working_size(self) -> int:
        return max(self.size, CHUNK_SHARE)

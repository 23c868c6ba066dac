"""The record itself as a feature: what LDPDC sums; and with its label, what DPMix does."""

from __future__ import annotations

import math

import torch

from simulacra.data.cells import Cells
from simulacra.privacy.query import FeatureMap
from simulacra.schema import Schema


class Itself(FeatureMap):
    """Pixels in [-1, 1], or a one-hot row: at most the root of the number of pixels, or of columns, long."""

    def __init__(self, schema: Schema) -> None:
        self.cells = None if schema.image else Cells(schema)
        entries = schema.inputs if self.cells is None else len(self.cells.sizes)
        self.shape = (schema.inputs if self.cells is None else self.cells.total,)
        self.norm_bound = math.sqrt(entries)
        self.nonnegative = self.cells is not None

    def features(self, inputs: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        return self.batch(inputs)

    def batch(self, inputs: torch.Tensor) -> torch.Tensor:
        """Records come clamped to [-1, 1], so there is nothing to clip."""
        return inputs.clamp(-1, 1) if self.cells is None else self.cells.one_hot(inputs)


class WithLabel(FeatureMap):
    """The record itself, scaled to length 1 at most, and beside it its one-hot label: together at most sqrt(2) long."""

    norm_bound = math.sqrt(2)

    def __init__(self, schema: Schema) -> None:
        self.itself, self.classes = Itself(schema), schema.classes
        self.shape = (self.itself.size + schema.classes,)
        self.nonnegative = self.itself.nonnegative

    def features(self, inputs: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        chosen = (torch.arange(self.classes, device=label.device) == label).to(inputs.dtype)
        return torch.cat([self.itself.features(inputs, label) / self.itself.norm_bound, chosen])

    def clipped_sum(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        records = self.itself.batch(inputs).sum(dim=0) / self.itself.norm_bound
        return torch.cat([records, torch.bincount(labels, minlength=self.classes).to(records)])

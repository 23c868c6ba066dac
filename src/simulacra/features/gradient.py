"""The gradient of a loss at its present weights: what a network that learns from private records asks, again and again.

Abadi et al. (2016), Deep Learning with Differential Privacy, Algorithm 1: clip the gradient of each record, sum, add
noise. The clipping and the sum are the business of `simulacra.gradients`; the noise is the vault's.
"""

from __future__ import annotations

import torch

from simulacra.errors import SettingError
from simulacra.gradients import specified
from simulacra.gradients.padding import FEW_SLOTS, PaddedSums
from simulacra.gradients.summing import GradientSums
from simulacra.privacy.query import FeatureMap


class LossGradient(FeatureMap):
    """phi(x, y) = the gradient of loss(x, y) by the trained parameters, flat, scaled down to the bound where longer.

    The map changes as the network learns: whoever trains it does so between two draws. Batches are cut and padded to
    `slots` records: see `gradients/padding.py` for why.
    """

    def __init__(self, sums: GradientSums, *, inputs: int, slots: int = FEW_SLOTS) -> None:
        if slots < 1:
            raise SettingError(f"slots must be at least 1, got {slots}")
        self.sums = sums
        self.shape = (sums.size,)
        self.norm_bound = sums.bound
        self.dtype = sums.parameters[0].dtype
        self._padded = PaddedSums(sums, slots=slots, inputs=inputs)

    def features(self, inputs: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        return specified.gradient(self.sums.loss, inputs, label)

    def clipped_sum(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return self._padded(inputs, labels)

    @property
    def working_size(self) -> int:
        return 1  # micro-batches are cut inside, by what the layers hold

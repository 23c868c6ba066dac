"""Random Fourier features: the Gaussian kernel as an inner product of unit vectors (Rahimi and Recht 2007)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from simulacra.data.points import Points
from simulacra.features.groups import Groups
from simulacra.privacy.query import FeatureMap


class CosineAndSine(torch.autograd.Function):
    """Both at once: each is the other's derivative, so the backward pass needs no third and fourth evaluation."""

    generate_vmap_rule = True

    @staticmethod
    def forward(angles: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return angles.cos(), angles.sin()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, torch.Tensor]) -> None:
        ctx.save_for_backward(*output)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        cosine, sine = ctx.saved_tensors
        result: torch.Tensor = cosine * gradients[1] - sine * gradients[0]
        return result


class RandomFourier(FeatureMap):
    """phi(x) = [cos(Wx), sin(Wx)] / sqrt(pairs), of norm exactly 1, with rows of W ~ N(0, 1 / length_scale^2).

    Several length scales take turns, row by row: the kernel is then the mean of their Gaussian kernels. The frequencies
    are public: they are drawn from a seed, in numpy, so that they are the same on every machine.
    """

    def __init__(self, points: Points, *, pairs: int, length_scales: Sequence[float], seed: int) -> None:
        self.points = points
        self.pairs = pairs
        self.shape = (2 * pairs,)
        drawn = np.random.Generator(np.random.PCG64(seed)).standard_normal((pairs, points.width), dtype=np.float32)
        scales = np.resize(np.asarray(length_scales, dtype=np.float32), (pairs, 1))
        self.frequencies = torch.from_numpy(drawn / scales)
        self._ready = self.frequencies.T.contiguous()

    def features(self, inputs: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        return self.embed(self.points.of_records(inputs))

    def embed(self, points: torch.Tensor) -> torch.Tensor:
        """Features of points, (..., width) to (..., 2 * pairs); differentiable, on any device and in any precision."""
        both = CosineAndSine.apply(points @ self._as(points))  # type: ignore[no-untyped-call]
        return torch.cat(both, dim=-1) / math.sqrt(self.pairs)

    def class_sums(self, points: torch.Tensor, groups: Groups) -> torch.Tensor:
        """Weighted sums per class, for training: what `averaging @ embed(points)` is, without writing `embed` down."""
        both = CosineAndSine.apply(points @ self._as(points))  # type: ignore[no-untyped-call]
        averaging = groups.averaging / math.sqrt(self.pairs)
        return torch.cat([averaging @ part for part in both], dim=-1)

    def batch(self, inputs: torch.Tensor) -> torch.Tensor:
        """Features of many records at once, for `PerClass`: the same numbers, written once and scaled in place."""
        points = self.points.of_records(inputs)
        angles = points @ self._as(points)
        values = angles.new_empty(len(angles), 2 * self.pairs)
        torch.cos(angles, out=values[:, : self.pairs])
        torch.sin(angles, out=values[:, self.pairs :])
        return values.mul_(1 / math.sqrt(self.pairs))

    def clipped_sum(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return self.batch(inputs).sum(dim=0)

    @property
    def working_size(self) -> int:
        return max(self.size, 2 * self.points.width)  # points are made from zeros, so there are two copies of them

    def _as(self, points: torch.Tensor) -> torch.Tensor:
        """The frequencies, transposed, in the precision and on the device of some points; kept for the next chunk."""
        if self._ready.dtype != points.dtype or self._ready.device != points.device:
            self._ready = self.frequencies.T.to(points, copy=True).contiguous()
        return self._ready

"""Random Fourier features: the Gaussian kernel as an inner product of unit vectors (Rahimi and Recht 2007)."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from simulacra.features.points import Points
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

    def features(self, inputs: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        return self.embed(self.points.of_records(inputs))

    def embed(self, points: torch.Tensor) -> torch.Tensor:
        """Features of points, (..., width) to (..., 2 * pairs); differentiable, on any device and in any precision."""
        angles = points @ self.frequencies.to(points).T
        both = CosineAndSine.apply(angles)  # type: ignore[no-untyped-call]
        return torch.cat(both, dim=-1) / math.sqrt(self.pairs)

    def batch(self, inputs: torch.Tensor) -> torch.Tensor:
        """Features of many records at once, for `PerClass`."""
        return self.embed(self.points.of_records(inputs))

    def clipped_sum(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return self.batch(inputs).sum(dim=0)

    def digest(self) -> str:
        """Hash of the frequencies, to be sure that training uses the ones that were released with."""
        return hashlib.sha256(self.frequencies.numpy().tobytes()).hexdigest()

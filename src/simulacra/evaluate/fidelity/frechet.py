"""FID: the Fréchet distance between two normal distributions with the features' means and covariances."""

from __future__ import annotations

import math

import torch

from simulacra.errors import DataError
from simulacra.evaluate.fidelity.statistics import Statistics


def frechet_distance(ours: Statistics, theirs: Statistics, *, device: str = "cpu") -> float:
    """|m1 - m2|^2 + tr(S1 + S2 - 2 (S1 S2)^(1/2)), squared as usual (Heusel et al. 2017); never NaN, never negative.

    The trace of the root of S1 S2 is the sum of the roots of the eigenvalues of R S2 R with R = S1^(1/2). Those are
    real and not negative whatever the rank, so that no imaginary part has to be dropped and no diagonal padded.
    """
    first, second = (statistics.covariance.to(device) for statistics in (ours, theirs))
    root = symmetric_root(first)
    inner = root @ second @ root
    values = torch.linalg.eigvalsh((inner + inner.T) / 2)
    mixed = _without_noise(values).sqrt().sum()
    apart = (ours.mean - theirs.mean).square().sum().to(device)
    distance = float(apart + first.trace() + second.trace() - 2 * mixed)
    if not math.isfinite(distance):
        raise DataError("FID is not a finite number, because the features are not; evaluate again with --no-cache")
    return max(0.0, distance)


def symmetric_root(matrix: torch.Tensor) -> torch.Tensor:
    """The root of a symmetric positive semi-definite matrix."""
    values, vectors = torch.linalg.eigh((matrix + matrix.T) / 2)
    root: torch.Tensor = (vectors * _without_noise(values).sqrt()) @ vectors.T
    return root


def _without_noise(values: torch.Tensor) -> torch.Tensor:
    """Eigenvalues as small as rounding makes them are zeros; their roots would add up."""
    noise = values.abs().max() * torch.finfo(values.dtype).eps * len(values)
    return torch.where(values > noise, values, torch.zeros_like(values))

"""Precision, recall (Kynkäänniemi et al. 2019), density and coverage (Naeem et al. 2020): nearest neighbours."""

from __future__ import annotations

import torch

NEAREST = 5
BLOCK = 2000
ROUNDING = 1e-9
"""Squared distances this small come from rounding: a copy lies at distance zero."""


def neighbour_scores(ours: torch.Tensor, theirs: torch.Tensor, *, device: str = "cpu") -> dict[str, float]:
    """Balls around each image reach to its fifth nearest neighbour in the same set.

    precision: share of synthetic images inside some real ball; recall: the other way round. density: how many real
    balls hold a synthetic image, over five; coverage: share of real balls that hold any synthetic image.
    """
    synthetic, real = ours.to(device).double(), theirs.to(device).double()
    real_radii, synthetic_radii = _radii(real), _radii(synthetic)
    inside_real = torch.zeros(len(synthetic), dtype=torch.int64, device=synthetic.device)
    covered = torch.zeros(len(real), dtype=torch.bool, device=real.device)
    recalled = torch.zeros(len(real), dtype=torch.bool, device=real.device)
    for start in range(0, len(real), BLOCK):
        block = slice(start, start + BLOCK)
        distances = _squared_distances(real[block], synthetic)
        in_ball = distances <= real_radii[block, None]
        inside_real += in_ball.sum(dim=0)
        covered[block] = in_ball.any(dim=1)
        recalled[block] = (distances <= synthetic_radii).any(dim=1)
    return {
        "precision": float((inside_real > 0).double().mean()),
        "recall": float(recalled.double().mean()),
        "density": float(inside_real.double().mean()) / NEAREST,
        "coverage": float(covered.double().mean()),
    }


def _radii(points: torch.Tensor) -> torch.Tensor:
    """Squared distance of each point to its fifth nearest other point."""
    found = []
    for start in range(0, len(points), BLOCK):
        distances = _squared_distances(points[start : start + BLOCK], points)
        # The nearest of all is the point itself.
        found.append(distances.kthvalue(NEAREST + 1, dim=1).values)
    return torch.cat(found) + ROUNDING


def _squared_distances(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    lengths = first.square().sum(dim=1)[:, None] + second.square().sum(dim=1)
    return torch.addmm(lengths, first, second.T, alpha=-2).clamp(min=0)

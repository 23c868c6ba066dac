"""Projections: public matrices that map each layer of a view to few numbers, so that there is less to add noise to.

Noise on a released vector grows with the root of its length, and the features of a deep network are many more than the
directions in which images differ. `random_matrices` needs no data at all; `leading_directions` looks at public images.
Neither has to keep any norm: features are scaled to length 1 after they were projected. `public_mean` is for taking off
what public images share.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from simulacra.errors import DataError
from simulacra.features.unit_sums import of_length_one
from simulacra.features.views import View
from simulacra.networks.encoder_files import read_safetensors, save

BATCH = 32


def random_matrices(sizes: Sequence[int], directions: int, *, seed: int) -> list[torch.Tensor]:
    """Gaussian matrices, drawn in numpy so that they are the same everywhere; lengths stay as they are on average.

    A layer with no more numbers than that stays as it is.
    """
    random = np.random.Generator(np.random.PCG64(seed))
    found = []
    for size in sizes:
        if size <= directions:
            found.append(torch.eye(size))
            continue
        drawn = random.standard_normal((directions, size), dtype=np.float32)
        found.append(torch.from_numpy(drawn / np.float32(math.sqrt(directions))))
    return found


@torch.no_grad()
def leading_directions(view: View, points: torch.Tensor, directions: int) -> list[torch.Tensor]:
    """Per layer, the orthonormal directions that hold most of the unit features of some public images.

    About the origin and not about the mean: the mean is what is released. By way of the inner products of all pairs of
    images, so that nothing of the size of a layer squared is needed.
    """
    if len(points) < directions:
        raise DataError(f"{directions} directions need at least as many public images, got {len(points)}")
    layers = [torch.cat(parts) for parts in zip(*_unit_features(view, points), strict=True)]
    found = []
    for layer in layers:
        products = (layer @ layer.T).double()
        energies, mixtures = torch.linalg.eigh(products)
        kept = min(directions, layer.shape[1])
        chosen = (mixtures[:, -kept:].flip(1) / energies[-kept:].flip(0).clamp(min=1e-12).sqrt()).to(layer.dtype)
        # Once more orthonormal: rounding shows in directions of little energy.
        basis, _ = torch.linalg.qr(layer.T @ chosen)
        found.append(basis.T.contiguous())
    return found


@torch.no_grad()
def public_mean(view: View, points: torch.Tensor) -> list[torch.Tensor]:
    """Per layer, the mean of the unit features of some public images."""
    totals = [torch.zeros(size, dtype=torch.float64) for size in view.sizes]
    for layers in _unit_features(view, points):
        for total, layer in zip(totals, layers, strict=True):
            total += layer.sum(dim=0)
    return [(total / len(points)).to(points.dtype) for total in totals]


def _unit_features(view: View, points: torch.Tensor) -> Iterator[list[torch.Tensor]]:
    for start in range(0, len(points), BATCH):
        yield of_length_one(view.layers(points[start : start + BATCH]))


def write(path: Path, matrices: Sequence[torch.Tensor], facts: Mapping[str, str]) -> str:
    """Write a projection with the facts about it; gives its checksum."""
    return save(path, {f"layer.{number}": matrix for number, matrix in enumerate(matrices)}, facts)


def read(path: Path) -> tuple[list[torch.Tensor], dict[str, str]]:
    """The matrices of a file, in their order, and the facts about them."""
    tensors, facts = read_safetensors(path)
    names = [f"layer.{number}" for number in range(len(tensors))]
    if set(names) != set(tensors) or not tensors or any(tensors[name].dim() != 2 for name in names):
        raise DataError(f'"{path}" is not a projection; make one with: simulacra directions')
    if not all(torch.isfinite(tensors[name]).all() for name in names):
        raise DataError(f'"{path}" holds numbers that are not finite; make the projection again')
    return [tensors[name] for name in names], facts

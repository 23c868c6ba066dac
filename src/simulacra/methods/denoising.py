"""Taking noise out of released moments of features, at no cost: what places, classes and channels share stands out.

What convolutions say of the images of a class, on average, changes slowly from place to place and little from class to
class, and channels of all layers say much the same; noise does none of this. So every layer is written in waves:
cosines over its places, and over the classes what they have in common, in the shares of their counts, beside what they
differ by. That is a rotation, in which noise is as strong everywhere while the coarse waves hold most of the signal.
Waves that are no longer than noise alone could be are left out. The others make a matrix, a row for each wave and class
and a column for each channel of every layer that has such waves, of all moments at once; few directions hold its
signal, and its singular values are shrunk as is best for the squared error (Gavish and Donoho, Optimal Shrinkage of
Singular Values, 2017). Without noise nothing changes.

Only released numbers and noise scales go in, so it is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import torch

Shape = tuple[int, int, int]
"""Of a layer: height, width and channels, in the order in which its numbers lie."""

CERTAIN = 2.0
"""A wave stays if it is longer than noise alone by so many standard deviations: most waves have no signal, and the
noise that is left in a fortieth of them is little, where what is left after shrinking all of them would not be."""


def denoised(
    sums: Mapping[int, torch.Tensor],
    shapes: Sequence[Shape],
    noise_stds: Mapping[int, float],
    counts: torch.Tensor,
) -> dict[int, torch.Tensor]:
    """Estimates of what (classes, features) sums of several moments were before noise of those scales."""
    if not all(noise_stds[order] for order in sums):
        return dict(sums)
    together = torch.cat([value / noise_stds[order] for order, value in sums.items()], dim=1)
    parts = _without_noise(together, list(shapes) * len(sums), counts).chunk(len(sums), dim=1)
    found = {order: part * noise_stds[order] for order, part in zip(sums, parts, strict=True)}
    return {order: value.clamp(min=0) if order == 2 else value for order, value in found.items()}  # those are squares


def _without_noise(value: torch.Tensor, shapes: Sequence[Shape], counts: torch.Tensor) -> torch.Tensor:
    """The same for noise of scale 1, of all layers beside each other."""
    across = in_common_first(counts).to(value)
    # Layer by layer, and in place: there are a few copies of the release as it is, and it may be of gigabytes.
    parts = value.split([math.prod(shape) for shape in shapes], dim=1)  # type: ignore[no-untyped-call]
    waves = [_turned((across @ part).reshape(-1, *shape)) for part, shape in zip(parts, shapes, strict=True)]
    for chosen, members in _bands(shapes):
        places = [chosen[: shapes[member][0], : shapes[member][1]].to(value.device) for member in members]
        band = torch.cat([waves[member][:, place] for member, place in zip(members, places, strict=True)], dim=2)
        # What all classes share is far longer than what they differ by, and of a kind of its own.
        shrunk = torch.cat([_shrunk(rows) for rows in (band[:1], band[1:])])
        widths = [shapes[member][2] for member in members]
        for member, place, piece in zip(members, places, shrunk.split(widths, dim=2), strict=True):  # type: ignore[no-untyped-call]
            waves[member][:, place] = piece
    return torch.cat([across @ _turned(each, back=True).flatten(1) for each in waves], dim=1)


def _turned(layer: torch.Tensor, *, back: bool = False) -> torch.Tensor:
    """(classes, height, width, channels) into waves over places, or back: down first, then across.

    Both at once would make a matrix of all places by all places: 20 GB at 224 x 224.
    """
    down, across = (cosines(size).to(layer) for size in layer.shape[1:3])
    if back:
        down, across = down.T, across.T
    return torch.einsum("vw,kuwc->kuvc", across, torch.einsum("uh,khwc->kuwc", down, layer))


def _bands(shapes: Sequence[Shape]) -> Iterator[tuple[torch.Tensor, list[int]]]:
    """Waves that the same layers have: which those are, as a mask over all waves, and the numbers of the layers."""
    height, width = max(shape[0] for shape in shapes), max(shape[1] for shape in shapes)
    down, across = torch.arange(height).unsqueeze(1), torch.arange(width)
    has = torch.stack([(down < shape[0]) & (across < shape[1]) for shape in shapes])
    patterns, which = torch.unique(has.flatten(1), dim=1, return_inverse=True)
    for number, pattern in enumerate(patterns.T):
        members = pattern.nonzero().flatten().tolist()
        if members:
            yield (which == number).reshape(height, width), members


def _shrunk(band: torch.Tensor) -> torch.Tensor:
    """(classes, waves, channels) without the noise: nothing of the waves that noise alone could be."""
    freedom = band.shape[0] * band.shape[2]
    # A squared length of noise alone has the mean `freedom` and a standard deviation of sqrt(2 freedom).
    certain = band.square().sum(dim=(0, 2)) > freedom + CERTAIN * math.sqrt(2 * freedom)
    found = torch.zeros_like(band)
    if freedom and certain.any():
        rows = band[:, certain]
        found[:, certain] = shrink_singular_values(rows.flatten(0, 1)).reshape(rows.shape)
    return found


def shrink_singular_values(matrix: torch.Tensor) -> torch.Tensor:
    """The best guess, in squared error, of a matrix of low rank from one with noise of scale 1 in every number."""
    left, values, right = torch.linalg.svd(matrix, full_matrices=False)
    wide = max(matrix.shape)
    ratio, seen = min(matrix.shape) / wide, values / math.sqrt(wide)
    best = ((seen.square() - ratio - 1).square() - 4 * ratio).clamp(min=0).sqrt() / seen.clamp(min=1e-30)
    best = torch.where(seen > 1 + math.sqrt(ratio), best, 0.0)
    shrunk: torch.Tensor = (left * (best * math.sqrt(wide))) @ right
    return shrunk


def in_common_first(counts: torch.Tensor) -> torch.Tensor:
    """A mirror of the classes, which is its own inverse: its first row has the shares of the classes, as a unit vector.

    Classes with the same images have sums in the shares of their counts, and nothing in any other row.
    """
    normal = counts.to(torch.float64) / torch.linalg.vector_norm(counts.to(torch.float64))
    normal[0] -= 1
    mirror = torch.eye(len(counts), dtype=torch.float64, device=counts.device)
    length = normal.square().sum()
    return mirror if length < 1e-24 else mirror - 2 * torch.outer(normal, normal) / length


def cosines(size: int) -> torch.Tensor:
    """The orthonormal cosine transform: row k is a wave of k half turns."""
    place = torch.arange(size, dtype=torch.float64)
    waves = torch.cos(math.pi / size * (place + 0.5) * place.unsqueeze(1)) * math.sqrt(2 / size)
    waves[0] /= math.sqrt(2)
    return waves

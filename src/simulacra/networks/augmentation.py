"""The augmentation of the condensation papers: differentiable, drawn apart from being applied.

Zhao and Bilen, "Dataset Condensation with Differentiable Siamese Augmentation" (ICML 2021, arXiv:2102.08259). One
operation is applied to a whole batch; its parameters differ from image to image:

    drawn = draw("rotate", 256, height=28, width=28)
    images = apply("rotate", images, drawn)

For Siamese use, draw one row per group and hand each image the row of its group: `drawn[group_of_image]`.
"""

from __future__ import annotations

import math

import torch
from torch.nn import functional

BRIGHTNESS = 0.5
"""Added to all pixels, either way."""
SATURATION = 2.0
"""The largest factor on the differences between channels; the least is 0."""
CONTRAST = 0.5
"""How far the factor on the differences from the image's mean may be from 1."""
SHIFT = 0.125
"""The largest shift of a crop, as a share of the side."""
CUTOUT = 0.5
"""The side of the hole, as a share of the image's."""
SCALE = 1.2
"""The largest zoom, on each axis; the least is its inverse."""
DEGREES = 15.0
"""The largest rotation, either way."""

SHARES = 3
"""Uniform numbers that the parameters of an image are made of, whatever the operation."""

OPERATIONS = ("color", "crop", "cutout", "scale", "rotate", "flip")


def draw(
    operation: str,
    count: int,
    *,
    height: int,
    width: int,
    device: torch.device | str = "cpu",
    generator: torch.Generator | None = None,
) -> torch.Tensor:
    """Random parameters of an operation, a row for each of `count` images or groups.

    The columns: color has an offset and two factors (of saturation and contrast); crop the shift down and right in
    pixels; cutout the row and column of the hole's centre; scale the zoom out on both axes; rotate the angle in
    degrees; flip 1 to mirror left and right, or 0. Without a generator, the device's default one is used: that is what
    a CUDA graph can capture.
    """
    source = device if generator is None else generator.device
    shares = torch.rand(count, SHARES, device=source, generator=generator).to(device)
    return parameters_of(operation, shares, height=height, width=width)


def parameters_of(operation: str, shares: torch.Tensor, *, height: int, width: int) -> torch.Tensor:
    """What `draw` gives for uniform numbers (n, 3) in [0, 1). Nothing in here waits for a device."""
    first, second, third = shares.unbind(1)
    if operation == "color":
        columns = [
            (first - 0.5) * 2 * BRIGHTNESS,
            second * SATURATION,
            1 + (third - 0.5) * 2 * CONTRAST,
        ]
    elif operation == "crop":
        columns = [
            _whole(share, 2 * _rounded(SHIFT * side) + 1) - _rounded(SHIFT * side)
            for share, side in ((first, height), (second, width))
        ]
    elif operation == "cutout":
        columns = [
            _whole(share, side + 1 - _rounded(CUTOUT * side) % 2) for share, side in ((first, height), (second, width))
        ]
    elif operation == "scale":
        columns = [1 / SCALE + share * (SCALE - 1 / SCALE) for share in (first, second)]
    elif operation == "rotate":
        columns = [(first - 0.5) * 2 * DEGREES]
    elif operation == "flip":
        columns = [(first < 0.5).float()]
    else:
        raise ValueError(f'unknown augmentation "{operation}"; known: {", ".join(OPERATIONS)}')
    return torch.stack(columns, dim=1)


def apply(operation: str, images: torch.Tensor, parameters: torch.Tensor) -> torch.Tensor:
    """Change images (n, channels, height, width) by parameters (n, ...); gradients flow back to the images."""
    return _APPLIERS[operation](images, parameters)


def _color(images: torch.Tensor, parameters: torch.Tensor) -> torch.Tensor:
    offset, saturation, contrast = (column.view(-1, 1, 1, 1) for column in parameters.unbind(1))
    images = images + offset
    grey = images.mean(dim=1, keepdim=True)
    images = (images - grey) * saturation + grey
    mean = images.mean(dim=(1, 2, 3), keepdim=True)
    return (images - mean) * contrast + mean


def _crop(images: torch.Tensor, parameters: torch.Tensor) -> torch.Tensor:
    height, width = images.shape[2:]
    rows = torch.arange(height, device=images.device) + parameters[:, :1].long()
    columns = torch.arange(width, device=images.device) + parameters[:, 1:].long()
    inside = _between(rows, height)[:, None, :, None] & _between(columns, width)[:, None, None, :]
    # Gathered axis by axis: its gradient is a plain scatter, where that of indexing would have to sort.
    moved = images.gather(2, rows.clamp(0, height - 1)[:, None, :, None].expand_as(images))
    moved = moved.gather(3, columns.clamp(0, width - 1)[:, None, None, :].expand_as(images))
    return moved * inside


def _cutout(images: torch.Tensor, parameters: torch.Tensor) -> torch.Tensor:
    holes = []
    for axis, side in enumerate(images.shape[2:]):
        size = _rounded(CUTOUT * side)
        start = parameters[:, axis : axis + 1].long() - size // 2
        place = torch.arange(side, device=images.device)
        holes.append((place >= start) & (place < start + size))
    hole = holes[0][:, None, :, None] & holes[1][:, None, None, :]
    return images * ~hole


def _scale(images: torch.Tensor, parameters: torch.Tensor) -> torch.Tensor:
    down, across = parameters.unbind(1)
    nothing = torch.zeros_like(down)
    return _resampled(images, [across, nothing, nothing, nothing, down, nothing])


def _rotate(images: torch.Tensor, parameters: torch.Tensor) -> torch.Tensor:
    angle = parameters[:, 0] * (math.pi / 180)
    nothing = torch.zeros_like(angle)
    return _resampled(images, [angle.cos(), -angle.sin(), nothing, angle.sin(), angle.cos(), nothing])


def _flip(images: torch.Tensor, parameters: torch.Tensor) -> torch.Tensor:
    return torch.where(parameters[:, 0].view(-1, 1, 1, 1) > 0.5, images.flip(3), images)


_APPLIERS = {"color": _color, "crop": _crop, "cutout": _cutout, "scale": _scale, "rotate": _rotate, "flip": _flip}


def _resampled(images: torch.Tensor, affine: list[torch.Tensor]) -> torch.Tensor:
    """Bilinear, with corners in the corners, and 0 outside."""
    # Written out, because torch's affine_grid cannot be vectorised over single records.
    a, b, c, d, e, f = (value.to(images.dtype).view(-1, 1, 1) for value in affine)
    down, across = (torch.linspace(-1, 1, side, device=images.device, dtype=images.dtype) for side in images.shape[2:])
    x, y = across.view(1, 1, -1), down.view(1, -1, 1)
    grid = torch.stack([a * x + b * y + c, d * x + e * y + f], dim=3)
    return functional.grid_sample(images, grid, padding_mode="zeros", align_corners=True)


def _between(places: torch.Tensor, side: int) -> torch.Tensor:
    return (places >= 0) & (places < side)


def _whole(share: torch.Tensor, choices: int) -> torch.Tensor:
    """A whole number below `choices`; the bound holds when rounding lifts the share to 1."""
    return (share * choices).floor().clamp(max=choices - 1)


def _rounded(number: float) -> int:
    return int(number + 0.5)

"""What the numbers in an image array mean. The caller says so; nothing is guessed from the values."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from simulacra.errors import DataError, SettingError, suggestion

Pixels = Literal["bytes", "unit", "signed"]
"""Whole numbers from 0 to 255 (uint8), fractions from 0 to 1, or fractions from -1 to 1."""

PIXELS: tuple[str, ...] = get_args(Pixels)
TOLERANCE = 1e-3
"""How far a fraction may lie outside its range: rounding in single and half precision, not another range."""

BATCH = 1 << 14


def as_bytes(images: NDArray[Any], pixels: str, *, what: str) -> NDArray[np.uint8]:
    """Images (n, height, width[, channels]) as bytes (n, height, width, channels), rounded to the nearest of 256.

    Files hold 8 bits per channel, so this is what anyone who gets the images would measure.
    """
    if pixels not in PIXELS:
        raise SettingError(f'unknown range of pixels "{pixels}"{suggestion(pixels, PIXELS)}')
    array = np.asarray(images)
    if array.ndim not in (3, 4) or (array.ndim == 4 and array.shape[3] not in (1, 3)):
        raise DataError(f"{what}: images must be (n, height, width) or (n, height, width, 1 or 3), got {array.shape}")
    if 0 in array.shape:
        raise DataError(f"{what}: there are none; at least one is needed")
    if (array.dtype == np.uint8) != (pixels == "bytes") or array.dtype.kind not in "uf":
        raise DataError(
            f'{what}: pixels "{pixels}" do not come as {array.dtype}; '
            'say "bytes" for uint8, "unit" for fractions from 0 to 1, "signed" for fractions from -1 to 1'
        )
    channels = array.reshape(*array.shape[:3], -1)
    return channels if pixels == "bytes" else _rounded(channels, -1.0 if pixels == "signed" else 0.0, what)


def _rounded(images: NDArray[Any], lowest: float, what: str) -> NDArray[np.uint8]:
    """In pieces, so that 60,000 images need no second copy in double precision."""
    result = np.empty(images.shape, dtype=np.uint8)
    for start in range(0, len(images), BATCH):
        part = images[start : start + BATCH].astype(np.float64)
        if not np.isfinite(part).all():
            raise DataError(f"{what}: some pixels are not finite numbers; a generator that diverged writes such images")
        if part.min() < lowest - TOLERANCE or part.max() > 1 + TOLERANCE:
            raise DataError(
                f"{what}: pixels must lie from {lowest:g} to 1, but some are outside; scale them, or name their range"
            )
        fractions = np.clip((part - lowest) / (1 - lowest), 0.0, 1.0)
        result[start : start + BATCH] = np.rint(fractions * 255)
    return result

"""Images as base64 PNG strips, one strip per class."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulacra.schema import Schema

PER_CLASS = 10
MOST_CLASSES = 50
TILE = 56
GAP = 4
FEWEST_FOR_AVERAGE = 10
"""An average over fewer real images would come close to showing one."""


@dataclass(frozen=True, kw_only=True)
class ClassRow:
    """The pictures of one class; a missing picture is None."""

    name: str
    count: int
    samples: str | None
    average: str | None
    real_average: str | None


def class_rows(
    schema: Schema,
    synthetic: NDArray[np.uint8],
    labels: NDArray[np.integer[Any]] | None,
    real: NDArray[np.uint8] | None,
    real_labels: NDArray[np.integer[Any]] | None,
) -> list[ClassRow]:
    """One row per class, in the schema's order; unlabelled images form one row."""
    if not schema.labelled or labels is None:
        everything = np.ones(len(synthetic), dtype=bool)
        return [
            _row("all images", synthetic, everything, real, None if real is None else np.ones(len(real), dtype=bool))
        ]
    return [
        _row(
            name,
            synthetic,
            np.asarray(labels) == index,
            real,
            None if real is None or real_labels is None else np.asarray(real_labels) == index,
        )
        for index, name in enumerate(schema.class_names[:MOST_CLASSES])
    ]


def _row(
    name: str,
    synthetic: NDArray[np.uint8],
    mine: NDArray[np.bool_],
    real: NDArray[np.uint8] | None,
    real_mine: NDArray[np.bool_] | None,
) -> ClassRow:
    indices = np.flatnonzero(mine)
    return ClassRow(
        name=name,
        count=len(indices),
        samples=png(*synthetic[indices[:PER_CLASS]]) if len(indices) else None,
        average=_average(synthetic, mine),
        real_average=None
        if real is None or real_mine is None or real_mine.sum() < FEWEST_FOR_AVERAGE
        else _average(real, real_mine),
    )


def _average(images: NDArray[np.uint8], mine: NDArray[np.bool_]) -> str | None:
    return png(np.rint(images[mine].mean(axis=0, dtype=np.float64)).astype(np.uint8)) if mine.any() else None


def png(*pictures: NDArray[np.uint8]) -> str:
    """A data URL of one row of pictures with clear gaps; small ones are enlarged by whole factors to stay crisp."""
    from PIL import Image

    factor = max(1, TILE // pictures[0].shape[0])
    strip: list[NDArray[np.uint8]] = []
    for picture in pictures:
        colour = np.broadcast_to(picture.reshape(*picture.shape[:2], -1), (*picture.shape[:2], 3))
        tile = np.concatenate([colour, np.full_like(colour[:, :, :1], 255)], axis=2)
        enlarged = np.repeat(np.repeat(tile, factor, axis=0), factor, axis=1)
        strip += [enlarged, np.zeros((len(enlarged), GAP, 4), dtype=np.uint8)]
    stream = io.BytesIO()
    Image.fromarray(np.concatenate(strip[:-1], axis=1)).save(stream, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(stream.getvalue()).decode("ascii")

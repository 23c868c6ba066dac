"""ImageSource: images of one size as streams of encoded records, from archives, idx files, folders or arrays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from simulacra.data.imagefiles import ArrayImages, FolderImages, IdxImages, ImageReader, NpzImages
from simulacra.errors import DataError, SchemaError
from simulacra.privacy.records import Records
from simulacra.schema import Schema

BATCH_IMAGES = 4096
BATCH_NUMBERS = 1 << 23
"""A batch has at most so many pixels, too: 32 MB."""


def open_images(data: Any) -> ImageReader:
    """Open an .npz file, an idx file, a folder, or a pair (images, labels)."""
    if isinstance(data, (str, Path)):
        path = Path(data)
        if path.is_dir():
            return FolderImages(path)
        if path.suffix.lower() == ".npz":
            return NpzImages(path)
        if "idx" in path.name:
            return IdxImages(path)
        if not path.exists():
            raise DataError(f'no data file or folder "{path}"; check the path')
        raise DataError(
            f'unknown kind of image file "{path}"; use .npz, an idx file, or a folder with a subfolder per class'
        )
    if isinstance(data, tuple) and len(data) == 2:
        return ArrayImages(*data)
    if isinstance(data, np.ndarray):
        return ArrayImages(data, None)
    raise DataError(f"images are a path, an array or a pair (images, labels), got {type(data).__name__}")


class ImageSource:
    """Images whose shape and classes are exactly the schema's; pixel u becomes 2 u / 255 - 1, channels first.

    A label outside the schema's classes counts as class 0, so that every image is a valid record. What headers and
    names show is compared at once; `check` decodes every image.
    """

    def __init__(self, data: Any, schema: Schema, batch_images: int | None = None) -> None:
        if schema.image is None:
            raise SchemaError("the schema describes a table, not images; give a schema with an [image] section")
        self.schema = schema
        self._batch_images = batch_images or max(1, min(BATCH_IMAGES, BATCH_NUMBERS // schema.image.pixels))
        self._reader = open_images(data)
        self._reader.match(schema.image)

    def batches(self) -> Iterator[Records]:
        """A fresh pass over all records, encoded."""
        for images, labels in self._reader.batches(self._batch_images):
            classes = labels if self.schema.labelled else np.zeros_like(labels)
            valid = np.where((classes >= 0) & (classes < self.schema.classes), classes, 0)
            yield Records(inputs=from_uint8(images), labels=torch.from_numpy(valid))

    def check(self) -> None:
        """Decode everything once; a truncated image, a damaged file or mixed sizes are a DataError."""
        for _ in self._reader.batches(self._batch_images):
            pass

    def count_unknown_labels(self) -> int:
        """How many labels are outside the schema's classes; private, for `schema check` on the owner's console only."""
        if not self.schema.labelled:
            return 0
        parts = (labels for _, labels in self._reader.batches(self._batch_images))
        return sum(int(((labels < 0) | (labels >= self.schema.classes)).sum()) for labels in parts)


def read_images(data: Any, schema: Schema) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """All pixels (n, height, width, channels) and labels as they are stored; for evaluation, never for a run."""
    source = ImageSource(data, schema)
    parts = list(source._reader.batches(BATCH_IMAGES))
    if not parts or not sum(len(images) for images, _ in parts):
        raise DataError(f"{source._reader.where} holds no images; give at least one")
    return np.concatenate([images for images, _ in parts]), np.concatenate([labels for _, labels in parts])


def from_uint8(images: NDArray[np.uint8]) -> torch.Tensor:
    """(n, height, width, channels) pixels to encoded records."""
    planes = images.transpose(0, 3, 1, 2).astype(np.float32).reshape(len(images), -1)
    return torch.from_numpy(planes).mul_(2.0 / 255.0).sub_(1.0).clamp_(-1.0, 1.0)


def to_uint8(inputs: torch.Tensor, schema: Schema) -> NDArray[np.uint8]:
    """Encoded records to pixels: (n, height, width) if grey, (n, height, width, 3) if colour."""
    shape = schema.image
    if shape is None:
        raise SchemaError("the schema describes a table, not images")
    values = torch.nan_to_num(inputs.detach().cpu()).clamp(-1.0, 1.0)
    pixels: NDArray[np.uint8] = ((values + 1.0) * 127.5).round().to(torch.uint8).numpy()
    images = pixels.reshape(len(pixels), shape.channels, shape.height, shape.width)
    return images[:, 0] if shape.channels == 1 else np.ascontiguousarray(images.transpose(0, 2, 3, 1))

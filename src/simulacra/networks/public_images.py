"""Public images from a known data set, as bytes in memory: what encoders and projections learn from.

Nothing here touches private records. That a data set is public, and of other people, is for the owner to say; its name
and a checksum of what was read go into the files that are made from it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import torch
from torch.nn.functional import interpolate

from simulacra.errors import DataError


@dataclass(frozen=True, kw_only=True)
class PublicImages:
    """(n, channels, height, width) bytes with their classes, and where they come from."""

    name: str
    pixels: torch.Tensor
    labels: torch.Tensor
    classes: int

    @property
    def checksum(self) -> str:
        """SHA-256 of images and classes."""
        digest = hashlib.sha256(str(tuple(self.pixels.shape)).encode())
        digest.update(self.pixels.contiguous().numpy().data)
        digest.update(self.labels.contiguous().numpy().data)
        return digest.hexdigest()

    def batch(self, chosen: torch.Tensor | slice, *, side: int | None, device: str | torch.device) -> torch.Tensor:
        """Some of them as colour intensities in [0, 1], brought to another side if one is named."""
        images = self.pixels[chosen].to(device).float() / 255
        if images.shape[1] == 1:
            images = images.expand(-1, 3, -1, -1)
        if side is not None and tuple(images.shape[2:]) != (side, side):
            images = interpolate(images, size=(side, side), mode="bilinear", align_corners=False)
        return images


def load(name: str, split: str = "train", *, most: int | None = None) -> PublicImages:
    """One split of a known data set of images, or its first `most` images."""
    from simulacra import datasets
    from simulacra.data import open_source

    image = datasets.schema(name).image
    if image is None:
        raise DataError(f'"{name}" is a table; encoders learn from images')
    found = datasets.load(name, split)
    pixels, labels, count = [], [], 0
    for batch in open_source(found.data, found.schema).batches():
        pixels.append(((batch.inputs.clamp(-1, 1) + 1) * 127.5).round().to(torch.uint8))
        labels.append(batch.labels)
        count += len(batch.labels)
        if most is not None and count >= most:
            break
    shape = (-1, image.channels, image.height, image.width)
    return PublicImages(
        name=name,
        pixels=torch.cat(pixels)[:most].reshape(shape),
        labels=torch.cat(labels)[:most],
        classes=max(1, len(image.classes)),
    )

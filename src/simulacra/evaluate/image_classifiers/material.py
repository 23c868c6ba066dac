"""Synthetic images on the device that learns from them: kept as bytes, turned into inputs batch by batch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from simulacra.evaluate.image_classifiers.recipes import Recipe

LEAST_DEVIATION = 1 / 255
"""One step of grey: images that are all alike are centred and not blown up."""


@dataclass(frozen=True, kw_only=True)
class Material:
    """Images (n, channels, height, width) with labels, and how their bytes become inputs."""

    images: torch.Tensor
    labels: torch.Tensor
    classes: int
    scale: torch.Tensor
    shift: torch.Tensor

    @property
    def device(self) -> torch.device:
        return self.images.device

    def inputs(self, images: torch.Tensor) -> torch.Tensor:
        """What the network sees of some images."""
        return images.float() * self.scale + self.shift


def as_material(
    recipe: Recipe, images: NDArray[np.uint8], labels: NDArray[np.int64], *, classes: int, device: str
) -> Material:
    """Move images (n, height, width, channels) to the device once."""
    channels = images.shape[3]
    if recipe.normalisation == "standard":
        mean, deviation = zip(*(_moments(images[..., channel]) for channel in range(channels)), strict=True)
    else:
        centre = 0.5 if recipe.normalisation == "signed" else 0.0
        mean, deviation = (centre,) * channels, (1 - centre,) * channels
    divisor = torch.tensor(deviation, dtype=torch.float64).clamp(min=LEAST_DEVIATION)
    return Material(
        images=channels_first(images).to(device),
        labels=torch.from_numpy(labels).to(device),
        classes=classes,
        scale=(1 / (255 * divisor)).float().view(1, -1, 1, 1).to(device),
        shift=(-torch.tensor(mean, dtype=torch.float64) / divisor).float().view(1, -1, 1, 1).to(device),
    )


def channels_first(images: NDArray[np.uint8]) -> torch.Tensor:
    """(n, height, width, channels) to (n, channels, height, width)."""
    return torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2)))


def _moments(channel: NDArray[np.uint8]) -> tuple[float, float]:
    """Mean and standard deviation of bytes as fractions, exactly, from how often each byte occurs."""
    counts = np.bincount(channel.ravel(), minlength=256)
    values = np.arange(256) / 255
    mean = float(counts @ values / counts.sum())
    return mean, float(np.sqrt(counts @ (values - mean) ** 2 / counts.sum()))

"""Moments: a one, the pixels and their products, scaled so that no record is longer than 1."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch

from simulacra.data.points import PixelPoints
from simulacra.features.combine import refuse_too_many
from simulacra.features.groups import Groups
from simulacra.privacy.query import FeatureMap


class Moments(FeatureMap):
    """[a, b x / R, c vech(x x^T) / R^2] of pixels x, which are scaled down to the norm R where they are longer.

    vech is the upper triangle with its off-diagonal entries times sqrt(2), so that its length is |x|^2. With |x| <= R
    the three parts are at most a, b and c long, and a^2 + b^2 + c^2 = 1. Nothing is negative, because pixels are not.
    The sum over a class is its size, its sum of pixels and one matrix product.
    """

    nonnegative = True

    def __init__(self, pixels: int, *, norm: float, count_weight: float, mean_weight: float) -> None:
        self.points = PixelPoints(pixels)
        self.norm = norm
        self.weights = (count_weight, mean_weight, math.sqrt(1 - count_weight**2 - mean_weight**2))
        self.shape = (1 + pixels + pixels * (pixels + 1) // 2,)
        refuse_too_many(self.size)

    def features(self, inputs: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        point = self.shortened(inputs)
        return self._joined(torch.ones_like(point[:1]), point, torch.outer(point, point))

    def sums_by_class(self, inputs: torch.Tensor, labels: torch.Tensor, classes: int) -> torch.Tensor:
        """(n, pixels) to (classes, size); a class at a time, so that only one matrix of products is held."""
        points = self.shortened(inputs)
        sums = points.new_zeros(classes, self.size)
        for label in range(classes):
            chosen = points[labels == label]
            if len(chosen):  # a small chunk has few of many classes
                sums[label] = self._joined(points.new_tensor([len(chosen)]), chosen.sum(dim=0), chosen.T @ chosen)
        return sums

    def clipped_sum(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return self.sums_by_class(inputs, torch.zeros_like(labels), 1)[0]

    @property
    def working_size(self) -> int:
        return 2 * self.points.width  # all points, and once more those of a class

    def shortened(self, inputs: torch.Tensor) -> torch.Tensor:
        """Records to points that are no longer than the norm, each by itself."""
        return self.shortened_points(self.points.of_records(inputs).clamp(0, 1))

    def shortened_points(self, points: torch.Tensor) -> torch.Tensor:
        """The same for points."""
        # Kept off zero, where a root has no slope: a generator may well make a black image.
        lengths = points.square().sum(dim=-1, keepdim=True).clamp(min=1e-30).sqrt()
        return points * (self.norm / lengths.clamp(min=self.norm))

    def parts(self, sums: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """What one class's sum says: a count, a sum of points, and a symmetric sum of their products."""
        pixels = self.points.width
        count, total, products = sums[0], sums[1 : pixels + 1], sums[pixels + 1 :]
        first, second, third = self.weights
        diagonal, places = self._diagonal.to(sums.device), self._places.to(sums.device)
        upper = (products / math.sqrt(2)).index_copy(0, diagonal, products[diagonal] / 2)
        half = sums.new_zeros(pixels * pixels).index_copy_(0, places, upper).reshape(pixels, pixels)
        return count / first, total * (self.norm / second), (half + half.T) * (self.norm**2 / third)

    def product_noise(self, noise_std: float) -> float:
        """The noise on the off-diagonal entries of `parts`' matrix; on the diagonal it is sqrt(2) times as large."""
        return noise_std * self.norm**2 / self.weights[2] / math.sqrt(2)

    def _joined(self, count: torch.Tensor, total: torch.Tensor, products: torch.Tensor) -> torch.Tensor:
        first, second, third = self.weights
        upper = math.sqrt(2) * products.flatten()[self._places.to(products.device)]
        upper = upper.index_copy(0, self._diagonal.to(products.device), products.diagonal())
        return torch.cat([count * first, total * (second / self.norm), upper * (third / self.norm**2)])

    @cached_property
    def _places(self) -> torch.Tensor:
        """Of the upper triangle in the flat matrix; made when needed, since it is as large as the release."""
        places = torch.triu_indices(self.points.width, self.points.width)
        return places[0] * self.points.width + places[1]

    @cached_property
    def _diagonal(self) -> torch.Tensor:
        """Of the diagonal in the upper triangle: row i begins where the longer rows above it end."""
        row = torch.arange(self.points.width)
        return row * self.points.width - torch.div(row * (row - 1), 2, rounding_mode="floor")


@dataclass(frozen=True)
class MeanAndProducts:
    """The moments but for the count, to train with: all products and not their triangle, which is as long.

    Points are shortened as records were when they were released, unless what is matched has been made of it since and
    is of images as they are to be.
    """

    moments: Moments
    as_released: bool = True

    def class_sums(self, points: torch.Tensor, groups: Groups) -> torch.Tensor:
        """Weighted sums per class, (classes, pixels + pixels^2)."""
        if self.as_released:
            points = self.moments.shortened_points(points)
        parts = torch.split(points, list(groups.sizes))
        weighted = zip(parts, groups.weights, strict=True)
        return torch.stack([self.joined(w * part.sum(dim=0), w * (part.T @ part)) for part, w in weighted])

    def joined(self, total: torch.Tensor, products: torch.Tensor) -> torch.Tensor:
        """A sum of points and one of their products, each with its weight in a release."""
        _, second, third = self.moments.weights
        norm = self.moments.norm
        return torch.cat([total * (second / norm), products.flatten() * (third / norm**2)])

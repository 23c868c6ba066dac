"""Moments: noisy counts, means and second moments of pixels, and the Gaussians that have them; nothing is trained."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch

from simulacra.errors import SchemaError, SettingError
from simulacra.features.combine import PerClass
from simulacra.features.moments import MeanAndProducts, Moments
from simulacra.generators import GeneratorOptions, build
from simulacra.generators.sampler import Sampler
from simulacra.methods.base import Context
from simulacra.methods.matching import Matched, MatchedMethod, Training, train_to_match
from simulacra.privacy.query import FeatureMap
from simulacra.privacy.release import Release
from simulacra.schema import ImageShape, Schema

LEAST_WEIGHT = 1e-3
"""Of each of the three parts: a smaller one is noise alone."""
CERTAIN = 3.0
"""A count that is not so many noise deviations above nothing says that nothing is known of the class."""
GREY = 0.5


@dataclass(frozen=True, kw_only=True)
class MomentsMethod(MatchedMethod):
    """One release: per class a count, a mean and second moments, from which a Gaussian follows in closed form."""

    name: ClassVar[str] = "moments"
    summary: ClassVar[str] = (
        "Noisy means and second moments per class, sampled as Gaussians: a second, no training, "
        "and the floor that every trained method must beat."
    )
    tables: ClassVar[bool] = False
    images: ClassVar[bool] = True

    radius: float = 0.3
    """Images longer than this are scaled down to it; in units of the longest possible, all white."""
    count_weight: float = 0.2
    """The part of the unit norm that goes to the count."""
    mean_weight: float = 0.4
    """That of the mean; second moments get the rest, in squares."""
    rank: int = 100
    """Directions per class at most."""
    generator: GeneratorOptions = field(default_factory=lambda: GeneratorOptions(kind="gaussian"))
    """Another kind is trained to have the moments of the Gaussians: a condensed set, for one."""
    training: Training = field(default_factory=Training)

    def __post_init__(self) -> None:
        if not LEAST_WEIGHT <= self.radius <= 1:
            raise SettingError(f"moments: radius must be from {LEAST_WEIGHT:g} to 1, got {self.radius:g}")
        if not (self.count_weight >= LEAST_WEIGHT and self.mean_weight >= LEAST_WEIGHT):
            raise SettingError(f"moments: count_weight and mean_weight must be at least {LEAST_WEIGHT:g}")
        if not self.count_weight**2 + self.mean_weight**2 <= 1 - LEAST_WEIGHT:
            raise SettingError("moments: the squares of count_weight and mean_weight must add up to less than 1")
        if not 1 <= self.rank <= 10_000:
            raise SettingError(f"moments: rank must be from 1 to 10,000, got {self.rank}")

    def questions(self, schema: Schema) -> Mapping[str, FeatureMap]:
        return {"moments": PerClass(self._moments(_image(schema)), schema.classes)}

    def noise_shares(self, schema: Schema) -> Mapping[str, float]:
        return {}

    def asking(self) -> Mapping[str, Any]:
        return {"radius": self.radius, "count_weight": self.count_weight, "mean_weight": self.mean_weight}

    def train(self, schema: Schema, releases: Mapping[str, Release], context: Context) -> Sampler:
        """With Gaussians, everything here is exact linear algebra, so the seed is not used."""
        if self.generator.kind not in ("auto", "gaussian"):
            return train_to_match(
                schema,
                self._freed_from_noise(schema, releases["moments"]),
                generator=self.generator,
                training=self.training,
                context=context,
            )
        gaussians = self._gaussians(schema, releases["moments"])
        latent = max(1, *(len(gaussian.factor) for gaussian in gaussians))
        options = GeneratorOptions(kind="gaussian", latent=latent)
        generator = build(schema, options)
        with torch.no_grad():
            for label, gaussian in enumerate(gaussians):
                generator.means[label] = gaussian.mean.clamp(0, 1)
                generator.factors[label, :, : len(gaussian.factor)] = gaussian.factor.T
        shares = _counts(gaussians)
        shares = (shares / shares.sum()).float()
        return Sampler(schema=schema, options=options, generator=generator.to(context.device), class_shares=shares)

    def matched(self, schema: Schema, releases: Mapping[str, Release]) -> Matched:
        """The moments as they were released, to be matched together with other features."""
        release, moments = releases["moments"], self._moments(_image(schema))
        features = MeanAndProducts(moments)
        counts, totals, products = zip(*(moments.parts(sums) for sums in release.value), strict=True)
        return Matched(
            features=features,
            sums=torch.stack([features.joined(*each) for each in zip(totals, products, strict=True)]),
            counts=torch.stack(counts),
            noise_std=release.noise_std,
        )

    def _freed_from_noise(self, schema: Schema, release: Release) -> Matched:
        """For a generator that has nothing else: what is left of the moments once they are freed from noise."""
        features = MeanAndProducts(self._moments(_image(schema)), as_released=False)
        gaussians = self._gaussians(schema, release)
        sums = [
            each.count * features.joined(each.mean, torch.outer(each.mean, each.mean) + each.spread)
            for each in gaussians
        ]
        return Matched(
            features=features, sums=torch.stack(sums), counts=_counts(gaussians), noise_std=release.noise_std
        )

    def _gaussians(self, schema: Schema, release: Release) -> list[Gaussian]:
        image = _image(schema)
        moments, frequencies = self._moments(image), Frequencies(image)
        # One band for all classes: a class that is blurred more than others would be told by its blur.
        band = _band(release, moments, frequencies)
        found = []
        for sums in release.value:
            count, mean, factor = _gaussian(sums, release, moments, frequencies, band)
            found.append(
                Gaussian(
                    count=count,
                    mean=frequencies.back(mean.unsqueeze(0))[0],
                    factor=frequencies.back(factor[: self.rank]),
                )
            )
        return found

    def _moments(self, image: ImageShape) -> Moments:
        return Moments(
            image.pixels,
            norm=self.radius * math.sqrt(image.pixels),
            count_weight=self.count_weight,
            mean_weight=self.mean_weight,
        )


@dataclass(frozen=True, kw_only=True)
class Gaussian:
    """What is known of a class: its count, its mean, and its directions, a row each and longest first."""

    count: float
    mean: torch.Tensor
    factor: torch.Tensor

    @property
    def spread(self) -> torch.Tensor:
        """The covariance."""
        return self.factor.T @ self.factor


class Frequencies:
    """Images as cosine waves, longest first: an orthonormal change of basis, channel by channel.

    Images are mostly long waves, while the noise is as large in any basis; so the short waves can be left out.
    """

    def __init__(self, image: ImageShape) -> None:
        self.shape = (image.channels, image.height, image.width)
        self.down, self.across = _cosines(image.height), _cosines(image.width)
        rows = torch.arange(image.height, dtype=torch.float64) / image.height
        columns = torch.arange(image.width, dtype=torch.float64) / image.width
        plane = (rows.square().unsqueeze(1) + columns.square()).flatten().argsort(stable=True)
        # A wave's channels side by side, so that what is kept of one colour is kept of all.
        self.order = (plane.unsqueeze(1) + torch.arange(image.channels) * len(plane)).flatten()

    def of(self, points: torch.Tensor) -> torch.Tensor:
        """(n, pixels) to (n, waves)."""
        waves = self.down @ points.reshape(-1, *self.shape) @ self.across.T
        return waves.flatten(1)[:, self.order]

    def of_matrix(self, matrix: torch.Tensor) -> torch.Tensor:
        """A symmetric (pixels, pixels) to (waves, waves)."""
        return self.of(self.of(matrix).T)

    def back(self, waves: torch.Tensor) -> torch.Tensor:
        """(n, first waves) to (n, pixels); the waves that are missing are zero."""
        whole = waves.new_zeros(len(waves), len(self.order))
        whole[:, self.order[: waves.shape[1]]] = waves
        return (self.down.T @ whole.reshape(-1, *self.shape) @ self.across).flatten(1)


def _counts(gaussians: list[Gaussian]) -> torch.Tensor:
    return torch.tensor([gaussian.count for gaussian in gaussians], dtype=torch.float64)


def _cosines(size: int) -> torch.Tensor:
    """The orthonormal cosine transform, a wave per row."""
    place = torch.arange(size, dtype=torch.float64)
    waves = torch.cos(math.pi / size * place.unsqueeze(1) * (place + 0.5)) * math.sqrt(2 / size)
    waves[0] /= math.sqrt(2)
    return waves


def _band(release: Release, moments: Moments, frequencies: Frequencies) -> int:
    """How many waves to keep: those for which the squared error of the released products is least.

    The error of keeping k is what is left out, plus the noise on k^2 entries. Without a look at the truth it is
    estimated without bias, up to a constant, by twice that noise less the energy that is kept (Stein, 1981).
    """
    noise = moments.product_noise(release.noise_std) ** 2
    energy = torch.zeros(moments.points.width, dtype=torch.float64)
    for sums in release.value:
        squares = frequencies.of_matrix(moments.parts(sums)[2]).square()
        energy += 2 * squares.tril(-1).sum(dim=1) + squares.diagonal()
    kept = torch.arange(1, len(energy) + 1, dtype=torch.float64)
    risk = 2 * noise * len(release.value) * (kept.square() + kept) - energy.cumsum(dim=0)
    channels = frequencies.shape[0]
    return (int(risk[channels - 1 :: channels].argmin()) + 1) * channels


def _gaussian(
    sums: torch.Tensor, release: Release, moments: Moments, frequencies: Frequencies, band: int
) -> tuple[float, torch.Tensor, torch.Tensor]:
    """A class's count, the first waves of its mean, and its directions (a row each, longest first)."""
    noisy, total, products = moments.parts(sums)
    count = max(1.0, float(noisy))
    grey = frequencies.of(torch.full_like(total, GREY).unsqueeze(0))[0, :band]
    if float(noisy) <= CERTAIN * release.noise_std / moments.weights[0]:
        return count, grey, grey.new_zeros(0, band)
    mean = frequencies.of(total.unsqueeze(0))[0, :band] / count
    covariance = frequencies.of_matrix(products)[:band, :band] / count - torch.outer(mean, mean)
    directions = _spikes(covariance, moments.product_noise(release.noise_std) / count)
    noise = release.noise_std * moments.norm / moments.weights[1] / count
    return count, grey + _less_noise(mean - grey, noise), directions


def _less_noise(vector: torch.Tensor, noise: float) -> torch.Tensor:
    """Shrunk by what its length owes to noise (James and Stein, 1961); nothing where that is all of it."""
    length = vector.square().sum().clamp(min=1e-300)
    return vector * (1 - len(vector) * noise**2 / length).clamp(min=0)


def _spikes(matrix: torch.Tensor, noise: float) -> torch.Tensor:
    """The directions of a symmetric matrix that stand out of its noise, each as long as its standard deviation.

    Noise with variance s^2 off the diagonal and twice that on it has eigenvalues up to e = 2 s sqrt(size) (Wigner). One
    of t > e / 2 beneath it shows as l = t + e^2 / 4t, in a direction that is off by as much; sqrt(l^2 - e^2) has the
    least squared error (Gavish and Donoho, 2017, for square matrices), and falls to zero at the edge.
    """
    values, vectors = torch.linalg.eigh((matrix + matrix.T) / 2)
    edge = 2 * noise * math.sqrt(len(matrix))
    values, vectors = values.flip(0), vectors.flip(1)
    kept = values > edge
    variances = (values[kept].square() - edge**2).sqrt()
    directions: torch.Tensor = vectors[:, kept] * variances.sqrt()
    return directions.T


def _image(schema: Schema) -> ImageShape:
    if schema.image is None:
        raise SchemaError("moments is for images, and the schema describes a table")
    return schema.image

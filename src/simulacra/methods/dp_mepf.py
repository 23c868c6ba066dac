"""DP-MEPF: mean embeddings of perceptual features.

Harder et al., Pre-trained Perceptual Features Improve Differentially Private Image Generation, TMLR 2023.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import torch

from simulacra.errors import SettingError
from simulacra.features.combine import ClassCount, PerClass
from simulacra.features.perceptual import OnePass, Perceptual
from simulacra.features.views import View
from simulacra.generators import GeneratorOptions, build
from simulacra.generators.sampler import Sampler
from simulacra.methods.base import Context, ReleaseOnce, check_shares
from simulacra.methods.denoising import denoised
from simulacra.methods.matching import in_memory
from simulacra.methods.perceiving import (
    EncoderOptions,
    LayerOptions,
    ProjectionOptions,
    inception_is_here,
    inception_view,
    last_layer_view,
    view_of,
)
from simulacra.methods.perceptual_matching import PerceptualTraining, match_moments
from simulacra.methods.stopping import FIRST, SECOND, Judge, Stopping
from simulacra.networks import weights
from simulacra.privacy.query import FeatureMap
from simulacra.privacy.release import Release
from simulacra.schema import ImageShape, Schema

MOMENTS = {1: "first-moment", 2: "second-moment"}


@dataclass(frozen=True, kw_only=True)
class DPMEPF(ReleaseOnce):
    """The class counts, and per class the sums of a public network's features and of their squares (Eq. 5 and 6).

    Unlike the published code: squared features are charged what one record can do to them, the moments that decide
    when to stop are noisy and in the plan, features of length zero stay zero, labels are drawn from noisy counts, and
    a projection by public matrices can make the release smaller.
    """

    name: ClassVar[str] = "dp-mepf"
    summary: ClassVar[str] = "Noisy moments of what a public network sees, per class; a generator is trained to match."
    tables: ClassVar[bool] = False
    images: ClassVar[bool] = True
    needs_public_data: ClassVar[bool] = True

    moments: int = 2
    """1 releases the features alone, 2 their squares too."""
    count_noise: float = 5.0
    """Noise multiplier of the counts, relative to the first moment's."""
    second_noise: float = 1.0
    """Noise multiplier of the second moment, relative to the first's."""
    denoise: bool = True
    """Whether training begins with taking noise out of the release; see `methods/denoising.py`."""
    encoder: EncoderOptions = field(default_factory=EncoderOptions)
    projection: ProjectionOptions = field(default_factory=ProjectionOptions)
    layers: LayerOptions = field(default_factory=LayerOptions)
    stopping: Stopping = field(default_factory=Stopping)
    training: PerceptualTraining = field(default_factory=PerceptualTraining)
    generator: GeneratorOptions = field(default_factory=GeneratorOptions)

    def __post_init__(self) -> None:
        check_shares(
            "dp-mepf",
            count_noise=self.count_noise,
            second_noise=self.second_noise,
            **{"stopping.noise": self.stopping.noise},
        )
        if self.moments not in MOMENTS:
            raise SettingError(f"dp-mepf: moments must be 1 or 2, got {self.moments}")
        if self.generator.condensed or self.generator.kind == "gaussian":
            raise SettingError(f"dp-mepf: a {self.generator.kind} generator is not for perceptual features")
        if self.stopping.proxy == "auto":  # decided once, here: training elsewhere must not decide otherwise
            proxy = "inception" if inception_is_here() else "encoder"
            object.__setattr__(self, "stopping", self.stopping.replace({"proxy": proxy}))

    def suited_to(self, schema: Schema) -> Self:
        """Small grey images take the small generator of the papers, which learns fast and from few images a step."""
        if schema.image is None or schema.image.channels != 1:
            return self
        quick = PerceptualTraining(steps=8000, batch=64, learning_rate=6e-3)
        return replace(self, generator=replace(self.generator, latent=90), training=quick)

    def questions(self, schema: Schema) -> Mapping[str, FeatureMap]:
        proxy = self._proxy(schema)
        # The encoder's own last layer is read off the same pass.
        also = proxy if self.stopping.proxy == "encoder" else None
        passing = OnePass(self._view(schema), self._orders, also=also)
        asked: dict[str, FeatureMap] = {"class-counts": ClassCount(schema.classes)}
        for order in self._orders:
            asked[MOMENTS[order]] = PerClass(Perceptual(passing, order=order), schema.classes)
        if proxy is None:
            return asked
        return {**asked, **self.stopping.questions(passing.beside or OnePass(proxy))}

    def noise_shares(self, schema: Schema) -> Mapping[str, float]:
        noise = self.stopping.noise
        return {
            "class-counts": self.count_noise,
            MOMENTS[2]: self.second_noise,
            FIRST: noise,
            SECOND: noise,
        }

    def asking(self) -> Mapping[str, Any]:
        return {
            "moments": self.moments,
            "count_noise": self.count_noise,
            "second_noise": self.second_noise,
            "stopping.proxy": self.stopping.proxy,
            "stopping.noise": self.stopping.noise,
            **self.encoder.asking(),
            **self.projection.asking(),
            **self.layers.asking(),
        }

    def remarks(self, schema: Schema) -> Sequence[str]:
        loaded = self.encoder.load()
        said = [
            f'the features are those of the public network "{self.encoder.network}", trained on the public data '
            f"{loaded.public_data} (sha256 {loaded.checksum})",
            self.projection.remark(),
            self.layers.remark(),
        ]
        if self.stopping.proxy == "inception":
            inception = weights.find("inception")
            said.append(
                'checkpoints are chosen by features of the public network "inception", trained on the public data '
                f"{inception.public_data} (sha256 {inception.contents})"
            )
        return [each for each in said if each]

    def public_files(self) -> Sequence[Path]:
        projection = self.projection.file()
        inception = [weights.find("inception").path] if self.stopping.proxy == "inception" else []
        return [self.encoder.file(), *([projection] if projection else []), *inception]

    def learned_from(self) -> Sequence[str]:
        projection = self.projection.public_data()
        return [self.encoder.load().public_data, *([projection] if projection else [])]

    def train(self, schema: Schema, releases: Mapping[str, Release], context: Context) -> Sampler:
        counts = releases["class-counts"].value.clamp(min=1.0)
        total = counts.sum()
        shares = counts / total
        # Every class once, not once per share: balanced classes then have their means, as in the published code.
        view = self._view(schema)
        sums = self._sums(releases, view, counts)
        targets = {order: schema.classes * value / total for order, value in sums.items()}
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(context.seed)
            generator = build(schema, self.generator)
        with in_memory(self.generator):
            judge = self._judge(schema, releases, shares, context)

            def sampler(generator: Any) -> Sampler:
                return Sampler(schema=schema, options=self.generator, generator=generator, class_shares=shares.float())

            def look(step: int, generator: Any) -> None:
                if context.on_look:
                    context.on_look(step, sampler(generator))

            trained = match_moments(
                generator,
                view,
                targets=targets,
                shares=shares,
                training=self.training,
                context=context,
                judge=judge,
                checks=self.stopping.checks,
                look=look,
            )
        if judge is not None and self.stopping.choice == "best":
            judge.take(trained)
        return sampler(trained)

    @property
    def _orders(self) -> tuple[int, ...]:
        return tuple(range(1, self.moments + 1))

    def _sums(self, releases: Mapping[str, Release], view: View, counts: torch.Tensor) -> Mapping[int, torch.Tensor]:
        """The released moments by order, or what is left of them without noise."""
        asked = {order: releases[MOMENTS[order]] for order in self._orders}
        sums = {order: release.value for order, release in asked.items()}
        if not self.denoise:
            return sums
        stds = {order: release.noise_std for order, release in asked.items()}
        with in_memory(self.generator, what="taking noise out of the release", less="set denoise=false"):
            found = denoised(sums, view.shapes, stds, counts)
        if all(stds.values()) and not found[1].any():
            raise SettingError(
                "nothing in this release can be told from noise, so there is nothing to train on; "
                "it takes more records or epsilon, or set denoise=false to train on the noise"
            )
        return found

    def _view(self, schema: Schema) -> View:
        return view_of(self.encoder, self.projection, self.layers, _image(schema))

    def _proxy(self, schema: Schema) -> View | None:
        if self.stopping.proxy == "none":
            return None
        image = _image(schema)
        return (
            inception_view(image) if self.stopping.proxy == "inception" else last_layer_view(self.encoder.view(image))
        )

    def _judge(
        self, schema: Schema, releases: Mapping[str, Release], shares: torch.Tensor, context: Context
    ) -> Judge | None:
        view = self._proxy(schema)
        if view is None:
            return None
        total = releases["class-counts"].value.clamp(min=1.0).sum()
        targets = releases[FIRST].value / total, releases[SECOND].value / total
        return Judge(view, targets, shares=shares, samples=self.stopping.samples, seed=context.seed)


def _image(schema: Schema) -> ImageShape:
    """What the images look like; classes do not matter to a network."""
    if schema.image is None:
        raise SettingError("dp-mepf is for images")
    return replace(schema.image, classes=())

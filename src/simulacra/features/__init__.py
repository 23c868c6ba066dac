"""Feature maps: bounded functions of one record, each with a proven bound. See `simulacra.privacy.query.FeatureMap`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from simulacra.privacy.query import FeatureMap


def examples() -> tuple[tuple[str, FeatureMap, int, int], ...]:
    """Every map, small, as (name, map, inputs, classes): what the conformance tests run on. Add yours here."""
    from dataclasses import replace

    import numpy as np
    import torch

    from simulacra.data.cells import Cells
    from simulacra.data.points import OneHotPoints, PixelPoints, Points
    from simulacra.features.combine import ClassCount, PerClass
    from simulacra.features.critic_losses import RealLoss
    from simulacra.features.embedding import ClippedEmbedding
    from simulacra.features.extractors import ConvolutionalExtractor, LinearExtractor
    from simulacra.features.fourier import RandomFourier
    from simulacra.features.gradient import LossGradient
    from simulacra.features.hermite_blocks import Blocks, blocks_for
    from simulacra.features.hermite_kernels import ProductKernel, SumKernel
    from simulacra.features.histogram import ColumnHistogram
    from simulacra.features.itself import Itself, WithLabel
    from simulacra.features.judged import Guesses, ScoreBins
    from simulacra.features.moments import Moments
    from simulacra.features.pairs import Pairs
    from simulacra.features.perceptual import OnePass, Perceptual
    from simulacra.features.projections import public_mean
    from simulacra.features.refined_views import Centred, Deepest, Even, Projected
    from simulacra.features.tangent import Tangent
    from simulacra.features.tangent_networks import Entrywise, OneHidden, TwoHidden
    from simulacra.features.views import LastLayer, Perceived, View
    from simulacra.gradients.summing import GradientSums
    from simulacra.networks.convnet import ConvNet
    from simulacra.networks.critics import CriticOptions, build_critic
    from simulacra.networks.small_encoder import SmallEncoder
    from simulacra.schema import Boolean, Categorical, ImageShape, Numeric, Schema

    class Narrow(ConvNet):
        WIDTH = 3

    class Precise(ClippedEmbedding):
        dtype = torch.float64  # single precision is compared bit by bit in the map's own tests

    def looked_at(operation: str) -> FeatureMap:
        extractor = ConvolutionalExtractor(
            ImageShape(height=5, width=4, channels=1), 3, operations=[operation], network=Narrow
        )
        extractor.draw_anew(7, 1)
        extractor.network.double()
        return Precise(extractor, 3, clip=1.0, rows=64)

    table = Schema(
        columns=(
            Numeric(name="amount", lower=0, upper=1000, log=True, missing=True),
            Categorical(name="colour", values=("red", "green", "blue"), other=True),
            Boolean(name="label"),
        ),
        label="label",
    )
    pixels = PixelPoints(12)
    one_hot = OneHotPoints(Cells(table))
    on_pixels = RandomFourier(pixels, pairs=7, length_scales=[1.0], seed=1)
    on_table = RandomFourier(one_hot, pairs=7, length_scales=[0.5, 2.0], seed=2)
    categorical = Schema(columns=(*table.columns[1:], Boolean(name="other")), label="label")

    def hermite(schema: Schema) -> Blocks:
        return blocks_for(schema, order=4, length_scale=0.3)

    moments = Moments(12, norm=1.2, count_weight=0.2, mean_weight=0.4)
    picture = Schema(image=ImageShape(height=3, width=4))

    def gradient(points: Points, image: ImageShape | None, inputs: int) -> LossGradient:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(6)
            options = CriticOptions(channels=1, hidden=(12,))
            critic = build_critic(options, image=image, width=points.width, classes=3).double()
        loss = RealLoss(critic, points)
        return LossGradient(GradientSums(loss, inputs=inputs, classes=3, bound=0.3), inputs=inputs)

    def perceptual(view: View, order: int) -> Perceptual:
        return Perceptual(OnePass(view, rows=64), order=order, dtype=torch.float64)

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(8)
        perceived = Perceived(ImageShape(height=3, width=4), SmallEncoder((2, 3)), name="small")
        colour = ImageShape(height=2, width=2, channels=3)
        resized = Perceived(colour, SmallEncoder((2,)), name="small", resize=3)
        projected_view = Projected(perceived, [torch.randn(2, size).double() for size in perceived.sizes])

    centred = Centred(Even(perceived), public_mean(Even(perceived), torch.linspace(0, 1, 60).reshape(5, 12)))
    labelled = Schema(image=ImageShape(height=3, width=4, classes=("a", "b", "c")))
    projected, rectified = LinearExtractor(table, width=5), LinearExtractor(table, width=5, rectified=True)
    projected.draw_anew(6, 0)

    def judge(record: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.array([record @ weights for weights in np.random.default_rng(8).normal(size=(3, 4))])

    three_lines = np.linspace(-1, 1, 15).reshape(3, 5)
    small, squares = hermite(picture), blocks_for(picture, order=2, length_scale=0.3, square=2)
    return (
        ("class-count", ClassCount(3), 4, 3),
        ("column-histogram", ColumnHistogram((0, 2), bins=5), 4, 1),
        ("fourier-pixels", on_pixels, 12, 1),
        ("fourier-table", on_table, table.inputs, 1),
        ("fourier-per-class", PerClass(on_table, 2), table.inputs, 2),
        (
            "tangent-one-hidden",
            PerClass(Tangent(one_hot, OneHidden(one_hot.width, (6,), 2), seed=3), 2),
            table.inputs,
            2,
        ),
        ("tangent-two-hidden", Tangent(pixels, TwoHidden(12, (5, 4), 3), seed=4, signed=True), 12, 1),
        ("tangent-entrywise", PerClass(Tangent(pixels, Entrywise(12, (2, 5), 3), seed=5), 3), 12, 3),
        ("hermite-sum-pixels", SumKernel(small), 12, 1),
        ("hermite-sum-table", PerClass(SumKernel(hermite(table)), 2), table.inputs, 2),
        ("hermite-product-pixels", PerClass(ProductKernel(small, [(0, 7), (3, 7), (2, 11)]), 3), 12, 3),
        ("hermite-product-squares", PerClass(ProductKernel(squares, [(0, 1, 2), (0, 2, 3)]), 3), 12, 3),
        ("hermite-product-table", PerClass(ProductKernel(hermite(table), [(0, 1)]), 2), table.inputs, 2),
        ("hermite-of-one-column", ProductKernel(hermite(table), [(0,), (1,)]), table.inputs, 1),
        ("hermite-categorical", PerClass(ProductKernel(hermite(categorical), [(0, 1)]), 2), categorical.inputs, 2),
        ("pairs-table", Pairs(table), table.inputs, 2),
        ("pairs-unlabelled", Pairs(replace(table, label=None)), replace(table, label=None).inputs, 1),
        ("pairs-of-one-column", Pairs(Schema(columns=table.columns[:1])), 2, 1),
        ("moments-pixels", moments, 12, 1),
        ("moments-per-class", PerClass(moments, 3), 12, 3),
        ("critic-gradient-pixels", gradient(PixelPoints(20), ImageShape(height=4, width=5), 20), 20, 3),
        ("critic-gradient-table", gradient(one_hot, None, table.inputs), table.inputs, 3),
        ("guesses", Guesses(judge, 3), 4, 3),
        ("score-bins", ScoreBins(judge, 3, three_lines), 4, 3),
        ("score-bins-of-two", ScoreBins(lambda record: judge(record)[:2], 2, three_lines[:1]), 4, 2),
        ("itself-pixels", PerClass(Itself(picture), 3), 12, 3),
        ("itself-table", PerClass(Itself(table), 2), table.inputs, 2),
        ("itself-and-label-pixels", WithLabel(labelled), 12, 3),
        ("itself-and-label-table", WithLabel(table), table.inputs, 2),
        ("embedding-table", Precise(projected, 2, clip=1.0, rows=32), table.inputs, 2),
        ("embedding-table-unclipped", Precise(projected, 2, clip=None, rows=32), table.inputs, 2),
        ("embedding-table-rectified", Precise(rectified, 2, clip=1.0, rows=32), table.inputs, 2),
        ("perceptual-first", PerClass(perceptual(perceived, 1), 3), 12, 3),
        ("perceptual-second", PerClass(perceptual(perceived, 2), 3), 12, 3),
        ("perceptual-unlabelled", perceptual(perceived, 1), 12, 1),
        ("perceptual-last-layer", perceptual(LastLayer(perceived), 1), 12, 1),
        ("perceptual-projected", PerClass(perceptual(projected_view, 1), 2), 12, 2),
        ("perceptual-projected-second", perceptual(projected_view, 2), 12, 1),
        ("perceptual-even", PerClass(perceptual(Even(perceived), 1), 3), 12, 3),
        ("perceptual-even-second", perceptual(Even(Deepest(perceived, 2)), 2), 12, 1),
        ("perceptual-centred", PerClass(perceptual(centred, 1), 3), 12, 3),
        ("perceptual-centred-second", perceptual(centred, 2), 12, 1),
        ("perceptual-resized", perceptual(resized, 1), 12, 1),
        *((f"embedding-{operation}", looked_at(operation), 20, 3) for operation in ("color", "rotate", "crop")),
    )

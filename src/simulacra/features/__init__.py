"""Feature maps: bounded functions of one record, each with a proven bound. See `simulacra.privacy.query.FeatureMap`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulacra.privacy.query import FeatureMap


def examples() -> tuple[tuple[str, FeatureMap, int, int], ...]:
    """Every map, small, as (name, map, inputs, classes): what the conformance tests run on. Add yours here."""
    from simulacra.data.cells import Cells
    from simulacra.features.combine import ClassCount, PerClass
    from simulacra.features.fourier import RandomFourier
    from simulacra.features.histogram import ColumnHistogram
    from simulacra.features.points import OneHotPoints, PixelPoints
    from simulacra.schema import Boolean, Categorical, Numeric, Schema

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
    return (
        ("class-count", ClassCount(3), 4, 3),
        ("column-histogram", ColumnHistogram((0, 2), bins=5), 4, 1),
        ("fourier-pixels", on_pixels, 12, 1),
        ("fourier-table", on_table, table.inputs, 1),
        ("fourier-per-class", PerClass(on_table, 2), table.inputs, 2),
    )

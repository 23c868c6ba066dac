"""Heat maps: correlations, and pairs of columns, as small pictures whose cells are shaded by one number.

They are PNG images with a clear background: one colour at many opacities reads on light paper and on dark.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulacra.data.cell_names import cell_names, ends
from simulacra.data.frames import Encoded
from simulacra.evaluate.correlations import strengths
from simulacra.report.charts import number
from simulacra.schema import Column, Datetime, Numeric, Schema

SYNTHETIC, REAL, NEGATIVE = (47, 109, 181), (180, 72, 12), (150, 60, 140)
MOST_CORRELATED = 24
MOST_PAIRS = 6
MOST_CELLS = 40
"""A column with more cells is drawn by its commonest ones."""
CELL = 14
LARGEST_GAPS = 8


@dataclass(frozen=True, kw_only=True)
class HeatMap:
    """One picture, what is said about it for who cannot see it, and its caption."""

    title: str
    picture: str
    words: str
    real: bool = False


@dataclass(frozen=True, kw_only=True)
class Correlations:
    """Heat maps of one table beside another, the columns in their order, and the largest gaps as text."""

    names: tuple[str, ...]
    maps: tuple[HeatMap, ...]
    gaps: tuple[tuple[str, str, str], ...]
    left_out: int


@dataclass(frozen=True, kw_only=True)
class PairView:
    """One pair of columns, each with its values from first to last: the joint shares, synthetic and real."""

    across: str
    across_span: str
    down: str
    down_span: str
    maps: tuple[HeatMap, ...]
    distance: str | None


def correlations(synthetic: Encoded, real: Encoded | None, schema: Schema) -> Correlations | None:
    """How strongly columns go together; None if there is but one."""
    columns = _shown(schema)
    if len(columns) < 2:
        return None
    ours = strengths(synthetic, columns)
    maps = [_correlation_map("Synthetic", ours, SYNTHETIC, columns)]
    gaps: list[tuple[str, str, str]] = []
    if real is not None:
        theirs = strengths(real, columns)
        maps.append(_correlation_map("Real", theirs, REAL, columns, real=True))
        off = np.abs(ours - theirs)
        maps.append(_correlation_map("Difference", off, NEGATIVE, columns, real=True))
        rows, others = np.triu_indices(len(columns), k=1)
        for k in np.argsort(-off[rows, others], kind="stable")[:LARGEST_GAPS]:
            i, j = rows[k], others[k]
            gaps.append((f"{columns[i].name} and {columns[j].name}", f"{ours[i, j]:.2f}", f"{theirs[i, j]:.2f}"))
    return Correlations(
        names=tuple(column.name for column in columns),
        maps=tuple(maps),
        gaps=tuple(gaps),
        left_out=len(schema.columns) - len(columns),
    )


def pair_views(
    synthetic: Encoded, real: Encoded | None, schema: Schema, worst: Sequence[Sequence[str]] = ()
) -> list[PairView]:
    """The pairs that are furthest off, if that is known, else the first features with one another and the label."""
    chosen = [(pair[0], pair[1]) for pair in worst][:MOST_PAIRS]
    if not chosen:
        names = [column.name for column in schema.features[:3]]
        names += [schema.label] if schema.label else [column.name for column in schema.features[3:4]]
        chosen = [(a, b) for place, a in enumerate(names) for b in names[place + 1 :]][:MOST_PAIRS]
    return [_pair(synthetic, real, schema.column(a), schema.column(b)) for a, b in chosen]


def _shown(schema: Schema) -> tuple[Column, ...]:
    label = () if schema.label is None else (schema.column(schema.label),)
    return (*schema.features[: MOST_CORRELATED - len(label)], *label)


def _correlation_map(
    title: str,
    matrix: NDArray[np.float64],
    colour: tuple[int, int, int],
    columns: Sequence[Column],
    *,
    real: bool = False,
) -> HeatMap:
    strong = np.abs(matrix - np.eye(len(matrix)) * matrix)
    i, j = divmod(int(strong.argmax()), len(matrix))
    what = "differ most" if title == "Difference" else "go together most"
    words = (
        f"{title}: {len(columns)} by {len(columns)} columns; {columns[i].name} and {columns[j].name} {what}, "
        f"{matrix[i, j]:.2f}"
    )
    return HeatMap(title=title, picture=_picture(matrix, colour), words=words, real=real)


def _pair(synthetic: Encoded, real: Encoded | None, across: Column, down: Column) -> PairView:
    kept = [_kept(synthetic, real, column) for column in (down, across)]
    ours = _joint(synthetic, (down, across), kept)
    theirs = None if real is None else _joint(real, (down, across), kept)
    top = max(float(ours.max()), 0.0 if theirs is None else float(theirs.max()), 1e-12)
    label = f"Shares of {down.name} (down) by {across.name} (across)"
    # The root shows what is rare: shares of one per cent beside shares of fifty.
    maps = [HeatMap(title="Synthetic", picture=_picture(np.sqrt(ours / top), SYNTHETIC), words=f"{label}, synthetic")]
    distance = None
    if theirs is not None:
        maps.append(
            HeatMap(title="Real", picture=_picture(np.sqrt(theirs / top), REAL), words=f"{label}, real", real=True)
        )
        distance = number(float(0.5 * np.abs(ours - theirs).sum()), 3)
    return PairView(
        across=across.name,
        across_span=_span(across),
        down=down.name,
        down_span=_span(down),
        maps=tuple(maps),
        distance=distance,
    )


def _span(column: Column) -> str:
    """What the first and the last cell of a picture stand for."""
    if column.cells > MOST_CELLS:
        return "its commonest values"
    if isinstance(column, (Numeric, Datetime)):
        lower, upper = ends(column)
        return f"{lower} to {upper}{', then missing' if column.missing else ''}"
    names = cell_names(column)
    return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"


def _kept(synthetic: Encoded, real: Encoded | None, column: Column) -> NDArray[np.int64]:
    """For each cell its place in the picture; those beyond the commonest share the last one."""
    if column.cells <= MOST_CELLS:
        return np.arange(column.cells)
    counts = np.bincount(synthetic.codes(column), minlength=column.cells).astype(np.float64) / max(1, len(synthetic))
    if real is not None:
        counts = counts + np.bincount(real.codes(column), minlength=column.cells) / max(1, len(real))
    places = np.full(column.cells, MOST_CELLS - 1)
    common = np.sort(np.argsort(-counts, kind="stable")[: MOST_CELLS - 1])
    places[common] = np.arange(len(common))
    return places


def _joint(rows: Encoded, columns: Sequence[Column], kept: Sequence[NDArray[np.int64]]) -> NDArray[np.float64]:
    down, across = (places[rows.codes(column)] for column, places in zip(columns, kept, strict=True))
    height, width = (int(places.max()) + 1 for places in kept)
    counts = np.bincount(down * width + across, minlength=height * width).reshape(height, width)
    return np.asarray(counts / max(1, len(rows)), dtype=np.float64)


def _picture(values: NDArray[np.float64], colour: tuple[int, int, int]) -> str:
    """A data URL: strength as opacity, negative values in another colour; each cell some pixels wide."""
    from PIL import Image

    tiles: NDArray[Any] = np.zeros((*values.shape, 4), dtype=np.uint8)
    tiles[..., :3] = np.where((values < 0)[..., None], np.array(NEGATIVE), np.array(colour))
    tiles[..., 3] = np.rint(np.clip(np.abs(values), 0.0, 1.0) * 255)
    factor = max(1, CELL * 12 // max(values.shape))
    enlarged = np.repeat(np.repeat(tiles, factor, axis=0), factor, axis=1)
    stream = io.BytesIO()
    Image.fromarray(enlarged).save(stream, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(stream.getvalue()).decode("ascii")

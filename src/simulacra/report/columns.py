"""The columns of a table side by side, as small charts on the schema's cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

from simulacra.data.cell_names import cell_names, ends
from simulacra.data.frames import codes
from simulacra.report.charts import bars, histogram, percent
from simulacra.schema import Column, Datetime, Numeric, Schema

if TYPE_CHECKING:
    import pandas as pd

MOST_COLUMNS = 60
MOST_BARS = 10
MOST_NUMBERS = 60


@dataclass(frozen=True, kw_only=True)
class ColumnView:
    """One column: its chart, its distance to the real rows if known, and the numbers behind the chart."""

    name: str
    kind: str
    chart: Markup
    distance: str | None
    numbers: tuple[tuple[str, str, str | None], ...]


def column_views(synthetic: pd.DataFrame, real: pd.DataFrame | None, schema: Schema) -> list[ColumnView]:
    """The first columns of the schema, at most `MOST_COLUMNS`."""
    return [_view(column, synthetic, real) for column in schema.columns[:MOST_COLUMNS]]


def _view(column: Column, synthetic: pd.DataFrame, real: pd.DataFrame | None) -> ColumnView:
    names = cell_names(column)
    ours = _shares(column, synthetic)
    theirs = None if real is None or len(real) == 0 else _shares(column, real)
    distance = None if theirs is None else f"{0.5 * sum(abs(a - b) for a, b in zip(ours, theirs, strict=True)):.3f}"
    label = _label(column, names, ours, distance)
    if isinstance(column, (Numeric, Datetime)):
        lower, upper = ends(column)
        chart = histogram(ours, theirs, ends=(lower, f"{upper} | missing" if column.missing else upper), label=label)
    else:
        chart = bars(*_top(names, ours, theirs), label=label)
    order = range(len(names)) if column.ordered else sorted(range(len(names)), key=lambda k: -ours[k])
    numbers = tuple(
        (names[k], percent(ours[k]), None if theirs is None else percent(theirs[k])) for k in list(order)[:MOST_NUMBERS]
    )
    kind = f"{column.kind}, log scale" if isinstance(column, Numeric) and column.log else column.kind
    return ColumnView(name=column.name, kind=kind, chart=chart, distance=distance, numbers=numbers)


def _shares(column: Column, frame: pd.DataFrame) -> list[float]:
    counts = np.bincount(codes(frame[column.name], column), minlength=column.cells)
    return [float(share) for share in counts / max(1, counts.sum())]


def _top(
    names: list[str], ours: list[float], theirs: list[float] | None
) -> tuple[list[str], list[float], list[float] | None]:
    """The commonest synthetic values, and all others in one bar."""
    if len(names) <= MOST_BARS:
        return names, ours, theirs
    order = sorted(range(len(names)), key=lambda k: -ours[k])
    kept, rest = sorted(order[: MOST_BARS - 1]), order[MOST_BARS - 1 :]
    return (
        [*(names[k] for k in kept), f"{len(rest)} more"],
        [*(ours[k] for k in kept), sum(ours[k] for k in rest)],
        None if theirs is None else [*(theirs[k] for k in kept), sum(theirs[k] for k in rest)],
    )


def _label(column: Column, names: list[str], ours: list[float], distance: str | None) -> str:
    top = max(range(len(names)), key=lambda k: ours[k])
    text = f"Shares of {column.name} among the synthetic rows; commonest: {names[top]}, {percent(ours[top])}."
    return text if distance is None else f"{text} Distance to the real rows: {distance}."

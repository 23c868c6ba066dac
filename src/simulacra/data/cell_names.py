"""What the cells of a column are called in a chart."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from simulacra.data.encode import DAY, bounds
from simulacra.schema import Boolean, Categorical, Column, Datetime, Numeric


def cell_names(column: Column) -> list[str]:
    """A name for each cell, in the order of their numbers."""
    if isinstance(column, Categorical):
        names = [str(value) for value in column.values] + (["other"] if column.other else [])
    elif isinstance(column, Boolean):
        names = ["false", "true"]
    elif isinstance(column, (Numeric, Datetime)):
        names = _bin_names(column)
    else:
        raise TypeError(f"unknown kind of column: {column.kind}")
    return names + (["missing"] if column.missing else [])


def ends(column: Numeric | Datetime) -> tuple[str, str]:
    """The bounds of an ordered column as short texts."""
    lower, upper, _ = bounds(column)
    return _text(lower, column), _text(upper, column)


def _bin_names(column: Numeric | Datetime) -> list[str]:
    lower, upper, whole = bounds(column)
    fractions = np.linspace(0.0, 1.0, column.bin_count + 1)
    if isinstance(column, Numeric) and column.log:
        edges = lower + np.expm1(fractions * np.log1p(upper - lower))
    elif whole:
        # A bin holds the units whose middle lies in it: its first unit, up to the one before the next bin's first.
        firsts = lower + np.ceil(fractions * (upper - lower + 1.0) - 0.5)
        pairs = [(_text(low, column), _text(high - 1, column)) for low, high in pairwise(firsts)]
        return [low if low == high else f"{low} to {high}" for low, high in pairs]
    else:
        edges = lower + fractions * (upper - lower)
    return [f"{_text(low, column)} to {_text(high, column)}" for low, high in pairwise(edges)]


def _text(value: float, column: Numeric | Datetime) -> str:
    if isinstance(column, Numeric):
        return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    moment = np.datetime64(round(value * (DAY if column.date_only else 1.0)), "s")
    return str(np.datetime_as_string(moment, unit="D" if column.date_only else "m"))

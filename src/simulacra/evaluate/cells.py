"""The schema's view of a DataFrame: a position between the bounds, or the number of a cell; nothing is learned."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from simulacra.errors import DataError
from simulacra.schema import Boolean, Categorical, Column, Datetime, Numeric, Schema

if TYPE_CHECKING:
    import pandas as pd

MIDDLE = 0.5
"""The position of a value that may be missing and is, as in the encoding of records."""

DAY = 86400.0

_FALSE_AND_TRUE = {"false": 0, "0": 0, "0.0": 0, "true": 1, "1": 1, "1.0": 1}


def check_frame(frame: pd.DataFrame, schema: Schema, *, what: str) -> None:
    """Refuse a table without rows, or one that lacks a column of the schema."""
    if schema.image is not None:
        raise DataError(f"{what}: the schema describes images, not a table")
    for column in schema.columns:
        if column.name not in frame.columns:
            raise DataError(f'{what}: column "{column.name}" of the schema is not in the table')
    if len(frame) == 0:
        raise DataError(f"{what}: the table has no rows; at least one is needed")


def positions(series: pd.Series[Any], column: Column) -> NDArray[np.float64]:
    """Where each value lies between the bounds, from 0 to 1 on the column's own scale; NaN where it is missing.

    Whole numbers and days own equal intervals of the scale, and lie in the middle of theirs, unless the scale is log.
    """
    values = _days_or_seconds(series, column) if isinstance(column, Datetime) else _numbers(series)
    lower, upper, whole = _bounds(column)
    if whole:
        values = np.floor(values) if isinstance(column, Datetime) else np.floor(values + 0.5)
    offsets = np.clip(values, lower, upper) - lower
    if isinstance(column, Numeric) and column.log:
        scaled = np.log1p(offsets) / np.log1p(upper - lower)
    else:
        scaled = (offsets + 0.5) / (upper - lower + 1.0) if whole else offsets / (upper - lower)
    return np.asarray(np.clip(scaled, 0.0, 1.0), dtype=np.float64)


def codes(series: pd.Series[Any], column: Column) -> NDArray[np.int64]:
    """The cell of each value, from 0 to `column.cells - 1`: bins or values, then "other", then missing."""
    if isinstance(column, (Numeric, Datetime)):
        position = positions(series, column)
        missing = np.isnan(position)
        # Missing without leave is the lower bound, as in the encoding of records.
        filled = np.where(missing, 0.0, position)
        result = np.minimum((filled * column.bin_count).astype(np.int64), column.bin_count - 1)
        return np.where(missing, column.bin_count, result) if column.missing else result
    return _unordered_codes(series, column)


def all_codes(frame: pd.DataFrame, columns: Sequence[Column]) -> list[NDArray[np.int64]]:
    """The cells of several columns."""
    return [codes(frame[column.name], column) for column in columns]


def cell_names(column: Column) -> list[str]:
    """What each cell is called in a chart."""
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
    lower, upper, _ = _bounds(column)
    return _text(lower, column), _text(upper, column)


def _bounds(column: Column) -> tuple[float, float, bool]:
    """Lower and upper bound in the column's unit (days or seconds for moments), and whether values are whole units."""
    if isinstance(column, Numeric):
        return column.lower, column.upper, column.integer
    if isinstance(column, Datetime):
        unit = DAY if column.date_only else 1.0
        return column.lower_seconds / unit, column.upper_seconds / unit, column.date_only
    raise TypeError(f"{column.kind} columns have cells, not positions")


def _bin_names(column: Numeric | Datetime) -> list[str]:
    lower, upper, whole = _bounds(column)
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


def _unordered_codes(series: pd.Series[Any], column: Column) -> NDArray[np.int64]:
    import pandas as pd

    absent = series.isna().to_numpy(dtype=bool)
    listed: NDArray[np.int64]
    if isinstance(column, Boolean):
        texts = series.astype(object).map(lambda value: _FALSE_AND_TRUE.get(str(value).lower(), -1))
        listed = texts.to_numpy(dtype=np.int64)
        unlisted = 2 * column.missing
    elif isinstance(column, Categorical):
        values: Any = series
        if isinstance(column.values[0], int):
            # A column of whole numbers with gaps arrives as floats: 3.0 is the value 3.
            values = pd.Series(_numbers(series))
        else:
            values = series.astype(object).map(lambda value: value if isinstance(value, str) else str(value))
        listed = np.asarray(pd.Index(column.values).get_indexer(pd.Index(values)), dtype=np.int64)
        # Generated rows hold the stand-in for "other", which is not on the list and so lands there too.
        unlisted = len(column.values) if column.other else (column.cells - 1) * column.missing
    else:
        raise TypeError(f"unknown kind of column: {column.kind}")
    result = np.where(listed < 0, unlisted, listed)
    return np.where(absent, column.cells - 1 if column.missing else unlisted, result)


def _numbers(series: pd.Series[Any]) -> NDArray[np.float64]:
    import pandas as pd

    values = pd.to_numeric(series, errors="coerce")
    return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))


def _days_or_seconds(series: pd.Series[Any], column: Datetime) -> NDArray[np.float64]:
    import pandas as pd

    moments = pd.to_datetime(series, errors="coerce", utc=True)
    since = (moments - pd.Timestamp(0, tz="UTC")).dt.total_seconds()
    seconds = np.asarray(since.to_numpy(dtype=np.float64, na_value=np.nan))
    return np.asarray(seconds / (DAY if column.date_only else 1.0), dtype=np.float64)

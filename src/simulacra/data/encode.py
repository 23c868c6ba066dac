"""Tables to and from numbers in [-1, 1], by the schema alone: nothing is learned from the data.

What becomes of each value is the schema's stated policy, so that every row of every table is a valid record:

* numbers and moments outside the bounds (infinities too) are clamped to them;
* a value that is missing or cannot be read as the column's type is missing, if the column declares missing values,
  else the lower bound (numeric, datetime) or false (boolean);
* a category that is not on the list is "other", else missing, else the first value, whichever is declared first;
* a missing category is missing, else "other", else the first value.

Each row is encoded by itself: no other row can change it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from simulacra.data.parse import Floats, Parsed, parse
from simulacra.errors import DataError, SchemaError
from simulacra.privacy.records import Records
from simulacra.schema import Boolean, Categorical, Column, Datetime, Numeric, Schema

DAY = 86400.0
_INT64_LOWEST, _INT64_HIGHEST = -(2.0**63), 2.0**63 - 1024.0


def encode(batch: Any, schema: Schema) -> Records:
    """Encode an Arrow record batch or table; other columns than the schema's are ignored."""
    _check_table(schema)
    numbers: list[NDArray[np.float64]] = []
    labels = np.zeros(batch.num_rows, dtype=np.int64)
    for column in schema.columns:
        parsed = parse(_pick(batch, column.name), column)
        if column.name == schema.label:
            labels = _cell(parsed, column)
        elif column.ordered:
            numbers += _encode_ordered(parsed, column)
        else:
            numbers.append((2.0 * _cell(parsed, column) + 1.0) / column.cells - 1.0)
    inputs = np.clip(np.stack(numbers, axis=1), -1.0, 1.0).astype(np.float32)
    return Records(inputs=torch.from_numpy(inputs), labels=torch.from_numpy(labels))


def decode(inputs: torch.Tensor, labels: torch.Tensor | None, schema: Schema) -> Any:
    """The Arrow table of encoded records, in the schema's order and types, every value inside its bounds or list.

    Any numbers are valid: those outside [-1, 1] are clamped, NaN counts as 0. `labels` is needed if there is a label.
    """
    _check_table(schema)
    if schema.label is not None and labels is None:
        raise SchemaError(f'label "{schema.label}": decoding needs the class of each record; pass labels')
    positions = np.clip(np.nan_to_num(inputs.detach().to("cpu", torch.float64).numpy()), -1.0, 1.0)
    if positions.ndim != 2 or positions.shape[1] != schema.inputs:
        raise DataError(f"encoded records have shape {tuple(positions.shape)}, the schema needs (n, {schema.inputs})")
    arrays: list[Any] = []
    place = 0
    for column in schema.columns:
        if column.name == schema.label:
            assert labels is not None
            classes = labels.detach().cpu().numpy().astype(np.int64)
            arrays.append(_decode_cells(np.clip(classes, 0, column.cells - 1), column))
            continue
        position = positions[:, place]
        if column.ordered:
            missing = positions[:, place + 1] > 0.0 if column.missing else np.zeros(len(position), dtype=np.bool_)
            arrays.append(_decode_ordered(position, missing, column))
        else:
            cell = np.floor((position + 1.0) / 2.0 * column.cells).astype(np.int64)
            arrays.append(_decode_cells(np.clip(cell, 0, column.cells - 1), column))
        place += column.width
    return pa.table(arrays, schema=arrow_schema(schema))


def arrow_schema(schema: Schema) -> Any:
    """The Arrow types that `decode` gives."""
    return pa.schema([pa.field(column.name, arrow_type(column)) for column in schema.columns])


def arrow_type(column: Column) -> Any:
    """The Arrow type of one decoded column."""
    if isinstance(column, Numeric):
        return pa.int64() if column.integer else pa.float64()
    if isinstance(column, Datetime):
        return pa.date32() if column.date_only else pa.timestamp("us")
    if isinstance(column, Boolean):
        return pa.bool_()
    assert isinstance(column, Categorical)
    return pa.string() if isinstance(column.values[0], str) else pa.int64()


def _check_table(schema: Schema) -> None:
    if schema.image is not None:
        raise SchemaError("the schema describes images, not a table; use an image source")


def _pick(batch: Any, name: str) -> Any:
    places = batch.schema.get_all_field_indices(name)
    if len(places) != 1:
        problem = "is missing from the data" if not places else "is in the data twice"
        hint = "; rename one" if places else "; add it"  # names that only the file knows may be a record
        raise DataError(f'column "{name}" {problem}{hint}')
    return batch.column(places[0])


def _cell(parsed: Parsed, column: Column) -> NDArray[np.int64]:
    """The cell of each row of an unordered column: values, then "other", then missing."""
    last = column.cells - 1
    if isinstance(column, Categorical):
        other = len(column.values) if column.other else None
        for_unknown = other if other is not None else last if column.missing else 0
        for_missing = last if column.missing else other if other is not None else 0
    else:
        for_unknown = for_missing = last if column.missing else 0
    cells = np.where(np.isnan(parsed.values), for_unknown, np.nan_to_num(parsed.values))
    result: NDArray[np.int64] = np.where(parsed.missing, for_missing, cells).astype(np.int64)
    return result


def _decode_cells(cells: NDArray[np.int64], column: Column) -> Any:
    assert isinstance(column, (Categorical, Boolean))
    choices = pa.array(column.choices, arrow_type(column))
    # An index of null takes null: the missing cell is the one after the last choice.
    return choices.take(pa.array(cells, mask=cells >= len(column.choices)))


def _encode_ordered(parsed: Parsed, column: Column) -> list[Floats]:
    absent = np.isnan(parsed.values)
    scaled = 2.0 * _scale(np.where(absent, _lower(column), parsed.values), column) - 1.0
    if not column.missing:
        return [scaled]
    return [np.where(absent, 0.0, scaled), np.where(absent, 1.0, -1.0)]


def _lower(column: Column) -> float:
    assert isinstance(column, (Numeric, Datetime))
    return column.lower if isinstance(column, Numeric) else column.lower_seconds


def bounds(column: Column) -> tuple[float, float, bool]:
    """Lower and upper bound in the column's unit (days for dates), and whether values are whole units."""
    if isinstance(column, Numeric):
        return column.lower, column.upper, column.integer
    assert isinstance(column, Datetime)
    unit = DAY if column.date_only else 1.0
    return column.lower_seconds / unit, column.upper_seconds / unit, column.date_only


def _scale(values: Floats, column: Column) -> Floats:
    """From values inside or outside the bounds to [0, 1]; each whole number owns an equal interval, unless log."""
    lower, upper, whole = bounds(column)
    if isinstance(column, Datetime) and column.date_only:
        values = np.floor(values / DAY)
    elif whole:
        values = np.floor(values + 0.5)
    values = np.clip(values, lower, upper)
    if isinstance(column, Numeric) and column.log:
        scaled: Floats = np.log1p(values - lower) / math.log1p(upper - lower)
    elif whole:
        scaled = (values - lower + 0.5) / (upper - lower + 1.0)
    else:
        scaled = (values - lower) / (upper - lower)
    return scaled


def _unscale(scaled: Floats, column: Column) -> Floats:
    """The inverse of `_scale`, always inside the bounds."""
    lower, upper, whole = bounds(column)
    if isinstance(column, Numeric) and column.log:
        values = lower + np.expm1(scaled * math.log1p(upper - lower))
        values = np.floor(values + 0.5) if whole else values
    elif whole:
        values = lower + np.floor(scaled * (upper - lower + 1.0))
    else:
        values = lower + scaled * (upper - lower)
    clipped: Floats = np.clip(values, lower, upper)
    return clipped


def _into_its_bin(values: Floats, scaled: Floats, column: Column) -> Floats:
    """Whole numbers that rounding took out of the bin they were generated in, moved to their neighbour inside it.

    Bins seldom end between whole numbers: without this, one in ten ages would be counted in the next bin, and a spike
    at zero would spill onto one. A bin without any whole number keeps what rounding gave.
    """
    assert isinstance(column, (Numeric, Datetime))
    lower, upper, _ = bounds(column)
    unit = DAY if isinstance(column, Datetime) else 1.0

    def bin_of(share: Floats) -> Floats:
        # Through single precision, as records are encoded: it decides for a number whose place is on an edge.
        place = (2.0 * share - 1.0).astype(np.float32).astype(np.float64)
        return np.minimum(np.floor((place + 1.0) * 0.5 * column.bin_count), column.bin_count - 1)

    wanted, own = bin_of(scaled), bin_of(_scale(values * unit, column))
    neighbours = np.clip(values + np.sign(wanted - own), lower, upper)
    return np.where(bin_of(_scale(neighbours * unit, column)) == wanted, neighbours, values)


def _decode_ordered(position: Floats, missing: NDArray[np.bool_], column: Column) -> Any:
    scaled = (position + 1.0) / 2.0
    values = _unscale(scaled, column)
    if bounds(column)[2]:
        values = _into_its_bin(values, scaled, column)
    kind = arrow_type(column)
    if isinstance(column, Datetime):
        if column.date_only:
            return pa.array(values.astype(np.int32), pa.int32(), mask=missing).cast(kind)
        lower, upper = (round(bound * 1e6) for bound in bounds(column)[:2])
        micros = np.clip(np.round(values * 1e6).astype(np.int64), lower, upper)
        return pa.array(micros, pa.int64(), mask=missing).cast(kind)
    if kind == pa.int64():
        values = np.clip(values, _INT64_LOWEST, _INT64_HIGHEST).astype(np.int64)
    return pa.array(values, kind, mask=missing)

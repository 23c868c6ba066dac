"""Arbitrary schemas, and arbitrary (mostly wrong) tables for them."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from simulacra.schema import Boolean, Categorical, Column, Datetime, Numeric, Schema

DAY_ZERO = dt.date(1950, 1, 1)


@st.composite
def numeric_columns(draw: st.DrawFn, name: str) -> Numeric:
    integer = draw(st.booleans())
    if integer:
        lower = draw(st.integers(-(10**6), 10**6))
        span = draw(st.integers(1, 2**20 - 1))
    else:
        lower = draw(st.floats(-1e9, 1e9))
        span = draw(st.floats(1e-3, 1e9))
    upper = lower + span
    if not lower < upper:
        upper = lower + 1.0 + abs(lower)
    return Numeric(
        name=name,
        lower=lower,
        upper=upper,
        integer=integer,
        log=draw(st.booleans()),
        bins=draw(st.sampled_from([2, 3, 24, 100, 4096])),
        missing=draw(st.booleans()),
    )


@st.composite
def datetime_columns(draw: st.DrawFn, name: str) -> Datetime:
    lower = DAY_ZERO + dt.timedelta(days=draw(st.integers(0, 30000)))
    upper = lower + dt.timedelta(days=draw(st.integers(1, 20000)))
    missing = draw(st.booleans())
    if draw(st.booleans()):
        return Datetime(name=name, lower=lower, upper=upper, missing=missing)
    moments = [dt.datetime(day.year, day.month, day.day, 6, 30) for day in (lower, upper)]
    return Datetime(name=name, lower=moments[0], upper=moments[1], missing=missing, bins=draw(st.integers(2, 50)))


@st.composite
def categorical_columns(draw: st.DrawFn, name: str) -> Categorical:
    values: Any = draw(
        st.one_of(
            st.lists(st.text("abcxyz", min_size=1, max_size=4), min_size=1, max_size=30, unique=True),
            st.lists(st.integers(-50, 50), min_size=1, max_size=30, unique=True),
        )
    )
    return Categorical(name=name, values=tuple(values), other=draw(st.booleans()), missing=draw(st.booleans()))


def columns(name: str) -> st.SearchStrategy[Column]:
    return st.one_of(
        numeric_columns(name),
        datetime_columns(name),
        categorical_columns(name),
        st.builds(Boolean, name=st.just(name), missing=st.booleans()),
    )


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    features = [draw(columns(f"c{i}")) for i in range(draw(st.integers(1, 5)))]
    if not draw(st.booleans()):
        return Schema(columns=tuple(features))
    label = draw(st.sampled_from([Boolean(name="y"), Categorical(name="y", values=("no", "yes"), other=True)]))
    return Schema(columns=(*features, label), label="y")


hostile_texts = st.one_of(
    st.sampled_from(
        ["", " ", "NA", "nan", "1e999", "-inf", "2020-02-30", "2020-02-29T25:00", "1_000", "0x1", "٣", "3.0"]
    ),
    st.text(max_size=6),
)

hostile_arrays: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (pa.string(), hostile_texts),
    (pa.float64(), st.floats(allow_nan=True, allow_infinity=True)),
    (pa.float32(), st.floats(width=32)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.uint64(), st.integers(0, 2**64 - 1)),
    (pa.bool_(), st.booleans()),
    (pa.timestamp("us"), st.integers(-(2**62), 2**62)),
    (pa.timestamp("ns"), st.integers(-(2**62), 2**62)),
    (pa.date32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.binary(), st.binary(max_size=4)),
    (pa.list_(pa.int64()), st.lists(st.integers(0, 3), max_size=2)),
    (pa.dictionary(pa.int32(), pa.string()), hostile_texts),
    (pa.null(), st.none()),
]


@st.composite
def hostile_tables(draw: st.DrawFn, schema: Schema, max_rows: int = 6) -> Any:
    """A table with the right column names and anything else in it."""
    rows = draw(st.integers(0, max_rows))
    arrays = []
    for _ in schema.columns:
        kind, elements = draw(st.sampled_from(hostile_arrays))
        items = draw(st.lists(st.one_of(st.none(), elements), min_size=rows, max_size=rows))
        arrays.append(_array(items, kind))
    return pa.table(arrays, names=[column.name for column in schema.columns])


def _array(items: list[Any], kind: Any) -> Any:
    if pa.types.is_timestamp(kind):
        return pa.array(items, pa.int64()).cast(kind)
    if pa.types.is_date32(kind):
        return pa.array(items, pa.int32()).cast(kind)
    if pa.types.is_dictionary(kind):
        return pa.array(items, pa.string()).dictionary_encode()
    return pa.array(items, kind)

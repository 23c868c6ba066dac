from __future__ import annotations

import datetime as dt
import math

import numpy as np
import pyarrow as pa
import pytest
import torch
from data_strategies import hostile_tables, schemas
from hypothesis import given, settings
from hypothesis import strategies as st

from simulacra.data.encode import arrow_schema, decode, encode
from simulacra.errors import DataError, SchemaError
from simulacra.schema import Boolean, Categorical, Datetime, ImageShape, Numeric, Schema


def one(column: object, values: object) -> list[object]:
    """The round trip of one column."""
    schema = Schema(columns=(column,))  # type: ignore[arg-type]
    array = values if isinstance(values, (pa.Array, pa.ChunkedArray)) else pa.array(values)
    records = encode(pa.table({column.name: array}), schema)  # type: ignore[attr-defined]
    return decode(records.inputs, records.labels, schema).column(0).to_pylist()  # type: ignore[no-any-return]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_table_with_the_right_columns_gives_valid_records(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    table = data.draw(hostile_tables(schema))
    records = encode(table, schema)
    assert records.inputs.dtype == torch.float32
    assert records.inputs.shape == (table.num_rows, schema.inputs)
    assert bool((records.inputs.abs() <= 1).all())
    assert records.labels.dtype == torch.int64
    assert bool(((records.labels >= 0) & (records.labels < schema.classes)).all())


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_no_row_changes_how_another_is_encoded(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    table = data.draw(hostile_tables(schema))
    together = encode(table, schema)
    for row in range(table.num_rows):
        alone = encode(table.slice(row, 1), schema)
        assert torch.equal(alone.inputs[0], together.inputs[row])
        assert torch.equal(alone.labels[0], together.labels[row])


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_decoded_rows_are_a_fixed_point_of_the_round_trip(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    inputs = torch.tensor(
        data.draw(st.lists(st.lists(st.floats(-1.5, 1.5), min_size=schema.inputs, max_size=schema.inputs), max_size=4)),
        dtype=torch.float32,
    ).reshape(-1, schema.inputs)
    labels = torch.arange(len(inputs)) % schema.classes
    table = decode(inputs, labels, schema)
    assert table.schema.equals(arrow_schema(schema))
    again = decode(encode(table, schema).inputs, encode(table, schema).labels, schema)
    for column in schema.columns:
        first, second = table[column.name], again[column.name]
        if isinstance(column, Numeric):
            present = [value for value in first.to_pylist() if value is not None]
            assert all(column.lower <= value <= column.upper for value in present)
        if isinstance(column, Numeric) and not column.integer:
            slack = (column.upper - column.lower) * 2.0**-19 * (math.log1p(column.upper - column.lower) + 1)
            left, right = (array.to_numpy(zero_copy_only=False).astype(float) for array in (first, second))
            np.testing.assert_allclose(left, right, rtol=1e-12, atol=slack)
        elif isinstance(column, Datetime) and not column.date_only:
            left, right = (
                array.cast(pa.int64()).to_numpy(zero_copy_only=False).astype(float) for array in (first, second)
            )
            np.testing.assert_allclose(left, right, atol=(column.upper_seconds - column.lower_seconds) * 0.2)
        else:
            assert first.equals(second)


@pytest.mark.parametrize("log", [False, True])
def test_whole_numbers_survive_exactly_up_to_a_range_of_a_million(log: bool) -> None:
    column = Numeric(name="n", lower=-7, upper=2**20 - 9, integer=True, log=log)
    values = [*range(-7, 3000), *range(500_000, 503_000), *range(2**20 - 3000, 2**20 - 8)]
    assert one(column, values) == values


def test_numbers_outside_the_bounds_are_clamped_and_infinities_too() -> None:
    column = Numeric(name="n", lower=0, upper=10, missing=True)
    assert one(column, [-5.0, 50.0, math.inf, -math.inf, math.nan, None]) == [0, 10, 10, 0, None, None]


def test_an_undeclared_missing_number_becomes_the_lower_bound() -> None:
    assert one(Numeric(name="n", lower=3, upper=9, integer=True), ["", "NA", "five", None, "4"]) == [3, 3, 3, 3, 4]


def test_each_whole_number_owns_an_equal_share_of_the_scale() -> None:
    schema = Schema(columns=(Numeric(name="n", lower=1, upper=4, integer=True),))
    even = torch.linspace(-1, 1, 4001)[:, None]
    counts = np.bincount(decode(even, None, schema)["n"].to_numpy())[1:]
    assert counts.max() - counts.min() <= 1


def test_a_log_scale_places_values_by_log1p() -> None:
    schema = Schema(columns=(Numeric(name="n", lower=0, upper=99, log=True),))
    inputs = encode(pa.table({"n": [0.0, 9.0, 99.0]}), schema).inputs[:, 0]
    assert inputs.tolist() == pytest.approx([-1.0, 0.0, 1.0])


def test_texts_are_read_as_numbers_where_the_schema_says_so() -> None:
    column = Numeric(name="n", lower=-100, upper=100, missing=True)
    assert one(column, [" 2 ", "+3", "-4.0", "1e1", ".5", "1e999", "1,5", "None"]) == pytest.approx(
        [2, 3, -4, 10, 0.5, 100, None, None], abs=1e-5
    )


def test_categories_match_without_white_space_and_whole_floats_match_integers() -> None:
    column = Categorical(name="c", values=(1, 2, 3), missing=True)
    assert one(column, [1.0, 3.0, 2.5, None]) == [1, 3, None, None]
    assert one(column, [" 2", "3.0", "x", ""]) == [2, 3, None, None]
    assert one(column, [True, None]) == [1, None]


@pytest.mark.parametrize(
    ("other", "missing", "expected"),
    [
        (False, False, ["a", "a", "a", "b"]),
        (True, False, ["other", "other", "other", "b"]),
        (False, True, [None, None, None, "b"]),
        (True, True, ["other", None, None, "b"]),
    ],
)
def test_unknown_and_missing_categories_follow_the_stated_policy(
    other: bool, missing: bool, expected: list[str | None]
) -> None:
    column = Categorical(name="c", values=("a", "b"), other=other, missing=missing)
    assert one(column, ["unseen", None, "", "b"]) == expected


def test_a_category_may_be_called_na() -> None:
    column = Categorical(name="c", values=("NA", "b", ""), missing=True)
    assert one(column, ["NA", "", None, "null"]) == ["NA", "", None, None]


def test_an_integer_other_decodes_to_the_number_after_the_largest() -> None:
    assert one(Categorical(name="c", values=(4, 2), other=True), [2, 7]) == [2, 5]


def test_booleans_come_in_many_spellings() -> None:
    column = Boolean(name="b", missing=True)
    spelled = ["true", "False", "YES", "no", "t", "F", "1", "0", "maybe", None]
    assert one(column, spelled) == [True, False, True, False, True, False, True, False, None, None]
    assert one(column, [1.0, 0.0, 2.0]) == [True, False, None]
    assert one(Boolean(name="b"), ["maybe", None, "true"]) == [False, False, True]


def test_dates_survive_exactly_whatever_their_arrow_type() -> None:
    column = Datetime(name="d", lower=dt.date(1900, 1, 1), upper=dt.date(2100, 12, 31), missing=True)
    days: list[object] = [dt.date(1900, 1, 1), dt.date(1969, 12, 31), dt.date(2000, 2, 29), dt.date(2100, 12, 31), None]
    texts = [None if day is None else str(day) for day in days]
    assert one(column, days) == days
    assert one(column, texts) == days
    assert one(column, pa.array(days, pa.date32()).cast(pa.timestamp("ms"))) == days
    assert one(column, ["2000-02-30", "1850-01-01", "2000-02-29T23:59:59"]) == [
        None,
        dt.date(1900, 1, 1),
        dt.date(2000, 2, 29),
    ]


def test_moments_survive_to_float_precision_and_know_time_zones() -> None:
    column = Datetime(name="d", lower=dt.datetime(2020, 1, 1), upper=dt.datetime(2020, 1, 2))
    result = one(
        column, ["2020-01-01T12:00:00", "2020-01-01 14:00+02:00", "2020-01-01T04:00:00-0800", "2020-01-01T12:00Z"]
    )
    assert all(abs(value - dt.datetime(2020, 1, 1, 12)) < dt.timedelta(seconds=0.01) for value in result)  # type: ignore[operator]


@settings(max_examples=100, deadline=None)
@given(st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31)), st.sampled_from(["T", " "]))
def test_iso_texts_are_read_as_python_reads_them(moment: dt.datetime, separator: str) -> None:
    from simulacra.data.parse import parse_moments

    seconds = parse_moments(pa.array([moment.isoformat(sep=separator)], pa.large_string())).values[0]
    assert seconds == pytest.approx((moment - dt.datetime(1970, 1, 1)).total_seconds(), abs=1e-4)


def test_dictionary_columns_and_chunks_work() -> None:
    column = Categorical(name="c", values=("a", "b"))
    assert one(column, pa.array(["b", "a"]).dictionary_encode()) == ["b", "a"]
    assert one(column, pa.chunked_array([["b"], ["a"], []], pa.string())) == ["b", "a"]
    assert one(column, pa.chunked_array([], pa.string())) == []


def test_the_label_is_a_class_number_and_comes_back_in_its_place() -> None:
    schema = Schema(
        columns=(Categorical(name="y", values=("no", "yes"), missing=True), Numeric(name="n", lower=0, upper=1)),
        label="y",
    )
    table = pa.table({"n": [0.0, 1.0, 0.5], "y": ["yes", None, "no"]})
    records = encode(table, schema)
    assert records.labels.tolist() == [1, 2, 0]
    assert records.inputs.shape == (3, 1)
    assert decode(records.inputs, records.labels, schema).to_pydict() == {
        "y": ["yes", None, "no"],
        "n": [0.0, 1.0, 0.5],
    }


def test_decoding_accepts_any_numbers() -> None:
    schema = Schema(columns=(Numeric(name="n", lower=0, upper=10), Categorical(name="c", values=("a", "b"))))
    wild = torch.tensor([[math.nan, math.inf], [9.0, -9.0]])
    assert decode(wild, None, schema).to_pydict() == {"n": [5.0, 10.0], "c": ["b", "a"]}


def test_wrong_calls_are_refused() -> None:
    schema = Schema(columns=(Numeric(name="n", lower=0, upper=10), Boolean(name="y")), label="y")
    with pytest.raises(SchemaError, match="pass labels"):
        decode(torch.zeros(1, 1), None, schema)
    with pytest.raises(DataError, match=r"\(1, 2\)"):
        decode(torch.zeros(1, 2), torch.zeros(1), schema)
    with pytest.raises(DataError, match='"n" is missing from the data; add it'):
        encode(pa.table({"nn": [1], "y": [True]}), schema)
    with pytest.raises(SchemaError, match="images"):
        encode(pa.table({"n": [1]}), Schema(image=ImageShape(height=2, width=2)))

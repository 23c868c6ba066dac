"""Schemas: each way to get one wrong ends with one line that says what, where and the fix."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulacra.errors import BudgetError, OutputError, SchemaError
from simulacra.schema import Boolean, Categorical, Column, Datetime, ImageShape, Numeric, Schema
from simulacra.schema.toml import from_mapping, to_mapping

AGE = {"type": "numeric", "lower": 17, "upper": 90}
SEX = {"type": "categorical", "values": ["f", "m"]}


def table(label: str | None = None, **columns: Any) -> Schema:
    values: dict[str, Any] = {"columns": columns}
    if label is not None:
        values["label"] = label
    return from_mapping(values)


# -- columns ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ({**AGE, "lower": 90, "upper": 17}, r'column "c": lower \(90\) must be below upper \(17\); swap'),
        ({**AGE, "lower": 17, "upper": 17}, "must be below"),
        ({**AGE, "upper": float("inf")}, "bounds must be finite"),
        ({**AGE, "lower": float("-inf")}, "bounds must be finite"),
        ({**AGE, "lower": float("nan")}, "bounds must be finite"),
        ({**AGE, "lower": -1.7e308, "upper": 1.7e308}, "too far apart"),
        ({**AGE, "lower": 0.5, "integer": True}, "whole-number bounds"),
        ({**AGE, "bins": 1}, "bins must be from 2 to 4096, got 1"),
        ({**AGE, "bins": 2.5}, "expected a whole number"),
        ({**AGE, "lower": "17"}, "lower: expected a number, got '17'"),
        ({**AGE, "lower": True}, "expected a number"),
        ({**AGE, "integer": 1}, "expected true or false"),
        ({**AGE, "missing": "yes"}, "expected true or false"),
        ({"type": "numeric", "lower": 0}, "upper is missing; add it"),
        ({**AGE, "lowr": 3}, 'unknown key "lowr"; did you mean "lower"'),
        ({**AGE, "values": ["a"]}, 'unknown key "values"'),
        ({"type": "numerical", "lower": 0, "upper": 1}, 'unknown type "numerical"; did you mean "numeric"'),
        ({"lower": 0, "upper": 1}, "add type = one of"),
        ({**AGE, "lower": "FILL IN"}, 'lower still says "FILL IN"; write what is public'),
        ({"type": "categorical", "values": ["FILL IN"]}, 'values still says "FILL IN"'),
        ({"type": "categorical", "values": "FILL IN"}, 'values still says "FILL IN"'),
        ({"type": "categorical", "values": []}, "at least one value"),
        ({"type": "categorical", "values": ["a", "b", "a"]}, 'the value "a" is listed twice; keep one'),
        ({"type": "categorical", "values": [1, 2, 1]}, 'the value "1" is listed twice'),
        ({"type": "categorical", "values": ["a", 1]}, "all texts or all whole numbers"),
        ({"type": "categorical", "values": [0.5, 1.5]}, "all texts or all whole numbers"),
        ({"type": "categorical", "values": [True, False]}, "all texts or all whole numbers"),
        ({"type": "categorical", "values": "a"}, "expected a list"),
        ({"type": "categorical", "values": ["a", "other"], "other": True}, "both listed and meant"),
        ({"type": "datetime", "lower": "2020-02-30", "upper": "2021-01-01"}, "is not a date"),
        ({"type": "datetime", "lower": "2021-01-01", "upper": "2020-01-01"}, "must be before"),
        ({"type": "datetime", "lower": dt.date(2020, 1, 1), "upper": dt.datetime(2021, 1, 1)}, "both moments"),
        ({"type": "datetime", "lower": 2020, "upper": 2021}, "bounds must be dates"),
        (3, r"expected a table such as \[columns.c\]"),
    ],
)
def test_a_wrong_column_is_one_clear_error(column: Any, message: str) -> None:
    with pytest.raises(SchemaError, match=message) as caught:
        table(c=column)
    assert 'column "c"' in str(caught.value)
    assert "\n" not in str(caught.value)


# -- the whole schema ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "either columns or an image"),
        ({"columns": {"a": AGE}, "image": {"height": 2, "width": 2}}, "either columns or an image"),
        ({"colums": {"a": AGE}}, 'unknown key "colums"; did you mean "columns"'),
        ({"columns": 3}, r"tables such as \[columns.age\]"),
        ({"columns": {"age": AGE, "sex": SEX}, "label": "sx"}, 'no column "sx" in the schema; did you mean "sex"'),
        ({"columns": {"age": AGE, "sex": SEX}, "label": "age"}, "a label must be categorical or boolean"),
        (
            {"columns": {"age": AGE, "sex": {**SEX, "values": ["f"]}}, "label": "sex"},
            "has one class; list at least two",
        ),
        ({"columns": {"sex": SEX}, "label": "sex"}, "at least one column besides the label"),
        ({"columns": {"age": AGE, "sex": SEX}, "label": 3}, "label must be the name of a column"),
        ({"columns": {"age": AGE}, "rows": 0}, "rows must be at least 1"),
        ({"columns": {"age": AGE}, "rows": 1.5}, "whole number"),
        ({"columns": {"age": AGE}, "rows": "many"}, "expected a number"),
        ({"image": {"height": 0, "width": 2}}, "from 1 to 4096"),
        ({"image": {"height": 2, "width": 5000}}, "from 1 to 4096"),
        ({"image": {"height": 2, "width": 2, "channels": 4}}, "1 .grey. or 3 .colour."),
        ({"image": {"height": 2, "width": 2, "classes": ["a"]}}, "one class alone is no label"),
        ({"image": {"height": 2, "width": 2, "classes": ["a", "a"]}}, "listed twice"),
        ({"image": {"height": 2, "width": 2, "classes": [0, 1]}}, "classes must be texts"),
        ({"image": {"height": 2}}, "width is missing"),
        ({"image": {"height": 2, "width": 2, "chanels": 1}}, 'did you mean "channels"'),
        ({"image": {"height": 2, "width": 2}, "label": "x"}, "image.classes; remove label"),
        ({"image": 3}, "expected a table"),
    ],
)
def test_a_wrong_schema_is_one_clear_error(values: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaError, match=message) as caught:
        from_mapping(values)
    assert "\n" not in str(caught.value)


def test_a_column_is_described_once() -> None:
    column = Boolean(name="x")
    with pytest.raises(SchemaError, match='"x" is described twice'):
        Schema(columns=(column, column))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"label = ", "not valid TOML"),
        (b"\xff\xfe", "not UTF-8"),
        (b"", "either columns or an image"),
        (b'[columns.a]\ntype = "numeric"\nlower = 3\nupper = 1\n', "must be below"),
        (b'[columns.a]\ntype = "numeric"\nlower = 0\nupper = inf\n', "finite"),
    ],
)
def test_a_wrong_file_is_one_clear_error_that_names_it(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "people.toml"
    path.write_bytes(content)
    with pytest.raises(SchemaError, match=message) as caught:
        Schema.load(path)
    assert "people.toml" in str(caught.value)


def test_a_missing_or_unreadable_file_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="simulacra schema draft"):
        Schema.load(tmp_path / "none.toml")
    with pytest.raises(SchemaError, match="cannot read"):
        Schema.load(tmp_path)
    with pytest.raises(OutputError, match="cannot write"):
        table(age=AGE).save(tmp_path / "no" / "schema.toml")


def test_delta_stays_below_one_over_the_declared_rows() -> None:
    schema = Schema(columns=(Boolean(name="x"),), rows=1000)
    schema.check_delta(9e-4)
    for delta in (1e-3, 0.5):
        with pytest.raises(BudgetError, match=r"must be below 1 / rows = 0\.001; try 0\.0001"):
            schema.check_delta(delta)
    Schema(columns=(Boolean(name="x"),)).check_delta(0.5)


def test_what_a_schema_knows_about_its_records() -> None:
    schema = table(
        label="sex", age={**AGE, "missing": True}, sex={**SEX, "other": True, "missing": True}, ok={"type": "boolean"}
    )
    assert (schema.inputs, schema.classes) == (3, 4)
    assert schema.class_names == ("f", "m", "other", "missing")
    assert [column.name for column in schema.features] == ["age", "ok"]
    assert schema.labelled
    assert not table(age=AGE).labelled
    assert table(age=AGE).classes == 1
    image = Schema(image=ImageShape(height=2, width=3, channels=3, classes=("a", "b")))
    assert (image.inputs, image.classes, image.class_names) == (18, 2, ("a", "b"))


# -- TOML round trip ----------------------------------------------------------------------------------------------

names = st.text(min_size=1, max_size=8)
bounds = st.tuples(st.floats(-1e12, 1e12), st.floats(-1e12, 1e12)).map(sorted).filter(lambda pair: pair[0] < pair[1])
whole = st.tuples(st.integers(-(10**9), 10**9), st.integers(1, 10**9)).map(lambda pair: (pair[0], pair[0] + pair[1]))
bins = st.integers(2, 4096)
flags = st.booleans()
numeric = st.builds(
    lambda pair, missing, log, bins: {"lower": pair[0], "upper": pair[1], "missing": missing, "log": log, "bins": bins},
    bounds, flags, flags, bins,
).map(lambda values: lambda name: Numeric(name=name, **values))  # fmt: skip
integer = st.builds(
    lambda pair, missing: lambda name: Numeric(
        name=name, lower=pair[0], upper=pair[1], missing=missing, integer=True
    ),
    whole, flags,
)  # fmt: skip
categorical = st.builds(
    lambda values, missing: lambda name: Categorical(name=name, values=tuple(values), missing=missing),
    st.one_of(
        st.lists(st.text(max_size=8).filter(lambda text: text != "FILL IN"), min_size=2, max_size=5, unique=True),
        st.lists(st.integers(-(2**63), 2**63 - 1), min_size=2, max_size=5, unique=True),
    ),
    flags,
)
boolean = flags.map(lambda missing: lambda name: Boolean(name=name, missing=missing))
days = st.tuples(st.dates(dt.date(1, 1, 2)), st.dates(dt.date(1, 1, 2))).map(sorted).filter(lambda p: p[0] < p[1])
moments = (
    st.tuples(*[st.datetimes(dt.datetime(1000, 1, 1), timezones=st.sampled_from([None]))] * 2)
    .map(sorted)
    .filter(lambda pair: (pair[1] - pair[0]).total_seconds() >= 1)
)
datetime = st.builds(
    lambda pair, missing: lambda name: Datetime(name=name, lower=pair[0], upper=pair[1], missing=missing),
    st.one_of(days, moments),
    flags,
)
makers = st.one_of(numeric, integer, categorical, boolean, datetime)


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    rows, unit = draw(st.one_of(st.none(), st.integers(1, 10**9))), draw(names)
    if draw(st.integers(0, 4)) == 0:
        classes = draw(st.lists(names, max_size=4, unique=True).filter(lambda found: len(found) != 1))
        shape = ImageShape(height=draw(st.integers(1, 4096)), width=3, channels=draw(st.sampled_from([1, 3])),
                           classes=tuple(classes))  # fmt: skip
        return Schema(image=shape, rows=rows, unit=unit)
    columns: list[Column] = [draw(makers)(name) for name in draw(st.lists(names, min_size=2, max_size=5, unique=True))]
    candidates = [column.name for column in columns if not column.ordered and column.cells >= 2]
    label = draw(st.sampled_from([None, *candidates]))
    spent = ({"noise_multiplier": 2.0, "count": 3},) if draw(flags) else ()
    return Schema(columns=tuple(columns), label=label, rows=rows, unit=unit, spent=spent)


@settings(max_examples=80, deadline=None)
@given(schema=schemas())
def test_a_schema_survives_toml(schema: Schema, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "schema.toml"
    schema.save(path)
    again = Schema.load(path)
    assert again == schema
    assert from_mapping(to_mapping(schema)) == schema


def test_moments_with_a_time_zone_survive_toml(tmp_path: Path) -> None:
    zone = dt.timezone(dt.timedelta(hours=5, minutes=30))
    column = Datetime(name="t", lower=dt.datetime(2020, 1, 1, tzinfo=zone), upper=dt.datetime(2021, 1, 1, tzinfo=zone))
    Schema(columns=(column,)).save(tmp_path / "schema.toml")
    assert Schema.load(tmp_path / "schema.toml").columns == (column,)


def test_every_change_makes_another_schema() -> None:
    base = table(age=AGE, sex=SEX)
    changed = [
        table(age={**AGE, "upper": 91}, sex=SEX),
        table(age={**AGE, "missing": True}, sex=SEX),
        table(age=AGE, sex={**SEX, "values": ["m", "f"]}),
        table(label="sex", age=AGE, sex=SEX),
        from_mapping({"columns": {"age": AGE, "sex": SEX}, "rows": 5}),
        from_mapping({"columns": {"age": AGE, "sex": SEX}, "unit": "person"}),
    ]
    assert len({repr(to_mapping(schema)) for schema in (base, *changed)}) == 7


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[columns.a]\ntype = ["numeric"]', "unknown type"),
        ('spent = 5\n[columns.a]\ntype = "boolean"', "spent must be tables"),
        ('spent = [5]\n[columns.a]\ntype = "boolean"', "spent must be tables"),
        (f'[columns.a]\ntype = "numeric"\nlower = 0\nupper = 1{"0" * 400}', "upper: the number is too large"),
        (f'rows = 1{"0" * 400}\n[columns.a]\ntype = "boolean"', "rows: the number is too large"),
        (f'rows = 1{"0" * 5000}\n[columns.a]\ntype = "boolean"', "too large to read"),
        ('[columns.a]\ntype = "categorical"\nvalues = [9223372036854775808]', "does not fit 64 bits"),
        ('[columns.a]\ntype = "categorical"\nvalues = [9223372036854775807]\nother = true', "does not fit 64 bits"),
        ('[columns.a]\ntype = "numeric"\nlower = 0\nupper = 1e16\ninteger = true', "within 2\\*\\*53 of 0"),
        (
            'label = "a"\n[columns.b]\ntype = "boolean"\n'
            '[columns.a]\ntype = "categorical"\nvalues = ["x", "missing"]\nmissing = true',
            '"missing" is both listed',
        ),
    ],
)
def test_odd_values_are_refused_in_one_line(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "schema.toml"
    path.write_text(text)
    with pytest.raises(SchemaError, match=message) as caught:
        Schema.load(path)
    assert "\n" not in str(caught.value)


def test_bounds_too_large_for_a_float_are_refused() -> None:
    with pytest.raises(SchemaError, match="too large for a float"):
        Numeric(name="a", lower=0, upper=10**400)
    assert Numeric(name="a", lower=-(2**53), upper=2**53, integer=True).upper == 2**53
    assert Categorical(name="a", values=(-(2**63), 2**63 - 1)).cells == 2

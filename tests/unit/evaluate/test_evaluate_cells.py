from __future__ import annotations

import datetime as dt

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from simulacra.data.cell_names import cell_names, ends
from simulacra.data.cells import Cells
from simulacra.data.encode import encode
from simulacra.data.frames import check_frame, codes, encode_frame, positions
from simulacra.errors import DataError
from simulacra.evaluate.design_matrix import class_index, column_names, design_matrix
from simulacra.schema import Boolean, Categorical, Datetime, Numeric, Schema


def test_numbers_are_placed_between_the_bounds_and_clamped():
    column = Numeric(name="x", lower=-10, upper=10)
    assert positions(pd.Series([-10.0, 0.0, 10.0, 99.0, -99.0]), column).tolist() == [0.0, 0.5, 1.0, 1.0, 0.0]


def test_a_log_scale_is_log1p_above_the_lower_bound():
    column = Numeric(name="x", lower=5, upper=5 + np.expm1(4.0), log=True)
    assert positions(pd.Series([5.0, 5 + np.expm1(2.0)]), column) == pytest.approx([0.0, 0.5])


def test_every_whole_number_has_its_own_cell_when_there_are_few():
    column = Numeric(name="x", lower=3, upper=9, integer=True)
    assert codes(pd.Series(range(3, 10)), column).tolist() == list(range(7))


@pytest.mark.parametrize("kind", ["datetime64[s]", "datetime64[ns]", "object"])
def test_days_may_come_as_moments_or_as_dates(kind: str):
    column = Datetime(name="d", lower=dt.date(2020, 1, 1), upper=dt.date(2020, 1, 11), missing=True)
    days = [dt.date(2020, 1, 1), dt.date(2020, 1, 6), None]
    series = pd.Series(days, dtype="object") if kind == "object" else pd.Series(pd.to_datetime(days)).astype(kind)
    assert positions(series, column) == pytest.approx([0.5 / 11, 0.5, np.nan], nan_ok=True)


def test_moments_with_a_time_zone_are_compared_in_utc():
    column = Datetime(name="d", lower=dt.datetime(2020, 1, 1), upper=dt.datetime(2020, 1, 3))
    series = pd.Series(pd.to_datetime(["2020-01-02T02:00:00+02:00"]))
    assert positions(series, column).tolist() == [0.5]


def test_a_value_that_is_not_listed_goes_to_other_then_missing_then_the_first():
    series = pd.Series(["a", "b", "zzz", None], dtype=object)
    values = ("a", "b")
    assert codes(series, Categorical(name="c", values=values, other=True, missing=True)).tolist() == [0, 1, 2, 3]
    assert codes(series, Categorical(name="c", values=values, other=True)).tolist() == [0, 1, 2, 2]
    assert codes(series, Categorical(name="c", values=values, missing=True)).tolist() == [0, 1, 2, 2]
    assert codes(series, Categorical(name="c", values=values)).tolist() == [0, 1, 0, 0]


def test_whole_number_categories_survive_being_stored_as_floats():
    column = Categorical(name="c", values=(1, 5, 7), other=True, missing=True)
    assert codes(pd.Series([1.0, 7.0, np.nan, 8.0]), column).tolist() == [0, 2, 4, 3]
    assert codes(pd.Series([1, 7, None, 8], dtype="Int64"), column).tolist() == [0, 2, 4, 3]


def test_truth_values_in_any_dress():
    column = Boolean(name="b", missing=True)
    assert codes(pd.Series([True, False]), column).tolist() == [1, 0]
    assert codes(pd.Series([True, None, False], dtype="boolean"), column).tolist() == [1, 2, 0]
    assert codes(pd.Series([True, None, False], dtype=object), column).tolist() == [1, 2, 0]
    assert codes(pd.Series([1, 0]), column).tolist() == [1, 0]


def test_cells_stay_inside_what_the_schema_declares(schema: Schema, synthetic: pd.DataFrame):
    rows = encode_frame(synthetic, schema)
    for column, cells in zip(schema.columns, rows.all_codes(schema.columns), strict=True):
        assert cells.min() >= 0
        assert cells.max() < column.cells
        assert len(cell_names(column)) == column.cells


def test_cells_are_named_in_the_units_of_the_column():
    assert cell_names(Numeric(name="x", lower=0, upper=10, bins=2)) == ["0 to 5", "5 to 10"]
    assert cell_names(Numeric(name="x", lower=1, upper=3, integer=True)) == ["1", "2", "3"]
    whole = Numeric(name="x", lower=0, upper=10, integer=True, bins=3)
    assert cell_names(whole) == ["0 to 3", "4 to 6", "7 to 10"]
    assert codes(pd.Series([3, 4, 6, 7]), whole).tolist() == [0, 1, 1, 2]
    days = Datetime(name="d", lower=dt.date(2020, 1, 1), upper=dt.date(2020, 1, 4), bins=2)
    assert cell_names(days) == ["2020-01-01 to 2020-01-02", "2020-01-03 to 2020-01-04"]
    assert ends(days) == ("2020-01-01", "2020-01-04")


def test_scores_and_methods_see_the_same_cells(schema: Schema, synthetic: pd.DataFrame):
    """What a method cuts the encoded records into is what distances are measured on; one column at a time or all."""
    table = pa.Table.from_pandas(synthetic, preserve_index=False)
    records = encode(table, schema)
    theirs = Cells(schema).index(records.inputs).numpy()
    for place, column in enumerate(schema.features):
        assert (codes(synthetic[column.name], column) == theirs[:, place]).all()
    assert (class_index(synthetic, schema) == records.labels.numpy()).all()


def test_the_design_matrix_follows_the_schema_and_not_the_rows(schema: Schema, synthetic: pd.DataFrame):
    matrix = design_matrix(synthetic, schema)
    assert matrix.shape == (len(synthetic), len(column_names(schema)))
    assert np.isfinite(matrix).all()
    assert matrix.min() >= 0
    assert matrix.max() <= 1
    # One row alone is encoded just as it is among the others.
    assert (design_matrix(synthetic.iloc[[7]], schema) == matrix[7]).all()


def test_a_missing_number_raises_its_flag(schema: Schema, synthetic: pd.DataFrame):
    flag = column_names(schema).index("wealth is missing")
    assert (design_matrix(synthetic, schema)[:, flag] == synthetic["wealth"].isna()).all()


def test_classes_are_numbered_as_the_schema_lists_them(schema: Schema, synthetic: pd.DataFrame):
    assert (class_index(synthetic, schema) == (synthetic["bought"] == "yes")).all()


def test_an_empty_table_or_a_missing_column_is_refused(schema: Schema, synthetic: pd.DataFrame):
    with pytest.raises(DataError, match="no rows"):
        check_frame(synthetic.iloc[:0], schema, what="synthetic table")
    with pytest.raises(DataError, match='"age"'):
        check_frame(synthetic.drop(columns="age"), schema, what="synthetic table")

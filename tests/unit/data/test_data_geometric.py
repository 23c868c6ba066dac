"""The fixed public grid of a private draft: every number and moment has one bin, whatever else is in the table."""

from __future__ import annotations

import datetime as dt
import itertools

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from simulacra.data.declared import DeclaredColumn, declared_columns
from simulacra.data.geometric import (
    NUMBER_BINS,
    YEAR_BINS,
    ZERO_BIN,
    GeometricSource,
    number_bins,
    number_edges,
    year_bins,
)
from simulacra.data.readers import open_table
from simulacra.errors import DataError
from simulacra.features.histogram import ColumnHistogram
from simulacra.privacy.query import FeatureMap
from simulacra.privacy.sealed import Sealed
from simulacra.privacy.summing import sum_over


@given(st.floats(min_value=-(2.0**41), max_value=2.0**41, allow_nan=False))
def test_a_number_lies_within_the_edges_of_its_bin(value: float) -> None:
    place = int(number_bins(np.array([value]))[0])
    lower, upper = number_edges(place)
    assert 0 <= place < NUMBER_BINS
    assert lower <= value <= upper or (place == ZERO_BIN and abs(value) < 2.0**-20)


def test_the_bins_are_ordered_and_adjoin() -> None:
    edges = [number_edges(place) for place in range(NUMBER_BINS)]
    positive = edges[ZERO_BIN + 1 :]
    assert positive[0][0] == 2.0**-20
    assert positive[-1][1] == 2.0**41
    assert all(left[1] == right[0] for left, right in itertools.pairwise(positive))
    assert edges[:ZERO_BIN] == [(-upper, -lower) for lower, upper in reversed(positive)]


def test_what_is_off_the_grid_goes_to_its_end() -> None:
    places = number_bins(np.array([-np.inf, -1e300, -5e-324, 0.0, -0.0, 5e-324, 1e300, np.inf, np.nan]))
    assert places.tolist() == [0, 0, *[ZERO_BIN] * 4, NUMBER_BINS - 1, NUMBER_BINS - 1, ZERO_BIN]
    assert year_bins(np.array([-1e300, -np.inf, 1e300, np.inf])).tolist() == [0, 0, YEAR_BINS - 1, YEAR_BINS - 1]


@given(st.datetimes(min_value=dt.datetime(1900, 1, 1), max_value=dt.datetime(2100, 12, 31)))
def test_a_moment_is_in_the_bin_of_its_year(moment: dt.datetime) -> None:
    seconds = moment.replace(tzinfo=dt.UTC).timestamp()
    assert year_bins(np.array([seconds])).tolist() == [moment.year - 1900]


def test_the_histogram_counts_what_the_table_holds() -> None:
    table = pa.table(
        {
            "n": pa.array([3, None, 0, -5]),
            "when": pa.array([dt.date(1999, 1, 1), dt.date(1999, 12, 31), None, dt.date(2024, 2, 29)]),
            "x": pa.array([0.25, 0.3, float("nan"), float("inf")]),
        }
    )
    reader = open_table(table)
    source = GeometricSource(reader, declared_columns(table, reader, types={}, label=None), batch_rows=3)
    n, when, x = source.ordered
    maps: dict[str, FeatureMap] = {
        "numbers": ColumnHistogram([source.place(n), source.place(x)], NUMBER_BINS),
        "moments": ColumnHistogram([source.place(when)], YEAR_BINS),
    }
    sums = sum_over(Sealed(source, source.schema), maps)
    found = [{at: int(c) for at, c in enumerate(row) if c} for row in (*sums["numbers"], *sums["moments"])]
    assert found[0] == {ZERO_BIN - 23: 1, ZERO_BIN: 1, ZERO_BIN + 22: 1, NUMBER_BINS: 1}
    assert found[1] == {ZERO_BIN + 19: 2, NUMBER_BINS - 1: 1, NUMBER_BINS: 1}
    assert found[2] == {99: 2, 124: 1, YEAR_BINS: 1}


def test_the_closed_form_of_the_histogram_is_the_specification() -> None:
    histogram = ColumnHistogram((0, 4), bins=7)
    inputs = torch.rand(50, 6, dtype=torch.float64) * 2 - 1
    inputs[:3] = torch.tensor([-1.0, 0.0, 1.0]).reshape(3, 1)
    labels = torch.zeros(50, dtype=torch.int64)
    fast, specified = histogram.clipped_sum(inputs, labels), FeatureMap.clipped_sum(histogram, inputs, labels)
    torch.testing.assert_close(fast, specified, rtol=0, atol=1e-12)
    assert fast.sum() == 100
    each = torch.func.vmap(histogram.features)(inputs, labels).flatten(1).norm(dim=1)
    torch.testing.assert_close(each, torch.full_like(each, histogram.norm_bound))


@pytest.mark.parametrize(
    ("array", "texts"),
    [
        (pa.array([1, None, 30], pa.int16()), ["1", None, "30"]),
        (pa.array([1.0, float("nan"), 2.5]), ["1", None, "2.5"]),
        (pa.array([True, None, False]), ["true", None, "false"]),
        (pa.array([b"a", b"\xff", None]), ["a", "\ufffd", None]),
        (pa.array(["x", "1.0", None]).dictionary_encode(), ["x", "1.0", None]),
    ],
)
def test_categories_are_the_texts_a_schema_would_list(array: pa.Array, texts: list[str | None]) -> None:
    source = GeometricSource(open_table(pa.table({"c": array})), [DeclaredColumn(name="c", type="categorical")])
    assert [text for part in source.texts(source.columns[0]) for text in part.to_pylist()] == texts


def test_texts_that_are_not_utf8_are_refused_before_anything_is_asked() -> None:
    bad = pa.StringArray.from_buffers(1, pa.py_buffer(b"\x00\x00\x00\x00\x01\x00\x00\x00"), pa.py_buffer(b"\xff"))
    source = GeometricSource(open_table(pa.table({"c": bad})), [DeclaredColumn(name="c", type="categorical")])
    with pytest.raises(DataError, match="not UTF-8"):
        source.check()

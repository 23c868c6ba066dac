"""What data can do to its reader: private values in messages, texts that are no texts, types nobody expects."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from simulacra.data.declared import declared_columns
from simulacra.data.drafts import draft
from simulacra.data.imagefiles import FolderImages
from simulacra.data.parse import parse, parse_moments, plain
from simulacra.data.readers import open_table
from simulacra.data.tables import TableSource
from simulacra.errors import DataError, SchemaError
from simulacra.schema import Boolean, Categorical, Column, Datetime, Numeric, Schema

AGE = Numeric(name="age", lower=0, upper=99)
JOB = Categorical(name="job", values=("clerk", "cook"))
SCHEMA = Schema(columns=(AGE, JOB))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("77,secret\n30,clerk\n", 'no column "age", which the schema lists; its first line must name the columns'),
        ("secret,secret,77\n30,clerk,1\n", "repeats a column name"),
        ("age,job,secret,77\n30,clerk,1,2\n", "2 columns that the schema does not list; add them"),
        ('age,"job\n77,secret\n30,clerk\n', "odd number of quotes"),
    ],
)
def test_no_message_tells_what_only_the_file_knows(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=message) as caught:
        TableSource(path, SCHEMA)
    told = str(caught.value).replace(str(path), "")
    assert not any(private in told for private in ("secret", "77", "\n"))


def test_a_nearly_right_name_is_suggested(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("Education_Num,secret\n1,2\n")
    schema = Schema(columns=(Numeric(name="education-num", lower=0, upper=9),))
    with pytest.raises(DataError, match='did you mean "Education_Num"') as caught:
        TableSource(path, schema)
    assert "secret" not in str(caught.value)


def test_drafts_tell_no_rows_either(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text('age,"job\n77,secret\n')
    with pytest.raises(DataError, match="odd number of quotes"):
        draft(path)
    with pytest.raises(DataError, match="odd number of quotes"):
        declared_columns(path, open_table(path), types={}, label=None)
    path.write_text("77,secret\n1,2\n")
    for wrong in (
        lambda: draft(path, label="job"),
        lambda: declared_columns(path, open_table(path), types={}, label="job"),
        lambda: declared_columns(path, open_table(path), types={"age": "numeric"}, label=None),
    ):
        with pytest.raises(SchemaError, match="no column") as caught:
            wrong()
        assert "secret" not in str(caught.value)


def test_zones_are_read_by_their_form() -> None:
    zones = ["+00:20", "+0020", "-00:20", "+20", "-05", "+05:30", "Z", ""]
    seconds = parse_moments(plain(pa.array([f"1970-01-03T00:00:00{zone}" for zone in zones]))).values - 2 * 86400
    assert seconds.tolist() == [-1200, -1200, 1200, -72000, 18000, -19800, 0, 0]


def bad_texts(kind: Any) -> Any:
    return pa.array([b"clerk", b"\xff\xfe", None, b"cook"], pa.binary()).cast(pa.large_binary()).view(kind)


def places(array: Any, column: Column = JOB) -> list[float | None]:
    return [None if np.isnan(value) else value for value in parse(array, column).values]


def test_texts_that_are_not_utf8_change_no_other_row(tmp_path: Path) -> None:
    texts = bad_texts(pa.large_string())
    pq.write_table(pa.table({"age": ["1", "2", "3", "4"], "job": texts}), tmp_path / "x.parquet")
    small = pa.array([b"clerk", b"\xff\xfe", None, b"cook"], pa.binary()).view(pa.string())
    indices = pa.array([0, 1, None, 3], pa.int32())
    for array in (
        texts,
        small,
        pa.chunked_array([texts.slice(0, 2), texts.slice(2)]),
        pa.DictionaryArray.from_arrays(indices, texts),
        next(open_table(tmp_path / "x.parquet").batches(["job"], 10)).column(0),
    ):
        parsed = parse(array, JOB)
        assert places(array) == [0, None, None, 1]
        assert parsed.missing.tolist() == [False, False, True, False]
        assert parsed.unreadable.tolist() == [False, True, False, False]
    assert len(next(TableSource(tmp_path / "x.parquet", SCHEMA).batches()).labels) == 4


def test_wrapped_types_are_unwrapped() -> None:
    words = pa.array(["clerk", "cook", None]).dictionary_encode()
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3, 5], pa.int32()), words)
    assert places(runs) == [0, 0, 1, None, None]
    assert places(runs.slice(1, 3)) == [0, 1, None]
    numbers = pa.RunEndEncodedArray.from_arrays(pa.array([1, 3], pa.int16()), pa.array([4.0, 7.0]))
    assert places(numbers, AGE) == [4, 7, 7]


@pytest.mark.parametrize(
    "column", [AGE, JOB, Boolean(name="b"), Datetime(name="t", lower=dt.date(2000, 1, 1), upper=dt.date(2030, 1, 1))]
)
def test_types_without_a_text_are_unreadable(column: Column) -> None:
    array = pa.array([pa.MonthDayNano([1, 2, 3]), None], pa.month_day_nano_interval())
    parsed = parse(array, column)
    assert parsed.unreadable.tolist() == [True, False]
    assert parsed.missing.tolist() == [False, True]


def test_a_lone_surrogate_in_a_pandas_text_is_replaced() -> None:
    jobs = pd.Series(["clerk", "\ud800", None, "cook"], dtype=pd.StringDtype("python"))
    frame = pd.DataFrame({"age": [1, 2, 3, 4], "job": jobs})
    batch = next(open_table(frame).batches(["job"], 10))
    assert places(batch.column(0)) == [0, None, None, 1]


def test_deep_images_are_refused(tmp_path: Path) -> None:
    Image.fromarray(np.full((4, 4), 40000, dtype=np.uint16)).save(tmp_path / "deep.png")
    with pytest.raises(DataError, match=r"deep\.png.*save it with 8 bits per channel"):
        FolderImages(tmp_path)

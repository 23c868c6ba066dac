from __future__ import annotations

import datetime as dt
import gzip
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from simulacra.data import open_source
from simulacra.data.encode import encode
from simulacra.data.reference import Reference, read_table
from simulacra.data.tables import ColumnProblems, TableSource, describe_problems
from simulacra.errors import DataError, SchemaError
from simulacra.schema import Boolean, Categorical, Datetime, ImageShape, Numeric, Schema

SCHEMA = Schema(
    columns=(
        Numeric(name="age", lower=0, upper=99, integer=True, missing=True),
        Categorical(name="job", values=("NA", "clerk", "x, y"), missing=True),
        Boolean(name="member"),
        Datetime(name="since", lower=dt.date(2000, 1, 1), upper=dt.date(2030, 12, 31)),
    ),
    label="member",
)
TEXT = 'member,age,job,since\ntrue,NA,NA,2001-02-03\nfalse,30,"x, y",2010-10-10\nyes,,,"2020-12-31"\n'
ROWS = {
    "age": [None, 30, None],
    "job": ["NA", "x, y", None],
    "member": [True, False, True],
    "since": [dt.date(2001, 2, 3), dt.date(2010, 10, 10), dt.date(2020, 12, 31)],
}


def rows_of(data: object) -> dict[str, list[object]]:
    return read_table(data, SCHEMA).to_pydict()  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", ["t.csv", "T.CSV", "t.csv.gz", "t.tsv", "bom.csv", "crlf.csv"])
def test_text_files_are_typed_by_the_schema_alone(tmp_path: Path, name: str) -> None:
    raw = TEXT.encode()
    if name == "t.tsv":
        raw = raw.replace(b'"x, y"', b"x; y").replace(b",", b"\t").replace(b"x; y", b"x, y")
    raw = {
        "t.csv.gz": gzip.compress(raw, mtime=0),
        "bom.csv": b"\xef\xbb\xbf" + raw,
        "crlf.csv": raw.replace(b"\n", b"\r\n"),
    }.get(name, raw)
    (tmp_path / name).write_bytes(raw)
    assert rows_of(tmp_path / name) == ROWS
    assert rows_of(str(tmp_path / name)) == ROWS


def test_parquet_arrow_and_pandas_give_the_same_rows(tmp_path: Path) -> None:
    table = pa.table(ROWS)
    pq.write_table(table, tmp_path / "t.parquet")
    frame = table.to_pandas()
    frame.to_parquet(tmp_path / "indexed.parquet", index=True)
    for data in (table, table.to_batches()[0], frame, tmp_path / "t.parquet", tmp_path / "indexed.parquet"):
        assert rows_of(data) == ROWS
    assert rows_of(frame.astype({"job": "category"})) == ROWS
    assert rows_of(frame.astype(object)) == ROWS
    assert rows_of(table.to_pandas(types_mapper=pd.ArrowDtype)) == ROWS


def test_columns_of_python_objects_are_read_one_by_one() -> None:
    schema = Schema(columns=(Numeric(name="n", lower=0, upper=9, missing=True),))
    mixed = pd.DataFrame({"n": pd.Series([1, "2", b"3", "secret", None, 4.0, [5]], dtype=object)})
    values = read_table(mixed, schema)["n"].to_pylist()
    assert values == pytest.approx([1, 2, 3, None, None, 4, None], abs=1e-6)


def test_batches_are_small_and_in_the_same_order_each_time(tmp_path: Path) -> None:
    schema = Schema(columns=(Numeric(name="n", lower=0, upper=999, integer=True),))
    pq.write_table(pa.table({"n": range(1000)}), tmp_path / "t.parquet")
    pd.DataFrame({"n": range(1000)}).to_csv(tmp_path / "t.csv", index=False)
    for data in (
        tmp_path / "t.parquet",
        tmp_path / "t.csv",
        pd.DataFrame({"n": range(1000)}),
        pa.table({"n": range(1000)}),
    ):
        source = TableSource(data, schema, batch_rows=300)
        for _ in range(2):
            parts = list(source.batches())
            assert [len(part.labels) for part in parts] == [300, 300, 300, 100]
            whole = encode(pa.table({"n": range(1000)}), schema).inputs
            assert torch.equal(torch.cat([part.inputs for part in parts]), whole)


def test_an_empty_table_is_no_error(tmp_path: Path) -> None:
    for name, raw in (("a.csv", b"member,age,job,since\n"), ("b.csv", b"member,age,job,since")):
        (tmp_path / name).write_bytes(raw)
        assert rows_of(tmp_path / name)["age"] == []
    assert rows_of(pa.table(ROWS).slice(0, 0))["age"] == []
    assert rows_of(pa.table(ROWS).to_pandas().iloc[:0])["age"] == []
    with pytest.raises(DataError, match="holds no records; at least one is needed"):
        Reference.load(pa.table(ROWS).slice(0, 0), SCHEMA)


@pytest.mark.parametrize(
    ("name", "raw", "message"),
    [
        ("a.csv", b"", "is empty"),
        ("a.csv", b"\n\n", "no header"),
        ("a.parquet", b"", "is empty"),
        ("a.parquet", b"PAR1 secret PAR1", "not valid Parquet"),
        ("a.xlsx", b"secret", r"use one of .csv"),
        ("a.csv", TEXT.replace("age", "agee", 1).encode(), 'no column "age".*did you mean "agee"'),
        ("a.csv", TEXT.replace("age", "age,extra", 1).encode(), "1 column that the schema does not list; add it"),
        ("a.csv", TEXT.replace("member", "age", 1).encode(), "repeats a column name"),
        ("a.csv", b"member,\xff\xfe\n", "not UTF-8"),
        ("a.csv.gz", gzip.compress(TEXT.encode() * 50, mtime=0)[:40], "cut short"),
    ],
)
def test_a_wrong_file_is_refused_at_once(tmp_path: Path, name: str, raw: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(raw)
    with pytest.raises(DataError, match=message) as caught:
        TableSource(tmp_path / name, SCHEMA).check()
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda raw: raw + b"secret\n", "ragged: row 5 has 1 fields, the header has 4"),
        (lambda raw: raw + b"secret,secret,secret,secret,secret\n", "ragged"),
        (lambda raw: raw + b"true,3,secret\xff,2020-01-01\n", "not UTF-8"),
        (lambda raw: raw + b'true,3,"secret,2020-01-01\ntrue,3,secret,2020-01-01\n', "odd number of quotes"),
    ],
)
def test_damage_inside_a_csv_file_is_found_by_check(
    tmp_path: Path, damage: Callable[[bytes], bytes], message: str
) -> None:
    (tmp_path / "t.csv").write_bytes(damage(TEXT.encode()))
    with pytest.raises(DataError, match=message) as caught:
        TableSource(tmp_path / "t.csv", SCHEMA).check()
    assert "secret" not in str(caught.value)


def test_damage_inside_a_parquet_file_is_found_by_check(tmp_path: Path) -> None:
    schema = Schema(columns=(Numeric(name="n", lower=0, upper=1),))
    pq.write_table(pa.table({"n": torch.rand(5000).tolist()}), tmp_path / "t.parquet")
    raw = (tmp_path / "t.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(raw[: len(raw) // 2])
    with pytest.raises(DataError, match="cut short"):
        TableSource(tmp_path / "cut.parquet", schema)
    (tmp_path / "flipped.parquet").write_bytes(raw[:4] + b"\xff" * 3000 + raw[3004:])
    with pytest.raises(DataError, match="cut short"):
        TableSource(tmp_path / "flipped.parquet", schema).check()


def test_what_is_no_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no data file"):
        TableSource(tmp_path / "absent.csv", SCHEMA)
    with pytest.raises(DataError, match="is a folder"):
        TableSource(tmp_path, SCHEMA)
    with pytest.raises(DataError, match="got list"):
        TableSource([1, 2], SCHEMA)
    with pytest.raises(SchemaError, match="images"):
        TableSource(pa.table(ROWS), Schema(image=ImageShape(height=2, width=2)))
    assert isinstance(open_source(pa.table(ROWS), SCHEMA), TableSource)


def test_schema_check_counts_the_rows_that_do_not_fit() -> None:
    schema = Schema(
        columns=(
            Numeric(name="n", lower=0, upper=9, integer=True),
            Categorical(name="c", values=("a",)),
            Categorical(name="d", values=("a",), other=True, missing=True),
            Boolean(name="b"),
            Datetime(name="t", lower=dt.date(2020, 1, 1), upper=dt.date(2020, 1, 2)),
            Numeric(name="fine", lower=0, upper=9),
        )
    )
    table = pa.table(
        {
            "n": ["-1", "12", "3.5", "x", "", "4"],
            "c": ["a", "b", None, "a", "", "a"],
            "d": ["a", "b", None, "a", "", "a"],
            "b": ["t", "f", "maybe", None, "1", "0"],
            "t": ["2020-01-02T23:00:00", "2020-01-03", "2019-12-31", "?", None, "2020-01-01"],
            "fine": [1, 2, 3, 4, 5, 6],
        }
    )
    found = {problem.column: problem for problem in describe_problems(table, schema)}
    assert set(found) == {"n", "c", "b", "t"}
    counts = {name: (p.out_of_range, p.unknown, p.unreadable, p.missing, p.rounded) for name, p in found.items()}
    assert counts == {"n": (2, 0, 1, 1, 1), "c": (0, 1, 0, 2, 0), "b": (0, 0, 1, 1, 0), "t": (2, 0, 1, 1, 0)}
    assert "widen the bounds" in found["n"].fix
    assert found["n"].total == 5
    assert ColumnProblems(column="x").total == 0


def test_reference_rows_have_the_types_of_samples() -> None:
    reference = Reference.load(pa.table(ROWS), SCHEMA)
    frame = reference.frame()
    assert list(frame.columns) == ["age", "job", "member", "since"]
    assert frame["member"].dtype == bool
    assert frame["since"].dtype.kind == "M"
    assert reference.table().to_pydict() == ROWS
    assert "30" not in repr(reference)


def test_importing_the_package_is_light() -> None:
    code = "import sys, simulacra.data; print([m for m in ('torch', 'pandas', 'pyarrow') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

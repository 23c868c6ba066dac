"""Tables as streams of Arrow batches, whatever they are kept in. Nothing here looks at a value to decide on a type."""

from __future__ import annotations

import csv
import difflib
import gzip
import io
import re
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from simulacra.errors import DataError

SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")
CSV_BLOCK_BYTES = 4 << 20
_RAGGED = re.compile(r"(?:Row #(?P<row>\d+): )?Expected (?P<header>\d+) columns, got (?P<fields>\d+)")
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")


class TableReader(ABC):
    """A table that can be read again and again."""

    where: str
    """How error messages call it."""
    names: tuple[str, ...]
    types: dict[str, Any] | None
    """Arrow types from the metadata; None for text files, which have none."""

    @abstractmethod
    def batches(self, columns: Sequence[str], rows: int) -> Iterator[Any]:
        """A fresh pass: Arrow record batches of at most `rows` rows, with these columns only."""

    def check(self) -> None:  # noqa: B027 - most kinds of table have nothing to add to a full read
        """Raise DataError for damage that a full read does not show."""


def open_table(data: Any) -> TableReader:
    """Open a file, a DataFrame or an Arrow table; a missing, empty or unknown kind of file is a DataError."""
    if isinstance(data, (str, Path)):
        path = Path(data)
        check_file(path)
        name = path.name.lower()
        if not name.endswith(SUFFIXES):
            raise DataError(f'unknown kind of table file "{path}"; use one of {", ".join(SUFFIXES)}')
        return ParquetReader(path) if name.endswith(".parquet") else CsvReader(path)
    if isinstance(data, pa.RecordBatch):
        return ArrowReader(pa.Table.from_batches([data]))
    if isinstance(data, pa.Table):
        return ArrowReader(data)
    if hasattr(data, "iloc") and hasattr(data, "columns"):
        return FrameReader(data)
    raise DataError(f"a table is a path, a pandas DataFrame or an Arrow table, got {type(data).__name__}")


def check_file(path: Path) -> None:
    """Refuse what is not a file with at least one byte."""
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        raise DataError(f'no data file "{path}"; check the path') from None
    except OSError as error:
        raise DataError(f'cannot read the data file "{path}": {error.strerror}') from None
    if path.is_dir():
        raise DataError(f'"{path}" is a folder; for a table give one of {", ".join(SUFFIXES)}')
    if size == 0:
        raise DataError(f'data file "{path}" is empty')


class CsvReader(TableReader):
    """Comma- or tab-separated text with a header; every column is read as text and typed later, by the schema."""

    def __init__(self, path: Path) -> None:
        self.where = f'data file "{path}"'
        self.types = None
        self._path = path
        self._delimiter = "\t" if ".tsv" in path.name.lower()[-7:] else ","
        with self._errors(), self._bytes() as raw, io.TextIOWrapper(raw, encoding="utf-8-sig", newline="") as text:
            header = next(csv.reader(text, delimiter=self._delimiter), None)
            self._no_rows = not text.read(1)
        if not header or not any(name.strip() for name in header):
            raise DataError(f"{self.where} has no header; its first line must name the columns")
        self.names = tuple(header)
        _refuse_duplicates(self.where, self.names)

    def batches(self, columns: Sequence[str], rows: int) -> Iterator[Any]:
        from pyarrow import csv as arrow_csv

        if self._no_rows:
            return  # Arrow refuses a header without a line end
        with self._errors():
            reader = arrow_csv.open_csv(
                pa.input_stream(str(self._path), compression="detect"),
                read_options=arrow_csv.ReadOptions(use_threads=False, block_size=CSV_BLOCK_BYTES),
                parse_options=arrow_csv.ParseOptions(
                    delimiter=self._delimiter,
                    newlines_in_values=True,
                    # In a table of one column an empty line is a row with a missing value.
                    ignore_empty_lines=len(self.names) > 1,
                ),
                convert_options=arrow_csv.ConvertOptions(
                    column_types={name: pa.string() for name in self.names},
                    include_columns=list(columns),
                    strings_can_be_null=False,
                ),
            )
            for block in reader:
                yield from _slices(block, rows)

    def check(self) -> None:
        # Arrow takes all that follows a quote that is never closed as one long field, and so loses rows in silence.
        quotes = 0
        with self._errors(), self._bytes() as raw:
            while block := raw.read(CSV_BLOCK_BYTES):
                quotes += block.count(b'"')
        if quotes % 2:
            raise DataError(f"{self.where} has an odd number of quotes; close each one, or double it inside a field")

    def _bytes(self) -> Any:
        return gzip.open(self._path) if self._path.name.lower().endswith(".gz") else self._path.open("rb")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except UnicodeDecodeError:
            raise DataError(f"{self.where} is not UTF-8 text; save it as UTF-8") from None
        except csv.Error:
            raise DataError(
                f"{self.where} has a header that cannot be read; its first line must name the columns"
            ) from None
        except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
            # Arrow's message goes on with the row's text, which is private: take the numbers out and drop the rest.
            if ragged := _RAGGED.search(str(error)):
                row, header, fields = ragged.group("row"), ragged["header"], ragged["fields"]
                place = f"row {row}" if row else "a row"
                raise DataError(
                    f"{self.where} is ragged: {place} has {fields} fields, the header has {header}; "
                    "quote fields that hold a delimiter"
                ) from None
            if "UTF8" in str(error):
                raise DataError(f"{self.where} is not UTF-8 text; save it as UTF-8") from None
            raise DataError(f"{self.where} is not valid CSV; look for a quote that is never closed") from None
        except (OSError, EOFError, zlib.error):
            raise DataError(f"{self.where} is damaged or cut short; get a fresh copy") from None


class ParquetReader(TableReader):
    """A Parquet file, read a few thousand rows at a time."""

    def __init__(self, path: Path) -> None:
        self.where = f'data file "{path}"'
        self._path = path
        with self._errors(), self._open() as file:
            fields = [field for field in file.schema_arrow if not _PANDAS_INDEX.fullmatch(field.name)]
        self.names = tuple(field.name for field in fields)
        self.types = {field.name: field.type for field in fields}
        _refuse_duplicates(self.where, self.names)

    def batches(self, columns: Sequence[str], rows: int) -> Iterator[Any]:
        with self._errors(), self._open() as file:
            for batch in file.iter_batches(batch_size=rows, columns=list(columns), use_threads=False):
                yield batch.select(list(columns))

    def _open(self) -> Any:
        from pyarrow import parquet

        return parquet.ParquetFile(str(self._path), pre_buffer=False)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowException, OSError, EOFError):
            raise DataError(f"{self.where} is not valid Parquet, or is cut short; get a fresh copy") from None


class ArrowReader(TableReader):
    """A table that is in memory already."""

    def __init__(self, table: Any) -> None:
        self.where = "the Arrow table"
        self._table = table
        self.names = tuple(table.column_names)
        self.types = {field.name: field.type for field in table.schema}
        _refuse_duplicates(self.where, self.names)

    def batches(self, columns: Sequence[str], rows: int) -> Iterator[Any]:
        yield from self._table.select(list(columns)).to_batches(max_chunksize=rows)


class FrameReader(TableReader):
    """A pandas DataFrame; its index is no column."""

    def __init__(self, frame: Any) -> None:
        self.where = "the DataFrame"
        self._frame = frame
        self.names = tuple(str(name) for name in frame.columns)
        _refuse_duplicates(self.where, self.names)
        empty = frame.iloc[:0]
        self.types = {name: series_to_arrow(empty.iloc[:, i]).type for i, name in enumerate(self.names)}

    def batches(self, columns: Sequence[str], rows: int) -> Iterator[Any]:
        places = [self.names.index(name) for name in columns]
        for start in range(0, len(self._frame), rows):
            part = self._frame.iloc[start : start + rows]
            yield pa.RecordBatch.from_arrays([series_to_arrow(part.iloc[:, at]) for at in places], names=list(columns))


def series_to_arrow(series: Any) -> Any:
    """A pandas column as Arrow, by its dtype alone.

    Columns of Python objects are printed one by one: Arrow would infer a type from all values together, so that one row
    would change how another is read, and would quote a value when it fails.
    """
    import pandas as pd

    dtype = series.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        codes = series.cat.codes.to_numpy().astype(np.int32)
        categories = series_to_arrow(pd.Series(series.cat.categories))
        return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), categories)
    if isinstance(dtype, pd.SparseDtype):
        return series_to_arrow(series.sparse.to_dense())
    # Long doubles are not known to Arrow and are printed.
    plain = isinstance(dtype, np.dtype) and dtype.kind in "iufbMm" and dtype.itemsize <= 8
    known = isinstance(dtype, (pd.StringDtype, pd.BooleanDtype, pd.DatetimeTZDtype, pd.ArrowDtype))
    if plain or known or (not isinstance(dtype, np.dtype) and pd.api.types.is_numeric_dtype(dtype)):
        try:
            array = pa.array(series, from_pandas=True)
            return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
        except (UnicodeError, pa.ArrowException):
            if not isinstance(dtype, pd.StringDtype):
                raise
            # A text that has no UTF-8: printed one by one below, which changes no other row.
    texts = [None if absent else _text(item) for item, absent in zip(series, series.isna(), strict=True)]
    return pa.array(texts, pa.large_string())


def _text(item: Any) -> str:
    text = item.decode("utf-8", "replace") if isinstance(item, bytes) else str(item)
    return text.encode("utf-8", "replace").decode("utf-8")  # lone surrogates have no UTF-8


def _slices(batch: Any, rows: int) -> Iterator[Any]:
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def _refuse_duplicates(where: str, names: Sequence[str]) -> None:
    # Without the names: those of a file without a header are its first record.
    repeated = len(names) - len(set(names))
    if repeated:
        what = "a column name" if repeated == 1 else f"{repeated} column names"
        raise DataError(f"{where} repeats {what}; give each column its own name in the header")


def close_name(name: str, names: Iterable[str]) -> str:
    """`; did you mean "x"?` for a column of the data that is nearly called `name`, else nothing.

    Never a list of the columns: those of a file without a header are its first record, which is private.
    """
    wanted = _spelling(name)
    scores = [
        (difflib.SequenceMatcher(None, wanted, _spelling(other)).ratio(), other)
        for other in names
        if other.isprintable() and len(other) <= 2 * len(name)
    ]
    score, best = max(scores, default=(0.0, ""))
    return f'; did you mean "{best}"?' if score >= 0.8 else ""


def _spelling(name: str) -> str:
    return name.lower().replace("_", "-").replace(" ", "-")

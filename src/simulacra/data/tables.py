"""TableSource: the records of a table, streamed in batches; and what `schema check` tells the owner about its rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from simulacra.data.encode import DAY, encode
from simulacra.data.parse import Parsed, parse
from simulacra.data.readers import TableReader, close_name, open_table
from simulacra.errors import DataError, SchemaError
from simulacra.privacy.records import Records
from simulacra.schema import Categorical, Column, Datetime, Numeric, Schema

BATCH_ROWS = 16384


class TableSource:
    """A CSV, TSV or Parquet file, a DataFrame or an Arrow table whose columns are exactly those of the schema.

    The columns are compared at once; what the rows hold never raises (see `encode`). `check` reads a file to its end,
    so that a damaged one is refused before anything is spent.
    """

    def __init__(self, data: Any, schema: Schema, batch_rows: int = BATCH_ROWS) -> None:
        if schema.image is not None:
            raise SchemaError("the schema describes images, not a table; give a schema with [columns.NAME] tables")
        self.schema = schema
        self._batch_rows = batch_rows
        self._reader = open_table(data)
        _compare_columns(self._reader, schema)

    def raw_batches(self) -> Iterator[Any]:
        """A fresh pass over the rows as Arrow record batches, not yet typed by the schema."""
        yield from self._reader.batches([column.name for column in self.schema.columns], self._batch_rows)

    def batches(self) -> Iterator[Records]:
        """A fresh pass over all records, encoded."""
        for batch in self.raw_batches():
            yield encode(batch, self.schema)

    def check(self) -> None:
        """Read and encode everything once; a ragged, truncated or non-UTF-8 file is a DataError.

        Encoding is total, so it adds no refusal; but if it ever fails, then before anything is spent.
        """
        self._reader.check()
        for _ in self.batches():
            pass


@dataclass(frozen=True, kw_only=True)
class ColumnProblems:
    """How many rows of one column do not fit the schema, and what the owner can do. For the owner's eyes only."""

    column: str
    out_of_range: int = 0
    unknown: int = 0
    unreadable: int = 0
    missing: int = 0
    rounded: int = 0
    fix: str = ""

    @property
    def total(self) -> int:
        """Rows that the stated policy would change."""
        return self.out_of_range + self.unknown + self.unreadable + self.missing + self.rounded


def describe_problems(data: Any, schema: Schema) -> list[ColumnProblems]:
    """The columns with rows that do not fit the schema, counted exactly: private, so never part of a run or a log."""
    if schema.image is not None:
        from simulacra.data.images import ImageSource

        unknown = ImageSource(data, schema).count_unknown_labels()
        fix = "list every class in image.classes, or let these images count as the first"
        return [ColumnProblems(column="label", unknown=unknown, fix=fix)] if unknown else []
    source = TableSource(data, schema)
    source.check()
    kinds = ("out_of_range", "unknown", "unreadable", "missing", "rounded")
    counts = {column.name: dict.fromkeys(kinds, 0) for column in schema.columns}
    for batch in source.raw_batches():
        for at, column in enumerate(schema.columns):
            for kind, count in _count(parse(batch.column(at), column), column).items():
                counts[column.name][kind] += count
    problems = []
    for column in schema.columns:
        found = counts[column.name]
        if any(found.values()):
            problems.append(ColumnProblems(column=column.name, fix=_fix(found, column), **found))
    return problems


def _compare_columns(reader: TableReader, schema: Schema) -> None:
    """Names that only the data know stay out of the messages: those of a file without a header are its first record."""
    where, names = reader.where, reader.names
    known = [column.name for column in schema.columns]
    if set(known) == set(names):
        return
    reader.check()  # a quote that is never closed makes a header of many rows
    for name in known:
        if name not in names:
            hint = close_name(name, [other for other in names if other not in known])
            if not hint and reader.types is None:
                hint = "; its first line must name the columns, with commas between them (tabs in a .tsv file)"
            raise DataError(f'{where} has no column "{name}", which the schema lists{hint}')
    extra = [name for name in names if name not in known]
    if extra:
        what, them = ("1 column", "it") if len(extra) == 1 else (f"{len(extra)} columns", "them")
        raise DataError(
            f"{where} has {what} that the schema does not list; add {them} to the schema or drop {them} from the data"
        )


def _count(parsed: Parsed, column: Column) -> dict[str, int]:
    unreadable, missing = int(parsed.unreadable.sum()), int(parsed.missing.sum())
    counts = {"missing": 0 if column.missing else missing}
    if isinstance(column, Categorical):
        return counts | {"unknown": 0 if column.other else unreadable}
    counts["unreadable"] = unreadable
    if isinstance(column, (Numeric, Datetime)):
        values = parsed.values[~np.isnan(parsed.values)]
        if isinstance(column, Numeric):
            lower, upper = column.lower, column.upper
            whole = not column.integer or values == np.floor(values)
            counts["rounded"] = int((np.isfinite(values) & ~np.broadcast_to(whole, values.shape)).sum())
        else:
            lower = column.lower_seconds
            upper = np.nextafter(column.upper_seconds + DAY, 0.0) if column.date_only else column.upper_seconds
        counts["out_of_range"] = int(((values < lower) | (values > upper)).sum())
    return counts


def _fix(counts: dict[str, int], column: Column) -> str:
    advice = []
    if counts["out_of_range"]:
        advice.append("widen the bounds, or let the rows be clamped")
    if counts["unknown"]:
        advice.append("list the values, or set other = true")
    if counts["unreadable"]:
        advice.append(f"correct the type ({column.kind}), or set missing = true")
    if counts["missing"]:
        advice.append("set missing = true")
    if counts["rounded"]:
        advice.append("set integer = false, or let the rows be rounded")
    return "; ".join(advice)

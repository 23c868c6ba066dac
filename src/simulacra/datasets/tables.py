"""The table data sets, as Arrow tables or paths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from simulacra.datasets.places import require
from simulacra.errors import DataError

EMBEDDED = Path(__file__).parent / "files" / "adult.parquet"
TEST_EVERY = 5


@dataclass(frozen=True, kw_only=True)
class EmbeddedTable:
    """A table inside the package, the training rows first."""

    path: Path
    train_rows: int

    def read(self, split: str) -> Any:
        """The original split."""
        table = parquet.read_table(self.path)
        if split == "all":
            return table
        return table.slice(0, self.train_rows) if split == "train" else table.slice(self.train_rows)


@dataclass(frozen=True, kw_only=True)
class SplitTable:
    """Two Parquet files in the data folder, NAME_train and NAME_test."""

    name: str
    origin: str

    def read(self, split: str) -> Any:
        """A path, so that rows are streamed; both files as one table for "all"."""
        if split == "all":
            return pa.concat_tables([_read(self.read("train")), _read(self.read("test"))])
        return require(self.name, f"tables/{self.name}_{split}.parquet", self.origin)


@dataclass(frozen=True, kw_only=True)
class OneTable:
    """One Parquet file in the data folder; its rows 5, 10, 15, ... are for testing (the data set has no split)."""

    name: str
    file: str
    origin: str
    grouped: tuple[str, Mapping[str, str]] | None = None
    """A column, and the group that each of its values belongs to."""

    def read(self, split: str) -> Any:
        """A path for "all", so that rows are streamed; else an Arrow table."""
        path = require(self.name, f"tables/{self.file}", self.origin)
        if split == "all" and self.grouped is None:
            return path
        table = _read(path)
        if self.grouped is not None:
            table = _group(table, *self.grouped)
        if split == "all":
            return table
        testing = np.arange(table.num_rows) % TEST_EVERY == TEST_EVERY - 1
        return table.filter(pa.array(testing if split == "test" else ~testing))


def _read(path: Path) -> Any:
    try:
        return parquet.read_table(path)
    except (pa.ArrowException, OSError):
        raise DataError(f'data file "{path}" is not valid Parquet, or is cut short; get a fresh copy') from None


def _group(table: Any, column: str, groups: Mapping[str, str]) -> Any:
    if column not in table.column_names:
        raise DataError(f'the table has no column "{column}"; get a fresh copy')
    labels = pc.utf8_rtrim(pc.utf8_trim_whitespace(table[column].cast(pa.string())), characters=".")
    places = pc.index_in(labels, value_set=pa.array(list(groups)))
    grouped = pa.chunked_array([pa.array(list(groups.values()))]).take(places)
    return table.set_column(table.column_names.index(column), column, grouped)

"""A DataFrame as the methods see it: encoded by the schema, and cut into the same cells. For evaluation only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from simulacra.data.cells import Cells
from simulacra.data.encode import encode
from simulacra.data.readers import series_to_arrow
from simulacra.errors import DataError
from simulacra.schema import Column, Schema

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """Rows in numbers: `inputs` in [-1, 1] and class numbers, and what columns they stand for."""

    schema: Schema
    inputs: torch.Tensor
    labels: torch.Tensor

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def _cells(self) -> NDArray[np.int64]:
        return np.asarray(Cells(self.schema).index(self.inputs).numpy(), dtype=np.int64)

    def codes(self, column: Column) -> NDArray[np.int64]:
        """The cell of each row, from 0 to `column.cells - 1`: bins or values, then "other", then missing."""
        if column.name == self.schema.label:
            return np.asarray(self.labels.numpy(), dtype=np.int64)
        return np.ascontiguousarray(self._cells[:, self.schema.features.index(column)])

    def all_codes(self, columns: Sequence[Column]) -> list[NDArray[np.int64]]:
        """The cells of several columns."""
        return [self.codes(column) for column in columns]

    def positions(self, column: Column) -> NDArray[np.float64]:
        """Where each value of an ordered column lies between the bounds, from 0 to 1; NaN where it is missing."""
        if not column.ordered:
            raise TypeError(f"{column.kind} columns have cells, not positions")
        at = sum(earlier.width for earlier in self.schema.features[: self.schema.features.index(column)])
        found = (self.inputs[:, at].numpy().astype(np.float64) + 1.0) / 2.0
        if not column.missing:
            return found
        return np.where(self.inputs[:, at + 1].numpy() > 0.0, np.nan, found)


def check_frame(frame: pd.DataFrame, schema: Schema, *, what: str) -> None:
    """Refuse a table without rows, or one that lacks a column of the schema."""
    if schema.image is not None:
        raise DataError(f"{what}: the schema describes images, not a table")
    for column in schema.columns:
        if column.name not in frame.columns:
            raise DataError(f'{what}: column "{column.name}" of the schema is not in the table; add it')
        if list(frame.columns).count(column.name) > 1:
            raise DataError(f'{what}: column "{column.name}" is there twice; keep one of them')
    if len(frame) == 0:
        raise DataError(f"{what}: the table has no rows; at least one is needed")


def encode_frame(frame: pd.DataFrame, schema: Schema) -> Encoded:
    """Encode the schema's columns of a frame as records are encoded; other columns are ignored."""
    names = [column.name for column in schema.columns]
    records = encode(pa.table([series_to_arrow(frame[name]) for name in names], names=names), schema)
    return Encoded(schema=schema, inputs=records.inputs, labels=records.labels)


def codes(series: pd.Series[Any], column: Column) -> NDArray[np.int64]:
    """The cells of one column by itself."""
    return encode_frame(series.to_frame(column.name), Schema(columns=(column,))).codes(column)


def positions(series: pd.Series[Any], column: Column) -> NDArray[np.float64]:
    """The positions of one ordered column by itself."""
    return encode_frame(series.to_frame(column.name), Schema(columns=(column,))).positions(column)


def as_encoded(rows: pd.DataFrame | Encoded, schema: Schema, *, what: str) -> Encoded:
    """Rows that are encoded already, or a checked frame that is encoded now."""
    if isinstance(rows, Encoded):
        return rows
    check_frame(rows, schema, what=what)
    return encode_frame(rows, schema)

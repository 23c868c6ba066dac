"""Ordered columns as places on a fixed public grid, and unordered ones as texts: what a private schema draft counts.

Numbers go into a bin for zero and bins from 2^k to 2^(k+1), k = -20 ... 40, of either sign; moments into a bin per
year, 1900 ... 2100. What is smaller or larger goes into the nearest bin. The grid is the same for every data set, so
nothing about the data is in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from numpy.typing import NDArray

from simulacra.data.declared import DeclaredColumn
from simulacra.data.parse import Floats, as_texts, canonical, is_text, parse_moments, parse_numbers, plain
from simulacra.data.readers import TableReader
from simulacra.errors import DataError
from simulacra.privacy.records import Records
from simulacra.schema import Numeric, Schema

BATCH_ROWS = 16384
LOWEST_POWER, HIGHEST_POWER = -20, 40
POWERS = HIGHEST_POWER - LOWEST_POWER + 1
ZERO_BIN = POWERS
NUMBER_BINS = 2 * POWERS + 1
FIRST_YEAR, LAST_YEAR = 1900, 2100
YEAR_BINS = LAST_YEAR - FIRST_YEAR + 1

Bins = NDArray[np.int64]


def bins_of(column: DeclaredColumn) -> int:
    """How many bins the grid of an ordered column has."""
    return YEAR_BINS if column.type == "datetime" else NUMBER_BINS


def number_bins(values: Floats) -> Bins:
    """The bin of each number, from the most negative to the largest; infinities are in the outermost, NaN in zero's."""
    sizes = np.minimum(np.abs(np.nan_to_num(values, nan=0.0, posinf=np.inf, neginf=-np.inf)), 2.0**HIGHEST_POWER)
    _, exponents = np.frexp(sizes)  # size = fraction * 2^exponent with 1/2 <= fraction < 1: exact, unlike a logarithm
    steps = np.where(sizes < 2.0**LOWEST_POWER, 0, exponents - LOWEST_POWER).astype(np.int64)
    return ZERO_BIN + np.where(values < 0, -steps, steps)


def number_edges(place: int) -> tuple[float, float]:
    """From where to where a bin of numbers goes; the bin of zero is zero."""
    if place == ZERO_BIN:
        return 0.0, 0.0
    power = LOWEST_POWER + abs(place - ZERO_BIN) - 1
    near, far = 2.0**power, 2.0 ** (power + 1)
    return (near, far) if place > ZERO_BIN else (-far, -near)


def year_bins(seconds: Floats) -> Bins:
    """The bin of each moment (seconds since 1970): its year."""
    first, last = (np.datetime64(f"{year}-01-01", "s").astype(np.int64) for year in (FIRST_YEAR, LAST_YEAR))
    whole = np.floor(np.clip(np.nan_to_num(seconds, nan=0.0), first, last)).astype(np.int64)
    years: Bins = whole.astype("datetime64[s]").astype("datetime64[Y]").astype(np.int64) + 1970
    return years - FIRST_YEAR


class GeometricSource:
    """The ordered columns of a table as records: per column the place of its bin in [-1, 1], and a missing flag.

    They are the records of `schema`, in which each column is a number from 0 to the number of its bins.
    """

    def __init__(self, reader: TableReader, columns: Sequence[DeclaredColumn], batch_rows: int = BATCH_ROWS) -> None:
        self.columns = tuple(columns)
        self.ordered = tuple(column for column in columns if column.ordered)
        self._reader = reader
        self._batch_rows = batch_rows

    @property
    def schema(self) -> Schema:
        """What the records look like; a stand-in where no column is ordered, as there are no records to ask then."""
        columns = tuple(Numeric(name=c.name, lower=0, upper=bins_of(c), missing=True) for c in self.ordered)
        return Schema(columns=columns or (Numeric(name="nothing", lower=0, upper=1, missing=True),))

    def place(self, column: DeclaredColumn) -> int:
        """Where in a record the column's position is; its missing flag comes next."""
        return 2 * self.ordered.index(column)

    def batches(self) -> Iterator[Records]:
        """A fresh pass over all records."""
        for batch in self._reader.batches([column.name for column in self.ordered], self._batch_rows):
            yield _encode(batch, self.ordered)

    def texts(self, column: DeclaredColumn) -> Iterator[Any]:
        """A fresh pass over one unordered column, as Arrow arrays of texts; null where there is no value."""
        for batch in self._reader.batches([column.name], self._batch_rows):
            yield _text_values(batch.column(0))

    def check(self) -> None:
        """Read everything once, exactly as it will be read; a damaged file is a DataError."""
        self._reader.check()
        for batch in self._reader.batches([column.name for column in self.columns], self._batch_rows):
            for at, column in enumerate(self.columns):
                array = batch.column(at)
                try:
                    array.validate(full=True)  # Parquet does not promise that its texts are UTF-8
                except pa.ArrowInvalid:
                    raise DataError(f'{self._reader.where}: column "{column.name}" is damaged or not UTF-8') from None
                array = plain(array)
                if column.ordered:
                    _bins(array, column)
                else:
                    _text_values(array)


def _encode(batch: Any, columns: Sequence[DeclaredColumn]) -> Records:
    numbers: list[Floats] = []
    for at, column in enumerate(columns):
        places, missing = _bins(plain(batch.column(at)), column)
        numbers.append(np.where(missing, 0.0, (2.0 * places + 1.0) / bins_of(column) - 1.0))
        numbers.append(np.where(missing, 1.0, -1.0))
    inputs = np.stack(numbers, axis=1).astype(np.float32)
    return Records(inputs=torch.from_numpy(inputs), labels=torch.zeros(len(inputs), dtype=torch.int64))


def _bins(array: Any, column: DeclaredColumn) -> tuple[Bins, NDArray[np.bool_]]:
    values = (parse_moments(array) if column.type == "datetime" else parse_numbers(array)).values
    return (year_bins if column.type == "datetime" else number_bins)(values), np.isnan(values)


def _text_values(array: Any) -> Any:
    """Texts as they are; other values as a schema would list them: 3.0 is 3, and NaN is no value."""
    array = plain(array)
    if is_text(array.type):
        return array
    if pa.types.is_floating(array.type):
        array = pc.if_else(pc.is_nan(array), pa.scalar(None, array.type), array)
    return canonical(as_texts(array))

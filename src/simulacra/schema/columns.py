"""What is public about one column: its type, its bounds or values, and whether values may be missing.

Every column becomes one or two numbers in [-1, 1] (see `data/encode.py`), and any such numbers are a valid record:

* ordered columns (numeric, datetime): the position between the bounds, then, if values may be missing, a flag
  (-1 present, +1 missing; the position of a missing value is 0);
* unordered columns (categorical, boolean): the centre of one of `cells` equal intervals of [-1, 1], in the order
  values, "other" (if declared), missing (if declared).
"""

from __future__ import annotations

import datetime as dt
import math
import sys
from dataclasses import dataclass
from typing import ClassVar

from simulacra.errors import SchemaError

DEFAULT_BINS = 24
LARGEST_WHOLE = 2**53
"""Up to here every whole number is a float of its own."""
_LARGEST_FLOAT = int(sys.float_info.max)


@dataclass(frozen=True, kw_only=True)
class Column:
    """What all columns share."""

    kind: ClassVar[str]
    ordered: ClassVar[bool]
    name: str
    missing: bool = False

    @property
    def width(self) -> int:
        """How many numbers of an encoded record belong to this column."""
        return 2 if self.ordered and self.missing else 1

    @property
    def cells(self) -> int:
        """How many cells the one-hot view of this column has, the missing cell included."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Numeric(Column):
    """A number between two public bounds; values outside are clamped.

    `log` spaces the scale by log1p(value - lower), for skewed columns such as incomes. `bins` is the number of equal
    steps of that scale in the one-hot view; a whole-number column has no more of them than it has values.
    """

    kind: ClassVar[str] = "numeric"
    ordered: ClassVar[bool] = True
    lower: float
    upper: float
    integer: bool = False
    log: bool = False
    bins: int = DEFAULT_BINS

    def __post_init__(self) -> None:
        if any(isinstance(bound, int) and abs(bound) > _LARGEST_FLOAT for bound in (self.lower, self.upper)):
            raise SchemaError(f'column "{self.name}": bounds are too large for a float; narrow them')
        if not (math.isfinite(self.lower) and math.isfinite(self.upper)):
            raise SchemaError(f'column "{self.name}": bounds must be finite, got {self.lower} and {self.upper}')
        if self.lower >= self.upper:
            raise SchemaError(
                f'column "{self.name}": lower ({self.lower:g}) must be below upper ({self.upper:g}); swap or widen them'
            )
        if not math.isfinite(self.upper - self.lower):
            raise SchemaError(f'column "{self.name}": bounds are too far apart for a float; narrow them')
        if self.integer and (self.lower != int(self.lower) or self.upper != int(self.upper)):
            raise SchemaError(f'column "{self.name}": a whole-number column needs whole-number bounds')
        if self.integer and max(abs(self.lower), abs(self.upper)) > LARGEST_WHOLE:
            raise SchemaError(
                f'column "{self.name}": bounds of a whole-number column must be within 2**53 of 0; '
                "narrow them, or set integer = false"
            )
        _check_bins(self.name, self.bins)

    @property
    def bin_count(self) -> int:
        """Cells of present values."""
        return min(self.bins, int(self.upper - self.lower) + 1) if self.integer else self.bins

    @property
    def cells(self) -> int:
        return self.bin_count + self.missing


@dataclass(frozen=True, kw_only=True)
class Datetime(Column):
    """A moment (or, if both bounds are plain dates, a day) between two public bounds; values outside are clamped."""

    kind: ClassVar[str] = "datetime"
    ordered: ClassVar[bool] = True
    lower: dt.datetime | dt.date
    upper: dt.datetime | dt.date
    bins: int = DEFAULT_BINS

    def __post_init__(self) -> None:
        if not isinstance(self.lower, dt.date) or not isinstance(self.upper, dt.date):
            raise SchemaError(f'column "{self.name}": bounds must be dates such as 2020-01-31 or 2020-01-31T08:00:00')
        if isinstance(self.lower, dt.datetime) != isinstance(self.upper, dt.datetime):
            raise SchemaError(f'column "{self.name}": both bounds must be dates, or both moments')
        if self.lower_seconds >= self.upper_seconds:
            raise SchemaError(f'column "{self.name}": lower ({self.lower}) must be before upper ({self.upper})')
        _check_bins(self.name, self.bins)

    @property
    def date_only(self) -> bool:
        """Whether values are days rather than moments."""
        return not isinstance(self.lower, dt.datetime)

    @property
    def lower_seconds(self) -> float:
        """The lower bound as seconds since 1970, UTC for moments without a time zone."""
        return _seconds(self.lower)

    @property
    def upper_seconds(self) -> float:
        """The upper bound as seconds since 1970; for days, the first second of the last day."""
        return _seconds(self.upper)

    @property
    def bin_count(self) -> int:
        """Cells of present values."""
        days = int(self.upper_seconds - self.lower_seconds) // 86400 + 1
        return min(self.bins, days) if self.date_only else self.bins

    @property
    def cells(self) -> int:
        return self.bin_count + self.missing


@dataclass(frozen=True, kw_only=True)
class Categorical(Column):
    """One of a public list of values, all texts or all whole numbers.

    A value that is not on the list becomes "other" if that is declared, else missing if that is declared, else the
    first value.
    """

    kind: ClassVar[str] = "categorical"
    ordered: ClassVar[bool] = False
    values: tuple[str, ...] | tuple[int, ...]
    other: bool = False

    def __post_init__(self) -> None:
        if not self.values:
            raise SchemaError(f'column "{self.name}": a categorical column needs at least one value')
        if len({type(value) for value in self.values}) > 1 or type(self.values[0]) not in (str, int):
            raise SchemaError(f'column "{self.name}": values must be all texts or all whole numbers')
        if isinstance(self.values[0], int):
            numbers = [*self.values, self.other_value] if self.other else self.values
            if not all(isinstance(value, int) and -(2**63) <= value < 2**63 for value in numbers):
                raise SchemaError(
                    f'column "{self.name}": a value{", or the next one for other = true," if self.other else ""} '
                    "does not fit 64 bits; write the values as texts"
                )
        seen: set[str] = set()
        for value in map(str, self.values):
            if value in seen:
                raise SchemaError(f'column "{self.name}": the value "{value}" is listed twice; keep one')
            seen.add(value)
        if self.other and self.other_value in self.values:
            raise SchemaError(f'column "{self.name}": "{self.other_value}" is both listed and meant by other = true')

    @property
    def other_value(self) -> str | int:
        """What stands in generated rows for a value that is not on the list."""
        return "other" if isinstance(self.values[0], str) else max(v for v in self.values if isinstance(v, int)) + 1

    @property
    def choices(self) -> tuple[str | int, ...]:
        """All values a generated row can hold, without missing."""
        return (*self.values, self.other_value) if self.other else tuple(self.values)

    @property
    def cells(self) -> int:
        return len(self.values) + self.other + self.missing


@dataclass(frozen=True, kw_only=True)
class Boolean(Column):
    """False or true, in that order."""

    kind: ClassVar[str] = "boolean"
    ordered: ClassVar[bool] = False

    @property
    def choices(self) -> tuple[bool, ...]:
        """All values a generated row can hold, without missing."""
        return (False, True)

    @property
    def cells(self) -> int:
        return 2 + self.missing


KINDS: dict[str, type[Column]] = {kind.kind: kind for kind in (Numeric, Categorical, Boolean, Datetime)}


def _seconds(moment: dt.datetime | dt.date) -> float:
    if not isinstance(moment, dt.datetime):
        moment = dt.datetime(moment.year, moment.month, moment.day)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=dt.UTC)
    return moment.timestamp()


def _check_bins(name: str, bins: int) -> None:
    if not 2 <= bins <= 4096:
        raise SchemaError(f'column "{name}": bins must be from 2 to 4096, got {bins}')

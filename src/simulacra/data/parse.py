"""Arrow columns of any type, read as the kind of column that the schema declares.

Each function is total and looks at each value by itself: what one row holds never changes how another is read, because
the sensitivity of every release rests on that. So there is no type inference, no "try, and if one value fails ...".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from simulacra.schema import Boolean, Categorical, Column, Datetime, Numeric

MISSING_TEXTS = ("", "na", "nan", "null", "none")
"""Texts that mean "no value" in ordered and boolean columns, in any case; categorical columns know only the first."""

TRUE_TEXTS = ("true", "t", "yes", "y", "1", "1.0")
FALSE_TEXTS = ("false", "f", "no", "n", "0", "0.0")

_NUMBER = r"^-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?$"
_MOMENT = (
    r"^(?P<year>\d{4})-(?P<month>\d{2})-(?P<day>\d{2})"
    r"(?:[T ](?P<hour>\d{2}):(?P<minute>\d{2})(?::(?P<second>\d{2}(?:\.\d{1,9})?))?"
    r"(?P<zone>Z|[+-]\d{2}(?::?\d{2})?)?)?$"
)
_UNITS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Parsed:
    """One number per row (a value, a second since 1970, or a place on the schema's list), NaN where there is none.

    `missing` marks rows without a value; `unreadable` rows with a value that is not of the column's kind or list.
    """

    values: Floats
    missing: Flags
    unreadable: Flags


def parse(array: Any, column: Column) -> Parsed:
    """Read a column by its kind."""
    array = plain(array)
    if isinstance(column, Numeric):
        return parse_numbers(array)
    if isinstance(column, Datetime):
        return parse_moments(array)
    if isinstance(column, Boolean):
        return parse_booleans(array)
    assert isinstance(column, Categorical)
    return parse_categories(array, column)


def parse_numbers(array: Any) -> Parsed:
    """Numbers, or texts that hold one; infinities are kept, for the bounds to clamp."""
    kind = array.type
    if pa.types.is_boolean(kind):
        array = array.cast(pa.int8())
    elif is_text(kind):
        return _text_numbers(array)
    if not (pa.types.is_integer(array.type) or pa.types.is_floating(array.type) or pa.types.is_decimal(array.type)):
        return _finish(np.full(len(array), np.nan), _flags(array.is_null()))
    values = _floats(array)
    return _finish(values, np.isnan(values))


def parse_moments(array: Any) -> Parsed:
    """Timestamps, dates, or ISO texts, as seconds since 1970; a moment without a time zone is taken as UTC."""
    kind = array.type
    nulls = _flags(array.is_null())
    if pa.types.is_timestamp(kind):
        return _finish(_floats(array.cast(pa.int64())) / _UNITS[kind.unit], nulls)
    if pa.types.is_date32(kind):
        return _finish(_floats(array.cast(pa.int32())) * 86400.0, nulls)
    if pa.types.is_date64(kind):
        return _finish(_floats(array.cast(pa.int64())) / 1e3, nulls)
    if not is_text(kind):
        return _finish(np.full(len(array), np.nan), nulls)
    texts = pc.utf8_trim_whitespace(array)
    return _finish(_iso_seconds(texts), _missing_texts(texts))


def parse_booleans(array: Any) -> Parsed:
    """Booleans, the numbers 0 and 1, or the texts true/false, yes/no, t/f, y/n in any case; as 0 and 1."""
    if pa.types.is_boolean(array.type):
        values = _floats(array.cast(pa.int8()))
        return _finish(values, np.isnan(values))
    if is_text(array.type):
        texts = pc.utf8_lower(pc.utf8_trim_whitespace(array))
        values = np.full(len(array), np.nan)
        values[_among(texts, FALSE_TEXTS)] = 0.0
        values[_among(texts, TRUE_TEXTS)] = 1.0
        return _finish(values, _missing_texts(texts))
    numbers = parse_numbers(array)
    values = np.where((numbers.values == 0.0) | (numbers.values == 1.0), numbers.values, np.nan)
    return _finish(values, numbers.missing)


def parse_categories(array: Any, column: Categorical) -> Parsed:
    """Places on the schema's list; texts match without surrounding white space, and 3.0 matches 3."""
    listed = [str(value) for value in column.values]
    if pa.types.is_boolean(array.type):
        # Lists of booleans are written as texts or as 0 and 1: take the first spelling that is on the list.
        return _boolean_categories(array, listed)
    texts = as_texts(array)
    nulls = _flags(texts.is_null())
    if pa.types.is_floating(array.type):
        nulls |= np.isnan(_floats(array))
    values = _places(texts, listed)
    trimmed = pc.utf8_trim_whitespace(texts)
    absent = np.isnan(values)
    if absent.any():
        values = np.where(
            absent, _places(canonical(trimmed), canonical(pa.array(listed, pa.string())).to_pylist()), values
        )
    empty = _among(trimmed, ("",)) & np.isnan(values)
    values = np.where(nulls, np.nan, values)
    return _finish(values, nulls | empty)


def _finish(values: Floats, missing: Flags) -> Parsed:
    absent = np.isnan(values)
    return Parsed(values=values, missing=missing & absent, unreadable=absent & ~missing)


def plain(array: Any) -> Any:
    """One contiguous array of a plain type: chunks joined, dictionaries and views resolved, bytes as text."""
    if isinstance(array, pa.ChunkedArray):
        if array.num_chunks > 1:
            return pa.concat_arrays([plain(chunk) for chunk in array.chunks])
        array = array.chunk(0) if array.num_chunks else array.combine_chunks()
    if isinstance(array, pa.ExtensionArray):
        return plain(array.storage)
    if pa.types.is_dictionary(array.type):
        return plain(array.dictionary).take(array.indices)
    if pa.types.is_run_end_encoded(array.type):
        rows = np.arange(array.offset, array.offset + len(array))
        runs = np.searchsorted(array.run_ends.to_numpy(), rows, side="right")
        return plain(array.values).take(pa.array(runs, pa.int64()))
    if _is_bytes(array.type):
        return _decoded(array)
    if is_text(array.type):
        try:
            array.validate(full=True)  # texts that are not UTF-8: Parquet files and buffers can hold them
        except pa.ArrowInvalid:
            return _decoded(array.cast(pa.binary_view() if array.type == pa.string_view() else pa.large_binary()))
        return array if array.type == pa.large_string() else array.cast(pa.large_string())
    return array


def _decoded(array: Any) -> Any:
    """Bytes as texts, row by row on purpose: a cast would refuse the whole column for one bad byte."""
    decoded = [None if item is None else item.decode("utf-8", "replace") for item in array.to_pylist()]
    return pa.array(decoded, pa.large_string())


def is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.string_view())


def _is_bytes(kind: Any) -> bool:
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
        or kind == pa.binary_view()
    )


def as_texts(array: Any) -> Any:
    """The values as texts; a nested value becomes a text that is on nobody's list."""
    kind = array.type
    if is_text(kind):
        return array
    if pa.types.is_nested(kind):
        return _unlisted(array)
    if pa.types.is_timestamp(kind):
        moments = array.cast(pa.int64()).cast(pa.timestamp(kind.unit)).cast(pa.timestamp("us"), safe=False)
        return pc.replace_substring_regex(moments.cast(pa.large_string()), r"\.000000$", "")
    if pa.types.is_duration(kind):
        array = array.cast(pa.int64())
    try:
        return array.cast(pa.large_string())
    except pa.ArrowNotImplementedError:  # by the type alone, such as intervals of months and days
        return _unlisted(array)


def _unlisted(array: Any) -> Any:
    return pc.if_else(array.is_null(), pa.scalar(None, pa.large_string()), "(nested)")


def _floats(array: Any) -> Floats:
    """Float64 with NaN for null; large whole numbers are rounded, as bounds are floats anyway."""
    floats = array.cast(pa.float64(), safe=False)
    return np.array(floats.to_numpy(zero_copy_only=False), dtype=np.float64)


def _flags(array: Any) -> Flags:
    return np.array(array.to_numpy(zero_copy_only=False), dtype=np.bool_)


def _among(texts: Any, members: Iterable[str]) -> Flags:
    return _flags(pc.is_in(texts, value_set=pa.array(list(members), texts.type)))


def _missing_texts(texts: Any) -> Flags:
    return _flags(texts.is_null()) | _among(pc.utf8_lower(texts), MISSING_TEXTS)


def _text_numbers(array: Any) -> Parsed:
    texts = pc.utf8_trim_whitespace(array)
    unsigned = pc.replace_substring_regex(texts, r"^\+", "")
    lowered = pc.utf8_lower(unsigned)
    readable = pc.fill_null(pc.match_substring_regex(unsigned, _NUMBER), False)
    values = _floats(pc.if_else(readable, unsigned, pa.scalar(None, unsigned.type)))
    values[_among(lowered, ("inf", "infinity"))] = np.inf
    values[_among(lowered, ("-inf", "-infinity"))] = -np.inf
    return _finish(values, _missing_texts(texts))


def _places(texts: Any, listed: list[str]) -> Floats:
    return _floats(pc.index_in(texts, value_set=pa.array(listed, texts.type)))


def canonical(texts: Any) -> Any:
    """Trimmed, and whole numbers without a decimal part."""
    return pc.replace_substring_regex(pc.utf8_trim_whitespace(texts), r"^([+-]?\d+)\.0*$", r"\1")


def _boolean_categories(array: Any, listed: list[str]) -> Parsed:
    spellings = (("False", "false", "FALSE", "0"), ("True", "true", "TRUE", "1"))
    places = np.array(
        [next((float(listed.index(word)) for word in words if word in listed), np.nan) for words in spellings]
    )
    numbers = _floats(array.cast(pa.int8()))
    nulls = np.isnan(numbers)
    return _finish(np.where(nulls, np.nan, places[np.where(nulls, 0, numbers).astype(np.int64)]), nulls)


def _iso_seconds(texts: Any) -> Floats:
    """Seconds since 1970 of ISO 8601 texts, NaN for all others, in plain calendar arithmetic.

    Library parsers infer a resolution from all values together, so that one row would change another.
    """
    parts = pc.extract_regex(texts, _MOMENT)

    def part(name: str, default: float) -> Floats:
        field = pc.struct_field(parts, name)
        digits = pc.if_else(pc.equal(field, ""), pa.scalar(None, field.type), field)
        numbers = _floats(digits)
        return np.where(np.isnan(numbers), default, numbers)

    year, month, day = part("year", 1970.0), part("month", 1.0), part("day", 1.0)
    hour, minute, second = part("hour", 0.0), part("minute", 0.0), part("second", 0.0)
    zone = pc.struct_field(parts, "zone")
    zone = pc.replace_substring(
        pc.if_else(pc.is_in(zone, value_set=pa.array(["", "Z"], zone.type)), "+00", zone), ":", ""
    )
    zone_numbers = np.nan_to_num(_floats(pc.replace_substring_regex(zone, r"^\+", "")))
    short = _floats(pc.utf8_length(zone)) == 3  # +HH, else +HHMM
    offset = np.where(short, zone_numbers * 3600, np.trunc(zone_numbers / 100) * 3600 + np.fmod(zone_numbers, 100) * 60)
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    lengths = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31], dtype=np.float64)
    in_year = (month >= 1) & (month <= 12)
    length = lengths[(np.where(in_year, month, 1) - 1).astype(np.int64)] + (leap & (month == 2))
    valid = _flags(parts.is_valid()) & in_year & (day >= 1) & (day <= length)
    valid &= (hour < 24) & (minute < 60) & (second < 61)
    # Days since 1970-01-01 in the proleptic Gregorian calendar, counting years from March so that leap days come last.
    shifted = year - (month <= 2)
    from_march = (month + 9) % 12
    days = (
        365 * shifted + shifted // 4 - shifted // 100 + shifted // 400 + (153 * from_march + 2) // 5 + day - 1 - 719468
    )
    seconds: Floats = np.where(valid, days * 86400 + hour * 3600 + minute * 60 + second - offset, np.nan)
    return seconds

"""Schemas as TOML files: reading, writing, and errors that name the place.

label = "income"
unit = "person"

[columns.age]
type = "numeric"
lower = 17
upper = 90
integer = true
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
import tomllib
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from simulacra.errors import OutputError, SchemaError, suggestion
from simulacra.schema import Column, ImageShape, Numeric, Schema
from simulacra.schema.columns import KINDS

BLANK = "FILL IN"
"""What `schema draft` writes where the owner has to decide; a schema that still holds one is refused."""


def load(path: str | Path) -> Schema:
    """Read a schema file."""
    path = Path(path)
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise SchemaError(f'no schema file "{path}"; write one with: simulacra schema draft DATA') from None
    except OSError as error:
        raise SchemaError(f'cannot read the schema file "{path}": {error.strerror}') from None
    try:
        values = tomllib.loads(raw.decode("utf-8"))
    except UnicodeDecodeError:
        raise SchemaError(f'schema file "{path}" is not UTF-8 text') from None
    except tomllib.TOMLDecodeError as error:
        raise SchemaError(f'schema file "{path}" is not valid TOML: {error}') from None
    except (ValueError, RecursionError):  # a number of thousands of digits, or thousands of brackets
        raise SchemaError(f'schema file "{path}" holds a number or a list that is too large to read') from None
    try:
        return from_mapping(values)
    except SchemaError as error:
        raise SchemaError(f'schema file "{path}": {error}') from None


def save(schema: Schema, path: str | Path) -> None:
    """Write a schema file."""
    import tomli_w  # late: reading a schema, as training elsewhere does, must not need it

    try:
        Path(path).write_text(tomli_w.dumps(to_mapping(schema)), encoding="utf-8")
    except OSError as error:
        raise OutputError(f'cannot write the schema file "{path}": {error.strerror}') from None


def from_mapping(values: Mapping[str, Any]) -> Schema:
    """Build a schema from the values of a TOML file."""
    known = ("columns", "image", "label", "rows", "unit", "spent")
    for key in values:
        if key not in known:
            raise SchemaError(f'unknown key "{key}"{suggestion(key, known)}')
    columns = values.get("columns", {})
    if not isinstance(columns, Mapping):
        raise SchemaError("columns must be tables such as [columns.age]")
    label = values.get("label")
    if label is not None and not isinstance(label, str):
        raise SchemaError("label must be the name of a column")
    spent = values.get("spent", [])
    if not isinstance(spent, (list, tuple)) or not all(isinstance(event, Mapping) for event in spent):
        raise SchemaError("spent must be tables such as [[spent]], as schema draft --epsilon writes them")
    image = values.get("image")
    return Schema(
        columns=tuple(_column(name, table) for name, table in columns.items()),
        image=None if image is None else _build(ImageShape, image, "image"),
        label=label,
        rows=int(_number(values["rows"], int, "rows")) if "rows" in values else None,
        unit=str(values.get("unit", "record")),
        spent=tuple(spent),
    )


def to_mapping(schema: Schema) -> dict[str, Any]:
    """Plain values, defaults left out, in a fixed order."""
    result: dict[str, Any] = {}
    if schema.label is not None:
        result["label"] = schema.label
    if schema.rows is not None:
        result["rows"] = schema.rows
    result["unit"] = schema.unit
    if schema.spent:
        result["spent"] = [dict(event) for event in schema.spent]
    if schema.image is not None:
        result["image"] = _plain(schema.image)
    if schema.columns:
        result["columns"] = {column.name: {"type": column.kind, **_plain(column)} for column in schema.columns}
    return result


def _column(name: str, table: Any) -> Column:
    if not isinstance(table, Mapping):
        raise SchemaError(f'column "{name}": expected a table such as [columns.{name}]')
    kind = table.get("type")
    if not isinstance(kind, str) or kind not in KINDS:
        hint = suggestion(str(kind), KINDS) if kind is not None else f"; add type = one of {', '.join(KINDS)}"
        raise SchemaError(f'column "{name}": unknown type "{kind}"{hint}')
    rest = {key: value for key, value in table.items() if key != "type"}
    return _build(KINDS[kind], rest, f'column "{name}"', name=name)


Built = typing.TypeVar("Built", bound=Column | ImageShape)


def _build(kind: type[Built], values: Any, where: str, **fixed: Any) -> Built:
    if not isinstance(values, Mapping):
        raise SchemaError(f"{where}: expected a table")
    hints = typing.get_type_hints(kind)
    fields = {f.name: f for f in dataclasses.fields(kind) if f.name not in fixed}
    arguments: dict[str, Any] = dict(fixed)
    for key, value in values.items():
        if key not in fields:
            raise SchemaError(f'{where}: unknown key "{key}"{suggestion(key, fields)}')
        if value == BLANK or (isinstance(value, list) and BLANK in value):
            raise SchemaError(f'{where}: {key} still says "{BLANK}"; write what is public about it')
        arguments[key] = _value(value, hints[key], f"{where}: {key}")
    for key, spec in fields.items():
        if key not in arguments and spec.default is dataclasses.MISSING:
            raise SchemaError(f"{where}: {key} is missing; add it")
    return kind(**arguments)


def _value(value: Any, hint: Any, where: str) -> Any:
    if hint is bool:
        if not isinstance(value, bool):
            raise SchemaError(f"{where}: expected true or false, got {value!r}")
        return value
    if hint in (int, float):
        return _number(value, hint, where)
    if hint is str:
        if not isinstance(value, str):
            raise SchemaError(f"{where}: expected a text, got {value!r}")
        return value
    if dt.date in typing.get_args(hint):
        if isinstance(value, str):
            try:
                return dt.date.fromisoformat(value) if len(value) == 10 else dt.datetime.fromisoformat(value)
            except ValueError:
                raise SchemaError(f'{where}: "{value}" is not a date such as 2020-01-31') from None
        return value
    if not isinstance(value, list):
        raise SchemaError(f"{where}: expected a list, got {value!r}")
    return tuple(value)


def _number(value: Any, kind: type[int] | type[float], where: str) -> int | float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise SchemaError(f"{where}: expected a number, got {value!r}")
    try:
        if kind is int and (not math.isfinite(value) or value != int(value)):
            raise SchemaError(f"{where}: expected a whole number, got {value!r}")
        return kind(value)
    except OverflowError:
        raise SchemaError(f"{where}: the number is too large; write a smaller one") from None


def _plain(thing: Column | ImageShape) -> dict[str, Any]:
    """The fields that differ from their defaults, with whole-number bounds written as such."""
    result: dict[str, Any] = {}
    for spec in dataclasses.fields(thing):
        value = getattr(thing, spec.name)
        if spec.name == "name" or (spec.default is not dataclasses.MISSING and value == spec.default):
            continue
        if isinstance(thing, Numeric) and thing.integer and isinstance(value, float):
            value = int(value)
        result[spec.name] = list(value) if isinstance(value, tuple) else value
    return result

"""What is declared about each column of a table: its type, by the metadata or by the owner; no value is looked at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from simulacra.data.readers import TableReader, close_name
from simulacra.errors import SchemaError, suggestion

TYPES = ("numeric", "integer", "categorical", "boolean", "datetime")
"""What `--type COLUMN=TYPE` takes; integer is numeric with whole numbers only."""


@dataclass(frozen=True, kw_only=True)
class DeclaredColumn:
    """A column's name, one of `TYPES`, and what its stored type adds: codes are numbers, moments have a time of day."""

    name: str
    type: str
    is_label: bool = False
    codes: bool = False
    moments: bool = False
    nullable: bool = True

    @property
    def ordered(self) -> bool:
        """Whether it has bounds rather than values."""
        return self.type in ("numeric", "integer", "datetime")


def declared_columns(
    data: Any, reader: TableReader, *, types: Mapping[str, str], label: str | None
) -> tuple[DeclaredColumn, ...]:
    """The columns of `data`, which `reader` has opened; `types` wins over the metadata, and a label is a category."""
    reader.check()  # a quote that is never closed makes a header of many rows, and the messages name columns
    for name, kind in types.items():
        if name not in reader.names:
            raise SchemaError(
                f'--type {name}={kind}: no column "{name}" in {reader.where}{close_name(name, reader.names)}'
            )
        if kind not in TYPES:
            raise SchemaError(f'--type {name}={kind}: unknown type "{kind}"{suggestion(kind, TYPES)}')
    if label is not None and label not in reader.names:
        raise SchemaError(f'no column "{label}" in {reader.where}{close_name(label, reader.names)}')
    stored = {name: _plain(kind) for name, kind in (reader.types or {}).items()}
    guessed = {name: _type_of(kind, is_label=name == label) for name, kind in stored.items()}
    chosen = {name: types.get(name) or guessed.get(name) for name in reader.names}
    _refuse_untyped(reader, [name for name, kind in chosen.items() if kind is None])
    if label is not None and chosen[label] not in ("categorical", "boolean"):
        raise SchemaError(
            f'label "{label}" is {chosen[label]}; a label must be categorical or boolean: --type {label}=categorical'
        )
    nulls = _nullable(data)
    return tuple(
        DeclaredColumn(
            name=name,
            type=str(chosen[name]),
            is_label=name == label,
            codes=name in stored and _is_number(stored[name]),
            moments=name in stored and bool(pa.types.is_timestamp(stored[name])),
            nullable=nulls.get(name, True),
        )
        for name in reader.names
    )


def _plain(kind: Any) -> Any:
    while pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        kind = kind.value_type
    return kind


def _is_number(kind: Any) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _type_of(kind: Any, *, is_label: bool) -> str | None:
    """The type that the metadata says, or None where it does not tell (lists, times of day, nothing but nulls)."""
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_integer(kind):
        return "categorical" if is_label else "integer"
    if _is_number(kind):
        return "numeric"
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return "datetime"
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    views = (pa.string_view(), pa.binary_view())
    return "categorical" if any(is_kind(kind) for is_kind in texts) or kind in views else None


def _refuse_untyped(reader: TableReader, untyped: list[str]) -> None:
    if not untyped:
        return
    named = " ".join(f'--type "{name}=TYPE"' for name in untyped)
    why = "has no types" if reader.types is None else "does not tell the type of every column"
    raise SchemaError(f"{reader.where} {why}; add {named}, where TYPE is one of {', '.join(TYPES)}")


def _nullable(data: Any) -> dict[str, bool]:
    """Which columns may hold nulls, by their declaration alone; those not listed may."""
    if isinstance(data, (str, Path)) and str(data).lower().endswith(".parquet"):
        from pyarrow import parquet

        schema = parquet.read_schema(str(data))
    elif isinstance(data, (pa.Table, pa.RecordBatch)):
        schema = data.schema
    elif hasattr(data, "dtypes"):
        return {str(n): not (isinstance(d, np.dtype) and d.kind in "iub") for n, d in data.dtypes.items()}
    else:
        return {}
    return {field.name: field.nullable for field in schema}

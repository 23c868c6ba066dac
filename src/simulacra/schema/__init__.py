"""Schema: all that is public about a record. Nothing in it may come from the data, unless it was paid for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from simulacra.errors import BudgetError, SchemaError, suggestion
from simulacra.schema.columns import Boolean, Categorical, Column, Datetime, Numeric

__all__ = ["Boolean", "Categorical", "Column", "Datetime", "ImageShape", "Numeric", "Schema"]


@dataclass(frozen=True, kw_only=True)
class ImageShape:
    """Height, width and channels (1 grey, 3 colour) of every image, and the names of the classes, if labelled."""

    height: int
    width: int
    channels: int = 1
    classes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if min(self.height, self.width) < 1 or max(self.height, self.width) > 4096:
            raise SchemaError(f"image: height and width must be from 1 to 4096, got {self.height} x {self.width}")
        if self.channels not in (1, 3):
            raise SchemaError(f"image: channels must be 1 (grey) or 3 (colour), got {self.channels}")
        if not all(isinstance(name, str) for name in self.classes):
            raise SchemaError('image: classes must be texts; write "0", not 0')
        if len(set(self.classes)) < len(self.classes):
            raise SchemaError("image: a class is listed twice; keep one")
        if len(self.classes) == 1:
            raise SchemaError("image: one class alone is no label; list at least two, or none for unlabelled images")

    @property
    def pixels(self) -> int:
        """Numbers per image."""
        return self.height * self.width * self.channels


@dataclass(frozen=True, kw_only=True)
class Schema:
    """Either the columns of a table, or the shape of images; the label; and what else the owner declares public.

    `rows` is the number of records, only if the owner declares it public (it is private under add-remove).
    `unit` says in words whose privacy one record is. `spent` lists the paid releases that filled in this schema
    (`schema draft --epsilon`), so that every later certificate counts them.
    """

    columns: tuple[Column, ...] = ()
    image: ImageShape | None = None
    label: str | None = None
    rows: int | None = None
    unit: str = "record"
    spent: tuple[Mapping[str, Any], ...] = field(default=(), hash=False)

    def __post_init__(self) -> None:
        if bool(self.columns) == (self.image is not None):
            raise SchemaError("a schema describes either columns or an image; give [columns.NAME] tables or [image]")
        names = [column.name for column in self.columns]
        for name in names:
            if names.count(name) > 1:
                raise SchemaError(f'column "{name}" is described twice; keep one')
        if self.rows is not None and self.rows < 1:
            raise SchemaError(f"rows must be at least 1, got {self.rows}")
        if self.image is not None:
            if self.label is not None:
                raise SchemaError("images take their label from image.classes; remove label")
            return
        if self.label is not None:
            column = self.column(self.label)
            if column.ordered:
                raise SchemaError(f'label "{self.label}" is {column.kind}; a label must be categorical or boolean')
            if column.cells < 2:
                raise SchemaError(f'label "{self.label}" has one class; list at least two values, or drop the label')
            if column.missing and isinstance(column, Categorical) and "missing" in column.choices:
                raise SchemaError(
                    f'label "{self.label}": "missing" is both listed and meant by missing = true; rename the value'
                )
            if len(self.columns) < 2:
                raise SchemaError("a table needs at least one column besides the label")

    def column(self, name: str) -> Column:
        """The column of that name."""
        for column in self.columns:
            if column.name == name:
                return column
        raise SchemaError(f'no column "{name}" in the schema{suggestion(name, [c.name for c in self.columns])}')

    @cached_property
    def features(self) -> tuple[Column, ...]:
        """All columns but the label."""
        return tuple(column for column in self.columns if column.name != self.label)

    @property
    def inputs(self) -> int:
        """How many numbers in [-1, 1] an encoded record has, the label not counted."""
        return self.image.pixels if self.image else sum(column.width for column in self.features)

    @property
    def classes(self) -> int:
        """Number of classes; 1 when there is no label."""
        if self.image:
            return max(1, len(self.image.classes))
        return self.column(self.label).cells if self.label else 1

    @property
    def class_names(self) -> tuple[str, ...]:
        """The classes in words, in the order of their numbers; empty when there is no label."""
        if self.image:
            return self.image.classes
        if self.label is None:
            return ()
        column = self.column(self.label)
        assert isinstance(column, (Categorical, Boolean))
        return (*map(str, column.choices), *(["missing"] if column.missing else []))

    @property
    def labelled(self) -> bool:
        """Whether records carry a class."""
        return bool(self.class_names)

    def check_delta(self, delta: float) -> None:
        """Refuse a delta that would allow publishing one of the declared rows outright."""
        if self.rows is not None and delta >= 1 / self.rows:
            raise BudgetError(
                f"delta {delta:g} must be below 1 / rows = {1 / self.rows:.3g}; "
                f"try {10 ** math.floor(math.log10(0.1 / self.rows)):g}"
            )

    @classmethod
    def load(cls, path: Any) -> Schema:
        """Read a TOML file."""
        from simulacra.schema.toml import load

        return load(path)

    def save(self, path: Any) -> None:
        """Write a TOML file that `load` reads back to an equal schema."""
        from simulacra.schema.toml import save

        save(self, path)

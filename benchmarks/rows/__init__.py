"""Rows of the book: a method on a data set at an epsilon with a seed. A new family is a few lines in a file here."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from fnmatch import fnmatchcase

import click

from benchmarks.rows import condensation, embeddings, gans, perceptual, tables
from benchmarks.rows.row import REAL, TABLES, Family, Row

__all__ = ["FAMILIES", "REAL", "TABLES", "Family", "Row", "all_rows", "select"]

FAMILIES: list[Family] = [
    Family(method=REAL, data=("mnist", "fashion-mnist", "cifar10", *TABLES)),
    # As many real records as there are synthetic ones: twelve classifiers take hours for half a million.
    Family(method=REAL, data=("covtype",), seeds=(0,), settings={"rows": 60_000}, variant="60000-rows"),
    *embeddings.families(),
    *tables.families(),
    *gans.families(),
    *perceptual.families(),
    *condensation.families(),
]


def all_rows() -> dict[str, Row]:
    """Every row, by its name."""
    rows: dict[str, Row] = {}
    for row in (row for family in FAMILIES for row in family.rows()):
        if row.name in rows:
            raise click.ClickException(f"two rows are called {row.name}; give one of them a variant")
        rows[row.name] = row
    return rows


def select(patterns: Iterable[str]) -> list[Row]:
    """The rows that any of the shell patterns fits, in the order of the registry; a pattern without a row is refused.

    An asterisk runs over slashes too: dp-merf/* is all of that method.
    """
    rows = all_rows()
    chosen: set[str] = set()
    for pattern in patterns:
        found = [name for name in rows if fnmatchcase(name, pattern)]
        if not found:
            raise click.ClickException(f'no row is called "{pattern}"{_nearest(pattern, list(rows))}')
        chosen.update(found)
    return [row for name, row in rows.items() if name in chosen]


def _nearest(pattern: str, names: list[str]) -> str:
    close = get_close_matches(pattern, names, n=3, cutoff=0.5)
    return f"; the closest are {', '.join(close)}" if close else "; see them all with: python -m benchmarks.book list"

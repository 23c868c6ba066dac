"""The book of results, as far as the package carries it: figures of methods and papers on the known data sets.

book.json is made from the results of the benchmark runner: python -m benchmarks.book table --format data
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from simulacra.datasets import names, schema

if TYPE_CHECKING:
    from simulacra.schema import Schema

BOOK = Path(__file__).parent / "book.json"


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A mean over seeds, its standard deviation if there are several, and how many there are (0: a paper's)."""

    mean: float
    spread: float | None = None
    seeds: int = 0


@dataclass(frozen=True, kw_only=True)
class Result:
    """One line of the book: a method on a data set, ours or a paper's (`source` then names it)."""

    data: str
    method: str
    epsilon: float | None
    adjacency: str = ""
    variant: str = ""
    source: str = ""
    figures: Mapping[str, Figure] = field(default_factory=dict)


@cache
def results() -> tuple[Result, ...]:
    """Every line of the book that has a figure."""
    return tuple(
        Result(**{**line, "figures": {name: Figure(**figure) for name, figure in line["figures"].items()}})
        for line in json.loads(BOOK.read_text(encoding="utf-8"))["lines"]
    )


@cache
def citations() -> dict[str, str]:
    """What each `source` stands for."""
    found: dict[str, str] = json.loads(BOOK.read_text(encoding="utf-8"))["sources"]
    return found


def known(described: Schema) -> str | None:
    """The known data set that has this schema, if there is one: the same columns or image, and the same label."""
    for name in names():
        other = schema(name)
        if (other.columns, other.image, other.label) == (described.columns, described.image, described.label):
            return name
    return None

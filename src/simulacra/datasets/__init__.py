"""The known data sets: where they live, their schemas, whom to thank. No other package knows their names.

`load("adult")` and `load("digits")` always work; the others are looked for in the folder that the environment variable
SIMULACRA_DATA names, then in the cache (SIMULACRA_CACHE, else ~/.cache/simulacra), then, if a checksum is published, at
their official home.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simulacra.errors import DataError, suggestion

if TYPE_CHECKING:
    from simulacra.schema import Schema

__all__ = ["SPLITS", "Dataset", "load", "names", "same_people", "schema", "training_rows"]

SCHEMAS = Path(__file__).parent / "schemas"
SPLITS = ("train", "test", "all")


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """One split of a known data set; `data` is what `simulacra.data.open_source` takes."""

    name: str
    split: str
    data: Any = field(repr=False)
    schema: Schema = field(repr=False)
    citation: str
    licence: str


def names() -> tuple[str, ...]:
    """The data sets that `load` knows."""
    # Not from the catalogue, which imports the readers: the command line lists names without waiting for them.
    return tuple(sorted(file.stem for file in SCHEMAS.glob("*.toml")))


@cache
def schema(name: str) -> Schema:
    """The public schema of a data set; needs no data. Read once: the book asks for them line by line."""
    from simulacra.schema import Schema

    _check_name(name)
    return Schema.load(SCHEMAS / f"{name}.toml")


def load(name: str, split: str = "train") -> Dataset:
    """Find (or download) one split of a data set: "train", "test" or "all".

    >>> adult = load("adult")
    >>> adult.schema.label
    'income'
    """
    from simulacra.datasets.catalogue import CATALOGUE

    _check_name(name)
    if split not in SPLITS:
        raise DataError(f'no split "{split}"{suggestion(split, SPLITS)}')
    entry = CATALOGUE[name]
    return Dataset(
        name=name,
        split=split,
        data=entry.read(split),
        schema=schema(name),
        citation=entry.citation,
        licence=entry.licence,
    )


def training_rows(name: str) -> int:
    """How many records a data set is trained on; needs no data.

    >>> training_rows("adult")
    32561
    """
    from simulacra.datasets.catalogue import CATALOGUE

    _check_name(name)
    return CATALOGUE[name].rows


def same_people(name: str, other: str) -> bool:
    """Whether two names stand for the same records, in whatever form: faces come at two sizes.

    >>> same_people("celeba", "celeba-64"), same_people("mnist", "digits"), same_people("digits", "ImageNet")
    (True, False, False)
    """
    from simulacra.datasets.catalogue import CATALOGUE

    known = [CATALOGUE[each].citation for each in (name, other) if each in CATALOGUE]
    return name == other or (len(known) == 2 and known[0] == known[1])


def _check_name(name: str) -> None:
    if name not in names():
        raise DataError(f'no data set "{name}"{suggestion(name, names())}')

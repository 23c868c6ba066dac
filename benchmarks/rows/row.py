"""What a row of the book is, and a family: rows that differ in data set, epsilon and seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from benchmarks import rivals
from simulacra import datasets
from simulacra.schema import Schema

TABLES = ("adult", "census", "cervical", "covtype", "credit", "intrusion", "isolet")
"""The tables of the DP-NTK paper that can be had."""
REAL = "real"
"""The yardstick: the real training records in place of synthetic ones."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """What is run and scored as one. `epsilon` is None without privacy; `settings` differ from the method's own."""

    method: str
    data: str
    epsilon: float | None
    seed: int
    delta: float = 1e-5
    adjacency: str = "replace-one"
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)
    variant: str = ""
    labelled: bool = True
    """Whether the data set's labels are used; images can do without."""
    condensed: int | None = None
    """Records of each class, for rows whose samples are a condensed set. Where the method makes none itself, its
    release is condensed, from samples of the generator that was trained first."""

    @property
    def schema(self) -> Schema:
        """What is public about a record; needs no data."""
        found = datasets.schema(self.data)
        if self.labelled or found.image is None:
            return found
        return replace(found, image=replace(found.image, classes=()))

    @property
    def name(self) -> str:
        """For example dp-merf/mnist/eps1/seed0+VARIANT, or real/mnist/seed0; also its place in the folders."""
        budget = [] if self.real else ["not-private" if self.epsilon is None else f"eps{self.epsilon:g}"]
        ending = f"seed{self.seed}" + (f"+{self.variant}" if self.variant else "")
        return "/".join([self.method, self.data, *budget, ending])

    @property
    def real(self) -> bool:
        """Whether this is the yardstick."""
        return self.method == REAL

    @property
    def rival(self) -> bool:
        """Whether this is somebody else's method, fitted to the same cells."""
        return self.method in rivals.NAMES

    def to_mapping(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {**asdict(self), "settings": dict(self.settings), "name": self.name}


@dataclass(frozen=True, kw_only=True)
class Family:
    """Rows that differ in data set, epsilon and seed. `seeded` names settings that take the row's seed as well."""

    method: str
    data: Sequence[str]
    epsilons: Sequence[float | None] = (None,)
    seeds: Sequence[int] = (0, 1, 2, 3, 4)
    delta: float = 1e-5
    adjacency: str = "replace-one"
    settings: Mapping[str, Any] = field(default_factory=dict)
    seeded: Sequence[str] = ()
    variant: str = ""
    labelled: bool = True
    condensed: int | None = None

    def rows(self) -> list[Row]:
        """Every combination."""
        return [
            Row(
                method=self.method,
                data=data,
                epsilon=epsilon,
                seed=seed,
                delta=self.delta,
                adjacency=self.adjacency,
                settings={**self.settings, **dict.fromkeys(self.seeded, seed)},
                variant=self.variant,
                labelled=self.labelled,
                condensed=self.condensed,
            )
            for data in self.data
            for epsilon in self.epsilons
            for seed in self.seeds
        ]

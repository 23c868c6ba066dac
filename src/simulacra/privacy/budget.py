"""Budget: what is promised, to whom, before any data is seen."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from simulacra.errors import BudgetError, suggestion


class Adjacency(StrEnum):
    """Which two data sets must be hard to tell apart.

    ADD_REMOVE: one record is added or removed; the number of records is private.
    REPLACE_ONE: one record is replaced by any other; both data sets have the same size.
    """

    ADD_REMOVE = "add-remove"
    REPLACE_ONE = "replace-one"

    @classmethod
    def parse(cls, text: str) -> Adjacency:
        """Read a name, with a helpful error."""
        try:
            return cls(text)
        except ValueError:
            names = [member.value for member in cls]
            raise BudgetError(f'unknown adjacency "{text}"{suggestion(str(text), names)}') from None


@dataclass(frozen=True, kw_only=True)
class Budget:
    """(epsilon, delta)-differential privacy under a neighbouring relation, which has no default: it must be chosen.

    >>> Budget(epsilon=1.0, delta=1e-5, adjacency=Adjacency.ADD_REMOVE).epsilon
    1.0
    """

    epsilon: float
    delta: float
    adjacency: Adjacency

    def __post_init__(self) -> None:
        if not isinstance(self.adjacency, Adjacency):
            object.__setattr__(self, "adjacency", Adjacency.parse(self.adjacency))
        if not (isinstance(self.epsilon, (int, float)) and math.isfinite(self.epsilon) and self.epsilon > 0):
            raise BudgetError(f"epsilon must be a positive, finite number, got {self.epsilon}; 1 is a common choice")
        if not (isinstance(self.delta, (int, float)) and 1e-300 < self.delta < 1):
            raise BudgetError(f"delta must be between 0 and 1, got {self.delta}; 1e-5 is a common choice")

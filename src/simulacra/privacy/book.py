"""Book: what the vault needs of whoever keeps the accounts. The ledger does at home, a permit elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from simulacra.privacy.accountant import Event


class Book(Protocol):
    """Every method that writes has its entry on the disk before it returns; see `ledger` for what they mean."""

    @property
    def path(self) -> Path:
        """The file."""
        ...

    def reserved(self, run: str, step: str, event: Event | None = None) -> int:
        """How many releases of a run's step are spent; with `event`, only those that had exactly its noise."""
        ...

    def asked(self, run: str, step: str, event: Event | None = None) -> int:
        """How many times a run's step was asked, answered or not; with `event`, only with exactly its noise."""
        ...

    def allow(self, events: Sequence[Event]) -> None:
        """Raise if these events would pass a cap; write nothing."""
        ...

    def reserve(self, run: str, steps: Sequence[str], events: Sequence[Event], *, at_most: int | None = None) -> str:
        """Spend events."""
        ...

    def ask(self, run: str, step: str, event: Event) -> None:
        """Note that a reserved step is about to be answered."""
        ...

    def answer(self, run: str, step: str, sha256: str) -> None:
        """Note what was released."""
        ...

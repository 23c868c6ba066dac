"""How a long evaluation says where it is."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Called with the name of a stage when it begins, and again with counts as it goes on, where they are known."""

    def __call__(self, stage: str, done: int = 0, total: int = 0, /) -> None:
        """`done` of `total` in `stage`; a total of 0 means that it is not known."""


def silent(stage: str, done: int = 0, total: int = 0, /) -> None:
    """Tell nobody."""

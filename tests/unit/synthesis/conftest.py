"""Fixtures for the tests of training loops: a method that can be found, and a count of its draws."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import looped
import pytest
from loop_runs import BLOCK, Draws


@pytest.fixture
def looped_method(work: Path, monkeypatch: pytest.MonkeyPatch, remembered_plans: None) -> Iterator[None]:
    """The looped method, known by its name, with small blocks and in an empty working folder."""
    monkeypatch.setattr("simulacra.synthesis.looping.block_for", lambda count: BLOCK)
    with looped.known():
        yield
    looped.AT_TURN.clear()


@pytest.fixture
def draws(monkeypatch: pytest.MonkeyPatch) -> Draws:
    """How many draws of noise a loop has made by now."""
    return Draws(monkeypatch)

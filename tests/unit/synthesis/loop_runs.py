"""Runs of the looped method, each in the working folder: begun, prepared, killed, and counted."""

from __future__ import annotations

from typing import Any

import looped
import pytest
import tiny
from looped import LoopedMeans

import simulacra
from simulacra.privacy.ledger import Ledger
from simulacra.privacy.noise import NoiseSource
from simulacra.synthesis.run import Run

BLOCK = 5
"""Draws per block in these tests; there are 40 in the plan."""


def arguments(**more: Any) -> dict[str, Any]:
    return {
        "schema": tiny.schema(tiny.PEOPLE),
        "method": LoopedMeans.name,
        "epsilon": 5.0,
        "delta": 1e-5,
        "adjacency": "add-remove",
        "ledger": "people.ledger",
        **more,
    }


def fit(**more: Any) -> Run:
    return simulacra.fit(tiny.people(), out="run", **arguments(device="cpu", **more))


def prepare(**more: Any) -> Run:
    return simulacra.prepare(tiny.people(), out="run", **arguments(**more))


def reserved(name: str = "run") -> int:
    return Ledger("people.ledger").reserved(Run.load(name).facts["run"], "sums")


class Killed(BaseException):
    """As sudden as kill -9, for this process."""


class Draws:
    """Counts every draw of noise of a loop, whatever becomes of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made = 0
        genuine = NoiseSource.fast

        def counted(source: NoiseSource, like: Any, std: float) -> Any:
            self.made += 1
            return genuine(source, like, std)

        monkeypatch.setattr(NoiseSource, "fast", counted)


def die(at: int) -> None:
    def act(number: int) -> None:
        if number == at:
            raise Killed

    looped.AT_TURN[:] = [act]

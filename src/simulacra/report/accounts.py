"""The ledger of a data set, for the report: what was ever spent, by which run, and what is left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from simulacra.privacy import accountant
from simulacra.privacy.accountant import Event
from simulacra.privacy.ledger import Ledger
from simulacra.report.charts import gauge_bar, number

MOST_LINES = 30


@dataclass(frozen=True, kw_only=True)
class Spending:
    """One run in the ledger; alone it would cost `epsilon`, and together they cost less than the sum."""

    run: str
    steps: str
    epsilon: float | None
    this: bool


@dataclass(frozen=True, kw_only=True)
class Accounts:
    """A ledger as it stood when the report was made; `strange` if the run that the report is about is not in it."""

    name: str
    adjacency: str
    delta: float
    epsilon: float | None
    cap: float | None
    lines: tuple[Spending, ...]
    left_out: int
    strange: bool

    @property
    def chart(self) -> Markup | None:
        """Spent against the cap, if there is one."""
        if self.cap is None or self.epsilon is None:
            return None
        label = f"Spent: epsilon {number(self.epsilon)} of a cap of {number(self.cap)}"
        return gauge_bar(self.epsilon / self.cap, label=label)


def read_accounts(path: str | Path, *, this: str) -> Accounts:
    """Read a ledger file; `this` is the random name of the run that the report is about."""
    ledger = Ledger(path)
    total = ledger.total()
    entries = ledger.entries()
    by_run: dict[str, list[dict[str, Any]]] = {}
    for entry in entries:
        if entry["kind"] == "reserve":
            by_run.setdefault(entry["run"], []).append(entry)
    lines = [_spending(run, reserved, total.delta, run == this) for run, reserved in by_run.items()]
    shown = lines[-MOST_LINES:]
    return Accounts(
        name=ledger.name,
        adjacency=str(total.adjacency),
        delta=total.delta,
        epsilon=total.epsilon if total.epsilon < float("inf") else None,
        cap=None if total.cap is None else total.cap.epsilon,
        lines=tuple(shown),
        left_out=len(lines) - len(shown),
        strange=this not in by_run,
    )


def _spending(run: str, reserved: Sequence[dict[str, Any]], delta: float, this: bool) -> Spending:
    steps = list(dict.fromkeys(step for entry in reserved for step in entry["steps"]))
    events = [Event.from_json(event) for entry in reserved for event in entry["events"]]
    noisy = all(event.noise_multiplier > 0 for event in events)
    # Training loops take seconds to compose, and their certificate says what they cost.
    alone = None if not noisy or any(event.sampled for event in events) else accountant.epsilon(events, delta)
    return Spending(run=run, steps=", ".join(steps), epsilon=alone, this=this)

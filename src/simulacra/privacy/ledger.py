"""Ledger: everything ever spent on a data set, in one append-only, hash-chained file that survives crashes.

One line is one entry:

    open      the name the owner gave the data set, the neighbouring relation, the cap (if any)
    reserve   events that are spent from this line on, whatever happens afterwards: a crash is not a refund
    ask       a reserved step is about to be answered; durable before its noise is drawn
    answer    the hash of what was released

The entries are hash-chained (see `chain`), so that edits and truncation show.

A cap is a privacy filter, fixed when the ledger is made, so that plans may be chosen after seeing earlier releases:
`gaussian` adds up 1 / multiplier^2 and takes full-data releases only; `renyi` adds up Renyi divergences and takes
all. Failure deltas are added up apart, and may not pass what was set aside for them on top of the cap's delta.
Without a cap the total is an odometer reading, not a guarantee fixed in advance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from simulacra.errors import CapExceeded, LedgerBroken, LedgerError, OutputError
from simulacra.privacy import accountant, gaussian
from simulacra.privacy.accountant import Event
from simulacra.privacy.budget import Adjacency, Budget
from simulacra.privacy.chain import Chain, Entries

FORMAT = 1
ORDERS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128)
"""Renyi orders of a `renyi` cap; few, because they share its delta."""
Filter = Literal["gaussian", "renyi"]


@dataclass(frozen=True, kw_only=True)
class Total:
    """What was spent so far. `guaranteed` tells a capped ledger from an odometer reading."""

    epsilon: float
    delta: float
    adjacency: Adjacency
    releases: int
    cap: Budget | None

    @property
    def guaranteed(self) -> bool:
        """Whether a cap, fixed in advance, holds."""
        return self.cap is not None


class Ledger:
    """An open ledger. Every operation takes the file's lock, reads and checks all of it, and lets go again."""

    def __init__(self, path: str | Path, *, wait_seconds: float = 10.0) -> None:
        self.path = Path(path)
        self._chain = Chain(path=self.path, wait_seconds=wait_seconds)
        if not self.path.exists():
            raise LedgerError(f'no ledger "{self.path}"; make one with: simulacra ledger create {self.path}')
        with self._chain.locked():
            self._chain.read()

    @classmethod
    def create(
        cls,
        path: str | Path,
        *,
        adjacency: Adjacency,
        name: str | None = None,
        cap: Budget | None = None,
        cap_filter: Filter = "gaussian",
        failure_delta: float | None = None,
        wait_seconds: float = 10.0,
    ) -> Ledger:
        """Make a new ledger; the relation and the cap are fixed from here on.

        `failure_delta` is set aside on top of the cap's delta, for category thresholds and for the grid of exact noise;
        by default a millionth of delta, enough for the grid.
        """
        path = Path(path)
        if cap is not None and cap.adjacency is not adjacency:
            raise LedgerError("the cap and the ledger must use the same neighbouring relation")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f'cannot make the folder of ledger "{path}": {error.strerror}') from None
        ledger = object.__new__(cls)
        ledger.path, ledger._chain = path, Chain(path=path, wait_seconds=wait_seconds)
        with ledger._chain.locked():
            if path.exists() and path.read_bytes().count(b"\n"):
                raise LedgerError(f'ledger "{path}" exists already; use it, or choose another name')
            if ledger._chain.head_path.exists():  # a head is only ever written after a complete first line
                raise LedgerBroken(f'ledger "{path}" is gone but its .head file is there; restore both from a backup')
            ledger._chain.append(
                [],
                kind="open",
                format=FORMAT,
                name=name or path.stem,
                adjacency=str(adjacency),
                cap=None if cap is None else _terms(cap, cap_filter, failure_delta),
            )
        return ledger

    @classmethod
    def open_or_create(cls, path: str | Path, *, adjacency: Adjacency) -> Ledger:
        """Use the ledger of that name, or make one without a cap."""
        path = Path(path)
        if not path.exists() or not path.read_bytes().count(b"\n"):
            try:
                return cls.create(path, adjacency=adjacency)
            except LedgerError:
                if not path.exists():
                    raise
        ledger = cls(path)
        if ledger.adjacency is not adjacency:
            raise LedgerError(f'ledger "{path}" counts under {ledger.adjacency}, not {adjacency}; use that relation')
        return ledger

    # -- what it says ---------------------------------------------------------------------------------------------

    def entries(self) -> Entries:
        """All entries, checked."""
        with self._chain.locked():
            return self._chain.read()

    @property
    def name(self) -> str:
        """The name the owner gave the data set."""
        return str(self.entries()[0]["name"])

    @property
    def adjacency(self) -> Adjacency:
        """The neighbouring relation everything is counted under."""
        return Adjacency(self.entries()[0]["adjacency"])

    @property
    def cap(self) -> Budget | None:
        """The cap, if there is one."""
        return _cap(self.entries())

    def total(self, delta: float | None = None) -> Total:
        """Everything spent, composed; at the cap's delta unless another is given (1e-5 if there is no cap)."""
        entries = self.entries()
        cap = _cap(entries)
        at = delta if delta is not None else (cap.delta if cap else 1e-5)
        events = _events(entries)
        return Total(
            epsilon=_epsilon_at(entries[0]["cap"], events, at),
            delta=at,
            adjacency=Adjacency(entries[0]["adjacency"]),
            releases=sum(event.count for event in events),
            cap=cap,
        )

    def reserved(self, run: str, step: str, event: Event | None = None) -> int:
        """How many releases of a run's step are spent; with `event`, only those that had exactly its noise."""
        return _reserved(self.entries(), run, step, event)

    def asked(self, run: str, step: str, event: Event | None = None) -> int:
        """How many times a run's step was asked, answered or not; with `event`, only with exactly its noise."""
        return _asked(self.entries(), run, step, event)

    # -- what it does ---------------------------------------------------------------------------------------------

    def allow(self, events: Sequence[Event]) -> None:
        """Raise CapExceeded if these events would pass the cap; write nothing."""
        with self._chain.locked():
            self._allow(self._chain.read(), events)

    def reserve(self, run: str, steps: Sequence[str], events: Sequence[Event], *, at_most: int | None = None) -> str:
        """Spend events: checked against the cap and on the disk before this returns. Gives the entry's hash.

        `at_most` is the number of releases of each step that the run's plan holds: two processes that resume the same
        training loop cannot share it out twice.
        """
        with self._chain.locked():
            entries = self._chain.read()
            self._allow(entries, events)
            for step, event in zip(steps, events, strict=True):
                if at_most is not None and _reserved(entries, run, step) + event.count > at_most:
                    raise LedgerError(f'step "{step}" of run "{run}" is being used by another process; let it finish')
            return self._chain.append(
                entries, kind="reserve", run=run, steps=list(steps), events=[event.to_json() for event in events]
            )

    def ask(self, run: str, step: str, event: Event) -> None:
        """Note, durably, that a reserved step is about to be answered; a reservation pays for one answer only."""
        with self._chain.locked():
            entries = self._chain.read()
            if _asked(entries, run, step, event) >= _reserved(entries, run, step, event):
                raise LedgerError(
                    f'step "{step}" of run "{run}" is not reserved, or another process has asked it; resume the run'
                )
            self._chain.append(entries, kind="ask", run=run, step=step, event=event.to_json())

    def answer(self, run: str, step: str, sha256: str) -> None:
        """Note what was released."""
        with self._chain.locked():
            self._chain.append(self._chain.read(), kind="answer", run=run, step=step, sha256=sha256)

    # -- how ------------------------------------------------------------------------------------------------------

    def _allow(self, entries: Entries, events: Sequence[Event]) -> None:
        adjacency = Adjacency(entries[0]["adjacency"])
        if any(event.adjacency is not adjacency for event in events):
            raise LedgerError(f'ledger "{self.path}" counts under {adjacency}; use that relation, or another ledger')
        cap = _cap(entries)
        if cap is None:
            return
        if any(event.noise_multiplier == 0 for event in events):
            raise CapExceeded(f'ledger "{self.path}" has a cap: nothing is released from it without noise')
        together = [*_events(entries), *events]
        terms = entries[0]["cap"]
        failures = math.fsum(event.failure_delta * event.count for event in together)
        if failures > terms["failure_delta"]:
            raise CapExceeded(
                f'ledger "{self.path}": thresholds and rounding need a failure probability of {failures:.3g}, '
                f"and {terms['failure_delta']:.3g} was set aside; set it with ledger create --failure-delta"
            )
        if terms["filter"] == "gaussian" and any(event.sampled for event in together):
            raise CapExceeded(
                f'ledger "{self.path}" has a Gaussian cap and takes full-data releases only; '
                "for training loops make a ledger with the renyi filter"
            )
        reached = _capped_epsilon(terms, together)
        if reached > cap.epsilon:
            before = _capped_epsilon(terms, _events(entries))
            raise CapExceeded(
                f'ledger "{self.path}": this would reach epsilon {reached:.4g} at delta {cap.delta:g}, the cap is '
                f"{cap.epsilon:g} and {before:.4g} is spent; ask for less, or stop here"
            )


def _terms(cap: Budget, cap_filter: Filter, failure_delta: float | None) -> dict[str, Any]:
    aside = cap.delta * 1e-6 if failure_delta is None else failure_delta
    if not 0 <= aside < 1 - cap.delta:
        raise LedgerError(f"failure_delta must be from 0 to below 1 - delta, got {aside:g}")
    return {"epsilon": cap.epsilon, "delta": cap.delta, "failure_delta": aside, "filter": cap_filter}


def _conversion(order: float, delta: float) -> float:
    """What has to be added to a Renyi divergence of that order to get an epsilon at delta (Balle et al. 2020)."""
    return math.log1p(-1 / order) - math.log(delta * order) / (order - 1)


def _capped_epsilon(terms: dict[str, Any], events: Sequence[Event]) -> float:
    """What a cap compares with its epsilon. Failure deltas are counted apart, against what was set aside for them.

    A filter must hold for plans that are chosen after seeing answers. Sums of 1 / multiplier^2 do (Gaussian
    differential privacy), and so do Renyi divergences of one order fixed in advance (Feldman and Zrnic 2021). To have a
    choice of m orders, each gets delta / m: split the histories by the order that certifies them; on its part each
    order's own filter never closed, so its bound holds there, and the m bounds add up to epsilon and delta.
    """
    if not events:
        return 0.0
    if terms["filter"] == "gaussian":
        return gaussian.epsilon_of(accountant.total_mu(events), terms["delta"])
    from simulacra.privacy.subsampled import rdp_curve

    curves = [rdp_curve(event, ORDERS) for event in events]
    share = terms["delta"] / len(ORDERS)
    return max(
        0.0,
        min(math.fsum(spent) + _conversion(order, share) for order, *spent in zip(ORDERS, *curves, strict=True)),
    )


def _epsilon_at(terms: dict[str, Any] | None, events: Sequence[Event], delta: float) -> float:
    """The total to show: by the cap's own arithmetic at the cap's delta, else the tightest composition."""
    if terms is not None and delta == terms["delta"]:
        return _capped_epsilon(terms, events)
    return accountant.epsilon(events, delta) if events else 0.0


def _cap(entries: Entries) -> Budget | None:
    cap = entries[0]["cap"]
    if cap is None:
        return None
    return Budget(epsilon=cap["epsilon"], delta=cap["delta"], adjacency=Adjacency(entries[0]["adjacency"]))


def _reserved(entries: Entries, run: str, step: str, like: Event | None = None) -> int:
    return sum(
        int(event["count"])
        for entry in entries
        if entry["kind"] == "reserve" and entry["run"] == run
        for name, event in zip(entry["steps"], entry["events"], strict=True)
        if name == step and (like is None or event == like.to_json())
    )


def _asked(entries: Entries, run: str, step: str, like: Event | None = None) -> int:
    return sum(
        entry["kind"] == "ask"
        and (entry["run"], entry["step"]) == (run, step)
        and (like is None or entry["event"] == like.to_json())
        for entry in entries
    )


def _events(entries: Entries) -> list[Event]:
    """What was reserved; blocks of the same draws as one event, because composing a hundred takes a hundred times."""
    counts: dict[Event, int] = {}
    for entry in entries:
        for event in entry["events"] if entry["kind"] == "reserve" else ():
            read = Event.from_json(event)
            one = replace(read, count=1)
            counts[one] = counts.get(one, 0) + read.count
    return [replace(event, count=count) for event, count in counts.items()]

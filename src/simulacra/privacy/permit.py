"""Permit: draws that were paid for at home, to be made on another machine that has no ledger.

`Permit.issue` reserves every draw of a plan's training loops in the ledger and puts the permit into the run folder. The
machine that trains keeps its accounts in the permit: a block is noted there, durably, before it is drawn, exactly as in
a ledger, and never more than was paid for. Nothing is refunded: draws that are not made are lost.

A permit is a right to draw, once. Two copies of a prepared folder, both trained, draw twice what was paid for, and no
file can prevent that: treat it like a signed cheque. What was asked with exact noise is answered before the permit is
issued; elsewhere there are only the fast draws of the loops.

The order of writing: an unpaid permit, then the reservation, then the paid permit. A crash in between leaves an unpaid
permit, which allows nothing; issuing again finds the reservation of that very permit in the ledger, or makes it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from simulacra.errors import LedgerError, OutputError, PlanError
from simulacra.privacy.accountant import Event
from simulacra.privacy.durable import canonical, write_durably
from simulacra.privacy.plan import Plan

if TYPE_CHECKING:
    from simulacra.privacy.ledger import Ledger

FILE = "permit.json"
FORMAT = 1


@final
class Permit:
    """A `Book` with nothing but what was paid for in advance. Every operation reads the file anew, under its lock."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        with self._locked():
            if not self._read()["paid"]:
                raise LedgerError(f'"{self.path}" is not paid for; repeat the command that prepared it, with resume')

    @staticmethod
    def exists(folder: Path) -> bool:
        """Whether a run folder was prepared, paid for or not."""
        return (folder / FILE).exists()

    @classmethod
    def issue(cls, folder: Path, *, run: str, plan: Plan, ledger: Ledger) -> Permit:
        """Reserve all draws of the plan's loops, and write the permit; again after a crash, without paying again."""
        loops = [planned for planned in plan.steps if planned.transient]
        if not loops:
            raise PlanError("this plan has no training loop; there is nothing to prepare")
        permit = object.__new__(cls)
        permit.path = folder / FILE
        with permit._locked():
            if permit.path.exists():
                values = permit._read()
                if values["run"] != run:
                    raise LedgerError(f'"{permit.path}" belongs to another run; use an untouched copy of the run')
            else:
                if any(ledger.reserved(run, planned.step.name) for planned in loops):
                    raise LedgerError(
                        f'run "{run}" has begun to draw, or its permit was taken away; prepare a new run instead'
                    )
                values = {
                    "kind": "simulacra permit",
                    "format": FORMAT,
                    "run": run,
                    "ledger": ledger.name,
                    "paid": False,
                    "answered": {p.step.name: p.event.to_json() for p in plan.steps if not p.transient},
                    "prepaid": {planned.step.name: planned.event.to_json() for planned in loops},
                    "used": {planned.step.name: 0 for planned in loops},
                }
                permit._write(values)
            if not values["paid"]:
                missing = [p for p in loops if ledger.reserved(run, p.step.name) < p.event.count]
                if missing:
                    ledger.reserve(run, [p.step.name for p in missing], [p.event for p in missing])
                permit._write({**values, "paid": True})
        return permit

    # -- what it says ---------------------------------------------------------------------------------------------

    def reserved(self, run: str, step: str, event: Event | None = None) -> int:
        """Draws of a loop that are used; 1 for a question that was answered at home."""
        values = self._of(run)
        if step in values["prepaid"]:
            same = event is None or _alike(event, values["prepaid"][step])
            return int(values["used"][step]) if same else 0
        return self.asked(run, step, event)

    def asked(self, run: str, step: str, event: Event | None = None) -> int:
        """1 for a question that was answered at home with that noise; loops are never asked."""
        answered = self._of(run)["answered"].get(step)
        return int(answered is not None and (event is None or event.to_json() == answered))

    def allow(self, events: Sequence[Event]) -> None:
        """A cap was checked when the permit was issued."""

    # -- what it does ---------------------------------------------------------------------------------------------

    def reserve(self, run: str, steps: Sequence[str], events: Sequence[Event], *, at_most: int | None = None) -> str:
        """Use up draws, on the disk before this returns; never more than were paid for, with exactly their noise."""
        with self._locked():
            values = self._of(run)
            used = dict(values["used"])
            for step, event in zip(steps, events, strict=True):
                if step not in values["prepaid"] or not _alike(event, values["prepaid"][step]):
                    raise LedgerError(f'step "{step}" was not paid for in advance; prepare the run again, at home')
                used[step] += event.count
                most = values["prepaid"][step]["count"]
                if used[step] > (most if at_most is None else min(most, at_most)):
                    raise LedgerError(f'step "{step}": all {most} draws that were paid for are used')
            self._write({**values, "used": used})
        return ""

    def ask(self, run: str, step: str, event: Event) -> None:
        """Never: what is asked once is asked at home."""
        raise LedgerError(f'step "{step}" is asked where the ledger is; bring the releases folder of the prepared run')

    def answer(self, run: str, step: str, sha256: str) -> None:
        """Never, as above."""
        raise LedgerError(f'step "{step}" is answered where the ledger is; bring the releases folder')

    # -- how ------------------------------------------------------------------------------------------------------

    def _of(self, run: str) -> dict[str, Any]:
        values = self._read()
        if values["run"] != run:
            raise LedgerError(f'"{self.path}" belongs to another run; use an untouched copy of the run')
        return values

    def _read(self) -> dict[str, Any]:
        try:
            values = json.loads(self.path.read_bytes())
            whole = values["kind"] == "simulacra permit" and values["format"] == FORMAT
            used, prepaid = values["used"], values["prepaid"]
            whole = whole and used.keys() == prepaid.keys() and isinstance(values["answered"], Mapping)
            whole = whole and all(0 <= used[name] <= prepaid[name]["count"] for name in used)
        except FileNotFoundError:
            raise LedgerError(f'no permit at "{self.path}"; prepare the run where the ledger is') from None
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            whole = False
        if not whole:
            raise LedgerError(f'permit "{self.path}" is damaged; prepare a new run, a damaged one cannot be trusted')
        return dict(values)

    def _write(self, values: Mapping[str, Any]) -> None:
        write_durably(self.path, (canonical(values) + "\n").encode())

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One process at a time, with the system's own lock: filelock may not be installed elsewhere."""
        try:
            import fcntl
        except ImportError:
            raise LedgerError("permits need a system with file locks (Linux, macOS); run fit with the ledger") from None
        try:
            with open(self.path.with_name("permit.lock"), "ab") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                yield
        except OSError as error:
            raise OutputError(
                f'cannot lock "{self.path}": {error.strerror}; use a folder that can be written'
            ) from None


def _alike(event: Event, paid: Mapping[str, Any]) -> bool:
    """The same noise, rate and relation; any number of draws."""
    return {**event.to_json(), "count": 0} == {**paid, "count": 0}

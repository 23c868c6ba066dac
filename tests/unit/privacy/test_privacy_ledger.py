"""The ledger: nothing spent is ever forgotten, and nobody edits it unseen."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from invented import damage

from simulacra.errors import CapExceeded, LedgerBroken, LedgerError, LedgerLocked, OutputError, PlanError
from simulacra.privacy import chain as chain_module
from simulacra.privacy import gaussian
from simulacra.privacy import ledger as ledger_module
from simulacra.privacy.accountant import Event, calibrate, epsilon
from simulacra.privacy.budget import Adjacency, Budget
from simulacra.privacy.ledger import Ledger

ADD = Adjacency.ADD_REMOVE
FULL = Event(noise_multiplier=4.0)
SAMPLED = Event(noise_multiplier=1.0, sample_rate=0.01, count=10)


def budget(limit: float) -> Budget:
    return Budget(epsilon=limit, delta=1e-5, adjacency=ADD)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "patients.ledger"


@pytest.fixture
def ledger(path: Path) -> Ledger:
    made = Ledger.create(path, adjacency=ADD)
    made.reserve("run", ["sum"], [FULL])
    made.ask("run", "sum", FULL)
    made.answer("run", "sum", "ab" * 32)
    return made


def test_a_ledger_remembers_what_was_spent_across_openings(ledger: Ledger, path: Path) -> None:
    again = Ledger(path)
    assert [entry["kind"] for entry in again.entries()] == ["open", "reserve", "ask", "answer"]
    assert (again.name, again.adjacency, again.cap) == ("patients", ADD, None)
    assert again.reserved("run", "sum") == again.asked("run", "sum") == 1
    assert again.reserved("another run", "sum") == again.reserved("run", "another step") == 0


def test_each_entry_holds_the_hash_of_the_one_before(ledger: Ledger) -> None:
    entries = ledger.entries()
    assert [entry["previous"] for entry in entries[1:]] == [entry["hash"] for entry in entries[:-1]]
    assert [entry["sequence"] for entry in entries] == list(range(4))


def test_the_total_is_what_the_accountant_says_of_all_events(ledger: Ledger) -> None:
    ledger.reserve("second", ["sum"], [FULL])
    assert ledger.total(1e-6).epsilon == epsilon([FULL, FULL], 1e-6)
    assert ledger.total().releases == 2


def test_without_a_cap_the_total_is_an_odometer_reading(ledger: Ledger, tmp_path: Path) -> None:
    assert not ledger.total().guaranteed
    assert Ledger.create(tmp_path / "capped", adjacency=ADD, cap=budget(1)).total().guaranteed


def test_an_unused_ledger_has_spent_nothing(path: Path) -> None:
    assert Ledger.create(path, adjacency=ADD).total().epsilon == 0


@pytest.mark.parametrize("suffix", ["", ".head"])
def test_every_flipped_byte_is_detected(ledger: Ledger, path: Path, suffix: str) -> None:
    for _ in damage(Path(f"{path}{suffix}")):
        with pytest.raises(LedgerBroken):
            Ledger(path)
    assert len(ledger.entries()) == 4


@pytest.mark.parametrize("suffix", ["", ".head"])
def test_every_flipped_byte_of_a_ledger_with_nothing_but_a_cap_is_detected(path: Path, suffix: str) -> None:
    Ledger.create(path, adjacency=ADD, cap=budget(1))
    for _ in damage(Path(f"{path}{suffix}")):
        with pytest.raises(LedgerBroken):
            Ledger.open_or_create(path, adjacency=ADD)


def test_truncation_anywhere_is_detected(ledger: Ledger, path: Path) -> None:
    whole = path.read_bytes()
    line_ends = [number for number in range(len(whole)) if whole[number - 1 : number] == b"\n"]
    for length in {0, 1, *range(5, len(whole), 7), *line_ends, len(whole) - 1}:
        path.write_bytes(whole[:length])
        with pytest.raises(LedgerBroken):
            Ledger.open_or_create(path, adjacency=ADD)


def test_a_lost_entry_a_swapped_entry_and_a_lost_head_are_detected(ledger: Ledger, path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    for edited in (lines[:1] + lines[2:], [lines[0], lines[2], lines[1], lines[3]], [*lines, lines[-1]]):
        path.write_bytes(b"".join(edited))
        with pytest.raises(LedgerBroken, match="was changed"):
            Ledger(path)
    path.write_bytes(b"".join(lines))
    Path(f"{path}.head").unlink()
    with pytest.raises(LedgerBroken, match="head"):
        Ledger(path)


def test_a_deleted_ledger_whose_head_remains_is_not_started_afresh(ledger: Ledger, path: Path) -> None:
    path.unlink()
    with pytest.raises(LedgerBroken, match="is gone"):
        Ledger.open_or_create(path, adjacency=ADD)
    with pytest.raises(LedgerError, match="no ledger"):
        Ledger(path)


@pytest.mark.parametrize("tail", [b"{", b'{"kind":"reserve","run":"x"', b"\x00\xff"])
def test_a_line_that_was_never_finished_is_dropped_and_repaired(ledger: Ledger, path: Path, tail: bytes) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole + tail)
    again = Ledger(path)
    assert len(again.entries()) == 4
    again.reserve("next", ["sum"], [FULL])
    assert path.read_bytes().startswith(whole)
    assert len(Ledger(path).entries()) == 5


def test_a_crash_between_the_entry_and_its_head_keeps_the_entry(ledger: Ledger, path: Path) -> None:
    head = Path(f"{path}.head")
    before = head.read_bytes()
    ledger.reserve("next", ["sum"], [FULL])
    head.write_bytes(before)
    assert Ledger(path).reserved("next", "sum") == 1
    Ledger(path).reserve("after", ["sum"], [FULL])
    assert Ledger(path).total().releases == 3


def test_a_first_line_that_was_never_finished_is_started_again(path: Path) -> None:
    path.write_bytes(b'{"adjacency":"add-re')
    with pytest.raises(LedgerBroken, match="empty"):
        Ledger(path)
    assert len(Ledger.open_or_create(path, adjacency=ADD).entries()) == 1


def test_a_ledger_is_not_made_twice_and_keeps_its_relation(ledger: Ledger, path: Path) -> None:
    with pytest.raises(LedgerError, match="exists already"):
        Ledger.create(path, adjacency=ADD)
    with pytest.raises(LedgerError, match="counts under add-remove"):
        Ledger.open_or_create(path, adjacency=Adjacency.REPLACE_ONE)
    with pytest.raises(LedgerError, match="counts under add-remove"):
        ledger.reserve("x", ["y"], [Event(noise_multiplier=1.0, adjacency=Adjacency.REPLACE_ONE)])
    with pytest.raises(LedgerError, match="same neighbouring relation"):
        Ledger.create(f"{path}2", adjacency=Adjacency.REPLACE_ONE, cap=budget(1))


def test_an_answer_must_be_paid_for_by_its_own_reservation(ledger: Ledger) -> None:
    for run, step, event in (("run", "sum", FULL), ("run", "other", FULL), ("new", "sum", FULL)):
        with pytest.raises(LedgerError, match="not reserved"):
            ledger.ask(run, step, event)
    ledger.reserve("new", ["sum"], [FULL])
    with pytest.raises(LedgerError, match="not reserved"):
        ledger.ask("new", "sum", Event(noise_multiplier=0.5))
    ledger.ask("new", "sum", FULL)
    with pytest.raises(LedgerError, match="not reserved"):
        ledger.ask("new", "sum", FULL)


def test_the_blocks_of_a_loop_never_exceed_its_plan(ledger: Ledger) -> None:
    ledger.reserve("loop", ["gradient"], [SAMPLED], at_most=15)
    with pytest.raises(LedgerError, match="another process"):
        ledger.reserve("loop", ["gradient"], [SAMPLED], at_most=15)
    assert ledger.reserved("loop", "gradient") == 10


# -- caps ---------------------------------------------------------------------------------------------------------


def test_a_gaussian_cap_lets_exactly_what_fits_pass(path: Path) -> None:
    half = calibrate((FULL, FULL), 1.0, 1e-5)[0]
    ledger = Ledger.create(path, adjacency=ADD, cap=budget(1))
    ledger.reserve("a", ["sum"], [half])
    ledger.reserve("b", ["sum"], [half])
    assert ledger.total().epsilon == pytest.approx(1.0, rel=1e-6)
    size = path.stat().st_size
    for event in (half, Event(noise_multiplier=500.0), Event(noise_multiplier=0.0)):
        with pytest.raises(CapExceeded):
            ledger.allow([event])
        with pytest.raises(CapExceeded):
            ledger.reserve("c", ["sum"], [event])
    assert path.stat().st_size == size


def test_a_gaussian_cap_refuses_sampled_releases(path: Path) -> None:
    ledger = Ledger.create(path, adjacency=ADD, cap=budget(8))
    with pytest.raises(CapExceeded, match="renyi"):
        ledger.reserve("a", ["loop"], [SAMPLED])


def test_a_renyi_cap_takes_both_kinds_and_stops_in_time(path: Path) -> None:
    ledger = Ledger.create(path, adjacency=ADD, cap=budget(3), cap_filter="renyi")
    ledger.reserve("a", ["sum"], [FULL])
    for number in range(200):
        try:
            ledger.reserve(f"loop {number}", ["loop"], [Event(noise_multiplier=1.0, sample_rate=0.05, count=2)])
        except CapExceeded:
            break
    else:
        pytest.fail("the cap never closed")
    spent = [Event.from_json(e) for entry in ledger.entries() for e in entry.get("events", ())]
    assert number > 1
    assert epsilon(spent, 1e-5, by="rdp") <= 3.0
    assert ledger.total().epsilon <= 3.0


def test_a_renyi_cap_refuses_what_renyi_accounting_cannot_do(path: Path) -> None:
    replace_one = Adjacency.REPLACE_ONE
    cap = Budget(epsilon=3, delta=1e-5, adjacency=replace_one)
    ledger = Ledger.create(path, adjacency=replace_one, cap=cap, cap_filter="renyi")
    with pytest.raises(PlanError, match="not supported"):
        ledger.reserve("a", ["loop"], [Event(noise_multiplier=9.0, sample_rate=0.1, adjacency=replace_one)])


def test_failure_probabilities_count_against_what_was_set_aside_for_them(path: Path) -> None:
    """Apart from the cap's delta: else an analyst could move delta between noise and thresholds after an answer."""
    ledger = Ledger.create(path, adjacency=ADD, cap=budget(1), failure_delta=1e-5)
    ledger.reserve("a", ["sum"], [Event(noise_multiplier=50.0, failure_delta=6e-6)])
    with pytest.raises(CapExceeded):
        ledger.reserve("b", ["sum"], [Event(noise_multiplier=50.0, failure_delta=6e-6)])


def test_noise_and_failures_cannot_be_traded_after_an_answer(path: Path) -> None:
    """Release 0.8 of the cap's mu; then neither branch may use what the other one needs."""
    ledger = Ledger.create(path, adjacency=ADD, cap=budget(1))
    mu = gaussian.mu_for(1.0, 1e-5)
    ledger.reserve("first", ["sum"], [Event(noise_multiplier=1 / (0.8 * mu))])
    with pytest.raises(CapExceeded, match="set aside"):
        ledger.allow([Event(noise_multiplier=1e6, failure_delta=5e-6)])
    ledger.allow([Event(noise_multiplier=1 / (0.59 * mu))])
    with pytest.raises(CapExceeded, match="would reach"):
        ledger.allow([Event(noise_multiplier=1 / (0.61 * mu))])


# -- several processes --------------------------------------------------------------------------------------------


def test_a_locked_ledger_says_so_quickly(ledger: Ledger, path: Path) -> None:
    with FileLock(f"{path}.lock"):
        began = time.monotonic()
        with pytest.raises(LedgerLocked, match="in use by another process"):
            Ledger(path, wait_seconds=0.1)
        assert time.monotonic() - began < 5
    assert len(Ledger(path, wait_seconds=0.1).entries()) == 4


RACER = """
import sys, time
from pathlib import Path
from simulacra.errors import CapExceeded
from simulacra.privacy.accountant import Event
from simulacra.privacy.ledger import Ledger

ledger, folder, name, multiplier = sys.argv[1], Path(sys.argv[2]), sys.argv[3], float(sys.argv[4])
(folder / f"{name}.ready").touch()
while not (folder / "go").exists():
    time.sleep(0.001)
try:
    Ledger(ledger).reserve(name, ["sum"], [Event(noise_multiplier=multiplier)])
except CapExceeded:
    sys.exit(3)
"""


def test_of_processes_racing_for_the_last_of_a_cap_exactly_one_wins(path: Path, tmp_path: Path) -> None:
    whole = calibrate(FULL, 1.0, 1e-5).noise_multiplier
    Ledger.create(path, adjacency=ADD, cap=budget(1))
    names = ["first", "second", "third"]
    racers = [
        subprocess.Popen([sys.executable, "-c", RACER, str(path), str(tmp_path), name, repr(whole)]) for name in names
    ]
    while not all((tmp_path / f"{name}.ready").exists() for name in names):
        assert all(racer.poll() is None for racer in racers)
        time.sleep(0.01)
    (tmp_path / "go").touch()
    assert sorted(racer.wait(timeout=60) for racer in racers) == [0, 3, 3]
    assert Ledger(path).total().releases == 1


# -- a full disk --------------------------------------------------------------------------------------------------


def no_space(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("failing_sync", [0, 1, 2, 3])
def test_a_full_disk_while_flushing_leaves_a_valid_ledger(
    ledger: Ledger, path: Path, monkeypatch: pytest.MonkeyPatch, failing_sync: int
) -> None:
    """The syncs of one entry: its line, the folder, the head, the folder again."""
    genuine, calls = os.fsync, iter(range(100))
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: no_space() if next(calls) == failing_sync else genuine(handle))
        with pytest.raises(OutputError, match="space"):
            ledger.reserve("next", ["sum"], [FULL])
    assert Ledger(path).reserved("next", "sum") in ((0,) if failing_sync == 0 else (0, 1))
    Ledger(path).reserve("later", ["sum"], [FULL])
    assert Ledger(path).reserved("later", "sum") == 1


@pytest.mark.parametrize("written", [0, 7])
def test_a_full_disk_while_writing_leaves_a_valid_ledger(
    ledger: Ledger, path: Path, monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    """Some bytes of the line may still reach the disk; they are an unfinished line."""

    class FullDisk(io.FileIO):
        def write(self, content: object) -> int:
            if written:
                super().write(bytes(content)[:written])  # type: ignore[call-overload]
            no_space()
            raise AssertionError

    def open_on_full_disk(name: object, mode: str) -> io.BufferedWriter:
        return io.BufferedWriter(FullDisk(str(name), mode.replace("b", "")))

    before = ledger.entries()
    with monkeypatch.context() as patch:
        patch.setattr(chain_module, "open", open_on_full_disk, raising=False)
        with pytest.raises(OutputError, match="nothing was spent"):
            ledger.reserve("next", ["sum"], [FULL])
    assert Ledger(path).entries() == before
    Ledger(path).reserve("later", ["sum"], [FULL])
    assert Ledger(path).entries()[:-1] == before


def test_a_ledger_in_a_place_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises((OutputError, LedgerError)):
        Ledger.create(tmp_path / "file" / "x.ledger", adjacency=ADD)


def test_blocks_of_the_same_draws_are_added_up_as_one(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop is reserved in a hundred blocks: composed one by one they would take a hundred times as long."""
    book = Ledger.create(path, adjacency=ADD)
    block = Event(noise_multiplier=2.0, sample_rate=0.01, count=7)
    for _ in range(5):
        book.reserve("run", ["sums"], [block])
    book.reserve("run", ["counts"], [Event(noise_multiplier=5.0)])
    composed: list[int] = []
    genuine = ledger_module.accountant.epsilon

    def watched(events: Sequence[Event], at: float, **more: Any) -> float:
        composed.append(len(events))
        return genuine(events, at, **more)

    monkeypatch.setattr(ledger_module.accountant, "epsilon", watched)
    total = book.total()
    assert composed == [2]
    assert total.releases == 36
    assert total.epsilon == genuine([replace(block, count=35), Event(noise_multiplier=5.0)], 1e-5)

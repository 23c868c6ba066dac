"""Make releases in child processes and kill them (SIGKILL) at random moments; then check the ledger. Run as a script:

    python killed_releases.py FOLDER KILLS

Everything is imported once and the children are forked, so that the moments fall inside the work and not inside the
imports. The children tell through a pipe how far they came: one letter when they pass a stage. Prints JSON.
"""

from __future__ import annotations

import collections
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from invented import Counts, Inputs, one_shot_plan, open_vault

from simulacra.privacy import release
from simulacra.privacy.budget import Adjacency
from simulacra.privacy.ledger import Ledger
from simulacra.privacy.noise import NoiseSource
from simulacra.privacy.release import Release

PLAN = one_shot_plan()
LETTERS = 20
"""How many letters a whole run tells."""
STAGES = {
    "S": "started",
    "R": "reserving",
    "r": "reserved",
    "A": "asking",
    "a": "asked",
    "N": "noise drawn",
    "W": "writing a release file",
    "w": "release file written",
    "K": "noting the answer",
    "k": "answer noted",
}


def tell(pipe: int, owner: Any, name: str, before: str, after: str) -> None:
    """Wrap a function so that it reports its beginning and its end."""
    genuine: Callable[..., Any] = getattr(owner, name)

    def told(*arguments: Any, **named: Any) -> Any:
        os.write(pipe, before.encode())
        result = genuine(*arguments, **named)
        os.write(pipe, after.encode())
        return result

    setattr(owner, name, told)


def work(folder: Path, name: str, pipe: int | None = None) -> None:
    """One run, as a command would make it; started again if it was cut off before."""
    if pipe is not None:
        os.write(pipe, b"S")
        tell(pipe, Ledger, "reserve", "R", "r")
        tell(pipe, Ledger, "ask", "A", "a")
        tell(pipe, Ledger, "answer", "K", "k")
        tell(pipe, NoiseSource, "exact", "", "N")
        tell(pipe, release, "write_durably", "W", "w")
    box = open_vault(folder, PLAN, run=name, releases=name, resume=True)
    box.ask("class-counts", Counts())
    box.ask_all({"class-counts": Counts(), "inputs": Inputs()})


def child(job: Callable[[], None]) -> int:
    """Fork; the child does the job and ends without running any cleanup of this process."""
    sys.stdout.flush()
    identity = os.fork()
    if identity:
        return identity
    code = 1
    try:
        job()
        code = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)


def finished(job: Callable[[], None]) -> bool:
    """Whether a forked job ends well."""
    return os.waitstatus_to_exitcode(os.waitpid(child(job), 0)[1]) == 0


def check(folder: Path, drawn: collections.Counter[str], name: str) -> None:
    """The ledger opens, and nothing that may have been seen is missing from it."""
    ledger = Ledger(folder / "data.ledger", wait_seconds=5)
    for step in ("class-counts", "inputs"):
        event = PLAN.step(step).event
        files = list((folder / name).glob(f"{step}.*")) if (folder / name).exists() else []
        assert ledger.reserved(name, step, event) >= bool(files), f"{files} are not paid for"
        assert ledger.reserved(name, step) >= ledger.asked(name, step)
        if Release.exists(folder / name, step):
            Release.load(folder / name, step)
    steps = ledger.reserved(name, "class-counts") + ledger.reserved(name, "inputs")
    assert steps >= drawn[name], f"{drawn[name]} draws of noise, {steps} paid for"


def main(folder: Path, kills: int) -> None:
    torch.set_num_threads(1)
    Ledger.open_or_create(folder / "data.ledger", adjacency=Adjacency.ADD_REMOVE)
    work(folder, "warm-up")  # late imports happen here, once
    began = time.monotonic()
    assert finished(lambda: work(folder, "timed"))
    whole = time.monotonic() - began
    last: collections.Counter[str] = collections.Counter()
    drawn: collections.Counter[str] = collections.Counter()
    killed = 0
    for number in range(kills):
        name = f"run-{number:03d}"
        reading, writing = os.pipe()
        identity = child(lambda name=name, writing=writing: work(folder, name, writing))  # type: ignore[misc]
        os.close(writing)
        told = ""
        if number % 2:
            # At a random moment of the time that the last run took.
            time.sleep(whole * random.random())
        else:
            # A moment after the child has come to a stage; the stages take turns, so that all of them are met.
            while len(told) <= number * LETTERS // kills and (letter := os.read(reading, 1)):
                told += letter.decode()
            time.sleep(random.random() * 0.003)
        os.kill(identity, signal.SIGKILL)
        killed += os.WIFSIGNALED(os.waitpid(identity, 0)[1])
        with os.fdopen(reading, "rb") as pipe:
            told += pipe.read().decode()
        last[STAGES[told[-1]] if told else "forked"] += 1
        drawn[name] += told.count("N")
        check(folder, drawn, name)
        # The next run works, and so does the one that was cut off. A longer ledger takes longer to check.
        began = time.monotonic()
        assert finished(lambda number=number: work(folder, f"next-{number:03d}")), "the next run failed"  # type: ignore[misc]
        whole = time.monotonic() - began
        assert finished(lambda name=name: work(folder, name)), "the killed run could not be resumed"  # type: ignore[misc]
        check(folder, drawn, name)
    paid = Ledger(folder / "data.ledger").total().releases
    print(json.dumps({"killed": killed, "stages": dict(last), "milliseconds": round(whole * 1000), "paid": paid}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))

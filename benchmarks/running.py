"""Run rows: whatever stage is missing, then whatever scoring is missing; a failure ends its row and no other."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import click

from benchmarks import hardware, outcomes, rivals
from benchmarks.material import Material, Real
from benchmarks.outcomes import Result
from benchmarks.rows import Row
from benchmarks.scoring import Scoring, trim
from benchmarks.stages import Workplace
from simulacra.errors import SimulacraError
from simulacra.evaluate.progress import Progress

Say = Callable[[str], None]
QUIET_SECONDS = 10.0
NOTHING_TO_DO = "nothing left to do"


@dataclass(frozen=True)
class _Stage:
    """One thing to do; without a needed one the row cannot go on."""

    name: str
    do: Callable[[], None]
    done: bool = False
    needed: bool = True


@dataclass(kw_only=True)
class Runner:
    """Works through rows and remembers what failed and what is left."""

    work: Workplace
    folder: Path
    scorings: Sequence[Scoring]
    device: str
    commit: str
    say: Say
    time_limit: float | None = None
    again: bool = False
    pack: Path | None = None
    failed: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._started = time.monotonic()
        self._real: dict[tuple[str, bool], Real] = {}
        self._packed: dict[str, Result] = {}

    def run_all(self, rows: Sequence[Row]) -> None:
        """Every row in turn."""
        for at, row in enumerate(rows):
            self._attempt(row, "start", partial(self._run, row))
            if all(other.data != row.data for other in rows[at + 1 :]):
                for labelled in (True, False):  # images of the next data set need the memory
                    self._real.pop((row.data, labelled), None)

    def _run(self, row: Row) -> None:
        real = self._real.setdefault((row.data, row.labelled), Real(name=row.data, schema=row.schema))
        before = outcomes.load(self.folder, row)
        known = before["scorings"]
        wanted = [scoring for scoring in self.scorings if scoring.suits(row)]
        missing = [scoring for scoring in wanted if self.again or scoring.name not in known]
        if not missing or ("unfinished" in before and not self.again):
            self.say(f"{row.name}: {NOTHING_TO_DO}")
            return
        work = self.work
        stages = [
            _Stage("release", lambda: work.release(row), done=work.released(row)),
            _Stage(
                "train",
                lambda: work.train(row, self.device, self._now_and_then(f"{row.name}: train")),
                done=work.trained(row),
            ),
            _Stage("sample", lambda: work.sample(row, real, self.device), done=work.sampled(row)),
            *(_Stage(one.name, partial(self._score, row, real, one), needed=False) for one in missing),
        ]
        pending = [stage for stage in stages if not stage.done]
        for at, stage in enumerate(pending):
            if self.time_limit is not None and time.monotonic() - self._started > self.time_limit:
                self.left.append(f"{row.name}: {', '.join(later.name for later in pending[at:])}")
                return
            self.say(f"{row.name}: {stage.name} begins")
            started = time.perf_counter()
            if self._attempt(row, stage.name, stage.do):
                self.say(f"{row.name}: {stage.name} took {time.perf_counter() - started:.1f} s")
            elif stage.needed:
                return

    def _score(self, row: Row, real: Real, scoring: Scoring) -> None:
        samples = self.work.samples(row, real)
        draw = self.work.facts(row, samples)
        started = time.perf_counter()
        scores = scoring.compute(
            Material(
                samples=samples,
                real=real,
                seed=row.seed,
                device=self.device,
                progress=self._now_and_then(f"{row.name}: {scoring.name}"),
            )
        )
        name = draw["samples"]["sha256"][:16]
        # Read again: another process may have scored the same row meanwhile.
        result = outcomes.load(self.folder, row)
        result["draws"][name] = draw
        result["scorings"][scoring.name] = {
            "scores": scores.scores,
            "details": trim(scores.details),
            "notes": scores.notes,
            "computed_on": scores.computed_on,
            "draw": name,
            "seed": row.seed,
            "seconds": round(time.perf_counter() - started, 1),
            "hardware": hardware.hardware(self.device),
            "versions": hardware.versions(),
            "commit": self.commit,
            "date": hardware.now(),
        }
        outcomes.save(self.folder, result)
        self._packed[row.name] = result
        if self.pack is not None:
            outcomes.write_pack(self.pack, self._packed.values())
        if len({one["draw"] for one in result["scorings"].values()}) > 1:
            self.say(f"{row.name}: its scorings are of several draws; run --again scores all of them on one")
        figures = ", ".join(f"{name} {value:.4g}" for name, value in scores.scores.items())
        self.say(f"{row.name}: {scoring.name}: {figures}")

    def _now_and_then(self, subject: str) -> Progress:
        """Progress that comes a hundred times a second is said every few seconds."""
        last = 0.0

        def progress(stage: str, done: int = 0, total: int = 0, /) -> None:
            nonlocal last
            if time.monotonic() - last > QUIET_SECONDS:
                last = time.monotonic()
                self.say(f"{subject}: {stage}" + (f", {done} of {total}" if total else ""))

        return progress

    def _attempt(self, row: Row, name: str, do: Callable[[], None]) -> bool:
        """Whether it went well; if not, whatever it was, the others go on and the exit code tells."""
        try:
            do()
        except rivals.DidNotFinishError as error:
            outcomes.save(self.folder, {**outcomes.load(self.folder, row), "unfinished": error.message})
            self.say(f"{row.name}: did not finish: {error.message}")
        except click.ClickException as error:
            self._fail(row, name, error.message)
        except SimulacraError as error:
            self._fail(row, name, str(error))
        except Exception as error:
            self._fail(row, name, f"{type(error).__name__}: {error}")
        else:
            return True
        return False

    def _fail(self, row: Row, name: str, words: str) -> None:
        self.failed.append(f"{row.name}: {name}: {' '.join(words.split())}")
        self.say(f"FAILED {self.failed[-1]}")

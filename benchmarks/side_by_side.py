"""Rows side by side: a process per row, so many at a time. A GPU is seldom full with one, nor are many cores.

A failure ends its row and no other, as in one process. What is finished is packed at once: a run that is cut off has
lost what was being computed, and nothing else.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import outcomes
from benchmarks.rows import Row
from benchmarks.running import NOTHING_TO_DO, Say

FAILED, LEFT = "failed: ", "left for the next call: "
PROGRAM = [sys.executable, "-m", "benchmarks.book"]


@dataclass(kw_only=True)
class SideBySide:
    """`words` are the options of `run` that every row gets."""

    jobs: int
    words: Sequence[str]
    folder: Path
    say: Say
    time_limit: float | None = None
    pack: Path | None = None
    failed: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._started = time.monotonic()
        self._lock = threading.Lock()
        self._finished: list[Row] = []
        self._running: set[subprocess.Popen[str]] = set()

    def run_all(self, rows: Sequence[Row]) -> None:
        """Every row; those that come first begin first."""
        with ThreadPoolExecutor(max_workers=self.jobs) as pool:
            waiting = [pool.submit(self._run, row) for row in rows]
            try:
                for one in waiting:
                    one.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                for process in list(self._running):
                    process.terminate()
                raise

    def _run(self, row: Row) -> None:
        command = [*PROGRAM, "run", row.name, *self.words]
        if self.time_limit is not None:
            rest = self.time_limit - (time.monotonic() - self._started)
            if rest <= 0:
                self.left.append(f"{row.name}: everything")
                return
            command += ["--time-limit", f"{rest:.1f}"]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=self._environment()
        ) as process:
            self._running.add(process)
            assert process.stdout is not None
            lines = []
            for line in process.stdout:
                lines.append(line.rstrip("\n"))
                self._hear(lines[-1])
            code = process.wait()
        self._running.discard(process)
        if code and not any(line.startswith(FAILED) for line in lines):
            self.failed.append(f"{row.name}: ended with exit code {code}: {lines[-1] if lines else 'nothing was said'}")
        if not any(line.endswith(NOTHING_TO_DO) for line in lines):
            self._keep(row)

    def _hear(self, line: str) -> None:
        """Sums up at the end what rows say at theirs."""
        for beginning, kept in ((FAILED, self.failed), (LEFT, self.left)):
            if line.startswith(beginning):
                kept.append(line.removeprefix(beginning))
                return
        self.say(line)

    def _keep(self, row: Row) -> None:
        with self._lock:
            self._finished.append(row)
            if self.pack is not None:
                results = (outcomes.load(self.folder, one) for one in self._finished)
                outcomes.write_pack(self.pack, [result for result in results if result["scorings"]])

    def _environment(self) -> dict[str, str]:
        """Threads for each process as if all of them were busy; its own where it is told."""
        threads = str(max(1, (os.cpu_count() or 1) // self.jobs))
        return {"OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads, **os.environ}

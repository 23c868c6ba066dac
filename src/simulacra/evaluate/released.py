"""Scores that were paid for, in a run folder: released-scores.json, then released-scores-2.json and so on.

None is ever overwritten: each has its own promise, and the budget of the test records pays for each.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from simulacra.errors import OutputError
from simulacra.evaluate.scores import Scores
from simulacra.synthesis.run import Run

STEM = "released-scores"


@contextmanager
def place_for_scores(run: Run | None) -> Iterator[Callable[[Scores], None]]:
    """Where scores may be put, taken before they are paid for: nobody else will get it. Without a run, nowhere."""
    if run is None:
        yield lambda scores: None
        return
    path, beside = _take(run.folder)
    try:
        yield lambda scores: run.write_json(path.name, scores.to_mapping())
    finally:
        beside.unlink(missing_ok=True)


def load_released_scores(run: Run) -> list[Scores]:
    """The scores of a run that were paid for, the first ones first."""
    numbered = {
        int(found[1] or 1): path
        for path in run.folder.glob(f"{STEM}*.json")
        if (found := re.fullmatch(rf"{STEM}(?:-(\d+))?\.json", path.name))
    }
    return [Scores.from_json(numbered[number].read_text(encoding="utf-8")) for number in sorted(numbered)]


def _take(folder: Path) -> tuple[Path, Path]:
    """The first name that is free; the file beside it, which durable writing uses too, holds it for us."""
    for number in itertools.count(1):
        path = folder / (f"{STEM}.json" if number == 1 else f"{STEM}-{number}.json")
        beside = path.with_name(path.name + ".partial")
        try:
            with open(beside, "x"):
                pass
        except FileExistsError:
            continue
        except OSError as error:
            raise OutputError(f'cannot write into "{folder}": {error.strerror}; nothing was spent') from None
        if not path.exists():
            return path, beside
        beside.unlink()
    raise AssertionError  # numbers do not end

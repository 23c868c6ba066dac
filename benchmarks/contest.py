"""Ours against rivals on the tables: a line per data set and score, so that wins and losses are seen at a glance."""

from __future__ import annotations

import statistics
from collections.abc import Iterable

from benchmarks import rivals
from benchmarks.outcomes import Result
from benchmarks.published import Column
from benchmarks.rows import REAL, TABLES
from benchmarks.tables import COLUMNS, NONE, Line, cell, lines

EPSILON = 1
SCORES: tuple[Column, ...] = (("tables", "auroc_mean"), ("tables", "auprc_mean"))
NOT_OURS = (REAL, *rivals.NAMES)

WORDS = f"""## Tables at epsilon {EPSILON}, ours and others'

The best of our methods at their defaults, which was picked by looking at these figures, and
[pairs](docs/methods/pairs.md), best or not. In bold the highest of ours and the rivals'. Ours are under replace-one,
which asks for more noise than add-remove, the rivals' relation. Seeds and all other methods are below; what explains
the losses is in [docs/book.md](docs/book.md#tables-where-we-win-and-where-we-lose).
"""


def section(results: Iterable[Result]) -> str:
    """The words and the table; data sets of which nothing of ours was measured are left out."""
    head = ["data", "score", "real", "best of ours", "pairs", *rivals.NAMES]
    rows = [head, ["---"] * len(head)]
    everything = [line for line in lines(results) if not line.source and (not line.variant or line.method == REAL)]
    for data in TABLES:
        found = [line for line in everything if line.data == data and (line.epsilon == EPSILON or line.method == REAL)]
        for score in SCORES:
            ours = [line for line in found if line.method not in NOT_OURS and score in line.figures]
            ours = [line for line in ours if line.adjacency == "replace-one"]
            if ours:
                rows.append([data, COLUMNS[score], *_figures(found, ours, score)])
    return WORDS + "\n" + "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"


def _figures(found: list[Line], ours: list[Line], score: Column) -> list[str]:
    best = max(ours, key=lambda line: statistics.fmean(line.figures[score]))
    theirs = [next((line for line in found if line.method == name), None) for name in rivals.NAMES]
    shown = [line for line in (best, *theirs) if line and score in line.figures]
    winner = max(shown, key=lambda line: statistics.fmean(line.figures[score]))

    def text(line: Line | None, name: str = "") -> str:
        if line is None:
            return "no run"
        words = cell(line, score) + name
        return f"**{words}**" if line is winner else words

    real = next((cell(line, score) for line in found if line.method == REAL), NONE)
    pairs = next((cell(line, score) for line in ours if line.method == "pairs"), NONE)
    return [real, text(best, f" ({best.method})"), pairs, *(text(line) for line in theirs)]

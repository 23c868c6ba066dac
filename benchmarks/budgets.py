"""What NDPDC's settings cost, without any data: Figure 2 of its paper, by our accounting and by the paper's.

    python -m benchmarks.budgets               # written to benchmarks/results/budgets.json

The paper's figure has the rate of the smallest class of each data set. Here the rate is one for all classes, a public
number: groups of L on average.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.hardware import commit
from simulacra.privacy.accountant import Event, epsilon

RESULTS = Path(__file__).parent / "results" / "budgets.json"
DELTA = 1e-5
CLASSES = 10
RECORDS = {"mnist": 60_000, "cifar10": 50_000}
"""Fashion-MNIST has as many as MNIST."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """Noise multiplier, group size and rounds; the paper varies one at a time around these."""

    noise: float = 1.0
    group: int = 50
    rounds: int = 10_000


POINTS = (
    Point(),
    *(replace(Point(), noise=noise) for noise in (0.75, 1.25, 1.5, 2.0)),
    *(replace(Point(), group=group) for group in (25, 75, 100)),
    *(replace(Point(), rounds=rounds) for rounds in (2000, 4000, 6000, 8000)),
)


def budget(point: Point, records: int) -> dict[str, float]:
    """Epsilon by privacy loss distributions and by Renyi divergences, under add-remove."""
    rate = point.group * CLASSES / records
    event = Event(noise_multiplier=point.noise, sample_rate=rate, count=point.rounds)
    return {
        "epsilon": round(epsilon(event, DELTA), 4),
        "epsilon_rdp": round(epsilon(event, DELTA, by="rdp"), 4),
    }


def measure() -> dict[str, Any]:
    """All points for all data sets."""
    started = time.perf_counter()
    rows = [
        {
            "noise": point.noise,
            "group": point.group,
            "rounds": point.rounds,
            **{data: budget(point, records) for data, records in RECORDS.items()},
        }
        for point in POINTS
    ]
    return {"delta": DELTA, "rows": rows, "seconds": round(time.perf_counter() - started, 1), "commit": commit()}


def section(found: dict[str, Any] | None) -> str:
    """The table of the page."""
    lines = [
        "## What NDPDC's settings cost",
        "",
        "Figure 2 of its paper, which needs no data: epsilon at delta = 1e-5 under add-remove, for a noise multiplier,",
        "the average group of a class in a round (L) and the number of rounds (I). By privacy loss distributions,",
        "and in brackets by Renyi divergences, as papers report it: `python -m benchmarks.budgets`.",
        "",
    ]
    if found is None:
        return "\n".join([*lines, "No run."]) + "\n"
    lines += ["| noise | L | I | MNIST, Fashion-MNIST | CIFAR-10 |", "| --- | --- | --- | --- | --- |"]
    for row in found["rows"]:
        figures = [f"{row[data]['epsilon']:.2f} ({row[data]['epsilon_rdp']:.2f})" for data in RECORDS]
        lines.append(f"| {row['noise']:g} | {row['group']} | {row['rounds']:,} | {' | '.join(figures)} |")
    return "\n".join(lines) + "\n"


def read(path: Path = RESULTS) -> dict[str, Any] | None:
    """What was computed last."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


if __name__ == "__main__":
    RESULTS.write_text(json.dumps(measure(), indent=2) + "\n", encoding="utf-8")
    print(section(read()))

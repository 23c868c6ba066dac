"""What to expect of a plan, before anything is spent: noise against signal per class, memory and time."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from simulacra.errors import SettingError
from simulacra.privacy.plan import Plan
from simulacra.schema import Schema
from simulacra.synthesis.gauge import FAVOURABLE, Gauge, fold, gauge

SECONDS_PER_EXACT_NUMBER = 14e-6
"""Exact noise on one core."""
SECONDS_PER_FEATURE = 12e-9
"""One feature of one record: projection, cosine and sine in float64, on one core."""
FOR_EVER = 1e300
"""Seconds; a wild guess of the records must not become an infinity, which JSON has no word for."""
WIDEST_NAME = 24
"""Lines are aligned behind names up to this length."""


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """`classes` has a gauge of noise against signal per class, or is None where no records were assumed."""

    classes: tuple[Gauge, ...] | None
    noise_seconds: float
    pass_seconds: float | None
    megabytes: float

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "classes": [one.to_json() for one in self.classes or ()],
            "noise_seconds": self.noise_seconds,
            "pass_seconds": self.pass_seconds,
            "megabytes": self.megabytes,
        }

    def lines(self) -> list[str]:
        """For a person."""
        told = [
            f"Exact noise takes about {self.noise_seconds:.1f} s of one core, memory about {self.megabytes:.0f} MB."
        ]
        if self.pass_seconds is not None:
            told.append(f"One pass over the records takes about {self.pass_seconds:.1f} s of one core.")
        if self.classes is None:
            told.append("For a forecast of noise against signal, say --rows N (a public guess).")
            return told
        if not self.classes:
            told.append("Training loops ask for all but counts: there is no one signal to hold their noise against.")
            return told
        told.append(
            f"Noise against the largest possible signal, per class (below {FAVOURABLE:g} is good, above 1 drowns it):"
        )
        lines = fold(self.classes)
        width = min(WIDEST_NAME, max(len(name) for name, _ in lines)) + 1
        told += [f"  {name + ':':<{width}} {words}" for name, words in lines]
        if self.classes[0].others:
            told.append(f"This is {self.classes[0].step}, in which noise is largest; the ratios of others in brackets.")
        if any(one.noise for one in self.classes):
            told.append(
                "What noise adds is an average, for a generator that could match exactly; "
                "the largest loss is a bound, seldom reached."
            )
        return told


def parse_class_rows(schema: Schema, rows: int | None, class_rows: str | None) -> list[float] | None:
    """Records per class from `--rows` (shared evenly) or `--class-rows`; both are public guesses."""
    if class_rows is not None:
        try:
            counts = [float(part) for part in class_rows.split(",")]
        except ValueError:
            raise SettingError(f'--class-rows wants numbers with commas, got "{class_rows}"') from None
        if len(counts) != schema.classes or not all(0 < count < math.inf for count in counts):
            raise SettingError(f"--class-rows wants {schema.classes} positive numbers, one per class")
        return counts
    total = rows if rows is not None else schema.rows
    if total is None:
        return None
    if total < 1:
        raise SettingError(f"--rows must be at least 1, got {total}")
    return [total / schema.classes] * schema.classes


def forecast(
    plan: Plan, schema: Schema, class_rows: Sequence[float] | None, *, of_all: Collection[str] = ()
) -> Forecast:
    """The outlook of a plan. Time is that of the step with the most numbers; for `of_all` see `gauge`."""
    main = max(plan.steps, key=lambda planned: planned.step.size)
    per_class = main.step.size / schema.classes
    numbers = sum(planned.step.size for planned in plan.steps)
    return Forecast(
        classes=None if class_rows is None else gauge(plan, schema, class_rows, of_all=of_all),
        noise_seconds=numbers * SECONDS_PER_EXACT_NUMBER if plan.private else 0.0,
        pass_seconds=None if class_rows is None else min(sum(class_rows) * per_class * SECONDS_PER_FEATURE, FOR_EVER),
        megabytes=300 + numbers * 8 * 4 / 1e6,
    )


def class_signal(
    plan: Plan, counts: Sequence[float], schema: Schema, *, of_all: Collection[str] = ()
) -> tuple[Gauge, ...]:
    """The same after the fact, from noisy counts: what the report shows."""
    return gauge(plan, schema, [max(1.0, float(count)) for count in counts], of_all=of_all)

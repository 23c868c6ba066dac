"""What to expect of a plan, before anything is spent: noise against signal per class, memory and time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from simulacra.errors import SettingError
from simulacra.privacy.plan import Plan
from simulacra.schema import Schema

SECONDS_PER_EXACT_NUMBER = 14e-6
"""Exact noise on one core."""
SECONDS_PER_FEATURE = 12e-9
"""One feature of one record: projection, cosine and sine in float64, on one core."""


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """`classes` has, per class, the records assumed, the largest possible signal and the expected norm of the noise."""

    classes: tuple[dict[str, Any], ...]
    noise_seconds: float
    pass_seconds: float | None
    megabytes: float

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "classes": list(self.classes),
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
        if not self.classes:
            told.append("For a forecast of noise against signal, say --rows N (a public guess).")
            return told
        told.append("Noise against the largest possible signal, per class (below 0.1 is good, above 1 drowns it):")
        told += [f"  {c['name']}: {c['ratio']:.3g}  ({c['records']:.0f} records)" for c in self.classes]
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


def forecast(plan: Plan, schema: Schema, class_rows: Sequence[float] | None) -> Forecast:
    """The outlook of a plan. The main step is the one with the most numbers."""
    main = max(plan.steps, key=lambda planned: planned.step.size)
    per_class = main.step.size / schema.classes
    noise = main.noise_std * math.sqrt(per_class)
    names = schema.class_names or ("all records",)
    classes = [
        {
            "name": name,
            "records": records,
            "signal": records * main.step.norm_bound,
            "noise": noise,
            "ratio": noise / (records * main.step.norm_bound),
        }
        for name, records in zip(names, class_rows or (), strict=False)
    ]
    numbers = sum(planned.step.size for planned in plan.steps)
    return Forecast(
        classes=tuple(classes),
        noise_seconds=numbers * SECONDS_PER_EXACT_NUMBER if plan.private else 0.0,
        pass_seconds=None if class_rows is None else sum(class_rows) * per_class * SECONDS_PER_FEATURE,
        megabytes=300 + numbers * 8 * 4 / 1e6,
    )


def class_signal(plan_steps: Sequence[dict[str, Any]], counts: Sequence[float], schema: Schema) -> list[dict[str, Any]]:
    """The same after the fact, from noisy counts: what the report shows."""
    main = max(plan_steps, key=lambda step: int(step["size"]))
    noise = main["noise_std"] * math.sqrt(main["size"] / schema.classes)
    names = schema.class_names or ("all records",)
    return [
        {"class_name": name, "signal": max(1.0, float(count)) * main["norm_bound"], "noise": noise}
        for name, count in zip(names, counts, strict=True)
    ]

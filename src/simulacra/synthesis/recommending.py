"""Which method, with which settings? From the book of results and the noise gauge, without touching any data.

A method is judged by what it reached on known data of the same kind (table, grey image or colour image) at the nearest
epsilon, as a share of what real records reach by the same measure. Where nobody has run it, a paper's figure stands in
and says so. The gauge then says whether so many records can bear the noise.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from simulacra.datasets import results as book
from simulacra.datasets import schema as known_schema
from simulacra.errors import SettingError, SimulacraError
from simulacra.methods import all_methods, make_method
from simulacra.methods import presets as paper_presets
from simulacra.privacy.budget import Adjacency, Budget
from simulacra.privacy.plan import make_plan
from simulacra.schema import Schema
from simulacra.synthesis.gauge import FAVOURABLE, Gauge, gauge
from simulacra.synthesis.releasing import load_schema

MEASURES = {
    "table": ("AUROC", "F1", "AUROC, as published", "F1, as published"),
    "grey": ("MLP 60,000", "CNN", "MLP 6,000", "LR 60,000", "LR 6,000", "ConvNet"),
    "colour": ("ResNet-9", "ConvNet"),
}
"""By kind of data, the columns of the book that methods are compared by: the first that both have."""
REAL = "real"
DROWNED = 1.0
"""Noise as large as the largest signal."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """One figure of the book for a method: on which data, at which epsilon, and what real records reach."""

    data: str
    epsilon: float | None
    measure: str
    value: float
    real: float | None
    seeds: int
    source: str
    variant: str = ""

    @property
    def share(self) -> float:
        """Of what real records reach; of 1 where that is not known."""
        return self.value / (self.real or 1.0)

    def words(self) -> str:
        """For a person."""
        who = f"the {self.source} paper says" if self.source else f"{self.seeds} seed{'s' * (self.seeds > 1)} of ours"
        against = "" if self.real is None else f", real records {self.real:.3f}"
        at = "without noise" if self.epsilon is None else f"at epsilon {self.epsilon:g}"
        variant = f" ({self.variant})" if self.variant else ""
        return f"{self.data} {at}{variant}: {self.measure} {self.value:.3f}{against} ({who})"


@dataclass(frozen=True, kw_only=True)
class Advice:
    """One method for this data: how good it should be, why, and how to run it."""

    method: str
    verdict: str
    settings: dict[str, Any]
    preset: str | None
    reasons: tuple[str, ...]
    evidence: tuple[Evidence, ...]
    noise_ratio: float | None

    @property
    def score(self) -> float | None:
        """The mean share of real over the evidence; ours, if there is any."""
        ours = [one.share for one in self.evidence if not one.source]
        return statistics.fmean(ours or [one.share for one in self.evidence]) if self.evidence else None

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "method": self.method,
            "verdict": self.verdict,
            "score": self.score,
            "noise_ratio": self.noise_ratio,
            "settings": self.settings,
            "preset": self.preset,
            "reasons": list(self.reasons),
            "evidence": [vars(one) | {"words": one.words()} for one in self.evidence],
        }


def recommend(
    schema: Schema | str | Path,
    *,
    rows: int,
    epsilon: float,
    delta: float = 1e-5,
    adjacency: str | Adjacency = Adjacency.ADD_REMOVE,
    class_rows: Sequence[float] | None = None,
) -> list[Advice]:
    """Every method that can handle such records, the most promising first. `rows` is a public guess."""
    described = load_schema(schema)
    if rows < 1:
        raise SettingError(f"rows must be at least 1, got {rows}")
    budget = Budget(epsilon=epsilon, delta=delta, adjacency=Adjacency.parse(str(adjacency)))
    per_class = list(class_rows or [rows / described.classes] * described.classes)
    counted = replace(described, rows=rows)
    counted.check_delta(delta)
    found = [_advise(name, counted, budget, per_class, rows) for name in all_methods()]
    return sorted((one for one in found if one is not None), key=_order)


def kind_of(schema: Schema) -> str:
    """Which data of the book are alike."""
    if schema.image is None:
        return "table"
    return "grey" if schema.image.channels == 1 else "colour"


def command(advice: Advice, *, epsilon: float, delta: float, adjacency: str) -> str:
    """The line that runs it."""
    words = ["simulacra fit DATA --schema SCHEMA", f"--method {advice.method}"]
    words += [f"--preset {advice.preset}"] if advice.preset else []
    words += [f"--set {name}={value}" for name, value in advice.settings.items()]
    return " ".join([*words, f"--epsilon {epsilon:g} --delta {delta:g} --adjacency {adjacency} --out RUN"])


VERDICTS = ("recommended", "worth a try", "noise will win", "no evidence")


def _order(advice: Advice) -> tuple[int, int, float]:
    ours = any(not one.source for one in advice.evidence)
    return VERDICTS.index(advice.verdict), not ours, -(advice.score or 0.0)


def _advise(name: str, schema: Schema, budget: Budget, per_class: Sequence[float], rows: int) -> Advice | None:
    """None for a method that is not for such data, by its own refusal."""
    try:
        method = make_method(name, {}, schema)
        settings = _settings(method, schema, rows)
        method = method.replace(settings)
        steps = method.plan(schema)
    except SimulacraError:
        return None
    worst: Gauge | None = None
    reasons = []
    if all(step.sample_rate == 1 and step.count == 1 for step in steps):
        # Training loops have no one signal to hold their noise against, and take seconds to calibrate.
        gauges = gauge(make_plan(steps, budget), schema, per_class)
        worst = max(gauges, key=lambda one: one.ratio, default=None)
    if worst is not None:
        reasons.append(f"{worst.name}: {worst.words()}")
    else:
        reasons.append("it draws while it learns, so there is no one signal to hold the noise against")
    evidence = _evidence(name, kind_of(schema), budget.epsilon)
    reasons += [one.words() for one in evidence]
    if not evidence:
        reasons.append("the book has no figure of it for this kind of data near this epsilon")
    known = book.known(schema)
    # Our own figures were made with the defaults; a paper's were made with its settings.
    measured = any(not one.source for one in evidence)
    preset = known if not measured and known in paper_presets.names(name) else None
    return Advice(
        method=name,
        verdict=_verdict(evidence, None if worst is None else worst.ratio),
        settings=settings,
        preset=preset,
        reasons=tuple(reasons),
        evidence=tuple(evidence),
        noise_ratio=None if worst is None or not math.isfinite(worst.ratio) else worst.ratio,
    )


def _verdict(evidence: Sequence[Evidence], ratio: float | None) -> str:
    if ratio is not None and ratio > DROWNED:
        return "noise will win"
    if not evidence:
        return "no evidence"
    measured = any(not one.source for one in evidence)
    return "recommended" if measured and (ratio is None or ratio <= 3 * FAVOURABLE) else "worth a try"


def _settings(method: Any, schema: Schema, rows: int) -> dict[str, Any]:
    """What must follow from the number of records: the rate at which a training loop samples them."""
    values: Mapping[str, Any] = method.to_mapping()
    if "rate" in values and values["rate"] is None and "group" in values:
        groups = method.groups(schema) if hasattr(method, "groups") else schema.classes
        return {"rate": float(f"{min(1.0, values['group'] * groups / rows):.4g}")}
    return {}


def _evidence(method: str, kind: str, epsilon: float) -> list[Evidence]:
    """Per known data set of that kind, the method's figure at the nearest epsilon: ours, else a paper's."""
    found = []
    alike = [line for line in book.results() if kind_of(known_schema(line.data)) == kind]
    for data in dict.fromkeys(line.data for line in alike):
        here = [line for line in alike if line.data == data]
        mine = [line for line in here if line.method == method and line.epsilon is not None]
        for source in ("ours", "papers"):
            candidates = [line for line in mine if bool(line.source) == (source == "papers")]
            best = _nearest(candidates, here, kind, epsilon)
            if best is not None:
                found.append(best)
                break
    return found


def _nearest(lines: Sequence[Any], here: Sequence[Any], kind: str, epsilon: float) -> Evidence | None:
    """At the epsilon nearest on a log scale and within a factor of ten; the measure that comes first."""
    near = [line for line in lines if abs(math.log10(line.epsilon / epsilon)) <= 1.0]
    if not near:
        return None
    closest = min(abs(math.log10(line.epsilon / epsilon)) for line in near)
    at = [line for line in near if abs(math.log10(line.epsilon / epsilon)) <= closest + 1e-9]
    for measure in MEASURES[kind]:
        having = [line for line in at if measure in line.figures]
        if having:
            line = max(having, key=lambda one: one.figures[measure].mean)
            real = [one for one in here if one.method == REAL and measure in one.figures]
            real.sort(key=lambda one: bool(one.source))
            figure = line.figures[measure]
            return Evidence(
                data=line.data,
                epsilon=line.epsilon,
                measure=measure,
                value=figure.mean,
                real=real[0].figures[measure].mean if real else None,
                seeds=figure.seeds,
                source=line.source,
                variant=line.variant,
            )
    return None

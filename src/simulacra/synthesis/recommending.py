"""Which method, with which settings? From the book of results and the noise gauge, without touching any data.

A method is judged by what it reached on known data of the same kind (table, grey image or colour image) near that
epsilon, as a share of what real records reach by the same measure. Data of about the same size count most, and methods
are compared where both were run (synthesis/expecting.py). Where nobody has run one, a paper's figure stands in and says
so. The gauge then says whether so many records can bear the noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from simulacra.datasets import results as book
from simulacra.datasets import schema as known_schema
from simulacra.datasets import training_rows
from simulacra.errors import DataError, SettingError, SimulacraError
from simulacra.methods import all_methods, make_method
from simulacra.methods import presets as paper_presets
from simulacra.privacy.budget import Adjacency, Budget
from simulacra.privacy.plan import make_plan
from simulacra.privacy.query import Step
from simulacra.schema import Schema
from simulacra.synthesis.expecting import Seen, expected, nearness
from simulacra.synthesis.gauge import ALL_RECORDS, FAVOURABLE, Gauge, gauge
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
CLOSE, FAR = 0.03, 0.1
"""Shares of real by which a method may be behind the best and still be recommended, or worth a try."""
ALIKE = 0.8
"""Nearness from which data are as good as the data asked about."""
HEARSAY = 0.25
"""A paper's figure counts this much of one that we measured."""


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
    nearness: float = 1.0
    """How like the question its context is, from 0 to 1."""

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
    """The nearest first."""
    noise_ratio: float | None
    score: float | None
    """The share of real to expect on such data."""

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
    evidence = {name: _evidence(name, counted, budget.epsilon) for name in all_methods()}
    shares = expected([_seen(name, one) for name, known in evidence.items() for one in known])
    found = [
        _advise(name, counted, budget, per_class, evidence=known, score=shares.get(name))
        for name, known in evidence.items()
    ]
    able = [one for one in found if one is not None]
    # What noise will drown is no measure of the others.
    best = max((one.score for one in able if one.score is not None and one.verdict != DROWNS), default=0.0)
    return sorted((_compared(one, best) for one in able), key=_order)


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


GOOD, FAIR, BEHIND, DROWNS, UNKNOWN = VERDICTS = (
    "recommended",
    "worth a try",
    "others do better",
    "noise will win",
    "no evidence",
)


def _order(advice: Advice) -> tuple[int, int, float]:
    ours = any(not one.source for one in advice.evidence)
    return VERDICTS.index(advice.verdict), not ours, -(advice.score or 0.0)


def _seen(method: str, one: Evidence) -> Seen:
    weight = one.nearness * (HEARSAY if one.source else 1.0)
    return Seen(method=method, context=(one.data, one.epsilon, one.measure), value=one.share, weight=weight)


def _advise(
    name: str,
    schema: Schema,
    budget: Budget,
    per_class: Sequence[float],
    *,
    evidence: Sequence[Evidence],
    score: float | None,
) -> Advice | None:
    """None for a method that is not for such data, by its own refusal."""
    assert schema.rows is not None
    settings: dict[str, Any] = {}
    steps: Sequence[Step] = ()
    missing = ""
    try:
        method = make_method(name, {}, schema)
        settings = _settings(method, schema, schema.rows)
        method = method.replace(settings)
        steps = method.plan(schema)
    except DataError as error:
        missing = str(error)  # a public network that is not here: a reason to get it, none to keep silent
    except SimulacraError:
        return None
    worst: Gauge | None = None
    reasons = []
    if not missing and all(step.sample_rate == 1 and step.count == 1 for step in steps):
        # Training loops have no one signal to hold their noise against, and take seconds to calibrate.
        gauges = gauge(make_plan(steps, budget), schema, per_class, of_all=method.of_all_classes(schema))
        worst = max(gauges, key=lambda one: one.ratio, default=None)
    if worst is not None:
        whose = worst.name if worst.name == ALL_RECORDS else f'class "{worst.name}"'
        reasons.append(f"{whose}: {worst.words()}")
    elif missing:
        reasons.append(missing)
    else:
        reasons.append("it draws while it learns, so there is no one signal to hold the noise against")
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
        score=score,
    )


def _verdict(evidence: Sequence[Evidence], ratio: float | None) -> str:
    """By itself, before it is compared with others."""
    if ratio is not None and ratio > DROWNED:
        return DROWNS
    if not evidence:
        return UNKNOWN
    measured = [one.nearness for one in evidence if not one.source]
    # The gauge is a bound; what was measured on data of that size speaks louder, and alone where there is no gauge.
    stands = (ratio is not None and ratio <= 3 * FAVOURABLE) or max(measured, default=0.0) >= ALIKE
    return GOOD if measured and stands else FAIR


def _compared(advice: Advice, best: float) -> Advice:
    """A method that is clearly behind another is not recommended, however well it stands the noise."""
    if advice.score is None or advice.verdict not in (GOOD, FAIR) or advice.score >= best - CLOSE:
        return advice
    return replace(advice, verdict=FAIR if advice.score >= best - FAR else BEHIND)


def _settings(method: Any, schema: Schema, rows: int) -> dict[str, Any]:
    """What must follow from the number of records: the rate at which a training loop samples them."""
    values: Mapping[str, Any] = method.to_mapping()
    if "rate" in values and values["rate"] is None and "group" in values:
        groups = method.groups(schema) if hasattr(method, "groups") else schema.classes
        return {"rate": float(f"{min(1.0, values['group'] * groups / rows):.4g}")}
    return {}


def _evidence(method: str, schema: Schema, epsilon: float) -> list[Evidence]:
    """Per known data set of that kind and epsilon within a factor of ten, the method's figure: ours, else a paper's."""
    found = []
    alike = [line for line in book.results() if kind_of(known_schema(line.data)) == kind_of(schema)]
    tried = [(line.data, line.epsilon) for line in alike if line.method == method and line.epsilon is not None]
    near = [(data, at) for data, at in tried if abs(math.log10(at / epsilon)) <= 1.0]
    for data, at in dict.fromkeys(near):
        here = [line for line in alike if line.data == data]
        mine = [line for line in here if line.method == method and line.epsilon == at]
        likeness = _likeness(data, schema) * nearness(at / epsilon)
        for lines in ([line for line in mine if not line.source], [line for line in mine if line.source]):
            best = _best(lines, here, MEASURES[kind_of(schema)])
            if best is not None:
                found.append(replace(best, nearness=likeness))
                break
    return sorted(found, key=lambda one: -one.nearness)


def _likeness(data: str, schema: Schema) -> float:
    """How near a known data set is, by its number of records and of columns or pixels."""
    other = known_schema(data)
    assert schema.rows is not None
    return nearness(training_rows(data) / schema.rows, max(1, other.inputs) / max(1, schema.inputs))


def _best(lines: Sequence[book.Result], here: Sequence[book.Result], measures: Sequence[str]) -> Evidence | None:
    """Of several variants the best one, by the measure that comes first."""
    for measure in measures:
        having = [line for line in lines if measure in line.figures]
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

"""From `ReportContent` to the values the template prints: numbers become texts and charts here, and nowhere else."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from simulacra.data.frames import check_frame, encode_frame
from simulacra.evaluate.breakdown import FEWEST_ROWS
from simulacra.privacy import accountant
from simulacra.privacy.accountant import Event
from simulacra.report.charts import curve, number, split, versus
from simulacra.report.columns import MOST_COLUMNS, column_views
from simulacra.report.content import ReportContent
from simulacra.report.maps import correlations, pair_views
from simulacra.report.pictures import MOST_CLASSES, class_rows, png
from simulacra.report.scoring import book_view, released_view, score_view
from simulacra.report.words import MEANING_OF_REAL, adjacency_words, promise
from simulacra.synthesis.gauge import ALL_RECORDS, FAVOURABLE, LARGEST_EPSILON, percent_up

if TYPE_CHECKING:
    import pandas as pd

PREVIEW_ROWS = 8
PREVIEW_COLUMNS = 20
CURVE_POINTS = 400
PARTS = (
    ("promise", "Promise", None),
    ("budget", "Budget", "steps"),
    ("ledger", "Ledger", "accounts"),
    ("signal", "Signal and noise", "signal"),
    ("data", "Data", None),
    ("scores", "Scores", "scores"),
    ("released", "Released scores", "released"),
    ("book", "Book and papers", "book"),
    ("training", "Training", "training"),
    ("public", "Public", None),
    ("verify", "Check it", None),
)
"""The sections in order: where a link leads, what it says, and the value that must be there."""
MOST_LINES = 12
"""More sentences about classes are shown on demand only."""


def view(content: ReportContent) -> dict[str, Any]:
    """All values of the template."""
    certificate = content.certificate
    steps = [dict(step) for step in certificate.get("steps") or ()]
    prior = [dict(step, prior=True, name="schema draft") for step in certificate.get("prior") or ()]
    parts = budget_parts(prior + steps, certificate.get("epsilon"), certificate.get("delta"))
    values = {
        "content": content,
        "certificate": certificate,
        "promise": promise(certificate),
        "adjacency": adjacency_words(certificate),
        "steps": prior + steps,
        "parts": parts,
        "split": _split(parts),
        "sampled": any(_rate(step) < 1 for step in prior + steps),
        "looped": any((step.get("count") or 1) > 1 or _rate(step) < 1 for step in steps),
        "curve": _delta_curve(certificate),
        "signal": _signal(content.class_signal, content.class_words),
        "training": _training(content.training_curve),
        "watched": [_watched(name, points) for name, points in content.training_curves.items() if len(points) > 1],
        "growth": [(step, png(*content.growth[step])) for step in sorted(content.growth)],
        "scores": score_view(content.scores),
        "released": [released_view(one) for one in content.released],
        "book": book_view(content.published, content.scores, content.run_name),
        "settings": flatten(content.settings),
        "versions": flatten(certificate.get("versions") or {}),
        "releases": sorted((certificate.get("files") or {}).items()),
        "accounts": content.accounts,
        "has_real": content.real is not None or content.scores is not None,
        "meaning_of_real": MEANING_OF_REAL,
        "fewest_rows": FEWEST_ROWS,
        **(_images(content) if content.schema.image is not None else _table(content)),
    }
    return values | {"contents": [(name, title) for name, title, key in PARTS if key is None or values[key]]}


def budget_parts(
    steps: Sequence[Mapping[str, Any]], epsilon: float | None = None, delta: float | None = None
) -> list[tuple[str, float]]:
    """The share of the budget each step takes: count / noise_multiplier^2, which adds up for steps on all rows.

    Steps on sampled rows have what such steps leave of one Gaussian release with the same epsilon and delta; among
    themselves they share it by count sample_rate^2 / noise_multiplier^2, the leading term, which is all there is to go
    by if no epsilon is given.
    """
    costs = []
    for step in steps:
        noise = step.get("noise_multiplier")
        cost = float(step.get("count") or 1) * _rate(step) ** 2 / float(noise) ** 2 if noise else 0.0
        costs.append(cost if math.isfinite(cost) else 0.0)
    sampled = [_rate(step) < 1 for step in steps]
    drawn = sum(cost for cost, some in zip(costs, sampled, strict=True) if some)
    if drawn > 0 and epsilon and delta:
        whole = 1 / accountant.calibrate(Event(noise_multiplier=1.0), epsilon, delta).noise_multiplier ** 2
        left = whole - (sum(costs) - drawn)
        if left > 0:
            costs = [cost * left / drawn if some else cost for cost, some in zip(costs, sampled, strict=True)]
    total = sum(costs)
    names = [str(step.get("name", "step")) for step in steps]
    return [(name, cost / total) for name, cost in zip(names, costs, strict=True)] if total > 0 else []


def flatten(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Nested settings as dotted names and short texts."""
    result: list[tuple[str, str]] = []
    for key, value in values.items():
        if isinstance(value, Mapping):
            result += flatten(value, f"{prefix}{key}.")
        elif isinstance(value, (list, tuple)):
            result.append((f"{prefix}{key}", ", ".join(map(str, value)) or "none"))
        else:
            result.append((f"{prefix}{key}", "default" if value is None else str(value)))
    return result


def _rate(step: Mapping[str, Any]) -> float:
    rate = step.get("sample_rate")
    return 1.0 if rate is None else float(rate)


def _split(parts: Sequence[tuple[str, float]]) -> Any:
    if not parts:
        return None
    return split(parts, label="Budget: " + ", ".join(f"{name} {100 * share:.0f} %" for name, share in parts))


def _delta_curve(certificate: Mapping[str, Any]) -> Any:
    epsilon, delta = certificate.get("epsilon"), certificate.get("delta")
    points = [(float(p["epsilon"]), float(p["delta"])) for p in certificate.get("curve") or ()]
    if epsilon is not None:  # far beyond the promise delta is of a size that nobody has a feeling for
        points = [point for point in points if point[0] <= 2.001 * float(epsilon)]
    if len(points) < 2 or not certificate.get("private"):
        return None
    mark = None if epsilon is None or not delta else (float(epsilon), float(delta))
    label = "Delta falls as epsilon grows. " + "; ".join(f"epsilon {number(e)}, delta {number(d)}" for e, d in points)
    return curve(points, label=label, titles=("epsilon", "delta"), log_y=True, mark=mark)


def _signal(rows: Sequence[Mapping[str, Any]] | None, words: Sequence[tuple[str, str]]) -> dict[str, Any] | None:
    if not rows:
        return None
    table: list[dict[str, Any]] = []
    for row in rows:
        # What is too large for JSON is null there.
        signal, noise = (math.inf if row[key] is None else float(row[key]) for key in ("signal", "noise"))
        ratio = signal / noise if noise > 0 else math.inf
        bound, epsilon = row.get("bound"), row.get("epsilon_needed")
        table.append(
            {
                "name": str(row["class_name"]),
                "signal": signal,
                "noise": noise,
                "ratio": ratio,
                "bound": "–" if bound is None else percent_up(bound),
                "records_needed": row.get("records_needed"),
                "epsilon_needed": f"none below {LARGEST_EPSILON:g}"
                if epsilon is not None and epsilon > LARGEST_EPSILON
                else number(epsilon),
            }
        )
    drawn = [(row["name"], row["ratio"]) for row in table if math.isfinite(row["ratio"])]
    # What was released of all classes together has one line, which no class is named after.
    per_class = [row["name"] for row in table] != [ALL_RECORDS]
    title = "Signal and noise per class" if per_class else "Signal and noise"
    label = f"{title}; the numbers are in the table below"
    reached = sum(row["ratio"] * FAVOURABLE >= 1 for row in table)
    together = "the release as a whole gets there" if reached else "the release as a whole does not get there"
    classes = f"{reached} of {len(table)} {'class gets' if len(table) == 1 else 'classes get'} there"
    return {
        "title": title,
        "per_class": per_class,
        "reach": classes if per_class else together,
        "rows": table,
        "chart": versus(drawn, label=label, threshold=1 / FAVOURABLE) if drawn else None,
        "times": number(1 / FAVOURABLE),
        "words": words,
        "folded": len(words) > MOST_LINES,
    }


def _training(points: Sequence[tuple[float, float]] | None) -> Any:
    if not points or len(points) < 2:
        return None
    stride = max(1, len(points) // CURVE_POINTS)
    kept = [*points[::stride], points[-1]]
    losses = [loss for _, loss in kept if math.isfinite(loss)]
    log_y = bool(losses) and min(losses) > 0 and max(losses) / min(losses) > 30
    label = (
        f"Training loss, from {number(float(points[0][1]))} at the start to {number(float(points[-1][1]))} at the end"
    )
    return curve([(float(x), float(y)) for x, y in kept], label=label, titles=("step", "loss"), log_y=log_y)


def _watched(name: str, points: Sequence[tuple[float, float]]) -> Any:
    stride = max(1, len(points) // CURVE_POINTS)
    kept = [(float(x), float(y)) for x, y in (*points[::stride], points[-1])]
    ends = f"from {number(kept[0][1])} at the start to {number(kept[-1][1])} at the end"
    return curve(kept, label=f"{name.capitalize()}, {ends}", titles=("step", name))


def _table(content: ReportContent) -> dict[str, Any]:
    synthetic: pd.DataFrame = content.synthetic  # type: ignore[assignment]
    real: pd.DataFrame | None = content.real  # type: ignore[assignment]
    names = [column.name for column in content.schema.columns]
    shown = names[:PREVIEW_COLUMNS]
    preview = [[_cell(value) for value in row] for row in synthetic[shown].head(PREVIEW_ROWS).itertuples(index=False)]
    check_frame(synthetic, content.schema, what="report: synthetic table")
    ours = encode_frame(synthetic, content.schema)
    theirs = None if real is None or len(real) == 0 else encode_frame(real, content.schema)
    worst = [] if content.scores is None else content.scores.details.get("worst_pairs") or []
    return {
        "columns": column_views(synthetic, real, content.schema),
        "columns_left_out": max(0, len(names) - MOST_COLUMNS),
        "preview": {"names": shown, "rows": preview, "left_out": len(names) - len(shown)},
        "correlations": correlations(ours, theirs, content.schema),
        "pairs_by_real": real is not None or bool(worst),
        "pairs_of_columns": pair_views(ours, theirs, content.schema, [pair["columns"] for pair in worst]),
        "sample_count": len(synthetic),
        "images": None,
    }


def _images(content: ReportContent) -> dict[str, Any]:
    synthetic = np.asarray(content.synthetic)
    real = None if content.real is None else np.asarray(content.real)
    rows = class_rows(content.schema, synthetic, content.synthetic_labels, real, content.real_labels)
    return {
        "images": rows,
        "images_left_out": max(0, len(content.schema.class_names) - MOST_CLASSES),
        "sample_count": len(synthetic),
        "columns": [],
        "correlations": None,
        "pairs_by_real": False,
        "pairs_of_columns": [],
        "columns_left_out": 0,
        "preview": None,
    }


def _cell(value: object) -> str:
    import pandas as pd

    if value is None or value is pd.NaT or value is pd.NA or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, pd.Timestamp) and value == value.normalize():
        return str(value.date())
    if isinstance(value, (float, np.floating)):
        return f"{float(value):.6g}"
    return str(value)

"""The scores of a run as the template prints them: summaries, tables, breakdowns, and figures of others beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from simulacra.evaluate.classifiers import ALL
from simulacra.evaluate.closeness import WARNING
from simulacra.evaluate.fidelity.protocols import PROTOCOLS
from simulacra.evaluate.scores import Scores
from simulacra.report.charts import number

SCORE_WORDS = {
    "auroc": "AUROC",
    "auprc": "AUPRC",
    "f1": "F1",
    "accuracy": "Accuracy",
}

DISTANCE_WORDS = {
    "tvd_1way_mean": "single columns, mean",
    "tvd_1way_max": "single columns, worst",
    "tvd_2way_mean": "pairs of columns, mean",
    "tvd_2way_max": "pairs of columns, worst",
    "tvd_3way_mean": "triples of columns, mean",
    "tvd_3way_max": "triples of columns, worst",
}

LIKENESS_WORDS = {
    "correlation_difference_mean": ("Correlations, mean difference", "0 is best"),
    "correlation_difference_max": ("Correlations, largest difference", "0 is best"),
    "detection_auroc": ("Told from real rows, boosted detective", "0.5 is best"),
    "detection_auroc_linear": ("Told from real rows, linear detective", "0.5 is best"),
    "dcr_median": ("Distance to the closest real row, median", "no measure of privacy"),
    "dcr_median_real": ("the same for real rows among themselves", "to compare with"),
}

BOOK_COLUMNS = {
    "AUROC": "auroc_mean",
    "AUPRC": "auprc_mean",
    "F1": "f1_mean",
    "2-way TVD": "tvd_2way_mean",
    "FID, test": "fid_dp_gan",
    "FID, train": "fid_dp_mepf",
    "CNN": "cnn_accuracy",
    "ResNet-9": "resnet9_accuracy",
    "ConvNet": "convnet_accuracy",
}
"""Columns of the book that are measured as `evaluate` measures by default, and the score they hold."""
OF_TWELVE = ("AUROC", "AUPRC", "F1")
"""Means over all twelve classifiers, ranked by probabilities."""


def score_view(scores: Scores | None) -> dict[str, Any] | None:
    """Everything about scores on real rows; None if there are none."""
    if scores is None:
        return None
    details, values = scores.details, scores.scores
    rows = details.get("classifiers") or []
    metrics = [metric for metric in SCORE_WORDS if rows and metric in rows[0]]
    return {
        "rows": rows,
        "metrics": [(metric, SCORE_WORDS[metric]) for metric in metrics],
        "summary": _summary(values, metrics),
        "distances": [
            (DISTANCE_WORDS[n], v, values.get(f"{n}_spread")) for n, v in values.items() if n in DISTANCE_WORDS
        ],
        "likeness": [
            (*LIKENESS_WORDS[name], value, values.get(f"{name}_spread"))
            for name, value in values.items()
            if name in LIKENESS_WORDS
        ],
        "seeds": _count(details.get("seeds")),
        "spreads": {
            (row.get("name"), metric): values.get(f"{row.get('name')}_{metric}_spread")
            for row in rows
            for metric in metrics
        },
        "by_class": details.get("by_class") or [],
        "by_group": details.get("by_group") or {},
        "notes": [note for note in scores.notes if note != WARNING],  # the table below says the same
        "details": details,
        "others": _other_scores(values, {str(row.get("name")): str(row.get("title", "")) for row in rows}),
    }


def released_view(scores: Scores) -> dict[str, Any]:
    """Scores that were paid for: each with what the noise does to it."""
    privacy = scores.details.get("privacy") or {}
    lines = []
    for name, value in scores.scores.items():
        if name.endswith(("_noise", "_noise_floor")):
            continue
        stem = name.removesuffix("_mean").removesuffix("_max")
        # The largest of several distances has most noise, so it has a floor of its own.
        floor = scores.scores.get(f"{name.removesuffix('_mean')}_noise_floor")
        noise = scores.scores.get(f"{stem}_noise")
        said = f"± {number(noise, 2)}" if noise is not None else (f"noise alone {number(floor, 2)}" if floor else "")
        title = f"Distance, {DISTANCE_WORDS[name]}" if name in DISTANCE_WORDS else SCORE_WORDS.get(stem, stem)
        lines.append((title, f"{value:.3f}", said))
    judges = [str(row.get("title")) for row in scores.details.get("classifiers") or ()]
    return {"lines": lines, "privacy": privacy, "notes": scores.notes, "judges": judges}


def book_view(published: Sequence[Mapping[str, Any]], scores: Scores | None, this: str) -> dict[str, Any] | None:
    """Lines of the book about the same data set, this run first; only columns that somebody fills."""
    if not published:
        return None
    names = list(dict.fromkeys(name for line in published for name in line["figures"]))
    own = {name: _as_in_the_book(scores, name) for name in names} if scores is not None else {}
    lines: list[dict[str, Any]] = []
    if any(value is not None for value in own.values()):
        cells = ["–" if own[name] is None else _figure(name, float(own[name] or 0.0)) for name in names]
        lines.append({"who": this, "this": True, "epsilon": "", "cells": cells})
    for line in published:
        who = line["method"] + (f" ({line['variant']})" if line["variant"] else "")
        who += f", {line['source']} paper" if line["source"] else ""
        cells = [_cell(name, line["figures"].get(name)) for name in names]
        lines.append({"who": who, "this": False, "epsilon": number(line["epsilon"]), "cells": cells})
    return {"names": names, "lines": lines}


def _as_in_the_book(scores: Scores, name: str) -> float | None:
    """A figure of this run for a column of the book; None if it was measured in another way, or not at all."""
    details = scores.details
    alike = len(details.get("classifiers") or ()) == len(ALL) and details.get("protocol", "sound") == "sound"
    return scores.scores.get(BOOK_COLUMNS.get(name, "")) if alike or name not in OF_TWELVE else None


def _count(seeds: Any) -> int:
    """Tables list their seeds, images say how many."""
    return seeds if isinstance(seeds, int) else len(seeds or ())


def _summary(values: Mapping[str, float], metrics: Sequence[str]) -> list[dict[str, Any]]:
    return [
        {
            "title": SCORE_WORDS[metric],
            "mean": values.get(f"{metric}_mean"),
            "spread": values.get(f"{metric}_mean_spread"),
            "best": values.get(f"{metric}_best"),
            "real": values.get(f"real_{metric}_mean"),
        }
        for metric in metrics
        if f"{metric}_mean" in values
    ]


def _cell(name: str, figure: Mapping[str, Any] | None) -> str:
    if figure is None:
        return "–"
    spread = f" ± {_figure(name, figure['spread'])}" if figure.get("spread") is not None else ""
    return _figure(name, figure["mean"]) + spread


def _figure(name: str, value: float) -> str:
    return f"{value:.1f}" if name.startswith("FID") else f"{value:.3f}"


def _other_scores(scores: Mapping[str, float], classifiers: Mapping[str, str]) -> list[tuple[str, float]]:
    """What no other table of the report shows: FID and its kin, and the best of classifiers over seeds."""
    starts = (*(f"{metric}_" for metric in SCORE_WORDS), *(f"real_{metric}_" for metric in SCORE_WORDS))
    starts = (*starts, "tvd_", "correlation_", "detection_", "dcr_")
    measured = [(f"{name}_{metric}", title) for name, title in classifiers.items() for metric in SCORE_WORDS]
    in_rows = {found + ending for found, _ in measured for ending in ("", "_spread")}
    best = {f"{found}_best": f"{title}, {found.rpartition('_')[2]}, best of the seeds" for found, title in measured}
    return [
        (best.get(name) or _score_title(name), value)
        for name, value in scores.items()
        if not name.startswith(starts) and name not in in_rows
    ]


def _score_title(name: str) -> str:
    """fid_dp_gan: FID (DP-GAN protocol)."""
    for protocol in PROTOCOLS.values():
        suffix = "_" + protocol.name.replace("-", "_")
        if name.endswith(suffix):
            against = f"{protocol.generated:,} images against the {protocol.reference} images"
            return f"{_fidelity_title(name.removesuffix(suffix))} ({against})"
    return name.replace("_", " ")


def _fidelity_title(name: str) -> str:
    known = {"fid": "FID", "kid": "KID", "kid_error": "KID, standard error"}
    return known.get(name, name.replace("_", " ").capitalize())

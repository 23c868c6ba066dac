"""The page that compares runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from simulacra.data.writers import check_new
from simulacra.report.charts import fixed, number
from simulacra.report.comparison import Comparison, Group, compare
from simulacra.report.curves import lines_over_epsilon, marker
from simulacra.synthesis.run import Run

LOWER_IS_BETTER = ("fid", "kid", "tvd_", "correlation_difference", "released_tvd_")
TITLES = {"auroc": "AUROC", "auprc": "AUPRC", "f1": "F1", "fid": "FID", "tvd": "TVD", "lr": "LR", "mlp": "MLP"}
TITLES |= {"kid": "KID", "cnn": "CNN", "resnet9": "ResNet-9", "1way": "1-way", "2way": "2-way", "3way": "3-way"}
TITLES |= {"dp": "DP", "gan": "GAN", "mepf": "MEPF"}


def write_comparison(
    runs: Sequence[Run | str | Path], *, out: str | Path, scores: Iterable[str] | None = None
) -> Comparison:
    """Write one self-contained HTML page with privacy-utility curves of several runs; gives the figures behind it."""
    from simulacra.report import write_page

    target = check_new(out)
    found = compare(runs, scores=scores)
    write_page(target, "compare.html.j2", comparison_view(found))
    return found


def comparison_view(found: Comparison) -> dict[str, Any]:
    """All values of the template."""
    methods = list(dict.fromkeys(group.method for group in found.groups))
    return {
        "comparison": found,
        "methods": [(method, marker(place)) for place, method in enumerate(methods)],
        "charts": [_chart(found, score, methods) for score in found.drawn],
        "rows": [_row(group, found.drawn) for group in found.groups],
        "headings": [_title(score) for score in found.drawn],
    }


def _chart(found: Comparison, score: str, methods: Sequence[str]) -> dict[str, Any]:
    lines = []
    for method in methods:
        groups = [g for g in found.groups if g.method == method and g.epsilon is not None and score in g.values]
        lines.append((method, [(float(g.epsilon or 0), g.mean(score), g.spread(score) or 0.0) for g in groups]))
    told = [f"{method} {number(y, 3)} at epsilon {number(x, 3)}" for method, line in lines for x, y, _ in line]
    title = _title(score)
    return {
        "title": title,
        "better": "lower is better" if score.startswith(LOWER_IS_BETTER) else "higher is better",
        "middle": "detection" in score,
        "picture": lines_over_epsilon(
            lines, label=f"{title} over epsilon: {'; '.join(told) or 'no points'}", title=title
        ),
    }


def _row(group: Group, drawn: Sequence[str]) -> dict[str, Any]:
    return {
        "method": group.method,
        "epsilon": "not private" if group.epsilon is None else number(group.epsilon),
        "promise": f"delta {number(group.delta)}, {group.adjacency}" if group.epsilon is not None else group.adjacency,
        "runs": ", ".join(group.runs),
        "cells": [_cell(group, score) for score in drawn],
    }


def _cell(group: Group, score: str) -> str:
    if score not in group.values:
        return "–"
    spread = group.spread(score)
    # Shares line up with three decimals; distances between features have no scale of their own.
    mean = number(group.mean(score), 3) if score.startswith(("fid", "kid")) else fixed(group.mean(score))
    return mean + (f" ± {number(spread, 2)}" if spread is not None else "")


def _title(score: str) -> str:
    """tvd_2way_mean: TVD 2-way mean."""
    title = " ".join(TITLES.get(word, word) for word in score.split("_"))
    return title[:1].upper() + title[1:]

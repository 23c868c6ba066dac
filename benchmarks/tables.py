"""The book as tables: per data set, a line per method and epsilon, ours with their spread and the papers' beside."""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks import published
from benchmarks.outcomes import Result
from benchmarks.published import PUBLISHED, REMARKS, SOURCES, Column
from benchmarks.rows import REAL, Row
from benchmarks.scoring import SCORINGS

COLUMNS: dict[Column, str] = {
    published.LR_60000: "LR 60,000",
    published.MLP_60000: "MLP 60,000",
    published.LR_6000: "LR 6,000",
    published.MLP_6000: "MLP 6,000",
    published.CNN: "CNN",
    published.RESNET9: "ResNet-9",
    published.FID: "FID, test",
    ("fid-dp-mepf", "fid"): "FID, train",
    ("tables", "auroc_mean"): "AUROC",
    ("tables", "auprc_mean"): "AUPRC",
    ("tables", "f1_mean"): "F1",
    ("tables", "tvd_2way_mean"): "2-way TVD",
    published.AUROC: "AUROC, as published",
    published.AUPRC: "AUPRC, as published",
    published.F1: "F1, as published",
    ("convnet-condensed", "convnet_accuracy"): "ConvNet",
    ("networks-condensed", "mlp128_accuracy"): "MLP",
    ("networks-condensed", "lenet_accuracy"): "LeNet",
    ("networks-condensed", "alexnet_accuracy"): "AlexNet",
    ("networks-condensed", "vgg11_accuracy"): "VGG11",
    ("networks-condensed", "resnet18_accuracy"): "ResNet-18",
}

NONE = "–"

BEST: dict[Column, str] = {
    ("tables", "auroc_best"): "AUROC, best",
    ("tables", "auprc_best"): "AUPRC, best",
    ("tables", "f1_best"): "F1, best",
    ("tables-as-published", "auroc_best"): "AUROC, as published, best",
    ("tables-as-published", "auprc_best"): "AUPRC, as published, best",
    ("tables-as-published", "f1_best"): "F1, as published, best",
}
"""The best of twelve classifiers, picked by looking at the test rows: kept apart, because it flatters."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line of a table; a figure is a value per seed, or a paper's single one."""

    data: str
    method: str
    epsilon: float | None
    variant: str = ""
    adjacency: str = ""
    source: str = ""
    figures: dict[Column, list[float]] = field(default_factory=dict)
    seeds: tuple[int, ...] = ()
    unfinished: bool = False
    run: bool = True
    """Whether anything was measured; a row of the registry that was not run says so."""

    @property
    def order(self) -> tuple[Any, ...]:
        """The yardstick first, then by method, epsilon, and papers after ours."""
        unbounded = float("inf")
        epsilon = unbounded if self.epsilon is None else self.epsilon
        return (self.method != REAL, self.method, epsilon, bool(self.source), self.variant)


def lines(results: Iterable[Result], rows: Iterable[Row] = ()) -> list[Line]:
    """Results gathered over seeds, what the papers say, and those of `rows` that nothing was measured of."""
    groups: dict[tuple[Any, ...], list[Result]] = defaultdict(list)
    for result in results:
        row = result["row"]
        if result["scorings"] or "unfinished" in result:
            groups[(row["data"], row["method"], row["epsilon"], row["variant"], row["adjacency"])].append(result)
    ours = [_gather(key, group) for key, group in groups.items()]
    papers = [
        Line(
            data=paper.data,
            method=paper.method,
            epsilon=paper.epsilon,
            source=paper.source,
            variant=paper.variant,
            figures={column: [value] for column, value in paper.figures.items()},
        )
        for paper in PUBLISHED
    ]
    missing = [
        Line(data=data, method=method, epsilon=epsilon, variant=variant, adjacency=adjacency, run=False)
        for data, method, epsilon, variant, adjacency in dict.fromkeys(
            (row.data, row.method, row.epsilon, row.variant, row.adjacency) for row in rows
        )
        if (data, method, epsilon, variant, adjacency) not in groups
    ]
    return sorted(ours + papers + missing, key=lambda line: (line.data, *line.order))


def to_json(results: Iterable[Result]) -> list[dict[str, Any]]:
    """The same as plain values; a figure has a mean, a spread if there are several seeds, and how many there are."""
    return [
        {
            "data": line.data,
            "method": line.method,
            "variant": line.variant,
            "epsilon": line.epsilon,
            "source": SOURCES.get(line.source, "this project"),
            "seeds": list(line.seeds),
            "figures": {
                f"{scoring}: {score}": {
                    "mean": statistics.fmean(values),
                    "spread": statistics.stdev(values) if len(values) > 1 else None,
                    "seeds": len(values) if not line.source else None,
                }
                for (scoring, score), values in line.figures.items()
            },
        }
        for line in lines(results)
    ]


def to_data(results: Iterable[Result]) -> str:
    """src/simulacra/datasets/book.json: what the package itself knows of the book."""
    known = [
        {
            "data": line.data,
            "method": line.method,
            "epsilon": line.epsilon,
            "adjacency": line.adjacency,
            "variant": line.variant,
            "source": line.source,
            "figures": {
                COLUMNS[column]: {
                    "mean": round(statistics.fmean(values), 4),
                    "spread": round(statistics.stdev(values), 4) if len(values) > 1 else None,
                    "seeds": 0 if line.source else len(values),
                }
                for column, values in line.figures.items()
                if column in COLUMNS
            },
        }
        for line in lines(results)
        if line.figures
    ]
    text = json.dumps({"sources": SOURCES, "lines": known}, indent=1, ensure_ascii=False, allow_nan=False)
    return text + "\n"


def to_markdown(results: Iterable[Result], rows: Iterable[Row] = ()) -> str:
    """A section per data set, with what was measured and what was not, and the sources."""
    everything = lines(results, rows)
    parts = []
    for data in dict.fromkeys(line.data for line in everything):
        chosen = [line for line in everything if line.data == data]
        columns = [column for column in COLUMNS if any(column in line.figures for line in chosen)]
        parts.append(f"## {data}")
        if measured := [line for line in chosen if line.run]:
            parts.append(_table(measured, COLUMNS, columns))
        if planned := [line for line in chosen if not line.run]:
            parts.append("No run yet:\n\n" + "\n".join(_not_run(planned)))
        best = [column for column in BEST if any(column in line.figures for line in chosen)]
        if best:
            scored = [line for line in chosen if any(column in line.figures for column in best)]
            parts.append(f"The best of the twelve classifiers on {data}:\n\n{_table(scored, BEST, best)}")
    cited = [f"* **{name} paper**: {SOURCES[name]}. {REMARKS[name]}" for name in SOURCES]
    parts.append("## Sources\n\n" + "\n".join(cited))
    return "\n\n".join(parts) + "\n"


def _gather(key: tuple[Any, ...], group: Sequence[Result]) -> Line:
    data, method, epsilon, variant, adjacency = key
    group = sorted(group, key=lambda result: result["row"]["seed"])
    figures: dict[Column, list[float]] = {}
    for scoring, score in (*COLUMNS, *BEST):
        found = [result["scorings"].get(scoring, {}).get("scores", {}).get(score) for result in group]
        values = [value for value in found if value is not None]
        if values:
            figures[(scoring, score)] = values
    return Line(
        data=data,
        method=method,
        epsilon=epsilon,
        variant=variant,
        adjacency=adjacency,
        figures=figures,
        seeds=tuple(result["row"]["seed"] for result in group),
        unfinished=all("unfinished" in result for result in group),
    )


def _table(chosen: Sequence[Line], titles: Mapping[Column, str], columns: Sequence[Column]) -> str:
    head = ["method", "epsilon", "seeds", *(titles[column] for column in columns)]
    rows = [head, ["---"] * len(head)]
    for line in chosen:
        epsilon = NONE if line.epsilon is None else f"{line.epsilon:g}"
        seeds = str(len(line.seeds)) if line.seeds else NONE
        rows.append([_title(line), epsilon, seeds, *(cell(line, column) for column in columns)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _not_run(planned: Sequence[Line]) -> Iterator[str]:
    """A line per method, with its variants and their epsilons: hundreds of empty rows would hide the others."""
    methods: dict[str, dict[str, list[float | None]]] = defaultdict(lambda: defaultdict(list))
    for line in planned:
        name, _, variant = _title(line).partition(" ")
        methods[name][variant.strip("()")].append(line.epsilon)
    for name, variants in methods.items():
        told = "; ".join(_budgets(variant, found) for variant, found in variants.items())
        yield f"* {name}" if name == f"**{REAL}**" else f"* {name}: {told}"


def _budgets(variant: str, epsilons: Sequence[float | None]) -> str:
    private = ", ".join(f"{epsilon:g}" for epsilon in epsilons if epsilon is not None)
    budgets = [f"at {private}"] if private else []
    budgets += ["without noise"] if None in epsilons else []
    return f"{variant} {' and '.join(budgets)}".strip()


def _title(line: Line) -> str:
    marks = [line.variant] if line.variant else []
    if line.source:
        return f"{line.method}{f' ({line.variant})' if marks else ''}, {line.source} paper"
    if line.adjacency not in ("", "replace-one", line.variant) and line.method != REAL:
        marks.append(line.adjacency)
    return f"**{line.method}**" + (f" ({', '.join(marks)})" if marks else "")


def cell(line: Line, column: Column) -> str:
    """A figure with its spread, or why there is none."""
    values = line.figures.get(column)
    if not values:
        return "did not finish" if line.unfinished else NONE
    digits = 1 if column[1] == "fid" else 3
    spread = f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
    # A scoring that is still missing for some seeds says so.
    part = f" ({len(values)} of {len(line.seeds)})" if line.seeds and len(values) < len(line.seeds) else ""
    return f"{statistics.fmean(values):.{digits}f}{spread}{part}"


def column_words() -> Iterator[str]:
    for scoring in SCORINGS.values():
        titles = [title for (name, _), title in COLUMNS.items() if name == scoring.name]
        yield f"* {' and '.join(titles)} (`{scoring.name}`): {scoring.words}."

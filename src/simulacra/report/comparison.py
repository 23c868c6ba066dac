"""Several runs side by side: what utility each method reaches at which epsilon, with the spread over runs."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from simulacra.errors import SettingError, suggestion
from simulacra.evaluate.released import load_released_scores
from simulacra.evaluate.runs import load_scores
from simulacra.evaluate.scores import COMPUTED_ON, Scores
from simulacra.synthesis.run import Run

PREFERRED = (
    "auroc_mean",
    "auprc_mean",
    "f1_mean",
    "accuracy_mean",
    "lr_accuracy",
    "mlp_accuracy",
    "cnn_accuracy",
    "resnet9_accuracy",
    "convnet_accuracy",
    "fid_dp_gan",
    "fid_dp_mepf",
    "tvd_1way_mean",
    "tvd_2way_mean",
    "tvd_3way_mean",
    "correlation_difference_mean",
    "detection_auroc",
)
"""What is drawn unless told otherwise, in this order, as far as a run has it."""
MOST_DRAWN = 6
RELEASED = "released_"
"""Before the name of a score that was paid for."""


@dataclass(frozen=True, kw_only=True)
class Group:
    """Runs with the same method and promise: for each score a value per run that has it."""

    method: str
    epsilon: float | None
    delta: float | None
    adjacency: str
    runs: tuple[str, ...]
    values: dict[str, list[float]] = field(default_factory=dict)

    def mean(self, score: str) -> float:
        """Over the runs that have it."""
        return statistics.fmean(self.values[score])

    def spread(self, score: str) -> float | None:
        """Standard deviation over runs, if there are several."""
        values = self.values[score]
        return statistics.stdev(values) if len(values) > 1 else None

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "method": self.method,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "adjacency": self.adjacency,
            "runs": list(self.runs),
            "scores": {
                name: {"mean": self.mean(name), "spread": self.spread(name), "runs": len(values)}
                for name, values in self.values.items()
            },
        }


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Groups in the order of method and epsilon, the scores to draw, and what a reader must know."""

    groups: tuple[Group, ...]
    drawn: tuple[str, ...]
    notes: tuple[str, ...]
    computed_on: str | None

    def to_json(self) -> dict[str, Any]:
        """The stable form of `compare --json`."""
        return {
            "groups": [group.to_json() for group in self.groups],
            "drawn": list(self.drawn),
            "notes": list(self.notes),
            "computed_on": self.computed_on,
        }


def compare(runs: Sequence[Run | str | Path], *, scores: Iterable[str] | None = None) -> Comparison:
    """Gather what runs of the same data promised and reached; `scores` chooses what is drawn."""
    opened = [run if isinstance(run, Run) else Run.load(run) for run in runs]
    if len({run.folder.resolve() for run in opened}) < len(opened):
        raise SettingError("a run is given twice; give each once")
    if not opened:
        raise SettingError("which runs? Give at least one folder")
    _same_data(opened)
    gathered: dict[tuple[Any, ...], list[Run]] = defaultdict(list)
    for run in opened:
        certificate = run.certificate
        epsilon = None if certificate["epsilon"] is None else float(f"{certificate['epsilon']:.4g}")
        gathered[(run.method.name, epsilon, certificate["delta"], certificate["adjacency"])].append(run)
    groups = sorted((_group(key, members) for key, members in gathered.items()), key=_order)
    names = list(dict.fromkeys(name for group in groups for name in group.values))
    wanted = _drawn(names, scores)
    free = any(not name.startswith(RELEASED) for name in names)
    return Comparison(
        groups=tuple(groups),
        drawn=wanted,
        notes=tuple(_notes(opened, groups)),
        computed_on=COMPUTED_ON if free else None,
    )


def _order(group: Group) -> tuple[str, float]:
    return group.method, float("inf") if group.epsilon is None else group.epsilon


def _same_data(runs: Sequence[Run]) -> None:
    first = runs[0].schema
    for run in runs[1:]:
        other = run.schema
        if (other.columns, other.image, other.label) != (first.columns, first.image, first.label):
            raise SettingError(
                f'"{run.folder}" has another schema than "{runs[0].folder}"; compare runs of the same data'
            )


def _group(key: tuple[Any, ...], members: Sequence[Run]) -> Group:
    method, epsilon, delta, adjacency = key
    values: dict[str, list[float]] = defaultdict(list)
    for run in members:
        for name, value in _scores(run).items():
            values[name].append(value)
    return Group(
        method=method,
        epsilon=epsilon,
        delta=delta,
        adjacency=adjacency,
        runs=tuple(run.folder.name for run in members),
        values=dict(values),
    )


def _scores(run: Run) -> dict[str, float]:
    """All scores of a run; of one that was paid for more than once, the latest."""
    free = load_scores(run)
    found = {} if free is None else dict(free.scores)
    for paid in load_released_scores(run):
        found |= {RELEASED + name: value for name, value in paid.scores.items()}
    return found


def _drawn(names: Sequence[str], scores: Iterable[str] | None) -> tuple[str, ...]:
    if scores is None:
        usual = [name for name in (*PREFERRED, *(RELEASED + name for name in PREFERRED)) if name in names]
        return tuple(usual or names)[:MOST_DRAWN]
    wanted = tuple(dict.fromkeys(scores))
    for name in wanted:
        if name not in names:
            raise SettingError(f'no run has a score "{name}"{suggestion(name, names)}')
    return wanted


def _measured(scores: Scores) -> tuple[object, ...]:
    names = (str(row.get("name")) for row in scores.details.get("classifiers") or ())
    return scores.details.get("protocol", "sound"), *sorted(names)


def _notes(runs: Sequence[Run], groups: Sequence[Group]) -> list[str]:
    notes = []
    unscored = [run.folder.name for run in runs if not _scores(run)]
    if unscored:
        notes.append(f"not scored yet, so without figures: {', '.join(unscored)}; run: simulacra evaluate RUN")
    for what in ("delta", "adjacency"):
        found = {str(getattr(group, what)) for group in groups if group.epsilon is not None}
        if len(found) > 1:
            notes.append(
                f"promises differ in {what} ({', '.join(sorted(found))}), so epsilons are not quite comparable"
            )
    sizes = {str(scores.details.get("test_rows")) for run in runs if (scores := load_scores(run)) is not None}
    if len(sizes) > 1:
        notes.append("runs were scored on test sets of different sizes")
    ways = {_measured(scores) for run in runs if (scores := load_scores(run)) is not None}
    if len(ways) > 1:
        notes.append("scores were measured in different ways: by other classifiers, or ranked by another protocol")
    settings: dict[tuple[str, float | None], set[str]] = defaultdict(set)
    for run in runs:
        settings[(run.method.name, run.certificate["epsilon"])].add(str(run.facts["settings"]))
    mixed = sorted({method for (method, _), found in settings.items() if len(found) > 1})
    if mixed:
        notes.append(f"runs of the same method with different settings were taken together: {', '.join(mixed)}")
    if all(len(group.runs) == 1 for group in groups):
        notes.append("one run of each kind, so there is no spread; make several runs to see what chance does")
    return notes

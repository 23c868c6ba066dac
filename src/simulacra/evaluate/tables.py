"""All scores of a table: classifiers, distances, correlations, detection, closeness; and their spread over seeds."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from simulacra.data.frames import Encoded, as_encoded
from simulacra.errors import SettingError
from simulacra.evaluate.closeness import closest_records
from simulacra.evaluate.correlations import correlation_differences
from simulacra.evaluate.detection import detect
from simulacra.evaluate.marginals import marginal_distances
from simulacra.evaluate.progress import Progress, silent
from simulacra.evaluate.scores import NO_CLASSIFIER, Scores, merged
from simulacra.evaluate.seeds import check_seeds
from simulacra.schema import Schema

if TYPE_CHECKING:
    import pandas as pd

PROTOCOLS = ("sound", "papers")
"""Ranked by probabilities; or by predicted classes, as the papers did."""


def score_table(
    synthetic: pd.DataFrame | Encoded,
    real: pd.DataFrame | Encoded,
    schema: Schema,
    *,
    seed: int = 0,
    train_rows: int | None = None,
    classifiers: Iterable[str] | None = None,
    protocol: str = "sound",
    groups: Iterable[str] | None = None,
    train: pd.DataFrame | Encoded | None = None,
    progress: Progress = silent,
) -> Scores:
    """Everything that can be measured on one synthetic table.

    `train` are the real training rows: the same classifiers trained on them are the yardstick, `real_auroc_mean` and
    so on.
    """
    if protocol not in PROTOCOLS:
        raise SettingError(f'unknown protocol "{protocol}"; one of {", ".join(PROTOCOLS)}')
    check_seeds(seed)
    ours = as_encoded(synthetic, schema, what="synthetic table")
    theirs = as_encoded(real, schema, what="real table")
    chosen = None if classifiers is None else tuple(classifiers)
    parts: list[Scores] = []
    if schema.labelled and chosen != (NO_CLASSIFIER,):
        parts += _classified(ours, theirs, schema, seed, train_rows, chosen, protocol, groups, train, progress)
    else:
        wanted = {"groups": groups is not None, "train": train is not None, "protocol": protocol != PROTOCOLS[0]}
        parts.append(Scores(scores={}, notes=_unclassified(schema, [name for name, given in wanted.items() if given])))
    stages: dict[str, Callable[[], Scores]] = {
        "marginal distances": lambda: marginal_distances(ours, theirs, schema),
        "correlations": lambda: correlation_differences(ours, theirs, schema),
        "detection": lambda: detect(ours, theirs, schema, seed=seed),
        "closest records": lambda: closest_records(ours, theirs, schema, seed=seed),
    }
    for name, compute in stages.items():
        progress(name)
        parts.append(compute())
    return merged([*parts, Scores(scores={}, details={"seed": seed})])


def misfits(data: Any, schema: Schema, what: str) -> list[str]:
    """Columns whose values were changed by the schema's policy, by name alone: how many they are is private."""
    from simulacra.data.tables import describe_problems

    names = [problem.column for problem in describe_problems(data, schema)]
    if not names:
        return []
    return [
        f"{what}: some values of {', '.join(names)} do not fit the schema, and were scored as its policy changes them"
    ]


def over_seeds(found: Sequence[Scores], seeds: Sequence[int]) -> Scores:
    """Several evaluations as one: the mean of each score, and its standard deviation as NAME_spread.

    Details are those of the first. A score that some of them lack is left out, and a note says so.
    """
    if len(found) == 1:
        return found[0]
    names = [name for name in found[0].scores if all(name in one.scores for one in found)]
    lost = sorted({name for one in found for name in one.scores} - set(names))
    scores = {name: statistics.fmean(one.scores[name] for one in found) for name in names}
    scores |= {f"{name}_spread": statistics.stdev(one.scores[name] for one in found) for name in names}
    notes = list(dict.fromkeys(note for one in found for note in one.notes))
    if lost:
        notes.append(f"not every seed has {', '.join(lost)}, so there is no mean of it")
    details = dict(found[0].details) | {"seeds": list(seeds), "each_seed": [dict(one.scores) for one in found]}
    return Scores(scores=scores, details=details, notes=notes)


def _unclassified(schema: Schema, unused: Sequence[str]) -> list[str]:
    notes = [] if schema.labelled else ["the schema names no label, so no classifier was trained"]
    return [*notes, f"no classifier was trained, so {', '.join(unused)} had no use"] if unused else notes


def _classified(
    ours: Encoded,
    theirs: Encoded,
    schema: Schema,
    seed: int,
    train_rows: int | None,
    classifiers: tuple[str, ...] | None,
    protocol: str,
    groups: Iterable[str] | None,
    train: pd.DataFrame | Encoded | None,
    progress: Progress,
) -> list[Scores]:
    from simulacra.evaluate.downstream import train_and_test

    options: dict[str, Any] = {"seed": seed, "classifiers": classifiers, "hard": protocol == "papers"}
    found = train_and_test(ours, theirs, schema, train_rows=train_rows, groups=groups, progress=progress, **options)
    found.details["protocol"] = protocol
    if protocol == "papers":
        found.notes.append("test rows were ranked by predicted classes, as in the papers, so AUROC and AUPRC are lower")
    parts = [found]
    if train is not None:
        yardstick = train_and_test(
            as_encoded(train, schema, what="real training table"), theirs, schema, progress=progress, **options
        )
        parts.append(
            Scores(
                scores={f"real_{name}": value for name, value in yardstick.scores.items()},
                details={
                    "real_classifiers": yardstick.details["classifiers"],
                    "real_train_rows": yardstick.details["train_rows"],
                },
                notes=[f"trained on real rows: {note}" for note in yardstick.notes],
            )
        )
    return parts

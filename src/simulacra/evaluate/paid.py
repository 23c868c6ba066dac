"""Scores from noisy sums over real records: covered by a guarantee of their own, unlike all others.

What can be released is a bounded sum: confusion matrices and histograms of scores, one per class, and the shares of
cells. All else (the best of several classifiers, FID, correlations, detection, distances to records) is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from simulacra.errors import SettingError, suggestion
from simulacra.evaluate.judging import TrainedJudge
from simulacra.evaluate.scores import Scores
from simulacra.features.judged import Guesses, ScoreBins
from simulacra.features.pairs import Columns, Pairs
from simulacra.privacy.query import FeatureMap
from simulacra.schema import Schema

RANKED = ("accuracy", "auroc", "auprc")
DISTANCES = ("tvd_1way", "tvd_2way")
RELEASABLE = (*RANKED, *DISTANCES)
REDRAWS = 200
"""So often is noise of the same size added again, to see what it does to a score: post-processing, so it is seeded."""

PLAIN = 2
"""A distance so many times what noise alone would give is mostly distance."""

MIXED = 20
"""Steps inside a bin."""

Counts = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Questions:
    """What will be asked of the test records, and what is needed to read the answers."""

    schema: Schema
    judges: tuple[TrainedJudge, ...]
    scores: tuple[str, ...]
    inputs: torch.Tensor
    labels: torch.Tensor

    def maps(self) -> dict[str, FeatureMap]:
        """A bounded map per step of the plan."""
        classes = self.schema.classes
        found: dict[str, FeatureMap] = {}
        for judge in self.judges:
            if classes > 2 and "accuracy" in self.scores:
                found[f"guesses-{judge.name}"] = Guesses(judge.judge, classes)
            if classes == 2 or {"auroc", "auprc"} & set(self.scores):
                found[f"scores-{judge.name}"] = ScoreBins(judge.judge, classes, judge.edges)
        if "tvd_1way" in self.scores:
            found["columns"] = Columns(self.schema)
        if "tvd_2way" in self.scores:
            found["pairs"] = Pairs(self.schema)
        return found


def check_scores(names: Iterable[str] | None, schema: Schema) -> tuple[str, ...]:
    """Which scores will be released; one that is no bounded sum is refused."""
    table = schema.image is None
    usual = (*(RANKED if schema.labelled else ()), *(("tvd_1way",) if table else ()))
    chosen = usual if names is None else tuple(dict.fromkeys(names))
    for name in chosen:
        if name not in RELEASABLE:
            raise SettingError(
                f'"{name}" cannot be released privately: it is no bounded sum over records; '
                f"these can: {', '.join(RELEASABLE)}{suggestion(name, RELEASABLE) if name else ''}"
            )
        if name in RANKED and not schema.labelled:
            raise SettingError(f'"{name}" needs a label, and the schema has none')
        if name in DISTANCES and not table:
            raise SettingError(f'"{name}" is for tables; these are images')
        if name == "tvd_2way" and len(schema.columns) < 2:
            raise SettingError('"tvd_2way": one column has no pairs; leave that out')
    if not chosen and names is not None:
        raise SettingError(f"no score was chosen; name at least one of {', '.join(usual)}, or leave the choice out")
    if not chosen:
        raise SettingError("nothing of unlabelled images can be released privately; add classes to the schema")
    return chosen


def read_answers(questions: Questions, answers: Mapping[str, tuple[Counts, float]], computed_on: str) -> Scores:
    """Scores from the noisy sums and the noise's standard deviation. From here on there is no private data."""
    random = np.random.default_rng(0)
    scores: dict[str, float] = {}
    notes: list[str] = []
    rows: list[dict[str, Any]] = [
        {"name": judge.name, "title": judge.title, **_judged(questions, judge, answers, random)}
        for judge in questions.judges
    ]
    for metric in RANKED:
        values = [row[metric] for row in rows if metric in row]
        if metric in questions.scores and values:
            scores[f"{metric}_mean"] = float(np.mean(values))
            noises = [row[f"{metric}_noise"] for row in rows]
            scores[f"{metric}_noise"] = float(np.sqrt(np.sum(np.square(noises))) / len(noises))
    if "columns" in answers:
        scores |= _column_distances(questions, *answers["columns"])
    if "pairs" in answers:
        scores |= _pair_distances(questions, *answers["pairs"])
    if _drowned(questions, answers):
        notes.append("the noise is about as large as the number of test records: these figures say nothing")
    notes += [
        f"{name} is less than {PLAIN} times what noise alone would give: much of it may be noise"
        for name in DISTANCES
        if f"{name}_mean" in scores and scores[f"{name}_mean"] < PLAIN * scores[f"{name}_noise_floor"]
    ]
    details = {"classifiers": rows, "train_rows": len(questions.labels)} if rows else {}
    return Scores(scores=scores, details=details, notes=notes, computed_on=computed_on)


def auroc_of(bins: Counts) -> float:
    """Area under the ROC curve from counts (2, bins) of negatives and positives; rows of one bin are ties."""
    negatives, positives = bins
    if min(positives.sum(), negatives.sum()) <= 0:
        return 0.5
    below = np.concatenate([[0.0], np.cumsum(negatives)[:-1]])
    pairs = float(positives.sum() * negatives.sum())
    return _share(float((positives * (below + negatives / 2)).sum()), pairs, otherwise=0.5)


def auprc_of(bins: Counts) -> float:
    """Average precision from the same counts, going down from the highest bin, whose rows are taken as well mixed."""
    negatives, positives = (np.clip(side, 0.0, None)[::-1] for side in bins)
    inside = (np.arange(MIXED) + 0.5)[:, None] / MIXED
    found = np.cumsum(positives) - positives + inside * positives
    seen = found + np.cumsum(negatives) - negatives + inside * negatives
    precision = np.divide(found, seen, out=np.zeros_like(found), where=seen > 0).mean(axis=0)
    guess = _share(float(positives.sum()), float(positives.sum() + negatives.sum()), otherwise=0.0)
    return _share(float((positives * precision).sum()), float(positives.sum()), otherwise=guess)


def _judged(
    questions: Questions,
    judge: TrainedJudge,
    answers: Mapping[str, tuple[Counts, float]],
    random: np.random.Generator,
) -> dict[str, float]:
    """Each score of one judge, and what noise does to it."""
    found: dict[str, float] = {}
    readings: dict[str, tuple[str, Callable[[Counts], float]]] = {
        "auroc": ("scores", lambda counts: float(np.mean([auroc_of(line) for line in counts]))),
        "auprc": ("scores", lambda counts: float(np.mean([auprc_of(line) for line in counts]))),
        "accuracy": ("guesses", _diagonal_share),
    }
    if questions.schema.classes == 2:
        cut = int(np.searchsorted(judge.edges[0], 0.0))
        readings["accuracy"] = ("scores", lambda counts: _decided(counts, cut))
    for metric, (step, read) in readings.items():
        if metric in questions.scores and f"{step}-{judge.name}" in answers:
            counts, noise_std = answers[f"{step}-{judge.name}"]
            found[metric] = read(counts)
            again = [read(counts + random.normal(0.0, noise_std, counts.shape)) for _ in range(REDRAWS)]
            found[f"{metric}_noise"] = float(np.std(again))
    return found


def _decided(counts: Counts, cut: int) -> float:
    """Accuracy from bins: those up to the edge at 0 are guessed as the first class."""
    negatives, positives = counts[0]
    return _share(float(negatives[: cut + 1].sum() + positives[cut + 1 :].sum()), float(counts.sum()), otherwise=0.0)


def _diagonal_share(counts: Counts) -> float:
    return _share(float(np.trace(counts)), float(counts.sum()), otherwise=0.0)


def _share(part: float, whole: float, *, otherwise: float) -> float:
    """A share that noise cannot push out of 0 to 1; a whole that noise has eaten up says nothing."""
    return float(np.clip(part / whole, 0.0, 1.0)) if whole > 1.0 else otherwise


def _column_distances(questions: Questions, counts: Counts, noise_std: float) -> dict[str, float]:
    columns = Columns(questions.schema)
    # In double precision, as the vault does: it decides for a value on an edge.
    ours = columns.clipped_sum(questions.inputs.double(), questions.labels).numpy()
    ends = np.cumsum(columns.sizes)[:-1]
    lines = list(zip(np.split(ours, ends), np.split(counts, ends), strict=True))
    return _distances("tvd_1way", lines, noise_std)


def _pair_distances(questions: Questions, counts: Counts, noise_std: float) -> dict[str, float]:
    pairs = Pairs(questions.schema)
    ours = pairs.layout.tables(pairs.clipped_sum(questions.inputs.double(), questions.labels))
    theirs = pairs.layout.tables(torch.from_numpy(counts))
    lines = [(ours[pair].numpy().ravel(), theirs[pair].numpy().ravel()) for pair in theirs]
    return _distances("tvd_2way", lines, noise_std)


def _distances(name: str, lines: Sequence[tuple[Counts, Counts]], noise_std: float) -> dict[str, float]:
    """Mean and largest distance, and what noise alone would give of each: its shares do not cancel, they add up."""
    found, floors = [], []
    for ours, noisy in lines:
        total = max(float(noisy.sum()), 1e-9)
        found.append(float(min(1.0, 0.5 * np.abs(ours / ours.sum() - noisy / total).sum())))
        floors.append(min(1.0, 0.5 * len(noisy) * noise_std * math.sqrt(2 / math.pi) / total))
    return {
        f"{name}_mean": float(np.mean(found)),
        f"{name}_max": float(np.max(found)),
        f"{name}_noise_floor": float(np.mean(floors)),
        f"{name}_max_noise_floor": float(np.max(floors)),
    }


def _drowned(questions: Questions, answers: Mapping[str, tuple[Counts, float]]) -> bool:
    """Whether any answer's total is within three standard deviations of nothing."""
    return any(float(counts.sum()) < 3 * noise_std * math.sqrt(counts.size) for counts, noise_std in answers.values())

"""Scores of a run folder: draw samples, compare them with real records that were not trained on, write scores.json."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from simulacra.data.reference import Reference
from simulacra.errors import SchemaError, SettingError
from simulacra.evaluate.scores import Scores
from simulacra.synthesis.run import Run

SCORES_FILE = "scores.json"
"""Computed on real records: the one file of a run that the guarantee does not cover."""


def evaluate_run(
    run: Run | str | Path,
    real: Any,
    *,
    rows: int | None = None,
    seed: int = 0,
    classifiers: Iterable[str] | None = None,
    progress: Callable[[str], None] | None = None,
) -> Scores:
    """Score a run against real test records (anything `fit` takes as data), on `rows` synthetic ones.

    `rows` defaults to the noisy number of records, at most 60,000.
    """
    from simulacra.data.images import to_uint8
    from simulacra.evaluate import evaluate_images, evaluate_table

    opened = run if isinstance(run, Run) else Run.load(run)
    if rows is not None and rows < 1:
        raise SettingError(f"rows must be at least 1, got {rows}")
    if opened.schema.image is not None and not opened.schema.labelled:
        raise SchemaError("images without a label cannot be scored by classifiers; list image.classes in the schema")
    reference = Reference.load(real, opened.schema)
    drawn = opened.sample(rows or _noisy_total(opened), seed=seed)
    options: dict[str, Any] = {"seed": seed, "classifiers": classifiers, "progress": progress}
    if isinstance(drawn, tuple):
        images, labels = to_uint8(reference.inputs, opened.schema), reference.labels.numpy()
        scores = evaluate_images(*drawn, images, labels, **options)
    else:
        scores = evaluate_table(drawn, reference.frame(), opened.schema, **options)
    opened.write_json(SCORES_FILE, scores.to_mapping())
    return scores


def load_scores(run: Run) -> Scores | None:
    """The scores of a run, if it was scored."""
    path = run.folder / SCORES_FILE
    return Scores.from_json(path.read_text(encoding="utf-8")) if path.exists() else None


def _noisy_total(run: Run) -> int:
    """About as many rows as there were records, going by the release and not by the data."""
    counts = run.releases.get("class-counts")
    total = int(counts.value.sum()) if counts is not None else 10_000
    return min(60_000, max(100, total))

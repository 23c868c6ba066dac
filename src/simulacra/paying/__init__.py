"""Scores that are paid for: `evaluate` trains judges on synthetic records and reads answers, `synthesis` asks.

Neither may do both: what scores data freely must never reach private records, so they meet here.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simulacra.errors import OutputError, SettingError
from simulacra.evaluate.scores import Scores
from simulacra.privacy.budget import Adjacency
from simulacra.schema import Schema
from simulacra.synthesis.run import Run
from simulacra.synthesis.watching import Watcher

if TYPE_CHECKING:
    import torch

__all__ = ["evaluate_privately"]


def evaluate_privately(
    synthetic: Run | str | Path | Any,
    real: Any,
    *,
    epsilon: float,
    delta: float,
    adjacency: str | Adjacency,
    ledger: str | Path | None = None,
    schema: Schema | str | Path | None = None,
    scores: Iterable[str] | None = None,
    classifiers: Iterable[str] | None = None,
    rows: int | None = None,
    seed: int = 0,
    watcher: Watcher | None = None,
) -> Scores:
    """Score a run, or synthetic records with a schema, on real test records under (epsilon, delta) for each of these.

    `scores` are of accuracy, auroc, auprc, tvd_1way and tvd_2way. `classifiers` are trained on `rows` synthetic records
    (by default logistic regression alone: each one more has a share of the budget). `ledger` belongs to the test
    records. The result may be published; a run keeps it as released-scores.json, then released-scores-2.json and so on.
    """
    from simulacra.evaluate.judging import train_judges
    from simulacra.evaluate.paid import RANKED, Questions, check_scores, read_answers
    from simulacra.evaluate.released import place_for_scores
    from simulacra.evaluate.seeds import check_seeds
    from simulacra.evaluate.training_rows import check_rows
    from simulacra.synthesis.asking import ask_about
    from simulacra.synthesis.releasing import ledger_for

    watcher = watcher or Watcher()
    run = _run(synthetic)
    if run is not None and schema is not None:
        raise SettingError("a run brings its own schema; leave it out")
    described = _schema(run, schema)
    chosen = check_scores(scores, described)
    check_seeds(seed)
    check_rows(rows)
    if run is not None and ledger_for(real, ledger).absolute().is_relative_to(run.folder.absolute()):
        raise OutputError(f'the ledger outlives the run: keep it outside of "{run.folder}"')
    watcher.stage("Training on synthetic records")
    inputs, labels = _synthetic(synthetic, run, described, rows, seed)
    judges = train_judges(inputs, labels, described, classifiers, seed=seed) if set(RANKED) & set(chosen) else []
    questions = Questions(schema=described, judges=tuple(judges), scores=chosen, inputs=inputs, labels=labels)
    with place_for_scores(run) as keep:
        answered = ask_about(
            real,
            questions.maps(),
            schema=described,
            epsilon=epsilon,
            delta=delta,
            adjacency=adjacency,
            ledger=ledger,
            watcher=watcher,
        )
        plan = answered.plan
        found = read_answers(
            questions,
            {name: (release.value.numpy(), release.noise_std) for name, release in answered.releases.items()},
            f"real data, released under epsilon {epsilon:g}, delta {delta:g}, {plan.adjacency}",
        )
        found.details["privacy"] = plan.to_json() | {
            "ledger": answered.ledger,
            "releases": {name: release.sha256() for name, release in answered.releases.items()},
        }
        found.details["seed"] = seed
        keep(found)
    return found


def _run(synthetic: Any) -> Run | None:
    if isinstance(synthetic, Run):
        return synthetic
    if isinstance(synthetic, (str, Path)) and (Path(synthetic) / "run.json").is_file():
        return Run.load(synthetic)
    return None


def _schema(run: Run | None, schema: Schema | str | Path | None) -> Schema:
    if run is not None:
        return run.schema
    if schema is None:
        raise SettingError("which schema? Synthetic records in a file need one")
    return schema if isinstance(schema, Schema) else Schema.load(schema)


def _synthetic(
    synthetic: Any, run: Run | None, schema: Schema, rows: int | None, seed: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Encoded synthetic records and their classes."""
    import torch

    from simulacra.data.reference import Reference
    from simulacra.evaluate.runs import wanted_rows
    from simulacra.evaluate.training_rows import subsample

    if run is not None:
        parts = list(run.encoded(wanted_rows(run, rows), seed=seed))
        return torch.cat([inputs for inputs, _ in parts]), torch.cat([labels for _, labels in parts])
    loaded = Reference.load(synthetic, schema)
    keep = torch.from_numpy(subsample(len(loaded), rows, seed))
    return loaded.inputs[keep], loaded.labels[keep]

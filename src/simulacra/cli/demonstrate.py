"""demo: the main job on embedded data, from rows to a certified synthetic table and a report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from simulacra.cli.options import flags
from simulacra.cli.show import emit, progress, promise, say, scoring
from simulacra.synthesis.watching import Watcher

TRAINING: dict[str, dict[str, float]] = {"adult": {}, "digits": {"training.steps": 400, "training.batch": 500}}
"""Shorter where the defaults would take more than a few minutes on two cores."""
QUICK: dict[str, dict[str, float]] = {
    "adult": {"fitting.steps": 40, "fitting.rows": 1000, "fitting.learning_rate": 0.1},
    "digits": {"training.steps": 20},
}
"""On top of that, to see that everything works; the scores mean little."""


@click.command()
@flags("epsilon", "delta", "adjacency", "seed", "device", "json")
@click.option("--out", type=click.Path(), default="demo-run", show_default=True, help="New folder to write.")
@click.option("--quick", is_flag=True, help="Fewer training steps and classifiers.")
def demo(
    epsilon: float | None, delta: float, adjacency: str, seed: int, device: str, as_json: bool, out: str, quick: bool
) -> None:
    """Synthesise the embedded Adult table and handwritten digits at epsilon 1, score them and write reports."""
    from simulacra.data.writers import check_new

    folder = check_new(out)
    results = {}
    with progress(as_json) as watcher:
        for name, training in TRAINING.items():
            results[name] = _one(
                name,
                folder / name,
                training={**training, **QUICK[name]} if quick else training,
                classifiers=["logistic_regression"] if quick and name == "adult" else None,
                epsilon=1.0 if epsilon is None else epsilon,
                delta=delta,
                adjacency=adjacency,
                seed=seed,
                device=device,
                watcher=watcher,
            )
    if as_json:
        emit(results)
        return
    for name, result in results.items():
        found = result["certificate"]
        promised = promise(found["epsilon"], found["delta"], found["adjacency"])
        say(f"\n{click.style(name, bold=True)}: {found['method']}, {promised}")
        for score, value in result["headline"].items():
            say(f"  {score} {value:.3f} (on real test records, outside the guarantee)")
        for what in ("samples", "certificate_file", "report"):
            say(f"  {what.removesuffix('_file')}: {result[what]}")
    say(f"\nCheck the promise yourself:  simulacra verify {folder / 'adult'}")


def _one(
    name: str,
    folder: Path,
    *,
    training: dict[str, float],
    classifiers: list[str] | None,
    watcher: Watcher,
    **arguments: Any,
) -> dict[str, Any]:
    from simulacra import datasets
    from simulacra.data.writers import write_samples
    from simulacra.evaluate.runs import evaluate_run
    from simulacra.report.runs import write_report
    from simulacra.synthesis.training import fit

    train, test = datasets.load(name, "train"), datasets.load(name, "test")
    run = fit(
        train.data,
        schema=train.schema,
        out=folder,
        ledger=folder.parent / f"{name}.ledger",
        settings=training,
        watcher=watcher,
        **arguments,
    )
    image = train.schema.image is not None
    samples = folder / ("samples.npz" if image else "samples.csv")
    write_samples(run.encoded(2000 if image else 10000, seed=0), samples, run.schema)
    scores = evaluate_run(
        run,
        test.data,
        rows=2000 if image else 10000,
        classifiers=classifiers,
        progress=scoring(watcher, f"Scoring {name}"),
    )
    watcher.stage(f"Writing the report on {name}")
    report = write_report(run, real=test.data)
    headline = ("lr_accuracy", "mlp_accuracy", "auroc_mean", "auprc_mean", "tvd_2way_mean")
    return {
        "certificate": run.certificate,
        "headline": {key: scores.scores[key] for key in headline if key in scores.scores},
        "samples": str(samples),
        "certificate_file": str(folder / "certificate.json"),
        "report": str(report),
    }

"""evaluate and report: how good it is, and a page to look at."""

from __future__ import annotations

import click

from simulacra.cli.inputs import data_for
from simulacra.cli.options import flags
from simulacra.cli.show import emit, progress, say, table

TEST = click.option("--test", metavar="DATA", help="Real records that were not trained on, or dataset:NAME:test.")


@click.command()
@click.argument("run", type=click.Path())
@TEST
@flags("seed", "json")
@click.option("--rows", type=int, help="Synthetic records to train on [default: as many as the noisy counts say].")
@click.option("--classifier", "classifiers", multiple=True, help="Only this classifier; repeat for several.")
def evaluate(
    run: str, test: str | None, seed: int, as_json: bool, rows: int | None, classifiers: tuple[str, ...]
) -> None:
    """Score RUN against real test records. The scores are outside the privacy guarantee."""
    from simulacra.errors import DataError
    from simulacra.evaluate.runs import evaluate_run

    if test is None:
        raise DataError("which real records? Say --test FILE; they must not be the ones that were trained on")
    with progress(as_json) as watcher:
        scores = evaluate_run(
            run,
            data_for(test),
            rows=rows,
            seed=seed,
            classifiers=classifiers or None,
            progress=lambda name: watcher.stage(f"Scoring: {name}"),
        )
    if as_json:
        emit(scores.to_mapping())
        return
    table(("score", "value"), [(name, f"{value:.4f}") for name, value in scores.scores.items()])
    for note in scores.notes:
        say(f"  note: {note}")
    say(f"Computed on {scores.computed_on}.")


@click.command()
@click.argument("run", type=click.Path())
@TEST
@click.option("--out", type=click.Path(), help="File to write [default: RUN/report.html].")
@click.option("--public", is_flag=True, help="Leave out all that was computed on real records, scores included.")
@flags("json")
def report(run: str, test: str | None, out: str | None, public: bool, as_json: bool) -> None:
    """Write one self-contained HTML page about RUN; with --test, real marginals stand beside the synthetic ones."""
    from simulacra.errors import SettingError
    from simulacra.report.runs import write_report

    if public and test is not None:
        raise SettingError("--public leaves out real records and --test brings them in; drop one of them")
    path = write_report(run, out=out, real=None if test is None else data_for(test), public=public)
    if as_json:
        emit({"report": str(path)})
    else:
        say(f"Report in {path}")

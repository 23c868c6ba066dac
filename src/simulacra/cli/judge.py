"""evaluate and report: how good it is, and a page to look at."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simulacra.cli.inputs import PREFIX, data_and_schema, data_for, with_split
from simulacra.cli.options import flags
from simulacra.cli.show import emit, progress, say, scoring, table

if TYPE_CHECKING:
    from simulacra.schema import Schema

TEST = click.option("--test", metavar="DATA", help="Real records that were not trained on, or dataset:NAME.")


@click.command()
@click.argument("synthetic", type=click.Path())
@TEST
@flags("schema", "seed", "device", "json")
@click.option("--rows", type=int, help="Synthetic records to train on [default: as many as the noisy counts say].")
@click.option(
    "--classifier", "classifiers", multiple=True, help="Only this classifier; repeat for several; none for none."
)
@click.option("--seeds", type=int, default=1, show_default=True, help="Draw and train this often; gives the spread.")
@click.option("--group", "groups", multiple=True, help="Tables: break the scores down by this column; repeatable.")
@click.option(
    "--protocol",
    type=click.Choice(["sound", "papers"]),
    default="sound",
    show_default=True,
    help="Tables: rank by probabilities, or by predicted classes as the papers did.",
)
@click.option(
    "--fid",
    multiple=True,
    type=click.Choice(["dp-gan", "dp-mepf"]),
    help="Images: FID, KID and others by this protocol; repeat for both.",
)
@click.option("--train", metavar="DATA", help="Real training records: a yardstick, or images for --fid dp-mepf.")
@click.option(
    "--pixels",
    type=click.Choice(["bytes", "unit", "signed"]),
    default="bytes",
    show_default=True,
    help="What numbers in an .npz file mean: 0 to 255, 0 to 1, or -1 to 1.",
)
@click.option(
    "--engine",
    type=click.Choice(["auto", "scikit-learn", "torch"]),
    default="auto",
    show_default=True,
    help="Images: who trains lr and mlp; auto is torch on a GPU.",
)
@click.option("--no-cache", is_flag=True, help="Images: keep no statistics of the real images in the cache folder.")
@click.option("--out", type=click.Path(), help="Also write the scores to this new JSON file.")
def evaluate(
    synthetic: str,
    test: str | None,
    schema: str | None,
    seed: int,
    device: str,
    as_json: bool,
    rows: int | None,
    classifiers: tuple[str, ...],
    seeds: int,
    groups: tuple[str, ...],
    protocol: str,
    fid: tuple[str, ...],
    train: str | None,
    pixels: str,
    engine: str,
    no_cache: bool,
    out: str | None,
) -> None:
    """Score SYNTHETIC (a run, a table, an .npz file or a folder of images) against real test records.

    The scores are outside the privacy guarantee.
    """
    from simulacra.data.writers import check_new
    from simulacra.errors import DataError, SettingError
    from simulacra.evaluate.runs import evaluate_files, evaluate_run
    from simulacra.privacy.durable import write_durably

    if test is None:
        raise DataError("which real records? Say --test DATA; they must not be the ones that were trained on")
    test = with_split(test, "test")
    written = None if out is None else check_new(out)
    options: dict[str, Any] = {"rows": rows, "seed": seed, "classifiers": classifiers or None, "device": device}
    given = {"seeds": seeds, "fid": fid, "engine": engine, "groups": groups, "protocol": protocol}
    standard = {"seeds": 1, "fid": (), "engine": "auto", "groups": (), "protocol": "sound"}
    options |= {name: value for name, value in given.items() if value != standard[name]}
    if train is not None:
        options["train"] = data_for(train)
    if no_cache:
        options["cache"] = False
    is_run = (Path(synthetic) / "run.json").is_file()
    with progress(as_json) as watcher:
        options["progress"] = scoring(watcher, "Scoring")
        if is_run:
            if schema is not None or pixels != "bytes":
                raise SettingError("a run brings its own schema and pixels; leave out --schema and --pixels")
            scores = evaluate_run(synthetic, data_for(test), **options)
        else:
            real, described = _real_and_schema(synthetic, test, schema)
            scores = evaluate_files(data_for(synthetic), real, schema=described, pixels=pixels, **options)
    if written is not None:
        write_durably(written, (scores.to_json() + "\n").encode())
    if as_json:
        emit(scores.to_mapping())
        return
    table(("score", "value"), [(name, f"{value:.4f}") for name, value in scores.scores.items()])
    for note in scores.notes:
        say(f"  note: {note}")
    say(f"Computed on {scores.computed_on}.")


def _real_and_schema(synthetic: str, test: str, schema: str | None) -> tuple[Any, Schema]:
    """The schema comes from --schema, or along with a known data set on either side."""
    from simulacra.errors import DataError, SchemaError
    from simulacra.schema import Schema

    if not synthetic.startswith(PREFIX) and not Path(synthetic).exists():
        raise DataError(f'no run, file or folder "{synthetic}"; check the path')
    if schema is None and not any(data.startswith(PREFIX) for data in (test, synthetic)):
        raise SchemaError(f'"{synthetic}" is no run, so which schema? Say --schema FILE')
    if schema is None and not test.startswith(PREFIX) and synthetic.startswith(PREFIX):
        return test, data_and_schema(synthetic, None)[1]
    if schema is not None and not test.startswith(PREFIX):
        return test, Schema.load(schema)
    return data_and_schema(test, schema)


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
    path = write_report(run, out=out, real=None if test is None else data_for(test, "test"), public=public)
    if as_json:
        emit({"report": str(path)})
    else:
        say(f"Report in {path}")

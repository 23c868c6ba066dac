"""evaluate and report: how good it is, and a page to look at."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simulacra.cli.inputs import PREFIX, data_and_schema, data_for, schema_of, with_split
from simulacra.cli.options import flags
from simulacra.cli.show import emit, progress, say, scoring, table

if TYPE_CHECKING:
    from simulacra.schema import Schema

TEST = click.option("--test", metavar="DATA", help="Real records that were not trained on, or dataset:NAME.")


@click.command()
@click.argument("synthetic", type=click.Path())
@TEST
@flags("schema", "epsilon", "delta", "adjacency", "ledger", "seed", "device", "json")
@click.option(
    "--score", "wanted", multiple=True, help="With --epsilon: release this score; repeatable. Others are refused."
)
@click.option("--rows", type=int, help="Synthetic records to train on [default: as many as the noisy counts say].")
@click.option(
    "--classifier", "classifiers", multiple=True, help="Only this classifier; repeat for several; none for none."
)
@click.option(
    "--seeds", type=int, default=1, show_default=True, help="Train this often, tables on a new draw; gives the spread."
)
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
    epsilon: float | None,
    delta: float,
    adjacency: str,
    ledger: str | None,
    wanted: tuple[str, ...],
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

    The scores are outside the privacy guarantee, unless --epsilon says that they are to be released under one.
    """
    from simulacra.data.writers import check_new
    from simulacra.errors import DataError, SettingError
    from simulacra.evaluate.runs import evaluate_files, evaluate_run
    from simulacra.paying import evaluate_privately
    from simulacra.privacy.durable import write_durably

    if test is None:
        raise DataError("which real records? Say --test DATA; they must not be the ones that were trained on")
    test = with_split(test, "test")
    written = None if out is None else check_new(out)
    is_run = (Path(synthetic) / "run.json").is_file()
    if epsilon is None and (wanted or ledger is not None):
        raise SettingError("--score and --ledger are for scores that are paid for; say --epsilon too")
    options: dict[str, Any] = {"rows": rows, "seed": seed, "classifiers": classifiers or None, "device": device}
    given = {"seeds": seeds, "fid": fid, "engine": engine, "groups": groups, "protocol": protocol}
    standard = {"seeds": 1, "fid": (), "engine": "auto", "groups": (), "protocol": "sound"}
    options |= {name: value for name, value in given.items() if value != standard[name]}
    if train is not None:
        options["train"] = data_for(train)
    if no_cache:
        options["cache"] = False
    with progress(as_json) as watcher:
        if epsilon is not None:
            _refuse_what_costs(given, standard, train=train, pixels=pixels, no_cache=no_cache)
            real, described = (data_for(test), schema) if is_run else _real_and_schema(synthetic, test, schema)
            scores = evaluate_privately(
                synthetic if is_run else data_for(synthetic),
                real,
                schema=described,
                epsilon=epsilon,
                delta=delta,
                adjacency=adjacency,
                ledger=_ledger_of_test(test, ledger),
                scores=wanted or None,
                classifiers=classifiers or None,
                rows=rows,
                seed=seed,
                watcher=watcher,
            )
        elif is_run:
            options["progress"] = scoring(watcher, "Scoring")
            if schema is not None or pixels != "bytes":
                raise SettingError("a run brings its own schema and pixels; leave out --schema and --pixels")
            scores = evaluate_run(synthetic, data_for(test), **options)
        else:
            options["progress"] = scoring(watcher, "Scoring")
            real, described = _real_and_schema(synthetic, test, schema)
            scores = evaluate_files(data_for(synthetic), real, schema=described, pixels=pixels, **options)
    # Shown first: scores that were paid for must not be lost because they cannot be written.
    if as_json:
        emit(scores.to_mapping())
    else:
        _print_scores(scores.scores)
        for note in scores.notes:
            say(f"  note: {note}")
        say(f"Computed on {scores.computed_on}.")
    if written is not None:
        write_durably(written, (scores.to_json() + "\n").encode())


def _print_scores(scores: dict[str, float]) -> None:
    """A line per score, with its spread beside it where there are several seeds."""
    spreads = {name: f"{scores[f'{name}_spread']:.4f}" for name in scores if f"{name}_spread" in scores}
    shown = [name for name in scores if not (name.endswith("_spread") and name.removesuffix("_spread") in spreads)]
    if spreads:
        table(("score", "value", "spread"), [(name, f"{scores[name]:.4f}", spreads.get(name, "")) for name in shown])
    else:
        table(("score", "value"), [(name, f"{scores[name]:.4f}") for name in shown])


def _refuse_what_costs(given: dict[str, Any], standard: dict[str, Any], **more: Any) -> None:
    """With a budget only bounded sums are released; a flag that asks for anything else is refused."""
    from simulacra.errors import SettingError

    others = [name for name, value in given.items() if value != standard[name]]
    others += [name for name, value in more.items() if value not in (None, False, "bytes")]
    if others:
        spelled = ", ".join("--" + ("group" if name == "groups" else name.replace("_", "-")) for name in others)
        raise SettingError(
            f"{spelled}: not with --epsilon, which releases accuracy, auroc, auprc, tvd_1way and tvd_2way of "
            "one draw and nothing else; leave that out"
        )


def _ledger_of_test(test: str, ledger: str | None) -> str | None:
    """The test records of a known data set have a ledger of their own, beside that of the training records."""
    if ledger is None and test.startswith(PREFIX):
        return f"{test.removeprefix(PREFIX).replace(':', '-')}.ledger"
    return ledger


def _real_and_schema(synthetic: str, test: str, schema: str | None) -> tuple[Any, Schema]:
    """The schema comes from --schema, or along with a known data set on either side."""
    from simulacra.errors import DataError, SchemaError

    if not synthetic.startswith(PREFIX) and not Path(synthetic).exists():
        raise DataError(f'no run, file or folder "{synthetic}"; check the path')
    if schema is None and not any(data.startswith(PREFIX) for data in (test, synthetic)):
        raise SchemaError(f'"{synthetic}" is no run, so which schema? Say --schema FILE')
    if schema is None and not test.startswith(PREFIX) and synthetic.startswith(PREFIX):
        return test, data_and_schema(synthetic, None)[1]
    if schema is not None and not test.startswith(PREFIX):
        return test, schema_of(schema)
    return data_and_schema(test, schema)


@click.command()
@click.argument("run", type=click.Path())
@TEST
@click.option("--out", type=click.Path(), help="File to write [default: RUN/report.html].")
@click.option("--public", is_flag=True, help="Leave out all that was computed on real records, scores included.")
@flags("ledger", "json")
def report(run: str, test: str | None, out: str | None, public: bool, ledger: str | None, as_json: bool) -> None:
    """Write one self-contained HTML page about RUN.

    With --test, real marginals stand beside the synthetic ones; with --ledger, the accounts of the data set.
    """
    from simulacra.errors import SettingError
    from simulacra.report.runs import write_report

    if public and test is not None:
        raise SettingError("--public leaves out real records and --test brings them in; drop one of them")
    path = write_report(
        run, out=out, real=None if test is None else data_for(test, "test"), ledger=ledger, public=public
    )
    if as_json:
        emit({"report": str(path)})
    else:
        say(f"Report in {path}")

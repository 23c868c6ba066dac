"""plan, release, train, fit, prepare, resume, condense, sample: from data to synthetic data."""

from __future__ import annotations

from typing import Any

import click

from simulacra.cli.inputs import PREFIX, data_and_schema, data_argument, ledger_name, refuse_as_public, schema_of
from simulacra.cli.options import SEED, flags
from simulacra.cli.show import emit, not_private_banner, progress, promise, say, table
from simulacra.errors import SettingError
from simulacra.methods import AUTO
from simulacra.options import parse_assignments


@click.command()
@flags("schema", "method", "preset", "epsilon", "delta", "adjacency", "label", "set", "not-private", "json")
@click.option("--rows", type=int, help="A public guess of the number of records, for a forecast.")
@click.option("--class-rows", help="A public guess of the records per class, comma-separated.")
def plan(
    schema: str | None,
    method: str,
    preset: str | None,
    epsilon: float | None,
    delta: float,
    adjacency: str,
    label: str | None,
    settings: tuple[str, ...],
    not_private: bool,
    as_json: bool,
    rows: int | None,
    class_rows: str | None,
) -> None:
    """Show what would be asked and with how much noise. Costs nothing and needs no data."""
    from simulacra.errors import SchemaError
    from simulacra.methods import make_method
    from simulacra.synthesis.forecasting import forecast, parse_class_rows
    from simulacra.synthesis.releasing import load_schema, plan_for

    if schema is None:
        raise SchemaError("which schema? Say --schema FILE, or --schema dataset:NAME for a known data set")
    loaded = load_schema(schema_of(schema), label)
    chosen = make_method(method, _settings(method, preset, settings), loaded)
    planned = plan_for(chosen, loaded, epsilon, delta, adjacency, not_private)
    class_sizes = parse_class_rows(loaded, rows, class_rows)
    outlook = forecast(planned, loaded, class_sizes, of_all=chosen.of_all_classes(loaded))
    if not_private:
        not_private_banner()
    if as_json:
        emit({"method": chosen.name, **planned.to_json(), "forecast": outlook.to_json()})
        return
    described = planned.to_json()
    say(f"Plan: {chosen.name}, {promise(described['epsilon'], described['delta'], described['adjacency'])}")
    table(
        ("step", "numbers", "asked", "rate", "sensitivity", "noise multiplier", "noise std"),
        [
            (
                step["name"],
                step["size"],
                step["count"],
                f"{step['sample_rate']:g}",
                f"{step['sensitivity']:.6g}",
                f"{step['noise_multiplier']:.4g}",
                f"{step['noise_std']:.4g}",
            )
            for step in described["steps"]
        ],
    )
    for line in outlook.lines():
        say(line)


@click.command()
@data_argument
@flags("schema", "method", "preset", "epsilon", "delta", "adjacency", "label", "out", "ledger", "set")
@flags("not-private", "resume", "json")
def release(as_json: bool, **arguments: Any) -> None:
    """Ask the data once, with noise, and certify the answers in a new folder. Spends privacy budget."""
    from simulacra.synthesis.releasing import release as make

    with progress(as_json) as watcher:
        run = make(**_release_arguments(arguments), watcher=watcher)
    _announce(run, as_json, f"next: simulacra train {run.folder}")


@click.command()
@click.argument("run", type=click.Path())
@flags("seed", "device", "set", "json")
def train(run: str, seed: int, device: str, settings: tuple[str, ...], as_json: bool) -> None:
    """Train a generator from the releases in RUN. Free of privacy cost; repeat as you like, on any machine."""
    from simulacra.synthesis.training import train as make

    with progress(as_json) as watcher:
        trained = make(run, seed=seed, device=device, settings=parse_assignments(settings), watcher=watcher)
    _announce(trained, as_json, _sample_hint(trained), spent=False)


@click.command()
@data_argument
@flags("schema", "method", "preset", "epsilon", "delta", "adjacency", "label", "out", "ledger", "seed", "device")
@flags("set", "not-private", "resume", "json")
def fit(as_json: bool, seed: int, device: str, **arguments: Any) -> None:
    """Release, then train; both at once for methods that draw while they learn."""
    from simulacra.synthesis.training import fit as make

    with progress(as_json) as watcher:
        run = make(**_release_arguments(arguments), seed=seed, device=device, watcher=watcher)
    _announce(run, as_json, _sample_hint(run))


@click.command()
@data_argument
@flags("schema", "method", "preset", "epsilon", "delta", "adjacency", "label", "out", "ledger", "seed")
@flags("set", "not-private", "resume", "json")
def prepare(as_json: bool, seed: int, **arguments: Any) -> None:
    """Pay for a training loop that will run on another machine. Spends the whole budget at once."""
    from simulacra.synthesis.looping import prepare as make

    with progress(as_json) as watcher:
        run = make(**_release_arguments(arguments), seed=seed, watcher=watcher)
    _announce(run, as_json, f"next, there, and in one copy only: simulacra resume DATA {run.folder}")


@click.command()
@data_argument
@click.argument("run", type=click.Path())
@flags("ledger", "device", "json")
def resume(data: str, run: str, ledger: str | None, device: str, as_json: bool) -> None:
    """Go on with a training loop that was prepared or interrupted, with the settings it began with."""
    from simulacra.synthesis.looping import resume as make
    from simulacra.synthesis.run import Run

    schema = str(Run.load(run).folder / "schema.toml")
    with progress(as_json) as watcher:
        trained = make(
            data_and_schema(data, schema)[0],
            run,
            ledger=ledger_name(data, ledger),
            device=device,
            watcher=watcher,
        )
    _announce(trained, as_json, _sample_hint(trained))


@click.command()
@click.argument("run", type=click.Path())
@click.option("--per-class", type=int, help="Records of each class [default: 50].")
@click.option("--steps", type=int, help="Training steps [default: the method's].")
@click.option("--learning-rate", type=float, help="Of Adam, on pixels in [-1, 1] or on logits [default: the method's].")
@click.option(
    "--init",
    type=click.Choice(["auto", "noise", "grey", "samples"]),
    default="auto",
    show_default=True,
    help="What the records begin as; auto is samples of RUN if it was trained, else noise.",
)
@flags("out", "seed", "device", "set", "json")
def condense(run: str, settings: tuple[str, ...], as_json: bool, **arguments: Any) -> None:
    """Train a few records of each class to match the releases in RUN. Free of privacy cost; writes a new run."""
    from simulacra.synthesis.condensing import condense as make

    with progress(as_json) as watcher:
        made = make(run, settings=parse_assignments(settings), watcher=watcher, **arguments)
    _announce(made, as_json, _sample_hint(made), spent=False)


@click.command()
@click.argument("run", type=click.Path())
@click.option("-n", "--rows", "rows", type=int, help="How many [default: 1000; all of a condensed set].")
@click.option("--class", "classes", multiple=True, help="Only this class; repeat for several, drawn in turn.")
@click.option("--seed", type=SEED, help="Repeat a draw; every draw is fresh without it.")
@click.option("--candidates", type=int, help="Of so many a critic chooses each record [default: as trained]; dp-gan.")
@flags("out", "json")
def sample(
    run: str,
    rows: int | None,
    classes: tuple[str, ...],
    seed: int | None,
    candidates: int | None,
    out: str,
    as_json: bool,
) -> None:
    """Write synthetic records: .csv or .parquet for tables; .npz or a folder of PNGs for images."""
    from simulacra.data.writers import write_samples
    from simulacra.synthesis.run import Run

    opened, labels = Run.load(run), classes or None
    number, repeated = opened.rows(rows, labels), opened.repeats(rows, labels)
    write_samples(opened.encoded(number, labels=labels, seed=seed, candidates=candidates), out, opened.schema)
    if as_json:
        emit({"rows": number, "repeated": repeated, "out": out})
        return
    say(f"{number} synthetic records in {out}")
    if repeated:
        say(f"The set holds {opened.sampler.size} records: some of these are the same one, drawn with replacement.")


def _release_arguments(arguments: dict[str, Any]) -> dict[str, Any]:
    if arguments["not_private"]:
        not_private_banner()
    name = arguments["data"]
    data, schema = data_and_schema(name, arguments["schema"])
    settings = _settings(arguments["method"], arguments.pop("preset"), arguments.pop("settings"))
    if name.startswith(PREFIX) and not arguments["not_private"]:
        from simulacra.methods import make_method
        from simulacra.synthesis.releasing import load_schema

        refuse_as_public(name, make_method(arguments["method"], settings, load_schema(schema, arguments["label"])))
    ledger = ledger_name(name, arguments["ledger"])
    return {**arguments, "data": data, "schema": schema, "settings": settings, "ledger": ledger}


def _settings(method: str, preset: str | None, assignments: tuple[str, ...]) -> dict[str, Any]:
    """A preset, and on top of it what --set says."""
    chosen: dict[str, Any] = {}
    if preset is not None:
        from simulacra.methods.presets import preset as load

        if method == AUTO:
            raise _which_method(preset)
        chosen = load(method, preset)
    return chosen | parse_assignments(assignments)


def _which_method(preset: str) -> SettingError:
    """A preset is of one paper's method, which the kind of data does not tell."""
    from simulacra.methods.presets import methods_with

    having = methods_with(preset)
    if not having:
        return SettingError(f'no method has a preset "{preset}"; say --method NAME and one of that method\'s presets')
    return SettingError(f'preset "{preset}" of which method? Say --method with one of these: {", ".join(having)}')


def _sample_hint(run: Any) -> str:
    kind = "npz" if run.schema.image else "csv"
    rows = "" if run.sampler.size else "-n 1000 "
    return f"next: simulacra sample {run.folder} {rows}--out samples.{kind}"


def _announce(run: Any, as_json: bool, hint: str, *, spent: bool = True) -> None:
    certificate, training = run.certificate, run.training
    if as_json:
        emit(
            {
                "run": str(run.folder),
                "method": run.facts["method"],
                "private": certificate["private"],
                "epsilon": certificate["epsilon"],
                "delta": certificate["delta"],
                "adjacency": certificate["adjacency"],
                "ledger": certificate["ledger"],
                "trained": training is not None,
            }
        )
        return
    promised = promise(certificate["epsilon"], certificate["delta"], certificate["adjacency"])
    say(f"Run {run.folder}: {run.facts['method']}, {promised}")
    if training and training["stopped_early"]:
        say("Training was stopped early; the sampler is usable as it is.")
        again = f"resume DATA {run.folder}" if "rounds" in training else f"train {run.folder} --seed {training['seed']}"
        say(f"To go on with it: simulacra {again} (and the same --set, if any)")
    if training and training.get("diverged"):
        say("Training ended early: its numbers grew beyond all bounds. The sampler is the last good one.")
        say("What was drawn stays spent. A new run with a lower learning_rate may do better.")
    paid = f"Spent in ledger {certificate['ledger']}" if spent else "Nothing was spent"
    say(f"{paid}; {hint}")

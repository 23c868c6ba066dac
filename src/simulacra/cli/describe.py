"""methods, schema draft, schema check: what there is, and what is public."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from simulacra.cli.inputs import data_and_schema, data_argument, data_for, ledger_name, schema_of
from simulacra.cli.options import flags
from simulacra.cli.show import emit, say, table


@click.command()
@flags("json")
def methods(as_json: bool) -> None:
    """List the methods, and the presets of each."""
    from simulacra.methods import all_methods
    from simulacra.methods.presets import names

    rows: list[dict[str, Any]] = [
        {
            "name": name,
            "data": [kind for kind, can in (("tables", method.tables), ("images", method.images)) if can],
            "private": True,
            "needs_public_data": method.needs_public_data,
            "summary": method.summary,
            "presets": list(names(name)),
        }
        for name, method in sorted(all_methods().items())
    ]
    if as_json:
        emit(rows)
        return
    for row in rows:
        say(f"{click.style(str(row['name']), bold=True)}  ({', '.join(row['data'])})")
        say(f"    {row['summary']}")
        if row["presets"]:
            say(f"    presets: {', '.join(row['presets'])}")


@click.group()
def schema() -> None:
    """Write and check schemas: all that is public about the data."""


@schema.command()
@data_argument
@flags("epsilon", "delta", "adjacency", "label", "ledger", "json")
@click.option("--out", type=click.Path(), help="File to write [default: print it].")
@click.option("--type", "types", multiple=True, metavar="COLUMN=TYPE", help="A column's type, where the file has none.")
def draft(
    data: str,
    epsilon: float | None,
    delta: float,
    adjacency: str,
    label: str | None,
    ledger: str | None,
    out: str | None,
    types: tuple[str, ...],
    as_json: bool,
) -> None:
    """Write a schema with blanks to fill in; no value is taken from the data.

    With --epsilon the blanks are filled by noisy, paid questions that count in every later certificate.
    """
    from simulacra.data.drafts import draft as write_blanks
    from simulacra.data.writers import check_new
    from simulacra.options import parse_assignments
    from simulacra.privacy.durable import write_durably

    if out is not None:
        check_new(out)
    opened, ledger = data_for(data), ledger_name(data, ledger)
    if epsilon is None:
        text = write_blanks(opened, label=label)
    else:
        from simulacra.synthesis.drafting import draft_privately

        text = draft_privately(
            opened,
            epsilon=epsilon,
            delta=delta,
            adjacency=adjacency,
            label=label,
            ledger=ledger,
            types=parse_assignments(types),
        )
    if out is not None:
        write_durably(Path(out), text.encode())
    if as_json:
        emit({"out": out, "schema": text})
    elif out is None:
        say(text)
    else:
        say(f"Schema in {out}; " + ("fill in the blanks, then: " if epsilon is None else "look it over, then: "))
        say(f"  simulacra schema check {out} {data}")


@schema.command()
@click.argument("schema_file", metavar="SCHEMA", type=click.Path())
@click.argument("data", metavar="[DATA]", required=False)
@flags("json")
def check(schema_file: str, data: str | None, as_json: bool) -> None:
    """Check a schema, and how the rows of DATA fit it. For the owner's eyes: it shows private counts."""
    if data is None:
        loaded = schema_of(schema_file)
        problems = []
    else:
        from simulacra.data.tables import describe_problems

        loaded_data, loaded = data_and_schema(data, schema_file)
        problems = describe_problems(loaded_data, loaded)
    if as_json:
        emit({"ok": True, "inputs": loaded.inputs, "classes": loaded.classes, "problems": [vars(p) for p in problems]})
        return
    say(f"Schema {schema_file} is valid: {loaded.inputs} inputs, {loaded.classes} classes.")
    if data is None:
        return
    if not problems:
        say("Every row fits it.")
        return
    say("PRIVATE, do not publish: these rows will be changed by the schema's policy.")
    table(
        ("column", "out of range", "unknown", "unreadable", "missing", "rounded", "fix"),
        [(p.column, p.out_of_range, p.unknown, p.unreadable, p.missing, p.rounded, p.fix) for p in problems],
    )

"""recommend: which method and settings, from the book and the noise gauge; no data is touched."""

from __future__ import annotations

import click

from simulacra.cli.inputs import schema_of
from simulacra.cli.options import flags
from simulacra.cli.show import emit, say, table

SHOWN = 3
REASONS = 4
"""The gauge, and the nearest of what was measured; JSON has all."""


@click.command()
@flags("schema", "epsilon", "delta", "adjacency", "json")
@click.option("--rows", type=int, required=True, help="How many records there are, by a public guess.")
@click.option("--class-rows", help="Records per class, with commas; public guesses too [default: shared evenly].")
def recommend(
    schema: str | None,
    epsilon: float | None,
    delta: float,
    adjacency: str,
    rows: int,
    class_rows: str | None,
    as_json: bool,
) -> None:
    """Name methods and settings for this kind of data, with the reason. Reads no data and costs nothing."""
    from simulacra.errors import BudgetError, SchemaError
    from simulacra.synthesis.forecasting import parse_class_rows
    from simulacra.synthesis.recommending import command
    from simulacra.synthesis.recommending import recommend as advise

    if schema is None:
        raise SchemaError("which schema? Say --schema FILE; write one with: simulacra schema draft DATA")
    if epsilon is None:
        raise BudgetError("which epsilon? Say --epsilon; 1 is a common choice")
    loaded = schema_of(schema)
    guesses = parse_class_rows(loaded, rows, class_rows)
    found = advise(loaded, rows=rows, epsilon=epsilon, delta=delta, adjacency=adjacency, class_rows=guesses)
    lines = [command(one, epsilon=epsilon, delta=delta, adjacency=adjacency) for one in found]
    if as_json:
        emit([one.to_json() | {"command": line} for one, line in zip(found, lines, strict=True)])
        return
    if not found:
        say("No method can handle such records as they are declared; see: simulacra methods")
        return
    headings = ("method", "verdict", "share of real", "noise / signal")
    rows_shown = [
        (
            one.method,
            one.verdict,
            "-" if one.score is None else f"{one.score:.3f}",
            "-" if one.noise_ratio is None else f"{one.noise_ratio:.3g}",
        )
        for one in found
    ]
    table(headings, rows_shown)
    for one, line in list(zip(found, lines, strict=True))[:SHOWN]:
        say(f"\n{one.method}: {one.verdict}")
        for reason in one.reasons[:REASONS]:
            say(f"  because {reason}")
        say(f"  {line}")
    say("\nShares of what real records reach, to be expected from known data of the same kind and about the same size.")
    say("Yours may differ: plan and evaluate.")

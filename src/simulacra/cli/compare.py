"""compare: several runs side by side."""

from __future__ import annotations

import click

from simulacra.cli.options import flags
from simulacra.cli.show import emit, say, table


@click.command()
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=click.Path())
@click.option("--score", "scores", multiple=True, help="Draw this score; repeatable [default: what runs have].")
@click.option("--out", type=click.Path(), help="New HTML file with the curves.")
@flags("json")
def compare(runs: tuple[str, ...], scores: tuple[str, ...], out: str | None, as_json: bool) -> None:
    """Compare the scores of RUNs of the same data, over epsilon and methods."""
    from simulacra.report.comparing import write_comparison
    from simulacra.report.comparison import compare as gather

    if out is None:
        found = gather(runs, scores=scores or None)
    else:
        found = write_comparison(runs, out=out, scores=scores or None)
    if as_json:
        emit(found.to_json() | {"out": out})
        return
    rows = []
    for group in found.groups:
        epsilon = "none" if group.epsilon is None else f"{group.epsilon:g}"
        means = [f"{group.mean(name):.4f}" if name in group.values else "-" for name in found.drawn]
        rows.append((group.method, epsilon, len(group.runs), *means))
    table(("method", "epsilon", "runs", *found.drawn), rows)
    for note in found.notes:
        say(f"  note: {note}")
    if found.computed_on:
        say(f"Computed on {found.computed_on}.")
    if out is not None:
        say(f"Curves in {out}")

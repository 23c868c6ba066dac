"""verify and ledger: what was promised, and what was spent."""

from __future__ import annotations

import math
import sys

import click

from simulacra.cli.options import flags
from simulacra.cli.show import emit, promise, say, table


@click.command()
@click.argument("run", type=click.Path())
@flags("json")
def verify(run: str, as_json: bool) -> None:
    """Recompute the guarantee of RUN (a folder or a certificate) from nothing but itself."""
    from simulacra.privacy.certificate import verify as check

    found = check(run)
    if as_json:
        emit(found.to_json())
    elif found.ok:
        word = "VERIFIED" if found.private else "CONSISTENT"
        say(f"{word}: {promise(found.epsilon, found.delta, found.adjacency or '?')}")
    else:
        say("NOT VERIFIED:")
        for problem in found.problems:
            say(f"  - {problem}")
    if not found.ok:
        sys.exit(2)


@click.group()
def ledger() -> None:
    """The record of everything ever spent on a data set."""


@ledger.command()
@click.argument("path", type=click.Path())
@flags("epsilon", "delta", "adjacency", "json")
@click.option("--name", help="Name of the data set [default: the file's name].")
@click.option(
    "--filter",
    "cap_filter",
    type=click.Choice(["gaussian", "renyi"]),
    default="gaussian",
    show_default=True,
    help="How a cap adds up: gaussian is tight and takes full-data releases; renyi takes training loops too.",
)
@click.option("--failure-delta", type=float, help="Set aside on top of delta, for private schema drafts.")
def create(
    path: str,
    epsilon: float | None,
    delta: float,
    adjacency: str,
    as_json: bool,
    name: str | None,
    cap_filter: str,
    failure_delta: float | None,
) -> None:
    """Make a ledger; with --epsilon, one that refuses to pass that cap for ever."""
    from simulacra.privacy.budget import Adjacency, Budget
    from simulacra.privacy.ledger import Ledger

    relation = Adjacency.parse(adjacency)
    cap = None if epsilon is None else Budget(epsilon=epsilon, delta=delta, adjacency=relation)
    made = Ledger.create(
        path,
        adjacency=relation,
        name=name,
        cap=cap,
        cap_filter="renyi" if cap_filter == "renyi" else "gaussian",
        failure_delta=failure_delta,
    )
    if as_json:
        emit({"ledger": path, "name": made.name, "adjacency": str(relation), "cap": epsilon})
    else:
        say(f"Ledger {path}: {'no cap' if cap is None else 'cap ' + promise(cap.epsilon, cap.delta, str(relation))}")


@ledger.command()
@click.argument("path", type=click.Path())
@click.option("--delta", type=float, help="Read the total at this delta [default: the cap's, or 1e-5].")
@flags("json")
def show(path: str, delta: float | None, as_json: bool) -> None:
    """Show what was spent, entry by entry and in all."""
    from simulacra.privacy.ledger import Ledger

    book = Ledger(path)
    entries, total = book.entries(), book.total(delta)
    if as_json:
        emit(
            {
                "name": entries[0]["name"],
                "epsilon": total.epsilon if math.isfinite(total.epsilon) else None,
                "delta": total.delta,
                "adjacency": str(total.adjacency),
                "guaranteed": total.guaranteed,
                "cap": None if total.cap is None else {"epsilon": total.cap.epsilon, "delta": total.cap.delta},
                "entries": entries,
            }
        )
        return
    say(f"Ledger {entries[0]['name']}, adjacency {total.adjacency}")
    rows = [
        (entry["time"], entry["kind"], entry["run"], ", ".join(entry["steps"]) if "steps" in entry else entry["step"])
        for entry in entries[1:]
    ]
    if rows:
        table(("time", "entry", "run", "step"), rows)
    spent = f"epsilon {total.epsilon:.4g} at delta {total.delta:g}"
    if total.cap is None:
        say(f"Odometer reading (no cap was fixed in advance): {spent}")
    else:
        say(f"Spent {spent}; the cap is {total.cap.epsilon:g}")


@ledger.command("check")
@click.argument("path", type=click.Path())
@flags("json")
def check_ledger(path: str, as_json: bool) -> None:
    """Check that a ledger is whole and unedited."""
    from simulacra.privacy.ledger import Ledger

    entries = Ledger(path).entries()
    if as_json:
        emit({"ok": True, "entries": len(entries)})
    else:
        say(f"Ledger {path} is whole: {len(entries)} entries.")

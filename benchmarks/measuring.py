"""What commands share that measure rows beside the book: here or from a bundle, into one file of results.

Such a command has `@options(RESULTS)`, and hands what it is given on to `run`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from benchmarks import bundle, kept, outcomes
from benchmarks.hardware import commit, hardware
from benchmarks.rows import Row, select
from benchmarks.stages import WORK, Workplace

PATH = click.Path(path_type=Path)


def options(results: Path) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Which rows, where, on what, and what came from elsewhere."""
    found = [
        click.argument("patterns", nargs=-1),
        click.option("--device", default="auto", help="auto, cpu or cuda."),
        click.option("--work", type=PATH, default=WORK, help="For releases and samplers."),
        click.option("--results", type=PATH, default=results, help="Where results are kept."),
        click.option("--bundle", "bundled", type=PATH, multiple=True, help="A bundle, or a part of one; repeatable."),
        click.option(
            "--merge", type=click.Path(path_type=Path, exists=True), multiple=True, help="Results from elsewhere."
        ),
    ]

    def add(command: Callable[..., None]) -> Callable[..., None]:
        for option in reversed(found):
            command = option(command)
        return command

    return add


def run(
    measure: Callable[[Row, Workplace, str], Mapping[str, Any]],
    section: Callable[[Mapping[str, Any]], str],
    *,
    patterns: tuple[str, ...],
    device: str,
    work: Path,
    results: Path,
    bundled: tuple[Path, ...],
    merge: tuple[Path, ...],
) -> None:
    """Merge, measure rows and print the table; a bundle is unpacked before, and nothing is released then."""
    from simulacra.networks.devices import pick_device

    for path in merge:
        kept.add(results, kept.read(path))
    made_at = bundle.arrive(bundled, work, outcomes.BOOK) if bundled else commit()
    place, chosen = Workplace(folder=work, may_release=not bundled), pick_device(device)
    for row in select(patterns) if patterns else []:
        click.echo(row.name)
        facts = {"row": row.to_mapping(), "hardware": hardware(chosen), "commit": made_at}
        kept.add(results, {row.name: {**measure(row, place, chosen), **facts}})
    click.echo(section(kept.read(results)))

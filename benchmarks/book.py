"""The book of results: any row by its name, run here or from a bundle on a GPU elsewhere.

python -m benchmarks.book list | run | bundle | collect | table
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from benchmarks import bundle as bundles
from benchmarks import hardware, outcomes, tables
from benchmarks.page import to_page
from benchmarks.rows import Row, select
from benchmarks.running import Runner
from benchmarks.scoring import SCORINGS, choose
from benchmarks.side_by_side import FAILED, LEFT, SideBySide
from benchmarks.stages import WORK, Workplace
from simulacra.errors import SimulacraError
from simulacra.networks.allocation import set_before_torch

FOLDER = click.Path(path_type=Path)
NAMES = ", ".join(SCORINGS)

patterns_argument = click.argument("patterns", nargs=-1, required=True)
score_option = click.option("--score", "scores", multiple=True, help=f"Only this scoring; repeatable. One of: {NAMES}.")
work_option = click.option("--work", type=FOLDER, default=WORK, help="For releases, samplers and samples.")
results_option = click.option("--results", "book", type=FOLDER, default=outcomes.BOOK, help="Where results are kept.")


@click.group()
def app() -> None:
    """Run rows of the book, carry them to a GPU elsewhere and back, and print the tables."""


@app.command("list")
@click.argument("patterns", nargs=-1)
@work_option
@results_option
def list_rows(patterns: tuple[str, ...], work: Path, book: Path) -> None:
    """Rows and how far each has come."""
    place = Workplace(folder=work)
    for row in select(patterns or ("*",)):
        _say(f"{row.name}: {_state(row, place, book)}")


@app.command()
@patterns_argument
@score_option
@work_option
@results_option
@click.option("--device", default="auto", help="auto, cpu or cuda.")
@click.option("--time-limit", type=click.FloatRange(min=0), help="Seconds after which no new stage begins.")
@click.option("--again", is_flag=True, help="Score again what has a score already; the new one replaces it.")
@click.option("--pack", type=FOLDER, help="Also write all results of this call into one file, for collect.")
@click.option("--bundle", "bundled", type=FOLDER, multiple=True, help="A bundle, or a part of one; repeatable.")
@click.option(
    "--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Rows at a time, a process each."
)
@click.option("--unpacked", hidden=True, help="The commit of a bundle that is in the work folder already.")
def run(
    patterns: tuple[str, ...],
    scores: tuple[str, ...],
    work: Path,
    book: Path,
    device: str,
    time_limit: float | None,
    again: bool,
    pack: Path | None,
    bundled: tuple[Path, ...],
    jobs: int,
    unpacked: str | None,
) -> None:
    """Release, train, sample and score what is missing; call again to go on."""
    from simulacra.networks.devices import pick_device

    scorings, rows = choose(scores), select(patterns)
    if bundled:
        unpacked = bundles.arrive(bundled, work, book)  # rows side by side inherit where data and weights are
    runner: Runner | SideBySide
    if jobs > 1:
        told = [f"--score={name}" for name in scores] + [f"--work={work}", f"--results={book}", f"--device={device}"]
        words = [*told, *(["--again"] if again else []), *([f"--unpacked={unpacked}"] if unpacked else [])]
        runner = SideBySide(jobs=jobs, words=words, folder=book, say=_say, time_limit=time_limit, pack=pack)
    else:
        runner = Runner(
            work=Workplace(folder=work, may_release=unpacked is None),
            folder=book,
            scorings=scorings,
            device=pick_device(device),
            commit=unpacked or hardware.commit(),
            say=_say,
            time_limit=time_limit,
            again=again,
            pack=pack,
        )
    runner.run_all(rows)
    for line in runner.left:
        _say(f"{LEFT}{line}")
    for line in runner.failed:
        _say(f"{FAILED}{line}")
    sys.exit(1 if runner.failed else 0)


@app.command()
@patterns_argument
@score_option
@work_option
@results_option
@click.option("--out", type=FOLDER, required=True, help="A new folder for the parts.")
@click.option("--limit-mib", type=click.FloatRange(min=0.01), default=60.0, show_default=True, help="Size of a part.")
def bundle(
    patterns: tuple[str, ...], scores: tuple[str, ...], work: Path, book: Path, out: Path, limit_mib: float
) -> None:
    """Release what is not released yet, and pack what a machine elsewhere needs to go on."""
    scorings, rows = choose(scores), select(patterns)
    place = Workplace(folder=work)
    missing = [row for row in rows if not place.released(row)]
    for row in missing:
        _say(f"{row.name}: will be released")
    place.release(*missing)
    for row in rows:
        if row.rival:
            raise click.ClickException(f"{row.name} is scored where it was fitted; leave it out of the bundle")
        if not row.real:
            place.run(row)
    files = bundles.contents(place, book, rows, scorings)
    limit = int(limit_mib * (1 << 20))
    parts = bundles.write(files, out, rows=rows, commit=hardware.commit(), limit=limit)
    _say(f"{len(rows)} rows, {len(files)} files, {len(parts)} parts in {out}")


@app.command()
@click.argument("places", nargs=-1, required=True, type=FOLDER)
@results_option
def collect(places: tuple[Path, ...], book: Path) -> None:
    """Merge results that came back (folders, or files of run --pack); the newer of the same scoring wins."""
    changes = [line for place in places for line in outcomes.collect(place, book)]
    for line in changes or ["nothing new"]:
        _say(line)


@app.command()
@results_option
@click.option("--format", "form", type=click.Choice(["markdown", "json", "page", "data"]), default="markdown")
def table(book: Path, form: str) -> None:
    """The book as tables; `page` is BENCHMARKS.md, `data` what the package carries (datasets/book.json)."""
    found = list(outcomes.read_all(book)) if book.exists() else []
    if form == "json":
        click.echo(json.dumps(tables.to_json(found), indent=2, allow_nan=False))
    else:
        forms = {"page": to_page, "markdown": tables.to_markdown, "data": tables.to_data}
        click.echo(forms[form](found), nl=False)


def _state(row: Row, place: Workplace, book: Path) -> str:
    known = outcomes.load(book, row)["scorings"]
    suited = [name for name, scoring in SCORINGS.items() if scoring.suits(row)]
    done = [name for name in suited if name in known]
    missing = [name for name in suited if name not in known]
    stages = (("released", place.released), ("trained", place.trained), ("sampled", place.sampled))
    reached = [] if row.real else [name for name, check in stages if check(row)]
    words = [*reached, *([f"scored {', '.join(done)}"] if done else [])]
    return "; ".join([*(words or ["not begun"]), f"missing {', '.join(missing)}" if missing else "complete"])


def _say(line: str) -> None:
    """Flushed by click: whoever watches a long run, or cuts it off, sees how far it came."""
    click.echo(line)


def main(arguments: list[str] | None = None) -> None:
    """Run the command; an expected error is one line and exit code 2."""
    set_before_torch()
    try:
        app(args=arguments, prog_name="python -m benchmarks.book", standalone_mode=False)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("book: stopped; call again to go on", err=True)
        sys.exit(130)
    except click.ClickException as error:
        click.echo(f"book: {' '.join(error.format_message().split())}", err=True)
        sys.exit(2)
    except SimulacraError as error:
        click.echo(f"book: {' '.join(str(error).split())}", err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()

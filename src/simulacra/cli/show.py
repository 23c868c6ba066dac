"""What the command line prints: tables, banners and progress bars, on stderr if stdout is for a machine."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from simulacra.synthesis.watching import Watcher

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


def emit(values: Any) -> None:
    """Print JSON."""
    click.echo(json.dumps(values, indent=2, allow_nan=False))


def say(text: str = "") -> None:
    """Print a line for a person."""
    click.echo(text)


def table(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a plain table: numbers to the right, words to the left."""
    cells = [[str(cell) for cell in row] for row in (headings, *rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(headings))]
    numeric = [all(_is_number(row[i]) for row in cells[1:]) for i in range(len(headings))]
    for number, row in enumerate(cells):
        padded = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ]
        line = "  ".join(padded).rstrip()
        click.echo("  " + (click.style(line, bold=True) if number == 0 else line))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def not_private_banner() -> None:
    """Nobody shall miss it."""
    bar = "!" * 74
    text = "NOT PRIVATE: no noise is added. What comes out may reveal any record."
    click.secho(f"{bar}\n!! {text}\n{bar}", fg="red", bold=True, err=True)


def promise(epsilon: float | None, delta: float | None, adjacency: str) -> str:
    """The guarantee in one line."""
    if epsilon is None:
        return f"NOT PRIVATE (no noise), adjacency {adjacency}"
    return f"epsilon {epsilon:.6g}, delta {delta:g}, adjacency {adjacency}"


@contextmanager
def progress(quiet: bool) -> Iterator[Watcher]:
    """A watcher that draws bars with loss and time left; silent for machines."""
    if quiet:
        yield Watcher()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if not console.is_terminal:  # a log or a pipe: nothing to draw on, and errors stay one line
        yield Watcher()
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as bars:
        yield _Bars(bars)


def scoring(watcher: Watcher, prefix: str) -> Callable[..., None]:
    """For `evaluate`: a new bar for each stage, and counts within it."""
    stages = [""]

    def show(stage: str, done: int = 0, total: int = 0) -> None:
        if stage != stages[-1]:
            stages.append(stage)
            watcher.stage(f"{prefix}: {stage}")
        if total:
            watcher.on_count(done, total)

    return show


@contextmanager
def download(name: str, *, quiet: bool) -> Iterator[Callable[[int, int | None], None] | None]:
    """A bar that counts bytes; None for machines."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console) as bars:
        task = bars.add_task(name, total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)


class _Bars(Watcher):
    def __init__(self, bars: Progress) -> None:
        self.bars = bars
        self.current: TaskID | None = None

    def stage(self, name: str) -> None:
        self._finish()
        self.current = self.bars.add_task(name, total=None, note="")

    def on_batch(self) -> None:
        """A spinner and no count: how many batches there are is private."""

    def on_noise(self, done: int, total: int) -> None:
        if self.current is not None:
            self.bars.update(self.current, description="Adding exact noise", completed=done, total=total)

    def on_step(self, step: int, steps: int, loss: float) -> None:
        if self.current is not None:
            self.bars.update(self.current, completed=step, total=steps, note=f"loss {loss:.4g}")

    def on_count(self, done: int, total: int) -> None:
        if self.current is not None:
            self.bars.update(self.current, completed=done, total=total)

    def _finish(self) -> None:
        if self.current is not None:
            self.bars.update(self.current, completed=1, total=1)

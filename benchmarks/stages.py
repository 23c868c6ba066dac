"""The stages of a row before it is scored: release, train, draw samples. Each leaves files, and is done only once."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click
import numpy as np

from benchmarks import rivals
from benchmarks.hardware import hardware
from benchmarks.material import Real, Records, digest
from benchmarks.outcomes import dump
from benchmarks.rows import Row
from simulacra.evaluate.progress import Progress, silent
from simulacra.privacy.durable import write_durably
from simulacra.synthesis.run import Run
from simulacra.synthesis.watching import Watcher

if TYPE_CHECKING:
    import pandas as pd

    from simulacra.generators.sampler import Sampler
    from simulacra.methods.base import Method

WORK = Path(__file__).parent / "work"
IMAGES = 60_000
MOST_TABLE_ROWS = 60_000
MOST_TIMES = 100
"""A row of a condensed table comes no more often than this, however rare the smallest class."""
SAMPLE_SEED = 1_000_000
"""Added to the row's seed for the samples, so that they and the first weights do not share random numbers."""


@dataclass(frozen=True, kw_only=True)
class Workplace:
    """A folder with everything that is big or may be made again: rows/, ledgers/, and what came in a bundle."""

    folder: Path
    may_release: bool = True
    """Not where a bundle is run: there are no libraries for exact noise, and no ledger."""

    def place(self, row: Row) -> Path:
        """The folder of a row."""
        return self.folder / "rows" / row.name

    def run(self, row: Row) -> Run:
        """The row's run folder, checked to be what the row says."""
        from simulacra.methods import make_method

        run = Run.load(self.place(row) / "run")
        method = make_method(row.method, row.settings, run.schema)
        if run.facts["method"] != row.method or not _asks_alike(run.method, method) or not _keeps(row, run.certificate):
            raise click.ClickException("its release was made with other settings; move its folder away to start anew")
        return run

    def released(self, row: Row) -> bool:
        """Whether the answers are there and certified."""
        run = self.place(row) / "run"
        if row.real or row.rival:
            return True
        return (run / "certificate.json").exists() and (not _draws(row) or (run / "permit.json").exists())

    def trained(self, row: Row) -> bool:
        """Whether there is a finished sampler."""
        return row.real or (self.place(row) / "trained.json").exists()

    def sampled(self, row: Row) -> bool:
        """Whether the samples are drawn."""
        return row.real or (self.place(row) / "samples.json").exists()

    def release(self, *rows: Row) -> None:
        """Spend the budget on rows; an interrupted release is continued, and paid only once.

        Rows that differ in epsilon and seed alone take one pass over the records, and noise of their own.
        """
        if not self.may_release:
            raise click.ClickException("the bundle holds no release of it; bundle it again where the records are")
        from simulacra import datasets
        from simulacra.synthesis.looping import prepare
        from simulacra.synthesis.releasing import release_together

        groups: dict[str, list[Row]] = {}
        for row in rows:
            alike = replace(row, epsilon=None, seed=0).to_mapping()
            groups.setdefault(row.name if _draws(row) else json.dumps(alike, sort_keys=True), []).append(row)
        for group in groups.values():
            row = group[0]
            records = datasets.load(row.data, "train").data
            common: dict[str, Any] = {
                "schema": row.schema,
                "method": row.method,
                "adjacency": row.adjacency,
                "ledger": self.folder / "ledgers" / f"{row.data}-{row.adjacency}.ledger",
                "settings": row.settings,
            }
            common["ledger"].parent.mkdir(parents=True, exist_ok=True)
            outs = {each: self.place(each) / "run" for each in group}
            if _draws(row):  # paid for here, and may then learn elsewhere
                private = row.epsilon is not None
                budget: dict[str, Any] = {
                    "epsilon": row.epsilon,
                    "delta": row.delta if private else None,
                    "not_private": not private,
                }
                prepare(records, seed=row.seed, out=outs[row], resume=outs[row].exists(), **budget, **common)
                continue
            # What was begun before is continued apart: a run is resumed or new, and paid accordingly.
            for resume in (True, False):
                budgets: dict[str | Path, float | Literal["not-private"]] = {
                    out: "not-private" if each.epsilon is None else each.epsilon
                    for each, out in outs.items()
                    if out.exists() == resume
                }
                if budgets:
                    release_together(records, budgets=budgets, delta=row.delta, resume=resume, **common)

    def train(
        self, row: Row, device: str, progress: Progress = silent, look: Callable[[int, Sampler], None] | None = None
    ) -> None:
        """Train from the release, and condense it if the row says so; an interrupted training is continued.

        `look` is shown the sampler of every checkpoint that the method judges.
        """
        from simulacra import datasets
        from simulacra.methods import make_method
        from simulacra.synthesis.looping import resume
        from simulacra.synthesis.training import train

        started = time.perf_counter()
        (self.place(row) / "samples.json").unlink(missing_ok=True)  # samples of an earlier training are not this one's
        if row.rival:
            assert row.epsilon is not None
            done = rivals.fit(
                row.data,
                row.method,
                epsilon=row.epsilon,
                delta=row.delta,
                seed=row.seed,
                most_rows=MOST_TABLE_ROWS,
                folder=self.place(row),
            )
            _write(self.place(row) / "trained.json", done)
            return
        if _draws(row):
            records = datasets.load(row.data, "train").data
            run = resume(records, self.run(row), device=device, watcher=_Steps(progress))
        else:
            # All of the row's settings: those that decide nothing of a release may be others than when it was made.
            settings = make_method(row.method, row.settings, row.schema).to_mapping()
            run = train(self.run(row), seed=row.seed, device=device, settings=settings, watcher=_Steps(progress, look))
        _refuse_stopped(run)
        if row.condensed is not None and run.sampler.size is None:
            run = train(run, seed=row.seed, device=device, settings=_condensing(row), watcher=_Steps(progress))
            _refuse_stopped(run)
        facts = {"seconds": round(time.perf_counter() - started, 1), "hardware": hardware(device)}
        _write(self.place(row) / "trained.json", facts)

    def sample(self, row: Row, real: Real, device: str) -> None:
        """Draw the samples that every scoring of this row reads: labels from the noisy class shares, a fixed seed."""
        place, seed = self.place(row), SAMPLE_SEED + row.seed
        drawn: Records
        if row.rival:
            drawn = rivals.drawn_rows(row.data, place, seed)
            rows = len(drawn)
        else:
            run = self.run(row)
            images = real.schema.image is not None
            rows = run.sampler.size or (IMAGES if images else min(len(real.train), MOST_TABLE_ROWS))
            run.sampler.generator.to(device)
            drawn = run.sample(rows, seed=seed)
            if run.sampler.size is not None and not isinstance(drawn, tuple):
                drawn = _by_shares(drawn, run)
                rows = len(drawn)
        if isinstance(drawn, tuple):
            np.savez(place / "samples.npz", images=drawn[0], labels=drawn[1])
        else:
            drawn.to_parquet(place / "samples.parquet")
        _write(place / "samples.json", {"rows": rows, "seed": seed, "device": device, "sha256": digest(drawn)})

    def samples(self, row: Row, real: Real) -> Records:
        """The samples; of the yardstick, the training records themselves, or so many of them."""
        if row.real:
            rows = row.settings.get("rows")
            return real.train if rows is None else real.train.sample(n=rows, random_state=SAMPLE_SEED + row.seed)
        place = self.place(row)
        if real.schema.image is None:
            import pandas as pd

            return pd.read_parquet(place / "samples.parquet")
        with np.load(place / "samples.npz", allow_pickle=False) as archive:
            return archive["images"], archive["labels"]

    def facts(self, row: Row, samples: Records) -> dict[str, Any]:
        """All that a result says about where its samples came from."""
        if row.real:
            return {"samples": {"rows": _count(samples), "sha256": digest(samples)}}
        done = json.loads((self.place(row) / "trained.json").read_bytes())
        drawn = json.loads((self.place(row) / "samples.json").read_bytes())
        if row.rival:
            return {"training": done, "samples": drawn}
        run = self.run(row)
        certificate, training = run.certificate, run.training
        assert training is not None
        budget = {name: certificate[name] for name in ("epsilon", "delta", "adjacency", "private")}
        return {
            "release": {"run": run.facts["run"], "budget": budget, "files": certificate["files"]},
            "settings": training["settings"],
            "training": {
                "seed": training["seed"],
                "device": training["device"],
                "steps": max((step for step, _ in training["curve"]), default=0),
                **done,
            },
            "samples": drawn,
        }


class _Steps(Watcher):
    """Passes training steps on as progress, and what can be looked at to `look`."""

    def __init__(self, progress: Progress, look: Callable[[int, Sampler], None] | None = None) -> None:
        self.progress, self.look = progress, look

    def on_step(self, step: int, steps: int, loss: float) -> None:
        self.progress(f"loss {loss:.4g}", step, steps)

    def on_look(self, step: int, sampler: Sampler) -> None:
        if self.look:
            self.look(step, sampler)


def _draws(row: Row) -> bool:
    """Whether the row's method draws while it learns."""
    from simulacra.methods import all_methods
    from simulacra.methods.looping import PrivateLoop

    return not row.real and issubclass(all_methods()[row.method], PrivateLoop)


def _asks_alike(one: Method, other: Method) -> bool:
    """Whether one could have made the other's release; a method that draws while it learns is bound in all it does."""
    from simulacra.methods.base import ReleaseOnce

    if isinstance(one, ReleaseOnce) and isinstance(other, ReleaseOnce):
        return type(one) is type(other) and one.asking() == other.asking()
    return one == other


def _refuse_stopped(run: Run) -> None:
    if run.training is None or run.training["stopped_early"]:
        raise KeyboardInterrupt  # a method ends its training quietly when it is interrupted


def _by_shares(frame: pd.DataFrame, run: Run) -> pd.DataFrame:
    """A condensed table with each class's rows as often as its noisy share asks for.

    The set has the same number of each, and a classifier would take all classes for equally likely.
    """
    if run.schema.label is None:
        return frame
    shares = run.sampler.class_shares
    times = (shares / shares.min()).clamp(max=MOST_TIMES).round().int().numpy()
    each = np.repeat(times, len(frame) // len(times))  # one class after the other
    return frame.iloc[np.repeat(np.arange(len(frame)), each)].reset_index(drop=True)


def _condensing(row: Row) -> dict[str, Any]:
    """A set in place of the generator that was just trained, beginning with its samples."""
    return {"generator.kind": "condensed", "generator.init": "samples", "generator.per_class": row.condensed}


def _keeps(row: Row, certificate: dict[str, Any]) -> bool:
    """Whether the certified budget is the row's; epsilon is what the noise achieves, a hair below what was asked."""
    if certificate["adjacency"] != row.adjacency or (certificate["epsilon"] is None) != (row.epsilon is None):
        return False
    if row.epsilon is None:
        return True
    return bool(certificate["delta"] == row.delta and 0.99 * row.epsilon <= certificate["epsilon"] <= row.epsilon)


def _count(samples: Records) -> int:
    return len(samples[1]) if isinstance(samples, tuple) else len(samples)


def _write(path: Path, values: dict[str, Any]) -> None:
    write_durably(path, dump(values).encode())

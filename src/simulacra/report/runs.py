"""The report on a run folder."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from simulacra.data.reference import Reference
from simulacra.data.writers import check_new
from simulacra.datasets.results import known, results
from simulacra.evaluate.released import load_released_scores
from simulacra.evaluate.runs import load_scores
from simulacra.methods import make_method
from simulacra.privacy.plan import Plan
from simulacra.report.accounts import read_accounts
from simulacra.report.content import ReportContent
from simulacra.synthesis.forecasting import class_signal
from simulacra.synthesis.gauge import Gauge, fold
from simulacra.synthesis.run import Run

ROWS = 10_000


def write_report(
    run: Run | str | Path,
    *,
    out: str | Path | None = None,
    real: Any = None,
    ledger: str | Path | None = None,
    public: bool = False,
) -> Path:
    """Write the page (RUN/report.html unless told otherwise); `real` records stand beside the synthetic ones.

    `ledger` adds the accounts of the data set. `public` leaves out all that was computed on real records, earlier
    scores included, save those that were paid for.
    """
    from simulacra.data.images import to_uint8
    from simulacra.report import write

    opened = run if isinstance(run, Run) else Run.load(run)
    certificate, training = opened.certificate, opened.training
    drawn = opened.sample(opened.sampler.size or ROWS, seed=0)
    pictures: dict[str, Any] = {"synthetic": drawn}
    reference = None if real is None or public else Reference.load(real, opened.schema)
    if isinstance(drawn, tuple):
        pictures = {"synthetic": drawn[0], "synthetic_labels": drawn[1]}
        if reference is not None:
            pictures |= {"real": to_uint8(reference.inputs, opened.schema), "real_labels": reference.labels.numpy()}
    elif reference is not None:
        pictures["real"] = reference.frame()
    counts = opened.method.counted(opened.schema, opened.releases)
    gauges: Sequence[Gauge] = ()
    if counts is not None:
        of_all = opened.method.of_all_classes(opened.schema)
        gauges = class_signal(Plan.from_json(certificate), counts.tolist(), opened.schema, of_all=of_all)
    path = opened.folder / "report.html" if out is None else check_new(out)
    content = ReportContent(
        title=f"Synthetic data from {certificate['ledger']}",
        method=opened.method.name,
        summary=opened.method.summary,
        certificate=certificate,
        schema=opened.schema,
        scores=None if public else load_scores(opened),
        settings=training["settings"] if training else opened.method.to_mapping(),
        class_signal=[one.to_json() | {"class_name": one.name} for one in gauges],
        class_words=fold(gauges),
        training_curve=[(step, loss) for step, loss in training["curve"]] if training else None,
        training_curves=training.get("curves", {}) if training else {},
        growth=_growth(opened),
        accounts=None if ledger is None else read_accounts(ledger, this=opened.facts["run"]),
        released=load_released_scores(opened),
        published=_published(opened),
        commands=_commands(opened, certificate, training),
        run_name=opened.folder.name,
        **pictures,
    )
    write(path, content)
    return path


def _published(run: Run) -> list[dict[str, Any]]:
    """What the book and the papers have for the same data set, if it is a known one."""
    name = known(run.schema)
    return [] if name is None else [asdict(line) for line in results() if line.data == name]


def _growth(run: Run) -> dict[int, Any]:
    """What the generator made of the same codes, by step; empty for most methods."""
    from safetensors.numpy import load_file

    file = run.folder / "pictures.safetensors"
    return {int(step): pixels for step, pixels in load_file(file).items()} if file.exists() else {}


def _commands(run: Run, certificate: dict[str, Any], training: dict[str, Any] | None) -> list[str]:
    """What repeats this run; the noise, of course, will differ."""
    privacy = (
        f"--epsilon {certificate['epsilon']:.6g} --delta {certificate['delta']:g}"
        if certificate["epsilon"] is not None
        else "--not-private"
    )
    seed = training["seed"] if training else 0
    settings = training["settings"] if training else run.method.to_mapping()
    usual = make_method(run.method.name, {}, run.schema).to_mapping()
    rows = "" if run.sampler.size else "-n 1000 "
    words = ["simulacra fit DATA --schema", shlex.quote(f"{run.folder.name}/schema.toml"), "--method", run.method.name]
    words += [f"--set {shlex.quote(one)}" for one in _changed(settings, usual)]
    return [
        f"{' '.join(words)} {privacy} --adjacency {certificate['adjacency']} --seed {seed} --out again",
        f"simulacra sample again {rows}--out samples.{'npz' if run.schema.image else 'csv'}",
    ]


def _changed(settings: Mapping[str, Any], usual: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """The settings that differ from those the method has for such data by itself, as --set takes them."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _changed(value, usual.get(name) or {}, f"{prefix}{name}.")
        elif name not in usual or value != usual[name]:
            parts = value if isinstance(value, (list, tuple)) else [value]
            yield f"{prefix}{name}={','.join('none' if part is None else str(part) for part in parts)}"

"""BENCHMARKS.md: the whole book as one page, with speed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks import budgets, choosing, contest, denoising, kept, stopping
from benchmarks.outcomes import Result
from benchmarks.rows import all_rows
from benchmarks.tables import column_words, to_markdown

SPEED = Path(__file__).parent / "results" / "speed.json"

PREFACE = """# Benchmarks

Every method on every data set it was run on, with the figures of the papers beside ours. All scores are measured on
real test records that no method has seen, save where a column says that it compares with the training images. Scores
are outside the privacy guarantee; these are of public data sets. `real` is the yardstick: the real training records in
place of synthetic ones.

This page is made from the JSON files of the runner, by the command below; a test compares the two. Below each table
stand the rows that are planned and were not run yet, by method and epsilon.

{contents}

A figure of ours is the mean over seeds, with the standard deviation over seeds after the sign ±. Each seed has its own
release with fresh exact noise, its own random features, training and samples. Budgets are (epsilon, delta = 1e-5) under
replace-one unless a line says otherwise. FID and 2-way TVD (the mean
total variation distance of all pairs of columns) are better when lower, everything else when higher.

Where there are twelve classifiers, the tables show the mean over the twelve. The best of the twelve, which was picked
by looking at the test rows, has tables of its own. Papers print either, and some the best of several settings besides.

`mst` and `aim` are two methods of others that a user might pick instead: from the package dpmm 0.1.9, fitted to the
same training records in the same public cells as our `pairs`, with the whole budget for the model. They are given 60
minutes of one core; "did not finish" means that this was not enough. Their seeds have no random features.

Papers measure in different ways, which moves figures by points. Each column is one protocol:

{columns}

What produced a figure (settings, seeds, hashes of the releases, hardware, versions, commit) is in the JSON files under
`benchmarks/results/book`. To make one again, and then this page:

```sh
python -m benchmarks.book list "dp-merf/*"
python -m benchmarks.book run "dp-merf/mnist/eps1/seed0"
python -m benchmarks.book table --format page > BENCHMARKS.md
```

Training needs releases alone: `bundle` packs them with what scoring needs, and `run --bundle` goes on from there on a
GPU elsewhere. `collect` merges what comes back.
"""


def to_page(results: Iterable[Result], speed: Mapping[str, Any] | None = None) -> str:
    """The page; `speed` is what benchmarks.speed wrote."""
    results = list(results)
    tables = to_markdown(results, all_rows().values())
    body, _, sources = tables.partition("## Sources")
    measured = read_speed() if speed is None else speed
    return (
        PREFACE.format(columns="\n".join(column_words()), contents=_contents(tables))
        + "\n"
        + contest.section(results)
        + "\n"
        + body
        + choosing.section(kept.read(choosing.RESULTS))
        + "\n"
        + stopping.section(kept.read(stopping.RESULTS))
        + "\n"
        + denoising.section(kept.read(denoising.RESULTS))
        + "\n"
        + budgets.section(budgets.read())
        + "\n"
        + speed_section(measured)
        + "\n## Sources"
        + sources
    )


def _contents(tables: str) -> str:
    """Where the sections are: each is a long table."""
    names = [line.removeprefix("## ") for line in tables.splitlines() if line.startswith("## ")]
    return " · ".join(f"[{name}](#{name.lower()})" for name in [*names[:-1], "Speed", names[-1]])


def read_speed(path: Path = SPEED) -> dict[str, Any]:
    """What was measured last; nothing if nothing was."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return {name: part for name, part in found.items() if "skipped" not in part}


def speed_section(speed: Mapping[str, Any]) -> str:
    """Ratios, because seconds depend on the machine; a benchmark without a run says so."""
    lines = [
        "## Speed",
        "",
        "Ratios rather than seconds, since seconds depend on the machine: `python -m benchmarks.speed`.",
    ]
    lines += ["", "| what | compared with | ratio | where |", "| --- | --- | --- | --- |"]
    for name, (what, other, read) in RATIOS.items():
        part = speed.get(name)
        lines += (
            [f"| {what} | {other} | no run | |"]
            if part is None
            else [f"| {what}{detail} | {other} | {ratio} | {_where(part)} |" for detail, ratio in read(part)]
        )
    lines += [*_training(speed.get("training")), *_critic(speed.get("critic")), *_critic(speed.get("critic-gpu"))]
    return "\n".join(lines) + "\n"


def _training(part: Mapping[str, Any] | None) -> list[str]:
    if part is None:
        return ["| a step of training on a processor | torch as it comes | no run | |"]
    return [
        f"| {TRAINED[name]} | torch as it comes | {ratios['times_faster']:.1f} times as fast | {_where(part)} |"
        for name, ratios in part["ratios"].items()
    ]


def _critic(part: Mapping[str, Any] | None) -> list[str]:
    what = "a step of DP-GAN's critic"
    if part is None:
        return [f"| {what} | Opacus | no run | |"]
    found = []
    for batch, ratios in part["ratios"].items():
        found += [
            f"| {what}, batch {batch} | Opacus | {ratios['times_opacus']:.1f} times as fast | {_where(part)} |",
            f"| | training without privacy | {ratios['share_of_not_private']:.2f} times as fast | {_where(part)} |",
        ]
    return found


def _fused(fused: float, plain: float) -> str:
    return f"{fused / plain:.2f} times as fast: {fused:.0f} steps a second"


def _where(part: Mapping[str, Any]) -> str:
    return f"{part.get('device', 'cpu')}, {part['cores']} cores, commit {part['commit']}"


TRAINED = {
    "dp-merf": "a step of DP-MERF's training on MNIST",
    "dp-ntk": "a step of DP-NTK's training on MNIST",
    "dp-hp": "a step of DP-HP's training on MNIST",
    "convnet": "a step of the ConvNet that scores condensed sets",
}
RATIOS: dict[str, tuple[str, str, Any]] = {
    "streaming": (
        "streaming DP-MERF's release",
        "a quarter of the rows",
        lambda part: [
            (
                f" over {part['rows']:,} rows",
                f"{part['time_ratio_for_four_times_the_rows']:.2f} times the time, "
                f"{part['peak_megabytes'] / part['quarter_peak_megabytes']:.2f} times the memory",
            )
        ],
    ),
    "embedding": (
        "DP-MERF's embedding",
        "its matrix product alone, float64",
        lambda part: [("", f"{part['ratio_to_float64_product']:.2f} times the time")],
    ),
    "tangent": (
        "DP-NTK's embedding",
        "a loop of automatic gradients, as in the paper's code",
        lambda part: [("", f"{part['times_faster_than_loop']:.0f} times as fast")],
    ),
    "inception": (
        "statistics for FID",
        "the network's forward pass alone",
        lambda part: [("", f"{part['ratio']:.2f} times the time")],
    ),
    "condensation-gpu": (
        "a round of NDPDC on MNIST",
        "one class after the other",
        lambda part: [
            (
                "",
                f"{part['times_faster']:.1f} times as fast; 10,000 rounds take {part['seconds_for_10000_rounds']:.0f} "
                "seconds",
            )
        ],
    ),
    "perceptual": (
        "DP-MEPF's release through VGG19, both moments",
        "the network's forward pass alone",
        lambda part: [("", f"{part['ratio_to_forward']:.2f} times the time")],
    ),
    "perceptual-gpu": (
        "DP-MEPF's training through VGG19, batch 128",
        "before a compiler fuses it",
        lambda part: [
            ("", _fused(part["averaged_bf16_fused_steps_per_second"], part["averaged_bf16_steps_per_second"]))
        ],
    ),
    "upsampling": (
        "upsampling as a matrix product",
        "torch's own",
        lambda part: [("", f"{part['times_faster']:.2f} times as fast")],
    ),
}
"""By the name of a benchmark: what is measured, against what, and how its figures read."""

"""What it is worth to have DP-GAN's critic choose each sample among several candidates, of one run that was paid once.

    python -m benchmarks.choosing "dp-gan/mnist/eps10/seed0+dense" --score lr-mlp-6000 [--candidates 1 --candidates 16]
    python -m benchmarks.choosing --merge FILE

A row is released and trained as in the book, unless it is there already, and its samples are drawn and scored anew for
every number of candidates, from the same seed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from benchmarks import measuring
from benchmarks.material import Material, Real
from benchmarks.rows import Row
from benchmarks.scoring import SCORINGS, Scoring, choose
from benchmarks.stages import IMAGES, MOST_TABLE_ROWS, SAMPLE_SEED, Workplace

RESULTS = Path(__file__).parent / "results" / "choosing.json"
CANDIDATES = (1, 4, 16, 64)

COLUMNS = {
    "LR 60,000": ("lr-mlp-60000", "lr_accuracy"),
    "MLP 60,000": ("lr-mlp-60000", "mlp_accuracy"),
    "LR 6,000": ("lr-mlp-6000", "lr_accuracy"),
    "MLP 6,000": ("lr-mlp-6000", "mlp_accuracy"),
    "CNN": ("cnn", "cnn_accuracy"),
    "FID, test": ("fid-dp-gan", "fid"),
    "AUROC": ("tables", "auroc_mean"),
    "2-way TVD": ("tables", "tvd_2way_mean"),
}
"""What the page shows of a scoring, where it was measured."""


def measure(
    row: Row, work: Workplace, candidates: Sequence[int], scorings: Sequence[Scoring], device: str
) -> dict[str, Any]:
    """Scores by scoring and number of candidates."""
    if row.method != "dp-gan":
        raise click.ClickException(f"{row.name} has no critic to choose by; name a row of dp-gan")
    if not work.released(row):
        work.release(row)
    if not work.trained(row):
        work.train(row, device)
    real, run = Real(name=row.data, schema=row.schema), work.run(row)
    run.sampler.generator.to(device)
    rows = IMAGES if row.schema.image is not None else min(len(real.train), MOST_TABLE_ROWS)
    found: dict[str, dict[str, float]] = {}
    for number in candidates:
        samples = run.sample(rows, seed=SAMPLE_SEED + row.seed, candidates=number)
        material = Material(samples=samples, real=real, seed=row.seed, device=device)
        scored = {one.name: one.compute(material).scores for one in scorings if one.suits(row)}
        shown = {words: scored[name].get(score) for words, (name, score) in COLUMNS.items() if name in scored}
        found[str(number)] = {words: value for words, value in shown.items() if value is not None}
        click.echo(f"{number} candidates: {found[str(number)]}")
    return {"scores": found}


def section(found: Mapping[str, Any]) -> str:
    """The table of the page."""
    lines = [
        "## Candidates that a critic chooses among",
        "",
        "Samples of one run of DP-GAN, each chosen by its critic among so many, at no further cost in privacy:",
        "`python -m benchmarks.choosing`. Rows called `dense` are for a processor.",
        "",
    ]
    scores = [by for part in found.values() for by in part["scores"].values()]
    columns = [words for words in COLUMNS if any(words in by for by in scores)]
    lines += [f"| {' | '.join(['run', 'candidates', *columns])} |", f"| {' | '.join(['---'] * (len(columns) + 2))} |"]
    for name, part in sorted(found.items()):
        for number, by in sorted(part["scores"].items(), key=lambda item: int(item[0])):
            cells = [_figure(words, by[words]) if words in by else "–" for words in columns]
            lines.append(f"| {' | '.join([name, number, *cells])} |")
    return "\n".join(lines if found else [*lines[:-2], "No run yet."]) + "\n"


def _figure(words: str, value: float) -> str:
    return f"{value:.1f}" if words.startswith("FID") else f"{value:.3f}"


@click.command(help=__doc__)
@measuring.options(RESULTS)
@click.option("--candidates", type=int, multiple=True, default=CANDIDATES, show_default=True, help="Repeatable.")
@click.option("--score", "scores", multiple=True, help=f"Only this scoring; repeatable. One of: {', '.join(SCORINGS)}.")
def main(candidates: tuple[int, ...], scores: tuple[str, ...], **asked: Any) -> None:
    """Measure rows, or merge what was measured elsewhere."""
    scorings = choose(scores)
    measuring.run(lambda row, work, device: measure(row, work, candidates, scorings, device), section, **asked)


if __name__ == "__main__":
    main()

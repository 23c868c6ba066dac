"""What stopping by a proxy is worth: FID where it chose to stop, at the end, and at the best, which nobody may know.

    python -m benchmarks.stopping "dp-mepf/cifar10/eps0.2/seed0+short" [--device cuda] [--results FILE]
    python -m benchmarks.stopping --merge FILE

A row is released and trained as in the book, and every checkpoint that the proxy judges is scored besides: 5,000
images against the training images, as in DP-MEPF, whose Table 4 this is. The scores of single checkpoints look at the
records, and are of public data sets; nothing of them goes back into training.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch

from benchmarks import measuring
from benchmarks.material import Real
from benchmarks.rows import Row
from benchmarks.stages import Workplace
from simulacra.data.images import to_uint8
from simulacra.generators.sampler import Sampler
from simulacra.methods.stopping import CURVE

RESULTS = Path(__file__).parent / "results" / "stopping.json"
IMAGES = 5_000
SEED = 2_000_000
"""Added to the row's seed: the images by which checkpoints are scored are not those that the book scores."""

PUBLISHED = {0.2: (469.3, 371.7, 350.3), 0.5: (78.4, 354.4, 78.4), 1: (39.0, 311.8, 38.0)}
"""Table 4 of the DP-MEPF paper, labelled CIFAR-10 by the first moment: where the proxy chose, the end, the best."""


@dataclass(kw_only=True)
class Scorer:
    """FID of every checkpoint that it is shown."""

    real: Real
    seed: int
    device: str
    found: list[tuple[int, float]] = field(default_factory=list)

    def look(self, step: int, sampler: Sampler) -> None:
        """Draw images and score them."""
        from simulacra.evaluate.fidelity import compare

        drawn = torch.cat([records.inputs for records in sampler.records(IMAGES, seed=self.seed)])
        reference, _ = self.real.train
        scores = compare(np.ascontiguousarray(to_uint8(drawn, sampler.schema)), reference, device=self.device).scores
        self.found.append((step, round(scores["fid"], 3)))
        click.echo(f"step {step}: FID {scores['fid']:.2f}")


def measure(row: Row, work: Workplace, device: str) -> dict[str, Any]:
    """Train a row and score its checkpoints; `looks` has step, distance to the proxy and FID of each."""
    if row.settings.get("stopping.proxy", "none") == "none":
        raise click.ClickException(f"{row.name} has no proxy; choose a row with stopping.proxy")
    if not work.released(row):
        work.release(row)
    scorer = Scorer(real=Real(name=row.data, schema=row.schema), seed=SEED + row.seed, device=device)
    work.train(row, device, look=scorer.look)
    training = work.run(row).training
    assert training is not None
    distances = dict(map(tuple, training["curves"][CURVE]))
    looks = [(step, distances[step], fid) for step, fid in scorer.found]
    return {"looks": looks}


def at_choice_end_and_best(looks: list[tuple[int, float, float]]) -> tuple[float, float, float]:
    """FID at the least distance to the proxy, at the last step, and the least of all."""
    chosen = min(looks, key=lambda look: look[1])
    return chosen[2], max(looks)[2], min(look[2] for look in looks)


def section(found: Mapping[str, Any]) -> str:
    """The table of the page."""
    lines = [
        "## Stopping by a proxy",
        "",
        "FID of 5,000 images against the training images where the noisy proxy chose to stop, at the end of training,",
        "and at the best of all checkpoints, which cannot be known privately; Table 4 of the DP-MEPF paper, whose FID",
        "is another one: `python -m benchmarks.stopping`.",
        "",
        "| run | chosen | end | best |",
        "| --- | --- | --- | --- |",
    ]
    for epsilon, figures in PUBLISHED.items():
        lines.append(f"| labelled CIFAR-10 at {epsilon:g}, first moment, dp-mepf paper | {_cells(figures)} |")
    for name, part in sorted(found.items()):
        lines.append(f"| {name} | {_cells(at_choice_end_and_best(part['looks']))} |")
    if not found:
        lines.append("| ours | no run | no run | no run |")
    return "\n".join(lines) + "\n"


def _cells(figures: tuple[float, float, float]) -> str:
    return " | ".join(f"{figure:.1f}" for figure in figures)


@click.command(help=__doc__)
@measuring.options(RESULTS)
def main(**asked: Any) -> None:
    """Measure rows, or merge what was measured elsewhere."""
    measuring.run(measure, section, **asked)


if __name__ == "__main__":
    main()

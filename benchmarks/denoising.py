"""How much of a DP-MEPF release is noise, as released and after noise is taken out of it; no generator is trained.

    python -m benchmarks.denoising "dp-mepf/mnist/not-private/seed0+small"

The row's moments are computed without noise. Then, for each epsilon, noise of the scale that its plan has is added and
taken out again. Shown are squared errors as shares of what they are errors of: the sums of all classes, and what
classes differ by. An estimate that says nothing has 1. What is left of the first moment is put to use, too: test images
are given the class whose mean is the nearest. The noise is drawn from a seed, which is for measuring alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import torch

from benchmarks import kept
from benchmarks.hardware import commit
from benchmarks.material import Real
from benchmarks.rows import Row, select
from benchmarks.stages import WORK, Workplace
from simulacra.data import open_source
from simulacra.features.unit_sums import of_length_one
from simulacra.features.views import View
from simulacra.methods import make_method
from simulacra.methods.denoising import denoised
from simulacra.methods.dp_mepf import MOMENTS
from simulacra.privacy.records import Records

RESULTS = Path(__file__).parent / "results" / "denoising.json"
EPSILONS = (0.2, 0.5, 1, 2, 10)
TEST_IMAGES, LOOKED_AT = 2_000, 32


def measure(row: Row, work: Workplace) -> dict[str, Any]:
    """Errors by epsilon: of the first and the second moment, as released and without noise."""
    if row.epsilon is not None:
        raise click.ClickException(f"{row.name} has noise already; name a row of not-private")
    if not work.released(row):
        work.release(row)
    run = work.run(row)
    method: Any = make_method(row.method, row.settings, run.schema)
    view = method._view(run.schema)
    truth = {order: run.releases[name].value for order, name in MOMENTS.items() if name in run.releases}
    counts = run.releases["class-counts"].value
    found, guesses = {}, {"without noise": truth[1]}
    for epsilon in EPSILONS:
        stds = _noise_stds(replace(row, epsilon=epsilon), method)
        noisy = {order: _with_noise(value, stds[order], seed=order) for order, value in truth.items()}
        clean = denoised(noisy, view.shapes, stds, counts)
        guesses[f"{epsilon:g}"] = clean[1]
        found[f"{epsilon:g}"] = {
            "released": {str(order): errors(noisy[order], truth[order], counts) for order in truth},
            "denoised": {str(order): errors(clean[order], truth[order], counts) for order in truth},
        }
    accuracy = nearest_mean(guesses, counts, view, _test_records(row))
    return {"errors": found, "nearest_mean": accuracy, "row": row.to_mapping(), "commit": commit()}


def errors(guess: torch.Tensor, truth: torch.Tensor, counts: torch.Tensor) -> tuple[float, float]:
    """Squared errors of the sums, and of what classes differ by, as shares of their squared lengths."""

    def apart(sums: torch.Tensor) -> torch.Tensor:
        return sums - torch.outer(counts / counts.sum(), sums.sum(dim=0))

    return _share(guess, truth), _share(apart(guess), apart(truth))


@torch.no_grad()
def nearest_mean(
    guesses: Mapping[str, torch.Tensor], counts: torch.Tensor, view: View, batches: Iterable[Records]
) -> dict[str, float]:
    """For each guess of the classes' sums, the share of records whose class has the mean that is nearest to them."""
    means = {name: (sums / counts.clamp(min=1).unsqueeze(1)).float() for name, sums in guesses.items()}
    right, seen = dict.fromkeys(guesses, 0), 0
    for batch in batches:
        for start in range(0, len(batch.labels), LOOKED_AT):
            rows = slice(start, start + LOOKED_AT)
            features = torch.cat(of_length_one(view.layers((batch.inputs[rows].float() + 1) / 2)), dim=1)
            for name, mean in means.items():
                nearest = (features @ mean.T - mean.square().sum(dim=1) / 2).argmax(dim=1)
                right[name] += int((nearest == batch.labels[rows]).sum())
        seen += len(batch.labels)
    return {name: round(count / seen, 4) for name, count in right.items()}


def _test_records(row: Row) -> Iterator[Records]:
    images, labels = Real(name=row.data, schema=row.schema).test
    return open_source((images[:TEST_IMAGES], labels[:TEST_IMAGES]), row.schema).batches()


def _share(guess: torch.Tensor, truth: torch.Tensor) -> float:
    return float(f"{float((guess - truth).square().sum() / truth.square().sum()):.3g}")


def _noise_stds(row: Row, method: Any) -> dict[int, float]:
    from simulacra.synthesis.releasing import plan_for

    assert row.epsilon is not None
    plan = plan_for(method, row.schema, row.epsilon, row.delta, row.adjacency, False)
    return {order: step.noise_std for order, name in MOMENTS.items() for step in plan.steps if step.step.name == name}


def _with_noise(value: torch.Tensor, scale: float, seed: int) -> torch.Tensor:
    random = torch.Generator().manual_seed(seed)
    return value + scale * torch.randn(value.shape, generator=random, dtype=value.dtype)


def section(found: Mapping[str, Any]) -> str:
    """The table of the page."""
    lines = [
        "## Noise that is taken out of DP-MEPF's releases",
        "",
        "Squared errors of released sums of features and, behind the arrow, of what is left when noise is taken out of",
        "them, as shares of the squared signal: of all classes' sums, and of what classes differ by, where an estimate",
        "that says nothing has 1. And the accuracy on test images of taking the class whose mean, of what is left of",
        "the first moment, is the nearest, and of means without noise in brackets: `python -m benchmarks.denoising`.",
        "",
        "| run | epsilon | first moment | differences | second moment | differences | nearest mean |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, part in sorted(found.items()):
        for epsilon, by in sorted(part["errors"].items(), key=lambda pair: float(pair[0])):
            cells = [
                f"{by['released'][order][kind]:.3g} → {by['denoised'][order][kind]:.3g}"
                if order in by["released"]
                else "–"
                for order in ("1", "2")
                for kind in (0, 1)
            ]
            near = part["nearest_mean"]
            cells.append(f"{near[epsilon]:.3f} ({near['without noise']:.3f})")
            lines.append(f"| {name} | {epsilon} | {' | '.join(cells)} |")
    if not found:
        lines.append("| no run | | | | | | |")
    return "\n".join(lines) + "\n"


@click.command(help=__doc__)
@click.argument("patterns", nargs=-1, required=True)
@click.option("--work", type=click.Path(path_type=Path), default=WORK, help="For the moments.")
@click.option("--results", type=click.Path(path_type=Path), default=RESULTS, help="Where results are kept.")
def main(patterns: tuple[str, ...], work: Path, results: Path) -> None:
    """Measure rows."""
    for row in select(patterns):
        click.echo(row.name)
        kept.add(results, {row.name: measure(row, Workplace(folder=work))})
    click.echo(section(kept.read(results)))


if __name__ == "__main__":
    main()

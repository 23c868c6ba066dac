"""How much of a release is noise: measured against the truth, with and without what is taken out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click
import pytest
import torch
from test_book_stopping import tiny_row

from benchmarks import denoising
from benchmarks.stages import Workplace
from simulacra.features.views import View
from simulacra.privacy.records import Records


def test_errors_are_shares_of_the_signal() -> None:
    truth = torch.tensor([[3.0, 1.0], [1.0, 1.0]], dtype=torch.float64)
    counts = torch.ones(2)
    assert denoising.errors(truth, truth, counts) == (0, 0)
    assert denoising.errors(torch.zeros_like(truth), truth, counts) == (1, 1)
    alike = truth.mean(dim=0).expand(2, 2)
    assert denoising.errors(alike, truth, counts) == (pytest.approx(2 / 12, rel=0.01), 1)


def test_noise_is_smaller_where_it_is_taken_out(tmp_path: Path) -> None:
    row = replace(tiny_row(tmp_path), epsilon=None)
    found = denoising.measure(row, Workplace(folder=tmp_path / "work"))
    for by in found["errors"].values():
        for order in ("1", "2"):
            assert by["denoised"][order][0] < by["released"][order][0]
    near = found["nearest_mean"]
    assert list(near) == ["without noise", "0.2", "0.5", "1", "2", "10"]
    assert 0.2 < near["without noise"] < 1, "ten classes"
    assert near["0.2"] < near["without noise"]
    strict, loose = found["errors"]["0.2"], found["errors"]["10"]
    assert strict["released"]["1"][0] > 10 * loose["released"]["1"][0]
    lines = denoising.section({row.name: found}).splitlines()
    assert len([line for line in lines if line.startswith(f"| {row.name} |")]) == len(denoising.EPSILONS)


def test_records_are_given_the_class_of_the_nearest_mean() -> None:
    """The features of a pixel are the pixel over the length; the nearest in distance, not along a direction."""

    class Itself(View):
        sizes = (2,)

        def look(self, points: torch.Tensor) -> list[torch.Tensor]:
            return [points]

        def read(self, looked: list[torch.Tensor]) -> list[torch.Tensor]:
            return looked

    points = torch.tensor([[3.0, 4.0], [4.5, 3.0], [1.0, 0.0]])
    batches = [Records(inputs=points * 2 - 1, labels=torch.tensor([0, 1, 1]))]
    sums = torch.tensor([[0.6, 0.8], [1.8, 0.6]], dtype=torch.float64)
    counts = torch.tensor([1.0, 2.0], dtype=torch.float64)
    found = denoising.nearest_mean({"right": sums, "swapped": sums.flip(0)}, counts, Itself(), batches)
    assert found == {"right": 1.0, "swapped": 0.6667}


def test_a_row_with_noise_is_refused(tmp_path: Path) -> None:
    with pytest.raises(click.ClickException, match="name a row of not-private"):
        denoising.measure(tiny_row(tmp_path), Workplace(folder=tmp_path / "work"))


def test_without_a_run_the_page_says_so() -> None:
    assert "no run" in denoising.section({})

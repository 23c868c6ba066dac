"""What stopping by a proxy is worth: every checkpoint is scored, and the proxy's choice stands beside end and best."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest
import torch

from benchmarks import kept, stopping
from benchmarks.rows import Row
from benchmarks.stages import Workplace
from simulacra.evaluate import Scores
from simulacra.networks import encoder_files
from simulacra.networks.small_encoder import SmallEncoder

WIDTHS = (2, 3)


def tiny_row(folder: Path, **more: Any) -> Row:
    file = folder / "encoder.safetensors"
    encoder_files.save(file, SmallEncoder(WIDTHS).state_dict(), {"data": "some public pictures"})
    settings = {
        "encoder.network": "small",
        "encoder.widths": WIDTHS,
        "encoder.weights": str(file),
        "training.steps": 6,
        "training.batch": 20,
        "generator.hidden": (16,),
        "stopping.proxy": "encoder",
        "stopping.checks": 3,
        "stopping.samples": 20,
        **more,
    }
    return Row(method="dp-mepf", data="digits", epsilon=5, seed=0, settings=settings)


def test_every_checkpoint_that_the_proxy_judges_is_scored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stopping, "IMAGES", 30)
    shown: list[Any] = []

    def compare(samples: Any, reference: Any, *, device: str) -> Scores:
        shown.append((samples, reference))
        return Scores(scores={"fid": float(len(shown))})

    monkeypatch.setattr("simulacra.evaluate.fidelity.compare", compare)
    found = stopping.measure(tiny_row(tmp_path), Workplace(folder=tmp_path / "work"), "cpu")
    assert [(step, fid) for step, _, fid in found["looks"]] == [(2, 1.0), (4, 2.0), (6, 3.0)]
    assert all(distance > 0 for _, distance, _ in found["looks"])
    assert shown[0][0].shape == (30, 8, 8)
    assert shown[0][1].shape[1:] == (8, 8)
    assert not torch.equal(torch.from_numpy(shown[0][0]), torch.from_numpy(shown[-1][0]))


def test_without_a_proxy_there_is_nothing_to_compare(tmp_path: Path) -> None:
    row = tiny_row(tmp_path, **{"stopping.proxy": "none"})
    with pytest.raises(click.ClickException, match=r"no proxy; choose a row with stopping\.proxy"):
        stopping.measure(row, Workplace(folder=tmp_path / "work"), "cpu")
    assert not (tmp_path / "work").exists(), "nothing is released for it"


def test_the_choice_is_the_nearest_to_the_proxy_and_not_the_best() -> None:
    looks = [(10, 0.5, 40.0), (20, 0.2, 35.0), (30, 0.3, 30.0), (40, 0.9, 90.0)]
    assert stopping.at_choice_end_and_best(looks) == (35.0, 90.0, 30.0)
    lines = stopping.section({"dp-mepf/cifar10/eps1/seed0": {"looks": looks}}).splitlines()
    assert lines[-1] == "| dp-mepf/cifar10/eps1/seed0 | 35.0 | 90.0 | 30.0 |"


def test_without_a_run_the_page_says_so(tmp_path: Path) -> None:
    assert "no run" in stopping.section(kept.read(tmp_path / "none.json"))

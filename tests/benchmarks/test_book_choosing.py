"""What choosing among candidates is worth: one run, scored for each number of candidates."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from click.testing import CliRunner

from benchmarks import bundle, choosing, kept, measuring, outcomes
from benchmarks.material import Material
from benchmarks.rows import Row
from benchmarks.scoring import Scoring
from benchmarks.stages import Workplace
from simulacra.datasets.places import CACHE_VARIABLE, DATA_VARIABLE
from simulacra.evaluate.scores import Scores

TINY = {"rate": 1.0, "steps": 4, "critic.channels": 4, "schedule.critic_steps": (2,)}
ROW = Row(method="dp-gan", data="digits", epsilon=5, seed=0, adjacency="add-remove", settings=TINY)


def test_one_run_is_scored_for_each_number_of_candidates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "IMAGES", 30)
    seen: list[Any] = []

    def compute(material: Material) -> Scores:
        seen.append(material.samples[0])
        return Scores(scores={"lr_accuracy": len(seen) / 10, "lr_f1": 0.0})

    scoring = Scoring(name="lr-mlp-6000", words="", fits=lambda schema: True, compute=compute)
    work = Workplace(folder=tmp_path)
    found = choosing.measure(ROW, work, (1, 3), [scoring], "cpu")
    assert found["scores"] == {"1": {"LR 6,000": 0.1}, "3": {"LR 6,000": 0.2}}
    assert seen[0].shape == seen[1].shape == (30, 8, 8)
    assert not np.array_equal(seen[0], seen[1])
    trained = (work.place(ROW) / "run" / "sampler.safetensors").read_bytes()
    choosing.measure(ROW, work, (1,), [scoring], "cpu")
    assert np.array_equal(seen[2], seen[0]), "the same run and the same seed"
    assert (work.place(ROW) / "run" / "sampler.safetensors").read_bytes() == trained


def test_a_row_without_a_critic_is_refused(tmp_path: Path) -> None:
    with pytest.raises(click.ClickException, match="has no critic"):
        choosing.measure(
            Row(method="dp-merf", data="digits", epsilon=5, seed=0), Workplace(folder=tmp_path), (1,), [], "cpu"
        )
    assert not list(tmp_path.iterdir()), "nothing is released for it"


def test_the_table_has_what_was_measured_in_the_order_of_candidates() -> None:
    scores = {"16": {"CNN": 0.94, "FID, test": 9.87}, "4": {"CNN": 0.93}}
    lines = choosing.section({"dp-gan/mnist/eps10/seed0": {"scores": scores}}).splitlines()
    assert lines[-4:] == [
        "| run | candidates | CNN | FID, test |",
        "| --- | --- | --- | --- |",
        "| dp-gan/mnist/eps10/seed0 | 4 | 0.930 | – |",
        "| dp-gan/mnist/eps10/seed0 | 16 | 0.940 | 9.9 |",
    ]


def test_without_a_run_the_page_says_so(tmp_path: Path) -> None:
    assert "No run yet." in choosing.section(kept.read(tmp_path / "none.json"))


def test_elsewhere_a_run_from_a_bundle_is_measured_and_none_is_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the result names the commit of the bundle: there is no checkout to ask."""
    monkeypatch.setattr(choosing, "IMAGES", 30)
    monkeypatch.setattr(measuring, "select", lambda patterns: [ROW])
    monkeypatch.setattr(outcomes, "BOOK", tmp_path / "book")
    for variable in (DATA_VARIABLE, CACHE_VARIABLE):  # unpacking sets them: let them be put back
        monkeypatch.setenv(variable, str(tmp_path / variable))
    here, parts, results = Workplace(folder=tmp_path / "here"), tmp_path / "parts", tmp_path / "results.json"
    words = ["row", "--candidates", "2", "--score", "lr-mlp-6000", "--device", "cpu", "--results", str(results)]
    words += ["--work", str(tmp_path / "there"), "--bundle", str(parts)]
    bundle.write({}, parts, rows=[ROW], commit="where it was bundled", limit=10**6)
    refused = CliRunner().invoke(choosing.main, words)
    assert "the bundle holds no release of it" in refused.output
    shutil.rmtree(parts)
    here.release(ROW)
    files = bundle.contents(here, tmp_path / "book", [ROW], [])
    bundle.write(files, parts, rows=[ROW], commit="where it was bundled", limit=10**6)
    finished = CliRunner().invoke(choosing.main, words)
    assert finished.exit_code == 0, finished.output
    (found,) = kept.read(results).values()
    assert found["commit"] == "where it was bundled"
    assert list(found["scores"]) == ["2"]
    assert not (tmp_path / "there" / "ledgers").exists()

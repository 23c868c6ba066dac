"""What choosing among candidates is worth: one run, scored for each number of candidates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest

from benchmarks import choosing, kept
from benchmarks.material import Material
from benchmarks.rows import Row
from benchmarks.scoring import Scoring
from benchmarks.stages import Workplace
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

"""Rivals in the book: the cells they get, the rows that come back, and what did not finish."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest

from benchmarks import outcomes, rivals, tables
from benchmarks.rows import Row
from simulacra import datasets

ADULT = Row(method="mst", data="adult", epsilon=1, seed=0, adjacency="add-remove")
STAND_IN = """
import json, sys
import numpy as np
asked = dict(zip(sys.argv[2::2], sys.argv[3::2]))
with np.load(asked["--cells"]) as archive:
    cells = archive["cells"]
np.savez(asked["--out"] + ".npz", cells=cells[: int(asked["--rows"])])
json.dump({"package": "stand-in", "fit_seconds": 0.1}, open(asked["--out"] + ".json", "w"))
"""


def stand_in(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """An interpreter that runs our script in place of the rival's."""
    import sys

    (folder / "script.py").write_text(script)
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{folder / "script.py"}" "$@"\n')
    python.chmod(0o755)
    monkeypatch.setenv(rivals.ENVIRONMENT, str(python))


def fit(folder: Path) -> dict[str, Any]:
    return rivals.fit("adult", "mst", epsilon=1, delta=1e-5, seed=0, most_rows=500, folder=folder / "row")


def test_a_rival_gets_cells_and_its_rows_come_back_as_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, monkeypatch, STAND_IN)
    assert fit(tmp_path)["package"] == "stand-in"
    drawn = rivals.drawn_rows("adult", tmp_path / "row", seed=0)
    schema = datasets.schema("adult")
    assert list(drawn.columns) == [column.name for column in schema.columns]
    assert len(drawn) == 500
    real = datasets.load("adult", "train").data.slice(0, 500).to_pandas()
    assert (drawn["sex"].to_numpy() == real["sex"].str.strip().to_numpy()).all()
    assert np.corrcoef(drawn["age"], real["age"])[0, 1] > 0.99


def test_cells_are_within_their_columns() -> None:
    found = rivals.training_cells("adult")
    assert found["cells"].shape == (32_561, 15)
    assert (found["cells"] < found["sizes"]).all()
    assert (found["cells"] >= 0).all()


def test_a_rival_that_is_killed_did_not_finish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, monkeypatch, "import os, signal\nos.kill(os.getpid(), signal.SIGXCPU)\n")
    with pytest.raises(rivals.DidNotFinishError, match="stopped after 3,600 s"):
        fit(tmp_path)


def test_a_rival_that_is_killed_for_anything_else_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, monkeypatch, "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    with pytest.raises(click.ClickException, match="enough memory") as caught:
        fit(tmp_path)
    assert not isinstance(caught.value, rivals.DidNotFinishError)


def test_a_rival_that_fails_is_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, monkeypatch, "raise SystemExit('out of luck')\n")
    with pytest.raises(click.ClickException, match="mst failed: out of luck") as caught:
        fit(tmp_path)
    assert not isinstance(caught.value, rivals.DidNotFinishError)


def test_the_book_says_what_did_not_finish(tmp_path: Path) -> None:
    outcomes.save(tmp_path, {**outcomes.empty(ADULT), "unfinished": "killed by signal 24"})
    page = tables.to_markdown(list(outcomes.read_all(tmp_path)))
    assert "**mst** (add-remove) | 1 | 1 | did not finish" in page


def test_what_did_not_finish_is_collected(tmp_path: Path) -> None:
    outcomes.write_pack(tmp_path / "pack.json", [{**outcomes.empty(ADULT), "unfinished": "killed"}])
    assert outcomes.collect(tmp_path / "pack.json", tmp_path / "book") == [f"{ADULT.name}: did not finish"]
    assert json.loads((tmp_path / "book" / f"{ADULT.name}.json").read_bytes())["unfinished"] == "killed"

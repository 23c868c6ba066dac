"""How many synthetic rows a run is scored on."""

from __future__ import annotations

from pathlib import Path

import pytest
import tiny

import simulacra
from simulacra.evaluate.runs import wanted_rows
from simulacra.synthesis.run import Run


class Untrained(Run):
    """A run whose sampler is not needed to know how many rows there should be."""

    class _Endless:
        size = None

    sampler = _Endless()  # type: ignore[assignment]


@pytest.mark.parametrize("method", ["pairs", "dp-merf"])
def test_a_run_is_scored_on_about_as_many_rows_as_its_noisy_releases_tell(method: str, tmp_path: Path) -> None:
    run = simulacra.release(
        tiny.people(400),
        schema=tiny.schema(tiny.PEOPLE),
        method=method,
        epsilon=50.0,
        delta=1e-5,
        adjacency="add-remove",
        out=tmp_path / "run",
        ledger=tmp_path / "people.ledger",
    )
    untrained = Untrained(run.folder)
    assert 350 < wanted_rows(untrained, None) < 450
    assert wanted_rows(untrained, 7) == 7

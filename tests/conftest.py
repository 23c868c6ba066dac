"""Fixtures that all tests may use: an in-process command line, a folder to work in, and one trained run."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import tiny


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def cli(work: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> tiny.Cli:
    """The command line, run in this process and in the folder `work`: `cli("plan", "--json").json`."""

    def call(*words: Any) -> tiny.Finished:
        from simulacra.cli import main

        monkeypatch.setattr(sys, "argv", ["simulacra", *map(str, words)])
        capsys.readouterr()
        try:
            main()
        except SystemExit as stop:
            code = stop.code
        else:
            code = 0
        streams = capsys.readouterr()
        assert isinstance(code, int)
        return tiny.Finished(code, streams.out, streams.err)

    return call


@pytest.fixture
def table(work: Path) -> Path:
    """people.csv and schema.toml in the working folder; gives the CSV."""
    tiny.people().to_csv(work / "people.csv", index=False)
    (work / "schema.toml").write_text(tiny.PEOPLE)
    return work / "people.csv"


@pytest.fixture(scope="session")
def trained_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small run on a labelled table. Not to be changed: take `trained` for that."""
    import simulacra

    folder = tmp_path_factory.mktemp("trained")
    simulacra.fit(
        tiny.people(),
        schema=tiny.schema(tiny.PEOPLE),
        epsilon=5.0,
        delta=1e-5,
        adjacency="add-remove",
        out=folder / "run",
        ledger=folder / "people.ledger",
        method=tiny.METHOD,
        settings=tiny.SETTINGS,
        device="cpu",
    )
    return folder / "run"


@pytest.fixture
def trained(trained_once: Path, work: Path) -> Path:
    """A copy of the trained run, to do with as one likes."""
    return Path(shutil.copytree(trained_once, work / "run"))


ACCOUNTS: dict[Any, Any] = {}


@pytest.fixture
def remembered_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans of training loops take seconds to calibrate; tests that make the same few again and again remember them."""
    from simulacra.privacy import accountant

    def remembered(name: str) -> Any:
        genuine = getattr(accountant, name)

        def recall(events: Any, *rest: Any, **more: Any) -> Any:
            named = [(key, tuple(value) if key == "fixed" else value) for key, value in sorted(more.items())]
            key = (name, tuple(events), rest, *named)
            if key not in ACCOUNTS:
                ACCOUNTS[key] = genuine(events, *rest, **more)
            return ACCOUNTS[key]

        return recall

    for name in ("calibrate", "epsilon", "delta"):
        monkeypatch.setattr(accountant, name, remembered(name))

"""Outputs that exist, are in a bad place or fill the disk: what is there stays, and nothing half is left."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import tiny
from refusals import FIT, refused
from tiny import Cli


def test_an_output_that_exists_is_left_alone(cli: Cli, table: Path, trained: Path, work: Path) -> None:
    (work / "there.csv").write_text("mine")
    before = sorted((path.name, path.stat().st_mtime_ns) for path in trained.rglob("*"))
    refused(cli(*FIT, "run"), '"run" exists already')
    refused(cli(*FIT, "there.csv"), "exists already")
    refused(cli("sample", "run", "--out", "there.csv"), "exists already")
    refused(cli("schema", "draft", "people.csv", "--out", "there.csv"), "exists already")
    refused(cli("demo", "--out", "run"), "exists already")
    assert (work / "there.csv").read_text() == "mine"
    assert sorted((path.name, path.stat().st_mtime_ns) for path in trained.rglob("*")) == before
    assert not (work / "people.ledger").exists()


def test_resuming_into_a_folder_of_the_user_touches_nothing_in_it(cli: Cli, table: Path, work: Path) -> None:
    (work / "mine").mkdir()
    (work / "mine" / "schema.toml").write_text("precious")
    (work / "mine" / "letter.txt").write_text("precious")
    refused(cli(*FIT, "mine", "--resume"), "not a run folder")
    assert {path.name: path.read_text() for path in (work / "mine").iterdir()} == {
        "schema.toml": "precious",
        "letter.txt": "precious",
    }


def test_an_output_below_a_file_is_refused(cli: Cli, table: Path, trained: Path, work: Path) -> None:
    refused(cli(*FIT, "people.csv/run"), "people.csv/run")
    refused(cli("sample", "run", "--out", "people.csv/samples.csv"), "people.csv")
    refused(cli("sample", "run", "--out", "nowhere/samples.csv"), "nowhere", "create it first")
    refused(cli(*FIT, "x" * 300), "x" * 20)
    assert tiny.reservations(work / "people.ledger") == 0


@pytest.mark.parametrize("out", ["samples.xlsx", "samples", "samples.npz"])
def test_a_table_goes_only_to_table_files(out: str, cli: Cli, trained: Path, work: Path) -> None:
    refused(cli("sample", "run", "--out", out), ".parquet")
    assert not (work / out).exists()


@contextmanager
def full_disk(limit: int = 2048) -> Iterator[None]:
    """The operating system refuses to let any file grow beyond a few bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("out", ["samples.csv", "samples.parquet", "samples.tsv"])
def test_samples_on_a_full_disk_leave_no_half_file(out: str, cli: Cli, trained: Path, work: Path) -> None:
    with full_disk():
        finished = cli("sample", "run", "-n", "20000", "--out", out)
    refused(finished, out)
    assert sorted(path.name for path in work.iterdir()) == ["run"]


def test_a_draft_on_a_full_disk_leaves_no_half_file(cli: Cli, table: Path, work: Path) -> None:
    with full_disk(100):
        finished = cli("schema", "draft", "people.csv", "--out", "draft.toml")
    refused(finished, "draft.toml")
    assert not list(work.glob("draft*"))


def test_training_on_a_full_disk_keeps_the_sampler_there_was(cli: Cli, trained: Path) -> None:
    before = (trained / "sampler.safetensors").read_bytes()
    with full_disk():
        finished = cli("train", "run", "--seed", "8", "--device", "cpu")
    refused(finished, "cannot write")
    assert (trained / "sampler.safetensors").read_bytes() == before
    assert not list(trained.rglob("*.partial"))
    assert cli("train", "run", "--seed", "8", "--device", "cpu").code == 0


@pytest.mark.parametrize("working", range(0, 20, 2))
def test_a_disk_that_fills_up_at_any_moment_costs_at_most_what_was_written_down(
    working: int, cli: Cli, table: Path, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is spent, nothing is left; afterwards, the run can be resumed and is paid once."""
    cli("ledger", "create", "people.ledger")
    real, calls = os.fsync, [0]

    def fsync(file: int) -> None:
        calls[0] += 1
        if calls[0] > working:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(file)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        finished = cli("release", *FIT[1:-3], "--out", "run")
    refused(finished, "No space left")
    assert cli("ledger", "check", "people.ledger").code == 0
    if tiny.reservations(work / "people.ledger") == 0:
        assert not (work / "run").exists()
    if (work / "run").exists():
        assert cli("release", *FIT[1:-3], "--out", "run", "--resume").code == 0
    else:
        assert cli("release", *FIT[1:-3], "--out", "run").code == 0
    assert cli("verify", "run", "--json").json["ok"] is True

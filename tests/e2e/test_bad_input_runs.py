"""Ledgers and runs that are locked, damaged, of another kind or not there: refused, and left as they are."""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tiny
from refusals import FIT, refused
from tiny import QUICK, Cli

# -- ledgers ----------------------------------------------------------------------------------------------------------


def test_a_locked_ledger_is_refused(cli: Cli, table: Path, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from simulacra.privacy.ledger import Ledger

    cli("ledger", "create", "people.ledger")
    monkeypatch.setitem(Ledger.__init__.__kwdefaults__, "wait_seconds", 0.05)
    before = (work / "people.ledger").read_bytes()
    with (work / "people.ledger.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        refused(cli(*FIT, "run"), "people.ledger", "in use", "wait")
        refused(cli("ledger", "show", "people.ledger"), "in use")
    assert not (work / "run").exists()
    assert (work / "people.ledger").read_bytes() == before
    assert cli(*FIT, "run").code == 0, "and afterwards it works"


def edited(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"reserve", b"reverse", 1))


def shortened(path: Path) -> None:
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))


def beheaded(path: Path) -> None:
    path.with_name(path.name + ".head").unlink()


def emptied(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("damage", [edited, shortened, beheaded, emptied])
def test_an_edited_ledger_is_refused(damage: Callable[[Path], None], cli: Cli, table: Path, work: Path) -> None:
    assert cli("release", *FIT[1:-3], "--out", "first").code == 0
    damage(work / "people.ledger")
    before = (work / "people.ledger").read_bytes()
    refused(cli(*FIT, "run"), "people.ledger", "backup")
    refused(cli("ledger", "check", "people.ledger"), "people.ledger", "backup")
    assert not (work / "run").exists()
    assert (work / "people.ledger").read_bytes() == before


def test_a_ledger_of_the_other_relation_is_refused(cli: Cli, table: Path, work: Path) -> None:
    cli("ledger", "create", "people.ledger", "--adjacency", "replace-one")
    refused(cli(*FIT, "run"), "replace-one", "add-remove")
    assert not (work / "run").exists()


def test_a_ledger_that_is_not_there_or_not_one_is_refused(cli: Cli, table: Path, work: Path) -> None:
    refused(cli("ledger", "show", "nowhere.ledger"), "nowhere.ledger", "ledger create")
    refused(cli("ledger", "check", "people.csv"), "people.csv")
    refused(cli(*FIT, "run", "--ledger", "people.csv"), "people.csv")
    (work / "folder").mkdir()
    refused(cli(*FIT, "run", "--ledger", "folder"), "folder")
    assert not (work / "run").exists()


def test_a_cap_that_would_be_passed_is_refused_before_anything_is_written(cli: Cli, table: Path, work: Path) -> None:
    cli("ledger", "create", "people.ledger", "--epsilon", "0.5")
    before = (work / "people.ledger").read_bytes()
    refused(cli(*FIT, "run"), "cap", "0.5", "ask for less")
    assert not (work / "run").exists()
    assert (work / "people.ledger").read_bytes() == before


# -- runs -------------------------------------------------------------------------------------------------------------


def test_an_unknown_class_is_refused_with_a_suggestion(cli: Cli, trained: Path, work: Path) -> None:
    refused(cli("sample", "run", "--class", "yess", "--out", "s.csv"), '"yess"', 'did you mean "yes"')
    refused(cli("sample", "run", "-n", "-1", "--out", "s.csv"), "negative")
    refused(cli("sample", "run", "--candidates", "4", "--out", "s.csv"), "no critic", "leave candidates out")
    assert not (work / "s.csv").exists()


def test_a_class_of_an_unlabelled_run_is_refused(cli: Cli, table: Path, work: Path) -> None:
    (work / "schema.toml").write_text(tiny.UNLABELLED)
    assert cli(*FIT, "run").code == 0
    refused(cli("sample", "run", "--class", "yes", "--out", "s.csv"), "no label")
    assert not (work / "s.csv").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("sample", "run", "--out", "s.csv"),
        ("sample", "run", "--out", "s.parquet"),
        ("evaluate", "run", "--test", "people.csv"),
        ("report", "run"),
    ],
    ids=" ".join,
)
def test_an_untrained_run_is_told_to_train(words: tuple[str, ...], cli: Cli, table: Path, work: Path) -> None:
    assert cli("release", *FIT[1:-3], "--out", "run").code == 0
    refused(cli(*words), "simulacra train")
    assert not list(work.glob("s.*"))
    assert not (work / "run" / "report.html").exists()


@pytest.mark.parametrize(
    "words",
    [("train",), ("sample", "--out", "s.csv"), ("evaluate", "--test", "people.csv"), ("report",), ("verify",)],
    ids=lambda words: words[0],
)
@pytest.mark.parametrize("folder", ["nowhere", "mine", "people.csv"])
def test_a_folder_that_is_no_run_is_refused(
    folder: str, words: tuple[str, ...], cli: Cli, table: Path, work: Path
) -> None:
    (work / "mine").mkdir()
    refused(cli(words[0], folder, *words[1:]), folder)
    assert list((work / "mine").iterdir()) == []


@pytest.mark.parametrize("file", ["run.json", "sampler.json", "sampler.safetensors", "schema.toml", "training.json"])
def test_a_damaged_run_is_refused(file: str, cli: Cli, trained: Path, work: Path) -> None:
    (trained / file).write_bytes(b"\x00\x01damaged")
    refused(cli("report", "run"), "run")
    if file != "training.json":
        refused(cli("sample", "run", "--out", "s.csv"), "run")
        assert not (work / "s.csv").exists()


def test_training_without_all_releases_is_refused(cli: Cli, trained: Path) -> None:
    (trained / "releases" / "embedding.safetensors").unlink()
    refused(cli("train", "run"), "embedding")


def test_a_training_that_diverges_says_what_to_do(cli: Cli, trained: Path) -> None:
    before = (trained / "sampler.safetensors").read_bytes()
    finished = cli("train", "run", "--device", "cpu", "--set", "training.learning_rate=1e30")
    refused(finished, "diverged", "learning_rate")
    assert (trained / "sampler.safetensors").read_bytes() == before


def test_an_evaluation_without_real_records_is_refused(cli: Cli, trained: Path, table: Path) -> None:
    refused(cli("evaluate", "run"), "--test")
    refused(cli("report", "run", "--public", "--test", "people.csv"), "--public")
    refused(cli("evaluate", "run", "--test", "nowhere.csv"), "nowhere.csv")
    refused(cli("evaluate", "run", "--test", "people.csv", "--classifier", "logistic"), "logistic_regression")


def test_scoring_images_without_labels_is_refused(cli: Cli, work: Path) -> None:
    """No label where one is needed: a classifier that always answers the only class would score 1."""
    np.savez(work / "pictures.npz", x=tiny.pictures()[0])
    (work / "schema.toml").write_text(tiny.PICTURES.replace('classes = ["dark", "light"]', ""))
    words = ("--schema", "schema.toml", "--epsilon", "1", *QUICK, "--out", "run")
    assert cli("fit", "pictures.npz", *words).code == 0
    refused(cli("evaluate", "run", "--test", "pictures.npz"), "label")

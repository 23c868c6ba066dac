"""What costs and what is free on the command line: caps, paid drafts, training again, and stopping and resuming."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tiny
from command_words import BUDGET, fit
from tiny import QUICK, Cli


def test_release_and_train_make_the_same_run_as_fit(cli: Cli, table: Path, work: Path) -> None:
    words = ("people.csv", "--schema", "schema.toml", "--not-private", *QUICK, "--ledger", "other.ledger")
    assert cli("fit", *words, "--seed", "3", "--device", "cpu", "--out", "whole").code == 0
    released = cli("release", *words, "--out", "parts", "--json")
    assert released.json["trained"] is False
    trained = cli("train", "parts", "--seed", "3", "--device", "cpu", "--json")
    assert trained.json["trained"] is True
    whole, parts = ((work / run / "sampler.safetensors").read_bytes() for run in ("whole", "parts"))
    assert whole == parts


def test_training_again_with_other_settings_is_free(cli: Cli, trained: Path, trained_once: Path) -> None:
    before = (trained / "sampler.safetensors").read_bytes()
    certificate = (trained / "certificate.json").read_bytes()
    again = cli("train", "run", "--device", "cpu", "--set", "training.steps=3", "--seed", "1", "--json")
    assert again.code == 0, again.err
    assert (trained / "sampler.safetensors").read_bytes() != before
    assert (trained / "certificate.json").read_bytes() == certificate
    facts = json.loads((trained / "training.json").read_text())
    assert (facts["seed"], facts["settings"]["training"]["steps"]) == (1, 3)
    assert cli("verify", "run", "--json").json["ok"] is True
    assert tiny.reservations(trained_once.parent / "people.ledger") == 5


@pytest.mark.parametrize("change", ["pairs=21", "length_scales=1,2", "feature_seed=9", "count_noise=1"])
def test_a_setting_that_decided_what_was_released_cannot_change(change: str, cli: Cli, trained: Path) -> None:
    before = (trained / "sampler.safetensors").read_bytes()
    finished = cli("train", "run", "--set", change)
    assert finished.code == 2
    assert change.split("=")[0] in finished.err
    assert "release again" in finished.err
    assert (trained / "sampler.safetensors").read_bytes() == before


def test_no_privacy_needs_its_flag_and_says_so_everywhere(cli: Cli, table: Path, work: Path) -> None:
    without = fit(cli)
    assert without.code == 2
    assert "not-private" in without.err
    both = fit(cli, "--not-private", "--epsilon", "1")
    assert both.code == 2
    assert not (work / "run").exists()
    assert "NOT PRIVATE" in cli("plan", "--schema", "schema.toml", "--not-private", "--json").err

    finished = fit(cli, "--not-private", "--json")
    assert finished.code == 0
    assert "NOT PRIVATE" in finished.err
    assert finished.json["private"] is False
    assert finished.json["epsilon"] is None
    assert "NOT PRIVATE" in json.loads((work / "run" / "certificate.json").read_text())["statement"]
    verified = cli("verify", "run", "--json").json
    assert (verified["ok"], verified["private"], verified["epsilon"]) == (True, False, None)
    assert "NOT PRIVATE" in cli("verify", "run").out
    assert cli("ledger", "show", "people.ledger", "--json").json["epsilon"] is None
    assert cli("report", "run").code == 0
    assert "NOT PRIVATE" in (work / "run" / "report.html").read_text(encoding="utf-8")


def test_a_cap_is_kept_over_several_runs(cli: Cli, table: Path, work: Path) -> None:
    made = cli("ledger", "create", "people.ledger", "--epsilon", "1.2", "--json").json
    assert made["cap"] == 1.2
    words = ("release", "people.csv", "--schema", "schema.toml", "--epsilon", "1", *QUICK, "--out")
    assert cli(*words, "first").code == 0
    second = cli(*words, "second")
    assert second.code == 2
    assert "cap" in second.err
    assert not (work / "second").exists()
    shown = cli("ledger", "show", "people.ledger", "--json").json
    assert shown["guaranteed"] is True
    assert shown["epsilon"] <= 1.2


def test_a_paid_draft_counts_in_the_certificate_of_every_run_that_uses_it(cli: Cli, work: Path) -> None:
    tiny.people(2000).to_parquet("people.parquet")
    words = ("schema", "draft", "people.parquet", "--epsilon", "5", "--label", "buys", "--out", "schema.toml", "--json")
    drafted = cli(*words)
    assert drafted.code == 0, drafted.err
    text = (work / "schema.toml").read_text()
    assert not any(secret in text for secret in tiny.SECRETS), "one record's value is no public value"
    spent = cli("ledger", "show", "people.ledger", "--json").json["epsilon"]
    assert spent == pytest.approx(5, rel=1e-3)
    fits = ("fit", "people.parquet", "--schema", "schema.toml", *QUICK, "--device", "cpu", "--out", "run")
    too_little = cli(*fits, "--epsilon", "4")
    assert too_little.code == 2, "the draft alone has cost more"
    assert not (work / "run").exists()
    assert cli(*fits, "--epsilon", "8").code == 0
    certificate = json.loads((work / "run" / "certificate.json").read_text())
    assert len(certificate["prior"]) >= 2
    verified = cli("verify", "run", "--json").json
    assert verified["ok"] is True
    assert 5 < verified["epsilon"] <= 8
    assert cli("ledger", "show", "people.ledger", "--json").json["epsilon"] == pytest.approx(verified["epsilon"])


def test_a_stopped_training_leaves_a_usable_run(
    cli: Cli, table: Path, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from simulacra.synthesis.watching import Watcher

    def stop(self: Watcher, step: int, steps: int, loss: float) -> None:
        if step == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(Watcher, "on_step", stop)
    finished = fit(cli, *BUDGET, "--seed", "5")
    assert finished.code == 0
    assert "stopped early" in finished.out
    assert "simulacra train run --seed 5" in finished.out
    assert cli("sample", "run", "-n", "5", "--out", "early.csv").code == 0
    monkeypatch.undo()
    monkeypatch.chdir(work)
    again = cli("train", "run", "--seed", "5", "--device", "cpu")
    assert again.code == 0
    assert "Nothing was spent; next:" in again.out
    assert "Spent in ledger" not in again.out
    assert json.loads((work / "run" / "training.json").read_text())["stopped_early"] is False
    assert tiny.reservations(work / "people.ledger") == 5, "training costs nothing"


def test_an_interrupt_before_training_ends_quietly(cli: Cli, table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from simulacra.data.tables import TableSource

    def interrupt(self: TableSource) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(TableSource, "check", interrupt)
    finished = fit(cli, *BUDGET)
    assert finished.code == 130
    assert finished.err.strip() == "simulacra: stopped"


def test_an_interrupted_release_is_resumed_and_paid_once(
    cli: Cli, table: Path, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import simulacra.privacy.certificate as certificate

    def fail(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(certificate, "write_certificate", fail)
        assert fit(cli, *BUDGET).code == 130
    spent = tiny.reservations(work / "people.ledger")
    assert fit(cli, *BUDGET).code == 2, "not without saying so"
    other = fit(cli, "--epsilon", "4", "--resume")
    assert other.code == 2
    assert "other settings" in other.err
    assert fit(cli, *BUDGET, "--resume").code == 0
    assert tiny.reservations(work / "people.ledger") == spent
    assert cli("verify", "run", "--json").json["ok"] is True

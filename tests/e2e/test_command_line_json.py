"""What the command line says as JSON: one document, the same from version to version, for programs to rely on."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import tiny
from command_words import BUDGET
from tiny import QUICK, Cli


def test_plan_json_is_stable(cli: Cli, work: Path) -> None:
    (work / "schema.toml").write_text(tiny.PEOPLE)
    words = ("plan", "--schema", "schema.toml", "--epsilon", "1", "--adjacency", "replace-one", *QUICK, "--json")
    planned = cli(*words).json
    assert {"method", "epsilon", "delta", "adjacency", "steps"} <= set(planned)
    assert planned["method"] == "dp-merf"
    assert planned["delta"] == 1e-5
    assert planned["adjacency"] == "replace-one"
    assert [step["name"] for step in planned["steps"]] == ["class-counts", "embedding"]
    for step in planned["steps"]:
        assert {"name", "noise_multiplier", "sample_rate", "count", "sensitivity"} <= set(step)
        assert (step["sample_rate"], step["count"]) == (1.0, 1)
    counts, embedding = planned["steps"]
    assert counts["sensitivity"] == pytest.approx(math.sqrt(2), rel=1e-4), "counts are not negative"
    assert embedding["sensitivity"] == pytest.approx(2, rel=1e-4)
    together = math.hypot(1 / counts["noise_multiplier"], 1 / embedding["noise_multiplier"])
    assert 1 / together == pytest.approx(3.7306, abs=2e-3), "two releases compose to one at (1, 1e-5)"


def test_a_plan_forecasts_noise_against_signal_from_public_guesses(cli: Cli, work: Path) -> None:
    (work / "schema.toml").write_text(tiny.PEOPLE)
    words = ("plan", "--schema", "schema.toml", "--epsilon", "1", *QUICK, "--json")
    assert cli(*words).json["forecast"]["classes"] == []
    few = cli(*words, "--rows", "100").json["forecast"]["classes"]
    many = cli(*words, "--class-rows", "50,5000").json["forecast"]["classes"]
    assert [row["name"] for row in few] == ["no", "yes"]
    assert few[0]["ratio"] == many[0]["ratio"]
    assert many[1]["ratio"] == pytest.approx(many[0]["ratio"] / 100)
    for wrong in ("1,2,3", "a,b", "0,5", "nan,5", "inf,5"):
        assert cli(*words, "--class-rows", wrong).code == 2


def test_verify_json_is_stable(cli: Cli, trained: Path) -> None:
    found = cli("verify", "run", "--json").json
    assert (found["ok"], found["private"], found["delta"], found["adjacency"]) == (True, True, 1e-5, "add-remove")
    assert found["epsilon"] == pytest.approx(5, rel=1e-6)
    assert cli("verify", "run/certificate.json", "--json").json == found


@pytest.mark.parametrize(
    "file", ["certificate.json", "schema.toml", "releases/embedding.safetensors", "releases/class-counts.json"]
)
def test_a_flipped_byte_anywhere_in_what_was_released_is_detected(file: str, cli: Cli, trained: Path) -> None:
    content = bytearray((trained / file).read_bytes())
    content[len(content) // 2] ^= 1
    (trained / file).write_bytes(bytes(content))
    found = cli("verify", "run", "--json")
    assert found.code == 2
    assert found.json["ok"] is False


def test_evaluate_json_is_flat_and_has_the_means_of_a_binary_table(cli: Cli, trained: Path, table: Path) -> None:
    classifiers = ("--classifier", "logistic_regression", "--classifier", "gaussian_nb")
    found = cli("evaluate", "run", "--test", "people.csv", "--rows", "80", *classifiers, "--json").json
    assert {"auroc_mean", "auprc_mean"} <= set(found["scores"])
    assert all(isinstance(value, float) for value in found["scores"].values())
    assert json.loads((trained / "scores.json").read_text()) == found


def test_methods_json_is_stable(cli: Cli) -> None:
    rows = cli("methods", "--json").json
    assert all(set(row) == {"name", "data", "private", "needs_public_data", "summary", "presets"} for row in rows)
    (critics,) = [row for row in rows if row["name"] == "dp-gan"]
    assert {"mnist", "mnist-dp-cgan"} <= set(critics["presets"])
    assert "presets: " in cli("methods").out
    (ours,) = [row for row in rows if row["name"] == "dp-merf"]
    assert ours["data"] == ["tables", "images"]
    assert ours["private"] is True
    assert ours["needs_public_data"] is False


JSON_COMMANDS = {
    "methods": ("methods",),
    "draft": ("schema", "draft", "people.csv"),
    "draft-to-file": ("schema", "draft", "people.csv", "--out", "draft.toml"),
    "check": ("schema", "check", "schema.toml"),
    "check-data": ("schema", "check", "schema.toml", "people.csv"),
    "plan": ("plan", "--schema", "schema.toml", *BUDGET),
    "release": ("release", "people.csv", "--schema", "schema.toml", *BUDGET, *QUICK, "--out", "new"),
    "train": ("train", "run", "--device", "cpu"),
    "sample": ("sample", "run", "-n", "3", "--out", "samples.csv"),
    "evaluate": ("evaluate", "run", "--test", "people.csv", "--rows", "50", "--classifier", "logistic_regression"),
    "report": ("report", "run"),
    "verify": ("verify", "run"),
    "create": ("ledger", "create", "new.ledger"),
    "show": ("ledger", "show", "old.ledger"),
    "ledger-check": ("ledger", "check", "old.ledger"),
}


@pytest.mark.parametrize("words", JSON_COMMANDS.values(), ids=JSON_COMMANDS)
def test_json_is_exactly_one_document_and_nothing_else(
    words: tuple[str, ...], cli: Cli, trained: Path, table: Path
) -> None:
    cli("ledger", "create", "old.ledger")
    finished = cli(*words, "--json")
    assert finished.code == 0, finished.err
    assert finished.json is not None
    assert finished.err == ""


def test_a_failure_is_json_too_when_json_is_asked_for(cli: Cli) -> None:
    finished = cli("verify", "nowhere", "--json")
    assert finished.code == 2
    assert finished.json["ok"] is False
    assert finished.lines == [f"simulacra: {finished.json['error']}"]

"""The straight path through the command line, from a file to a certified synthetic one, and its stable JSON."""

from __future__ import annotations

import html
import json
import math
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import tiny
from tiny import QUICK, Cli

BUDGET = ("--epsilon", "5", "--delta", "1e-5")


def fit(cli: Cli, *words: object) -> tiny.Finished:
    return cli("fit", "people.csv", "--schema", "schema.toml", "--out", "run", *QUICK, "--device", "cpu", *words)


@dataclass(frozen=True)
class Story:
    """One kind of data, and what the owner makes of the drafted schema."""

    data: str
    write: Callable[[Path], object]
    schema: str
    samples: tuple[str, ...]
    score: str
    classifier: str | None = None
    label: str | None = None
    classes: int = 1


def write_csv(path: Path) -> None:
    tiny.people().to_csv(path, index=False)


def write_parquet(path: Path) -> None:
    tiny.people().to_parquet(path)


def write_npz(path: Path) -> None:
    images, labels = tiny.pictures()
    np.savez(path, x=images, y=labels)


STORIES = {
    "labelled-csv": Story(
        data="people.csv",
        write=write_csv,
        schema=tiny.PEOPLE,
        samples=("samples.csv", "samples.parquet"),
        score="auroc_mean",
        classifier="logistic_regression",
        label="buys",
        classes=2,
    ),
    "unlabelled-parquet": Story(
        data="people.parquet",
        write=write_parquet,
        schema=tiny.UNLABELLED,
        samples=("samples.tsv",),
        score="tvd_1way_mean",
    ),
    "images-npz": Story(
        data="pictures.npz",
        write=write_npz,
        schema=tiny.PICTURES,
        samples=("samples.npz", "samples"),
        score="lr_accuracy",
        classifier="lr",
        classes=2,
    ),
    "image-folder": Story(
        data="pictures",
        write=tiny.png_folder,
        schema=tiny.PICTURES,
        samples=("samples",),
        score="lr_accuracy",
        classifier="lr",
        classes=2,
    ),
}


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_the_straight_path_from_a_file_to_a_verified_run(story: Story, cli: Cli, work: Path) -> None:
    story.write(work / story.data)
    label = ("--label", story.label) if story.label else ()

    drafted = cli("schema", "draft", story.data, *label, "--out", "draft.toml")
    assert drafted.code == 0
    text = (work / "draft.toml").read_text()
    assert "FILL IN" in text
    assert not any(secret in text for secret in tiny.SECRETS)
    refused = cli("schema", "check", "draft.toml")
    assert refused.code == 2
    assert "FILL IN" in refused.err or "unknown type" in refused.err

    (work / "schema.toml").write_text(story.schema)
    checked = cli("schema", "check", "schema.toml", story.data, "--json").json
    assert checked["ok"]
    assert checked["classes"] == story.classes

    planned = cli("plan", "--schema", "schema.toml", *BUDGET, *QUICK, "--rows", "100", "--json").json
    assert planned["epsilon"] == pytest.approx(5, rel=1e-6)
    assert planned["epsilon"] <= 5
    assert not list(work.glob("*.ledger")), "a plan costs nothing"

    fitted = cli(
        "fit", story.data, "--schema", "schema.toml", *BUDGET, *QUICK, "--out", "run", "--device", "cpu", "--json"
    )
    assert fitted.code == 0, fitted.err
    assert fitted.json["trained"] is True
    assert fitted.json["epsilon"] == planned["epsilon"]
    name = Path(story.data).stem

    for out in story.samples:
        assert cli("sample", "run", "-n", "30", "--out", out, "--json").json == {
            "rows": 30,
            "repeated": False,
            "out": out,
        }
        assert count_samples(work / out) == 30

    chosen = ("--classifier", story.classifier) if story.classifier else ()
    scored = cli("evaluate", "run", "--test", story.data, *chosen, "--json").json
    assert math.isfinite(scored["scores"][story.score])
    assert "outside the privacy guarantee" in scored["computed_on"]

    page = Path(cli("report", "run", "--test", story.data, "--json").json["report"])
    text = (work / page).read_text(encoding="utf-8")
    assert "add-remove" in text or "added or removed" in text
    assert "<script" not in text

    verified = cli("verify", "run", "--json")
    assert verified.code == 0
    assert verified.json["ok"] is True

    shown = cli("ledger", "show", f"{name}.ledger", "--json").json
    assert shown["epsilon"] == pytest.approx(5, rel=1e-6)
    assert shown["guaranteed"] is False
    assert [entry["kind"] for entry in shown["entries"]] == ["open", "reserve", "ask", "ask", "answer", "answer"]
    assert cli("ledger", "check", f"{name}.ledger", "--json").json == {"ok": True, "entries": 6}


@pytest.mark.parametrize("kind", ["labelled-csv", "images-npz"])
def test_the_commands_of_the_report_make_another_run_like_it(kind: str, cli: Cli, work: Path) -> None:
    story = STORIES[kind]
    story.write(work / story.data)
    (work / "schema.toml").write_text(story.schema)
    words = ("--schema", "schema.toml", *BUDGET, "--out", "run", *QUICK, "--seed", "3", "--device", "cpu")
    assert cli("fit", story.data, *words).code == 0
    page = Path(cli("report", "run", "--json").json["report"]).read_text(encoding="utf-8")
    shown = html.unescape(re.findall(r"<pre[^>]*><code>(.*?)</code>", page, re.DOTALL)[-1])
    for line in shown.splitlines():
        done = cli(*shlex.split(line.replace("DATA", story.data))[1:])
        assert done.code == 0, (line, done.err)
    first, second = (json.loads((work / run / "training.json").read_text()) for run in ("run", "again"))
    assert (first["settings"], first["seed"]) == (second["settings"], second["seed"])
    assert "--set training.steps=6" in shown


def count_samples(path: Path) -> int:
    if path.is_dir():
        assert {folder.name for folder in path.iterdir()} == {"dark", "light"}
        return len(list(path.rglob("*.png")))
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as archive:
            assert archive["x"].shape[1:] == (8, 8)
            assert len(archive["y"]) == len(archive["x"])
            return len(archive["x"])
    if path.suffix == ".parquet":
        frame = pd.read_parquet(path)
    else:
        frame = pd.read_csv(path, sep="\t" if path.suffix == ".tsv" else ",")
    assert list(frame) == ["age", "income", "town", "member", "joined", "buys"]
    assert frame["age"].between(0, 100).all()
    assert set(frame["town"]) <= {"north", "south", "other"}
    assert set(frame["buys"]) <= {"no", "yes"}
    joined = pd.to_datetime(frame["joined"].dropna())
    assert joined.between("2010-01-01", "2020-12-31").all()
    return len(frame)


def test_what_a_person_reads_names_the_promise_and_its_relation(cli: Cli, table: Path) -> None:
    """The relation is always printed, although the command line has a default for it."""
    for finished in (
        cli("plan", "--schema", "schema.toml", *BUDGET, *QUICK),
        fit(cli, *BUDGET),
        cli("verify", "run"),
        cli("ledger", "show", "people.ledger"),
    ):
        assert finished.code == 0, finished.err
        assert "add-remove" in finished.out
        assert re.search(r"epsilon 5\b", finished.out), finished.out
    assert cli("report", "run").code == 0
    assert cli("evaluate", "run", "--test", "people.csv", "--classifier", "logistic_regression").code == 0
    assert cli("methods").code == cli("schema", "check", "schema.toml", "people.csv").code == 0
    assert cli("ledger", "check", "people.ledger").code == 0


def test_the_schema_of_a_known_data_set_has_a_name_wherever_a_schema_is_asked_for(cli: Cli, work: Path) -> None:
    named = cli("plan", "--schema", "dataset:digits", "--method", "dp-merf", "--epsilon", "1", "--json").json
    assert named["method"] == "dp-merf"
    assert cli("schema", "check", "dataset:digits").code == 0
    assert 'did you mean "digits"' in cli("plan", "--schema", "dataset:digitz", "--epsilon", "1").err


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


def test_a_table_without_a_method_is_given_to_pairs_and_every_record_of_it_says_so(
    cli: Cli, table: Path, work: Path
) -> None:
    words = ("--schema", "schema.toml", *BUDGET)
    assert cli("plan", *words).out.startswith("Plan: pairs, epsilon 5,")
    planned = cli("plan", *words, "--json").json
    assert planned["method"] == "pairs"
    assert [step["name"] for step in planned["steps"]] == ["columns", "pairs"]
    quick = ("--set", "fitting.steps=2", "--set", "fitting.rows=50", "--device", "cpu")
    fitted = cli("fit", "people.csv", *words, *quick, "--out", "run", "--json")
    assert fitted.code == 0, fitted.err
    assert fitted.json["method"] == "pairs"
    for file in ("run.json", "certificate.json"):
        assert json.loads((work / "run" / file).read_text())["method"] == "pairs"
    assert not [file for file in (work / "run").rglob("*.json") if '"auto"' in file.read_text()]
    assert cli("fit", "people.csv", *words, *quick, "--out", "run", "--resume").out.startswith("Run run: pairs,")
    assert cli("verify", "run", "--json").json["ok"] is True


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


def test_sampling_is_repeatable_with_a_seed_and_fresh_without(cli: Cli, trained: Path, work: Path) -> None:
    for name, seed in (("a", ("--seed", 7)), ("b", ("--seed", 7)), ("c", ()), ("d", ())):
        assert cli("sample", "run", "-n", "20", "--out", f"{name}.csv", *seed).code == 0
    a, b, c, d = ((work / f"{name}.csv").read_bytes() for name in "abcd")
    assert a == b
    assert len({a, c, d}) == 3


def test_sampling_takes_classes_in_turn_and_any_number_of_rows(cli: Cli, trained: Path, work: Path) -> None:
    assert cli("sample", "run", "-n", "9000", "--class", "yes", "--out", "yes.parquet").code == 0
    assert set(pd.read_parquet("yes.parquet")["buys"]) == {"yes"}
    assert cli("sample", "run", "-n", "4", "--class", "no", "--class", "yes", "--out", "turns.csv").code == 0
    assert list(pd.read_csv("turns.csv")["buys"]) == ["no", "yes", "no", "yes"]
    assert cli("sample", "run", "-n", "0", "--out", "none.csv").code == 0
    assert list(pd.read_csv("none.csv")) == ["age", "income", "town", "member", "joined", "buys"]


def test_the_label_can_be_chosen_on_the_command_line(cli: Cli, table: Path, work: Path) -> None:
    (work / "schema.toml").write_text(tiny.UNLABELLED)
    assert fit(cli, *BUDGET, "--label", "town").code == 0
    assert cli("schema", "check", "run/schema.toml", "--json").json["classes"] == 3
    assert cli("sample", "run", "--class", "other", "-n", "5", "--out", "other.csv").code == 0


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


@pytest.mark.slow
def test_the_demo_ends_with_a_promise_scores_and_reports(cli: Cli, work: Path) -> None:
    finished = cli("demo", "--quick", "--out", "demo", "--device", "cpu", "--json")
    assert finished.code == 0, finished.err
    for result in finished.json.values():
        assert result["certificate"]["epsilon"] == pytest.approx(1, rel=1e-6)
        assert result["headline"]
        for what in ("samples", "certificate_file", "report"):
            assert (work / result[what]).is_file()


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


def test_no_command_at_all_shows_the_help_as_it_is(cli: Cli) -> None:
    for words in ((), ("schema",), ("ledger",)):
        finished = cli(*words)
        assert len((finished.out + finished.err).splitlines()) > 5
        assert "Commands:" in finished.out + finished.err


@pytest.mark.parametrize(
    "words", [("--help",), ("fit", "--help"), ("schema", "draft", "--help"), ("--version",)], ids=" ".join
)
def test_help_comes_quickly_because_nothing_heavy_is_imported(words: tuple[str, ...]) -> None:
    code = (
        "import sys\n"
        f"sys.argv = ['simulacra', *{words!r}]\n"
        "from simulacra.cli import main\n"
        "try:\n    main()\nexcept SystemExit as stop:\n    assert not stop.code\n"
        "heavy = {'torch', 'pandas', 'pyarrow', 'sklearn', 'scipy', 'numpy', 'dp_accounting', 'opendp', 'jinja2'}\n"
        "print('heavy:', sorted(heavy & set(sys.modules)))\n"
    )
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert finished.stdout.rstrip().endswith("heavy: []")


def test_a_true_process_goes_from_rows_to_samples(table: Path, work: Path) -> None:
    """Once for real: the interpreter starts, and exit codes and streams are those of a process."""
    run = [sys.executable, "-m", "simulacra"]
    words = ["fit", "people.csv", "--schema", "schema.toml", *BUDGET, *QUICK, "--device", "cpu", "--out", "run"]
    fitted = subprocess.run([*run, *words, "--json"], capture_output=True, text=True, cwd=work, check=False)
    assert fitted.returncode == 0, fitted.stderr
    assert json.loads(fitted.stdout)["trained"] is True
    sampled = subprocess.run(
        [*run, "sample", "run", "-n", "5", "--out", "s.csv"], capture_output=True, text=True, cwd=work, check=False
    )
    assert (sampled.returncode, sampled.stderr) == (0, "")
    assert len(pd.read_csv(work / "s.csv")) == 5

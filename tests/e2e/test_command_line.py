"""The straight path through the command line, from a file to a certified synthetic one, and what a person reads."""

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
from command_words import BUDGET, fit
from tiny import QUICK, Cli


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


def test_the_label_can_be_chosen_on_the_command_line(cli: Cli, table: Path, work: Path) -> None:
    (work / "schema.toml").write_text(tiny.UNLABELLED)
    assert fit(cli, *BUDGET, "--label", "town").code == 0
    assert cli("schema", "check", "run/schema.toml", "--json").json["classes"] == 3
    assert cli("sample", "run", "--class", "other", "-n", "5", "--out", "other.csv").code == 0


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


@pytest.mark.slow
def test_the_demo_ends_with_a_promise_scores_and_reports(cli: Cli, work: Path) -> None:
    finished = cli("demo", "--quick", "--out", "demo", "--device", "cpu", "--json")
    assert finished.code == 0, finished.err
    for result in finished.json.values():
        assert result["certificate"]["epsilon"] == pytest.approx(1, rel=1e-6)
        assert result["headline"]
        for what in ("samples", "certificate_file", "report"):
            assert (work / result[what]).is_file()


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

"""Evaluation and report on bad input: a clear line, or a sensible figure with its explanation; no crash and no NaN."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tiny
from tiny import Cli

QUICK = ("--classifier", "logistic_regression", "--classifier", "gaussian_nb", "--classifier", "decision_tree")
COMMON = ("--test", "real.csv", "--schema", "schema.toml", *QUICK)


@pytest.fixture
def frames(work: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Synthetic and real rows; a schema in the working folder."""
    (work / "schema.toml").write_text(tiny.PEOPLE)
    return tiny.people(150, 1), tiny.people(120, 2)


def score(cli: Cli, synthetic: pd.DataFrame, real: pd.DataFrame) -> tuple[dict[str, float], str]:
    """Scores, all finite, and all notes in one text."""
    synthetic.to_csv("synthetic.csv", index=False)
    real.to_csv("real.csv", index=False)
    done = cli("evaluate", "synthetic.csv", *COMMON, "--json")
    assert done.code == 0, done.err
    scores = done.json["scores"]
    assert all(math.isfinite(value) for value in scores.values())
    assert "NaN" not in done.out
    return scores, " ".join(done.json["notes"])


def refused(cli: Cli, synthetic: pd.DataFrame, real: pd.DataFrame) -> str:
    """The one line that ends it."""
    synthetic.to_csv("synthetic.csv", index=False)
    real.to_csv("real.csv", index=False)
    done = cli("evaluate", "synthetic.csv", *COMMON)
    assert done.code == 2
    assert len(done.lines) == 1
    assert all(secret not in done.err for secret in tiny.SECRETS)
    return done.err


Frames = tuple[pd.DataFrame, pd.DataFrame]


@pytest.mark.parametrize("side", [0, 1])
def test_a_missing_column_is_named(side: int, cli: Cli, frames: Frames) -> None:
    chosen = [frame.drop(columns="age") if k == side else frame for k, frame in enumerate(frames)]
    assert 'no column "age"' in refused(cli, *chosen)


def test_semicolons_between_columns_are_told_from_a_missing_column(cli: Cli, frames: Frames) -> None:
    frames[1].to_csv("real.csv", index=False, sep=";")
    frames[0].to_csv("synthetic.csv", index=False)
    done = cli("evaluate", "synthetic.csv", *COMMON)
    assert done.code == 2
    assert "with commas between them" in done.err


@pytest.mark.parametrize("side", [0, 1])
def test_a_column_too_many_is_refused_without_its_name(side: int, cli: Cli, frames: Frames) -> None:
    chosen = [frame.assign(extra=1) if k == side else frame for k, frame in enumerate(frames)]
    line = refused(cli, *chosen)
    assert "1 column that the schema does not list" in line
    assert "extra" not in line


@pytest.mark.parametrize("side", [0, 1])
def test_another_type_is_scored_as_the_policy_says_and_told(side: int, cli: Cli, frames: Frames) -> None:
    odd: dict[str, Any] = {"age": "old", "joined": "yesterday", "member": "perhaps"}
    chosen = [frame.assign(**odd) if k == side else frame for k, frame in enumerate(frames)]
    scores, notes = score(cli, *chosen)
    assert scores["tvd_1way_max"] > 0.5
    assert "age" in notes
    assert "do not fit the schema" in notes


def test_other_categories_are_other_and_told_where_there_is_no_other(cli: Cli, frames: Frames) -> None:
    synthetic, real = frames
    scores, notes = score(cli, synthetic.assign(town="east", buys="maybe"), real)
    assert scores["tvd_1way_max"] > 0.4
    assert "buys" in notes  # the town has other = true


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("only", ["no", "yes"])
def test_one_class_only_is_a_guess_with_a_reason(side: int, only: str, cli: Cli, frames: Frames) -> None:
    chosen = [frame.assign(buys=only) if k == side else frame for k, frame in enumerate(frames)]
    scores, notes = score(cli, *chosen)
    assert scores["auroc_mean"] == 0.5
    assert ("same class" in notes) or ("one class only" in notes)


def test_constant_columns_have_figures(cli: Cli, frames: Frames) -> None:
    constant = {"age": 40, "income": 1000, "town": "north", "member": True, "joined": "2015-01-01"}
    for chosen in ([frame.assign(**constant) for frame in frames], [frames[0].assign(**constant), frames[1]]):
        scores, _ = score(cli, *chosen)
        assert "correlation_difference_mean" in scores


def test_columns_without_any_value_have_figures(cli: Cli, frames: Frames) -> None:
    empty = dict.fromkeys(("age", "income", "town", "member", "joined"))
    for chosen in ([frame.assign(**empty) for frame in frames], [frames[0], frames[1].assign(**empty)]):
        scores, _ = score(cli, *chosen)
        assert 0 <= scores["tvd_2way_mean"] <= 1


def test_a_huge_list_of_categories_is_folded_and_told(cli: Cli, work: Path) -> None:
    values = [f"street {k}" for k in range(20_000)]
    listed = ", ".join(f'"{value}"' for value in values)
    schema = (
        f'label = "b"\n[columns.street]\ntype = "categorical"\nvalues = [{listed}]\n[columns.b]\ntype = "boolean"\n'
    )
    (work / "schema.toml").write_text(schema)
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"street": random.choice(values, 300), "b": random.random(300) < 0.5})
    scores, notes = score(cli, frame.iloc[:150], frame.iloc[150:])
    assert "more than 512 values (street)" in notes
    assert scores["tvd_1way_max"] > 0.9  # hardly a street occurs twice


@pytest.mark.parametrize("side", [0, 1])
def test_no_rows_at_all_is_one_line(side: int, cli: Cli, frames: Frames) -> None:
    chosen = [frame.iloc[:0] if k == side else frame for k, frame in enumerate(frames)]
    assert "no records" in refused(cli, *chosen)


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_a_handful_of_rows_has_figures_and_reasons(rows: int, cli: Cli, frames: Frames) -> None:
    scores, notes = score(cli, frames[0].iloc[:rows], frames[1].iloc[:rows])
    assert "tvd_1way_mean" in scores
    assert "detection needs at least" in notes


def test_unlabelled_tables_have_no_classifiers_and_say_so(cli: Cli, frames: Frames, work: Path) -> None:
    (work / "schema.toml").write_text(tiny.UNLABELLED)
    scores, notes = score(cli, *frames)
    assert "auroc_mean" not in scores
    assert "names no label" in notes


def test_images_of_another_size_are_one_line(cli: Cli, work: Path) -> None:
    (work / "schema.toml").write_text(tiny.PICTURES)
    images, labels = tiny.pictures(40)
    np.savez("small.npz", images=images, labels=labels)
    np.savez("large.npz", images=np.zeros((40, 9, 8), np.uint8), labels=labels)
    np.savez("colour.npz", images=np.zeros((40, 8, 8, 3), np.uint8), labels=labels)
    np.savez("none.npz", images=np.zeros((0, 8, 8), np.uint8), labels=labels[:0])
    for ours, theirs in (
        ("large", "small"),
        ("small", "large"),
        ("small", "colour"),
        ("none", "small"),
        ("small", "none"),
    ):
        words = (f"{ours}.npz", "--test", f"{theirs}.npz", "--schema", "schema.toml", "--classifier", "lr")
        done = cli("evaluate", *words)
        assert done.code == 2, (ours, theirs)
        assert len(done.lines) == 1


def test_a_table_is_not_scored_against_images(cli: Cli, frames: Frames, work: Path) -> None:
    frames[0].to_csv("synthetic.csv", index=False)
    images, labels = tiny.pictures(40)
    np.savez("real.npz", images=images, labels=labels)
    done = cli("evaluate", "synthetic.csv", "--test", "real.npz", "--schema", "schema.toml")
    assert done.code == 2
    assert len(done.lines) == 1


def test_the_report_takes_the_same_in_good_part(cli: Cli, trained: Path, frames: Frames) -> None:
    real = frames[1]
    odd = {
        "constant": real.assign(age=40, income=None, town="north", member=None, joined=None),
        "one-class": real.assign(buys="no"),
        "one-row": real.iloc[:1],
    }
    for name, frame in odd.items():
        frame.to_csv(f"{name}.csv", index=False)
        done = cli("report", "run", "--test", f"{name}.csv", "--out", f"{name}.html")
        assert done.code == 0, done.err
        # The letters may well occur in the code of a picture.
        text = re.sub(r"base64,[^\"]*", "", Path(f"{name}.html").read_text())
        assert not re.search(r"\bnan\b", text.lower())
    real.drop(columns="age").to_csv("bad.csv", index=False)
    real.iloc[:0].to_csv("empty.csv", index=False)
    for name, words in (("bad", 'no column "age"'), ("empty", "no records")):
        done = cli("report", "run", "--test", f"{name}.csv", "--out", f"{name}.html")
        assert done.code == 2
        assert words in done.err
        assert len(done.lines) == 1
        assert not Path(f"{name}.html").exists()

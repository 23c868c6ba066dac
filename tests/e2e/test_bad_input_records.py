"""Records that do not fit the schema never cause an error: a refusal that depends on them would be a leak."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tiny
from tiny import QUICK, SECRETS, Cli


def test_rows_that_do_not_fit_the_schema_never_cause_an_error(cli: Cli, work: Path) -> None:
    """A refusal that depends on the records is itself a leak: inside a run every record is made valid."""
    frame = tiny.people(30).astype(object)
    frame.loc[0] = ["old", "much", "nowhere", "perhaps", "yesterday", "undecided"]
    frame.loc[1] = [-5, 1e300, "", "", "1066-10-14", ""]
    frame.loc[2] = [float("nan"), float("inf"), None, None, None, None]
    frame.loc[3] = [SECRETS[0], "-inf", SECRETS[1], "2", "9999-12-31", "no"]
    frame.to_csv(work / "messy.csv", index=False)
    (work / "schema.toml").write_text(tiny.PEOPLE)
    finished = cli("fit", "messy.csv", "--schema", "schema.toml", "--epsilon", "1", *QUICK, "--out", "run", "--json")
    assert finished.code == 0, finished.err
    assert finished.err == ""
    problems = {
        row["column"]: row for row in cli("schema", "check", "schema.toml", "messy.csv", "--json").json["problems"]
    }
    assert problems["age"]["unreadable"] >= 1
    assert problems["age"]["out_of_range"] >= 2
    assert problems["buys"]["unknown"] == 1
    shown = cli("schema", "check", "schema.toml", "messy.csv")
    assert "do not publish" in shown.out
    assert not any(secret in shown.out + shown.err for secret in SECRETS)


def test_a_table_without_rows_is_a_valid_data_set(cli: Cli, work: Path) -> None:
    """Whether there are any records is private as well."""
    tiny.people().head(0).to_csv(work / "people.csv", index=False)
    (work / "schema.toml").write_text(tiny.PEOPLE)
    words = ("--schema", "schema.toml", "--epsilon", "1", *QUICK, "--out", "run")
    assert cli("fit", "people.csv", *words).code == 0
    assert cli("sample", "run", "-n", "5", "--out", "samples.csv").code == 0


def test_image_labels_outside_the_classes_never_cause_an_error(cli: Cli, work: Path) -> None:
    images, labels = tiny.pictures()
    labels[:5] = (-1, 2, 99, 2**40, -(2**40))
    np.savez(work / "pictures.npz", x=images, y=labels)
    (work / "schema.toml").write_text(tiny.PICTURES)
    words = ("--schema", "schema.toml", "--epsilon", "1", *QUICK, "--out", "run")
    assert cli("release", "pictures.npz", *words).code == 0

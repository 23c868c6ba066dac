"""Bad input ends at once: exit code 2, one line that says what, where and the fix; nothing spent, left or told."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import tiny
from tiny import QUICK, SECRETS, Cli

Prepare = Callable[[Path], None]


@dataclass(frozen=True)
class Case:
    """How to spoil a good folder, what to run there, and words the one line must hold."""

    says: tuple[str, ...]
    spoil: Prepare = lambda work: None
    data: str = "people.csv"
    more: tuple[str, ...] = ()
    epsilon: str = "1"
    delta: str = "1e-5"


def refused(finished: tiny.Finished, *says: str) -> None:
    """The one way every refusal looks."""
    assert finished.code == 2, finished
    assert len(finished.lines) == 1, finished.err
    assert finished.err.startswith("simulacra: ")
    assert "Traceback" not in finished.err
    assert finished.out == ""
    for word in says:
        assert word in finished.err
    for secret in SECRETS:
        assert secret not in finished.out + finished.err


def replaced(old: str, new: str, file: str = "schema.toml") -> Prepare:
    def spoil(work: Path) -> None:
        text = (work / file).read_text()
        assert old in text
        (work / file).write_text(text.replace(old, new, 1))

    return spoil


def wrote(file: str, content: bytes) -> Prepare:
    return lambda work: (work / file).write_bytes(content) and None


def ragged(work: Path) -> None:
    with (work / "people.csv").open("a") as file:
        file.write(f"1,{SECRETS[0]},{SECRETS[1]}\n")


def not_utf8(work: Path) -> None:
    with (work / "people.csv").open("ab") as file:
        file.write(f"40,{SECRETS[0]},{SECRETS[1]}".encode() + b"\xff\xfe,true,2012-01-01,no\n")


def truncated_parquet(work: Path) -> None:
    tiny.people().to_parquet(work / "people.parquet")
    content = (work / "people.parquet").read_bytes()
    (work / "people.parquet").write_bytes(content[: len(content) // 2])


def truncated_gzip(work: Path) -> None:
    tiny.people().to_csv(work / "people.csv.gz", index=False)
    content = (work / "people.csv.gz").read_bytes()
    (work / "people.csv.gz").write_bytes(content[: len(content) // 2])


def truncated_npz(work: Path) -> None:
    images, labels = tiny.pictures()
    np.savez(work / "pictures.npz", x=images, y=labels)
    content = (work / "pictures.npz").read_bytes()
    (work / "pictures.npz").write_bytes(content[: len(content) // 2])
    (work / "schema.toml").write_text(tiny.PICTURES)


def png(work: Path) -> Path:
    (work / "schema.toml").write_text(tiny.PICTURES)
    return sorted(tiny.png_folder(work / "pictures").rglob("*.png"))[-1]


def truncated_png(work: Path) -> None:
    last = png(work)
    last.write_bytes(last.read_bytes()[:-30])


def mixed_sizes(work: Path) -> None:
    from PIL import Image

    Image.new("L", (9, 8)).save(png(work))


def no_such_class(work: Path) -> None:
    shutil.move(png(work), (work / "pictures" / "grey").with_suffix(".png"))
    (work / "pictures" / "lihgt").mkdir()


FILES = {
    "missing-file": Case(says=("nowhere.csv", "check the path"), data="nowhere.csv"),
    "missing-folder": Case(
        says=("nowhere", "check the path"), data="nowhere", spoil=wrote("schema.toml", tiny.PICTURES.encode())
    ),
    "empty-file": Case(says=("people.csv", "is empty"), spoil=wrote("people.csv", b"")),
    "blank-header": Case(says=("people.csv", "header"), spoil=wrote("people.csv", b"\n1,2\n")),
    "unknown-kind": Case(says=("people.xlsx", ".parquet"), data="people.xlsx", spoil=wrote("people.xlsx", b"PK")),
    "ragged-csv": Case(says=("people.csv", "ragged", "quote"), spoil=ragged),
    "unclosed-quote": Case(says=("people.csv", "quotes"), spoil=replaced("north", '"north', "people.csv")),
    "not-utf8": Case(says=("people.csv", "UTF-8"), spoil=not_utf8),
    "truncated-gzip": Case(says=("people.csv.gz", "fresh copy"), data="people.csv.gz", spoil=truncated_gzip),
    "truncated-parquet": Case(says=("people.parquet", "cut short"), data="people.parquet", spoil=truncated_parquet),
    "truncated-npz": Case(says=("pictures.npz", "cut short"), data="pictures.npz", spoil=truncated_npz),
    "truncated-png": Case(says=("cut short", ".png"), data="pictures", spoil=truncated_png),
    "mixed-image-sizes": Case(says=("8 x 9", "8 x 8", "one size"), data="pictures", spoil=mixed_sizes),
    "unknown-image-class": Case(says=('"lihgt"', 'did you mean "light"'), data="pictures", spoil=no_such_class),
    "column-missing-from-data": Case(
        says=('no column "age"', "schema", 'did you mean "aged"'), spoil=replaced("age,", "aged,", "people.csv")
    ),
    "column-missing-from-schema": Case(
        says=("1 column", "the schema does not list"),
        spoil=replaced('[columns.member]\ntype = "boolean"\nmissing = true\n', ""),
    ),
    "column-twice-in-data": Case(
        says=("repeats a column name",), spoil=replaced("age,income", "age,age", "people.csv")
    ),
    "images-for-a-table-schema": Case(
        says=("folder", ".csv"), data="pictures", spoil=lambda w: tiny.png_folder(w / "pictures") and None
    ),
    "unknown-data-set": Case(says=("no data set", "did you mean"), data="dataset:adlut"),
}

SCHEMAS = {
    "missing-schema": Case(says=("schema.toml", "schema draft"), spoil=lambda work: (work / "schema.toml").unlink()),
    "not-toml": Case(says=("schema.toml", "TOML"), spoil=wrote("schema.toml", b"label = [")),
    "schema-not-utf8": Case(says=("schema.toml", "UTF-8"), spoil=wrote("schema.toml", b"label = '\xff'")),
    "empty-schema": Case(says=("schema.toml", "columns"), spoil=wrote("schema.toml", b"")),
    "reversed-bounds": Case(says=('"age"', "below", "swap"), spoil=replaced("upper = 100\n", "upper = -100\n")),
    "equal-bounds": Case(says=('"age"', "below"), spoil=replaced("upper = 100\n", "upper = 0\n")),
    "infinite-bounds": Case(says=('"age"', "finite"), spoil=replaced("upper = 100\n", "upper = inf\n")),
    "nan-bounds": Case(says=('"age"', "finite"), spoil=replaced("lower = 0\n", "lower = nan\n")),
    "reversed-dates": Case(says=('"joined"', "before"), spoil=replaced("2020-12-31", "2000-12-31")),
    "duplicate-categories": Case(
        says=('"town"', '"north"', "twice"), spoil=replaced('["north", "south"]', '["north", "south", "north"]')
    ),
    "no-categories": Case(says=('"town"', "at least one"), spoil=replaced('["north", "south"]', "[]")),
    "mixed-categories": Case(says=('"town"', "all texts"), spoil=replaced('["north", "south"]', '["north", 1]')),
    "one-class": Case(says=('"buys"', "one class", "two"), spoil=replaced('["no", "yes"]', '["no"]')),
    "one-image-class": Case(
        says=("one class", "two"),
        data="pictures",
        spoil=wrote("schema.toml", tiny.PICTURES.replace('"dark", ', "").encode()),
    ),
    "numeric-label": Case(says=('"age"', "categorical or boolean"), more=("--label", "age")),
    "unknown-label": Case(says=('"bys"', 'did you mean "buys"'), more=("--label", "bys")),
    "label-for-images": Case(
        says=("image.classes",),
        data="pictures",
        spoil=wrote("schema.toml", tiny.PICTURES.encode()),
        more=("--label", "buys"),
    ),
    "unknown-type": Case(
        says=('"member"', 'did you mean "boolean"'), spoil=replaced('type = "boolean"', 'type = "bolean"')
    ),
    "unknown-key": Case(says=('"age"', 'did you mean "upper"'), spoil=replaced("upper = 100", "uper = 100")),
    "missing-bound": Case(says=('"age"', "upper is missing"), spoil=replaced("upper = 100\n", "")),
    "a-blank-left": Case(says=('"age"', "FILL IN"), spoil=replaced("upper = 100", 'upper = "FILL IN"')),
}

PROMISES = {
    "epsilon-zero": Case(says=("epsilon", "positive"), epsilon="0"),
    "epsilon-negative": Case(says=("epsilon", "positive"), epsilon="-1"),
    "epsilon-nan": Case(says=("epsilon", "positive"), epsilon="nan"),
    "epsilon-infinite": Case(says=("epsilon", "finite"), epsilon="inf"),
    "epsilon-no-number": Case(says=("--epsilon",), epsilon="one"),
    "delta-zero": Case(says=("delta", "between 0 and 1"), delta="0"),
    "delta-one": Case(says=("delta", "between 0 and 1"), delta="1"),
    "delta-negative": Case(says=("delta", "between 0 and 1"), delta="-0.1"),
    "delta-nan": Case(says=("delta", "between 0 and 1"), delta="nan"),
    "delta-above-one-over-rows": Case(
        says=("delta", "below 1 / rows", "try"), delta="0.01", spoil=replaced("unit =", "rows = 120\nunit =")
    ),
    "delta-equal-to-one-over-rows": Case(
        says=("delta", "below 1 / rows"), delta="0.01", spoil=replaced("unit =", "rows = 100\nunit =")
    ),
    "unknown-adjacency": Case(says=('did you mean "add-remove"',), more=("--adjacency", "add_remove")),
    "unknown-method": Case(says=('"dp-merv"', 'did you mean "dp-merf"'), more=("--method", "dp-merv")),
    "unknown-setting": Case(says=('"pears"', 'did you mean "pairs"'), more=("--set", "pears=3")),
    "unknown-nested-setting": Case(
        says=("training.stepps", 'did you mean "steps"'), more=("--set", "training.stepps=3")
    ),
    "unknown-group": Case(says=('"trainin.steps"',), more=("--set", "trainin.steps=3")),
    "no-assignment": Case(says=("name=value", '"pairs"'), more=("--set", "pairs")),
    "not-a-number": Case(says=("pairs", '"many"'), more=("--set", "pairs=many")),
    "no-features": Case(says=("pairs", "positive"), more=("--set", "pairs=0")),
    "no-steps": Case(says=("steps >= 1",), more=("--set", "training.steps=0")),
    "no-width": Case(says=("generator.hidden",), more=("--set", "generator.hidden=0")),
    "value-for-a-group": Case(says=("training", "group"), more=("--set", "training=3")),
    "unknown-device": Case(says=('"quantum"', "use cpu or auto"), more=("--device", "quantum")),
    "absent-device": Case(says=('"cuda:99"', "use cpu or auto"), more=("--device", "cuda:99")),
    "device-without-numbers": Case(says=('"meta"', "use cpu or auto"), more=("--device", "meta")),
    "seed-too-large": Case(says=("--seed",), more=("--seed", str(2**70))),
    "seed-negative": Case(says=("--seed",), more=("--seed", "-1")),
    "unknown-flag": Case(says=("--epsilom", "--epsilon"), more=("--epsilom", "1")),
}


@pytest.mark.parametrize(
    "case", [*FILES.values(), *SCHEMAS.values(), *PROMISES.values()], ids=[*FILES, *SCHEMAS, *PROMISES]
)
def test_fit_refuses_with_one_line_and_spends_nothing(case: Case, cli: Cli, table: Path, work: Path) -> None:
    case.spoil(work)
    before = sorted(path.name for path in work.iterdir())
    words = ("--schema", "schema.toml", "--epsilon", case.epsilon, "--delta", case.delta, "--out", "run")
    finished = cli("fit", case.data, *words, *QUICK, *case.more)
    refused(finished, *case.says)
    assert sorted(path.name for path in work.iterdir()) == before, "nothing is left behind, not even a ledger"


@pytest.mark.parametrize("name", ["ragged-csv", "truncated-parquet", "reversed-bounds", "epsilon-nan"])
def test_release_refuses_like_fit(name: str, cli: Cli, table: Path, work: Path) -> None:
    case = {**FILES, **SCHEMAS, **PROMISES}[name]
    case.spoil(work)
    words = ("--schema", "schema.toml", "--epsilon", case.epsilon, "--out", "run")
    refused(cli("release", case.data, *words, *QUICK), *case.says)
    assert not (work / "run").exists()
    assert not (work / "people.ledger").exists()


@pytest.mark.parametrize(
    "name", ["epsilon-zero", "delta-one", "unknown-method", "unknown-setting", "unknown-adjacency"]
)
def test_plan_refuses_like_fit(name: str, cli: Cli, table: Path) -> None:
    case = PROMISES[name]
    words = ("--schema", "schema.toml", "--epsilon", case.epsilon, "--delta", case.delta)
    refused(cli("plan", *words, *QUICK, *case.more), *case.says)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--preset", "adult"), ('"adult" of which method', "--method", "dp-hp", "dp-ntk", "ndpdc")),
        (("--preset", "adlut"), ('"adlut"', "--method")),
        (("--set", "fitting.stepps=3"), ('"fitting.stepps"', 'did you mean "steps"', "the method is pairs by default")),
        (("--set", "length_scales=1"), ('"length_scales"', "the method is pairs by default")),
    ],
    ids=["preset", "unknown-preset", "unknown-setting", "setting-of-another-method"],
)
def test_who_names_no_method_is_told_which_it_is_or_asked(
    more: tuple[str, str], says: tuple[str, ...], cli: Cli, table: Path, work: Path
) -> None:
    before = sorted(path.name for path in work.iterdir())
    words = ("--schema", "schema.toml", "--epsilon", "1")
    refused(cli("plan", *words, *more), *says)
    refused(cli("fit", "people.csv", *words, "--out", "run", *more), *says)
    assert sorted(path.name for path in work.iterdir()) == before


def test_prepare_names_the_default_that_needs_no_preparing(cli: Cli, table: Path, work: Path) -> None:
    words = ("--schema", "schema.toml", "--epsilon", "1", "--out", "run")
    refused(cli("prepare", "people.csv", *words), "pairs needs the records once only")
    assert not (work / "run").exists()


@pytest.mark.parametrize("name", [name for name in FILES if name != "unclosed-quote"])
def test_a_bad_file_is_refused_by_schema_check_too(name: str, cli: Cli, table: Path, work: Path) -> None:
    case = FILES[name]
    case.spoil(work)
    refused(cli("schema", "check", "schema.toml", case.data))


@pytest.mark.parametrize("name", ["missing-file", "empty-file", "blank-header", "truncated-parquet", "truncated-npz"])
def test_a_bad_file_gives_no_draft(name: str, cli: Cli, table: Path, work: Path) -> None:
    case = FILES[name]
    case.spoil(work)
    finished = cli("schema", "draft", case.data, "--out", "draft.toml")
    refused(finished, case.data)
    assert not (work / "draft.toml").exists()


def test_no_schema_at_all_says_how_to_get_one(cli: Cli, table: Path) -> None:
    refused(cli("fit", "people.csv", "--epsilon", "1", "--out", "run"), "--schema", "schema draft")
    refused(cli("plan", "--epsilon", "1"), "--schema")


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


# -- outputs ---------------------------------------------------------------------------------------------------------

FIT = ("fit", "people.csv", "--schema", "schema.toml", "--epsilon", "1", *QUICK, "--device", "cpu", "--out")


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


# -- ledgers ---------------------------------------------------------------------------------------------------------


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


# -- runs ------------------------------------------------------------------------------------------------------------


def test_an_unknown_class_is_refused_with_a_suggestion(cli: Cli, trained: Path, work: Path) -> None:
    refused(cli("sample", "run", "--class", "yess", "--out", "s.csv"), '"yess"', 'did you mean "yes"')
    refused(cli("sample", "run", "-n", "-1", "--out", "s.csv"), "negative")
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


def test_a_true_process_refuses_in_the_same_way(work: Path, table: Path) -> None:
    """Once for real: no traceback from the interpreter, and the exit code of a process."""
    words = ["fit", "people.csv", "--schema", "schema.toml", "--epsilon", "-1", "--out", "run"]
    finished = subprocess.run(
        [sys.executable, "-m", "simulacra", *words], capture_output=True, text=True, cwd=work, check=False
    )
    refused(tiny.Finished(finished.returncode, finished.stdout, finished.stderr), "epsilon")
    assert not (work / "run").exists()


def test_no_callback_of_ours_lives_in_threads_of_arrow(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dropping it during shutdown aborts the process: exit code 134 in place of 2, one time in three."""
    from pyarrow import csv

    from simulacra.data.tables import TableSource

    seen = []
    genuine = csv.ParseOptions

    def record(**options: object) -> csv.ParseOptions:
        seen.append(options.get("invalid_row_handler"))
        return genuine(**options)

    monkeypatch.setattr(csv, "ParseOptions", record)
    TableSource(table, tiny.schema(tiny.PEOPLE)).check()
    assert seen == [None]


def test_data_in_memory_is_refused_without_a_ledger(work: Path) -> None:
    import simulacra

    words = {"schema": tiny.schema(tiny.PEOPLE), "epsilon": 1.0, "delta": 1e-5, "adjacency": "add-remove"}
    with pytest.raises(simulacra.SimulacraError, match="ledger="):
        simulacra.fit(tiny.people(), out="run", **words)
    with pytest.raises(simulacra.SimulacraError, match="seed"):
        simulacra.fit(tiny.people(), out="run", ledger="a.ledger", seed=2**70, **words)
    with pytest.raises(simulacra.SimulacraError, match="DataFrame"):
        simulacra.fit([1, 2], out="run", ledger="a.ledger", **words)
    frame = pd.concat([tiny.people(), tiny.people()[["age"]]], axis=1)
    with pytest.raises(simulacra.SimulacraError, match="repeats a column name"):
        simulacra.fit(frame, out="run", ledger="a.ledger", **words)
    assert list(work.iterdir()) == []

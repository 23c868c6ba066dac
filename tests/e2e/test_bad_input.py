"""Bad files, schemas, promises and settings end at once: exit code 2, one line with the fix; nothing spent or left."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import tiny
from refusals import refused
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

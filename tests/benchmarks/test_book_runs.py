"""A row runs end to end, goes on where it stopped, and gives the same scores from a bundle elsewhere."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import click
import pandas as pd
import pytest
import tiny
import tiny_book
import torch

from benchmarks import book, outcomes, scoring, stages
from benchmarks import side_by_side as processes
from benchmarks.material import Real
from benchmarks.rows import Row
from benchmarks.stages import Workplace
from simulacra import datasets
from simulacra.evaluate import Scores
from simulacra.privacy import vault
from simulacra.synthesis.run import Run

ROOT = Path(__file__).parents[2]
DIGITS = "dp-merf/digits/eps5/seed0"
Call = Callable[..., tiny.Finished]


@pytest.fixture
def small(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The small book, and no data or weights but the embedded ones."""
    monkeypatch.setattr(scoring, "SCORINGS", dict(scoring.SCORINGS))
    monkeypatch.setattr(book, "SCORINGS", scoring.SCORINGS)
    monkeypatch.delenv("SIMULACRA_DATA", raising=False)
    monkeypatch.setenv("SIMULACRA_CACHE", str(work / "no-cache"))
    tiny_book.install(monkeypatch.setattr)


@pytest.fixture
def call(small: None, capsys: pytest.CaptureFixture[str]) -> Call:
    """The command, in this process, with its folders in the working folder."""

    def run(command: str, *words: Any) -> tiny.Finished:
        places = ["--results", "book"] + (["--work", "w"] if command in ("list", "run", "bundle") else [])
        device = ["--device", "cpu"] if command == "run" else []
        capsys.readouterr()
        try:
            book.main([command, *places, *device, *map(str, words)])
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        streams = capsys.readouterr()
        return tiny.Finished(code, streams.out, streams.err)

    return run


def result(name: str, folder: str = "book") -> dict[str, Any]:
    return json.loads(Path(folder, f"{name}.json").read_text())


def scores(name: str, folder: str = "book") -> dict[str, dict[str, float]]:
    return {scoring_name: one["scores"] for scoring_name, one in result(name, folder)["scorings"].items()}


def test_a_row_of_images_runs_end_to_end_and_then_has_nothing_left_to_do(call: Call) -> None:
    assert "not begun; missing lr-mlp-6000, fid-dp-gan" in call("list", DIGITS).out
    finished = call("run", DIGITS)
    assert finished.code == 0, finished.out
    for stage in ("release", "train", "sample", "lr-mlp-6000", "fid-dp-gan"):
        assert re.search(rf"{DIGITS}: {stage} took [\d.]+ s", finished.out)
    assert "released; trained; sampled; scored lr-mlp-6000, fid-dp-gan; complete" in call("list", DIGITS).out
    assert "nothing left to do" in call("run", DIGITS).out
    found = result(DIGITS)
    assert found["row"]["settings"]["feature_seed"] == 0
    one = found["scorings"]["lr-mlp-6000"]
    assert {"scores", "details", "notes", "seconds", "hardware", "versions", "commit", "date", "seed"} <= set(one)
    assert one["details"] == {"rows": 300}
    draw = found["draws"][one["draw"]]
    assert draw["settings"]["training"]["steps"] == draw["training"]["steps"] == 6
    assert draw["release"]["budget"]["adjacency"] == "replace-one"
    assert 4.9 < draw["release"]["budget"]["epsilon"] <= 5
    assert draw["samples"]["sha256"].startswith(one["draw"])
    assert draw["training"]["hardware"]["device"] == "cpu"
    assert all(len(value) == 64 for value in draw["release"]["files"].values())


def test_tables_and_yardsticks_and_rows_without_privacy_run_too(call: Call) -> None:
    finished = call("run", "real/*", "*/adult/*", "*+free")
    assert finished.code == 0, finished.out
    assert result("real/digits/seed0")["draws"].popitem()[1].keys() == {"samples"}
    assert scores("real/digits/seed0")["lr-mlp-6000"]["lr_accuracy"] > 0.7
    assert 0 <= scores("dp-merf/adult/eps1/seed0")["tables"]["auroc_mean"] <= 1
    assert (
        result("dp-merf/digits/not-private/seed0+free")["draws"].popitem()[1]["release"]["budget"]["private"] is False
    )


def test_a_method_that_draws_while_it_learns_is_paid_for_first_and_then_learns(call: Call) -> None:
    name = "dp-gan/digits/eps5/seed0+gan"
    finished = call("run", name)
    assert finished.code == 0, finished.out
    draw = result(name)["draws"].popitem()[1]
    assert draw["training"]["steps"] == 4
    assert 4.9 < draw["release"]["budget"]["epsilon"] <= 5
    assert "nothing left to do" in call("run", name).out


def test_rows_of_a_condensed_table_come_as_often_as_their_class(work: Path) -> None:
    people = tiny.schema(tiny.PEOPLE)
    frame = pd.DataFrame({"age": [1.0, 2.0, 3.0, 4.0], "buys": ["no", "no", "yes", "yes"]})
    sampler = SimpleNamespace(class_shares=torch.tensor([0.76, 0.24]))
    found = stages._by_shares(frame, cast("Run", SimpleNamespace(schema=people, sampler=sampler)))
    assert found["age"].tolist() == [1, 1, 1, 2, 2, 2, 3, 4]
    assert found["buys"].tolist() == ["no"] * 6 + ["yes"] * 2


def test_a_yardstick_may_have_fewer_records_and_always_the_same(work: Path) -> None:
    real = Real(name="adult", schema=datasets.schema("adult"))
    row = Row(method="real", data="adult", epsilon=None, seed=0, settings={"rows": 40}, variant="40-rows")
    few = Workplace(folder=work).samples(row, real)
    assert len(few) == len(few.index.unique()) == 40
    assert few.equals(Workplace(folder=work).samples(row, real))
    assert Workplace(folder=work).samples(replace(row, settings={}), real) is real.train


def test_a_row_of_a_condensed_set_is_scored_on_the_set_itself(call: Call) -> None:
    name = f"{DIGITS}+set"
    finished = call("run", name)
    assert finished.code == 0, finished.out
    found = result(name)
    assert set(found["scorings"]) == {"convnet-condensed"}
    assert found["scorings"]["convnet-condensed"]["details"] == {"rows": 30}
    (draw,) = found["draws"].values()
    assert draw["settings"]["generator"]["kind"] == "condensed"
    assert draw["settings"]["generator"]["init"] == "samples"
    assert draw["samples"]["rows"] == 30
    assert "complete" in call("list", name).out


def test_results_name_no_machine_and_no_folder(call: Call, work: Path) -> None:
    import socket

    call("run", DIGITS)
    text = Path("book", f"{DIGITS}.json").read_text()
    assert str(work) not in text
    assert str(ROOT) not in text
    host = socket.gethostname()
    assert len(host) < 4 or host not in text
    assert json.dumps(json.loads(text), indent=2, sort_keys=True) + "\n" == text


def test_a_row_that_stopped_after_its_release_is_not_released_again(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("simulacra.synthesis.training.train", lambda *_, **__: 1 / 0)
        finished = call("run", DIGITS)
    assert finished.code == 1
    assert f"failed: {DIGITS}: train: ZeroDivisionError" in finished.out
    ledger = Path("w/ledgers/digits-replace-one.ledger")
    spent = tiny.reservations(ledger)
    assert spent > 0
    assert "released; missing" in call("list", DIGITS).out
    finished = call("run", DIGITS)
    assert finished.code == 0
    assert "release begins" not in finished.out
    assert tiny.reservations(ledger) == spent


def test_a_scoring_that_failed_is_repeated_and_the_others_are_not(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(material: Any) -> Scores:
        raise RuntimeError("no memory left")

    good = scoring.SCORINGS["lr-mlp-6000"]
    monkeypatch.setitem(
        scoring.SCORINGS, "lr-mlp-6000", scoring.Scoring(name=good.name, words="", fits=good.fits, compute=broken)
    )
    finished = call("run", "dp-merf/digits/eps5/*")
    assert finished.code == 1
    assert finished.out.count("RuntimeError: no memory left") == 4  # each when it happens, and again at the end
    assert "seed1: fid-dp-gan took" in finished.out  # neither the next scoring nor the next row was lost
    before = result(DIGITS)["scorings"]["fid-dp-gan"]
    monkeypatch.setitem(scoring.SCORINGS, "lr-mlp-6000", good)
    finished = call("run", DIGITS)
    assert finished.code == 0
    assert "fid-dp-gan begins" not in finished.out
    assert "train begins" not in finished.out
    after = result(DIGITS)["scorings"]
    assert after["fid-dp-gan"] == before
    assert set(after) == {"fid-dp-gan", "lr-mlp-6000"}


def test_scorings_of_another_draw_are_kept_and_told_apart(call: Call) -> None:
    call("run", DIGITS, "--score", "fid-dp-gan")
    shutil.rmtree("w")
    finished = call("run", DIGITS)
    assert "its scorings are of several draws" in finished.out
    found = result(DIGITS)
    assert len(found["draws"]) == 2
    finished = call("run", DIGITS, "--again")
    assert "train begins" not in finished.out
    assert len(result(DIGITS)["draws"]) == 1


def test_after_the_time_limit_nothing_new_begins_and_what_is_left_is_said(call: Call) -> None:
    finished = call("run", "dp-merf/digits/eps5/*", "--time-limit", "0")
    assert finished.code == 0
    assert "begins" not in finished.out
    assert f"left for the next call: {DIGITS}: release, train, sample, lr-mlp-6000, fid-dp-gan" in finished.out


def test_a_release_with_other_settings_is_not_taken_for_the_rows(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    call("run", DIGITS, "--score", "fid-dp-gan")
    families = [tiny_book.Family(method="dp-merf", data=("digits",), epsilons=(5,), seeds=(0,), settings={"pairs": 21})]
    monkeypatch.setattr("benchmarks.rows.FAMILIES", families)
    finished = call("run", DIGITS)
    assert finished.code == 1
    assert "its release was made with other settings; move its folder away" in finished.out


def test_settings_that_decide_nothing_of_a_release_may_change_after_it(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    call("bundle", DIGITS, "--out", "parts")
    longer = {**tiny_book.QUICK, "training.steps": 9}
    [family] = [one for one in tiny_book.FAMILIES if one.method == "dp-merf" and one.seeds == (0, 1)]
    monkeypatch.setattr("benchmarks.rows.FAMILIES", [replace(family, settings=longer)])
    finished = call("run", DIGITS, "--score", "fid-dp-gan")
    assert finished.code == 0
    assert "release begins" not in finished.out
    [draw] = result(DIGITS)["draws"].values()
    assert draw["training"]["steps"] == 9


def test_rows_that_ask_the_same_are_released_in_one_pass(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    family = tiny_book.Family(
        method="dp-merf", data=("digits",), epsilons=(1, 5, None), seeds=(0, 1), settings=tiny_book.QUICK
    )
    monkeypatch.setattr("benchmarks.rows.FAMILIES", [family])
    passes, genuine = [], vault.sum_over

    def sum_over(*words: Any) -> Any:
        passes.append(1)
        return genuine(*words)

    monkeypatch.setattr(vault, "sum_over", sum_over)
    assert call("bundle", "*", "--out", "parts").code == 0
    assert len(passes) == 1
    runs = [Run.load(f"w/rows/{row.name}/run") for row in family.rows()]
    assert [run.certificate["epsilon"] is None for run in runs] == [False] * 4 + [True] * 2
    assert all(run.verify().ok for run in runs[:4])


def test_one_row_runs_elsewhere_from_a_bundle_with_the_same_scores(call: Call, work: Path) -> None:
    """Same release, same seed, same processor: the same samples. Libraries for exact noise are not there."""
    assert call("bundle", DIGITS, "real/digits/*", "--out", "parts", "--limit-mib", "0.02").code == 0
    parts = sorted(Path("parts").glob("part-*"))
    assert len(parts) > 2
    for part in parts:
        assert sum(file.stat().st_size for file in part.iterdir()) <= 0.02 * 2**20
    absent = ["dp_accounting", "filelock", "opendp", "pydantic", "tomli_w", "xgboost"]
    program = (
        f"import sys; sys.modules.update(dict.fromkeys({absent!r}))\n"
        "import tiny_book; tiny_book.install()\n"
        "from benchmarks.book import main; main(sys.argv[1:])"
    )
    words = ["run", DIGITS, "real/digits/*", "--work", "there", "--results", "came", "--pack", "out/pack.json"]
    bundled = [word for part in reversed(parts) for word in ("--bundle", str(part))]
    finished = subprocess.run(
        [sys.executable, "-c", program, *words, "--device", "cpu", *bundled],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src"), str(Path(__file__).parent)])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "release begins" not in finished.stdout
    assert call("run", DIGITS, "real/digits/*").code == 0
    assert scores(DIGITS, "came") == scores(DIGITS)
    assert call("collect", "out/pack.json", "--results", "home").out.count("is new") == 4
    assert scores(DIGITS, "home") == scores(DIGITS)
    assert scores("real/digits/seed0", "home") == scores("real/digits/seed0")
    assert call("collect", "came", "--results", "home").out == "nothing new\n"


def test_a_bundle_that_lacks_a_part_or_was_damaged_is_one_clear_line(call: Call) -> None:
    call("bundle", DIGITS, "--out", "parts", "--limit-mib", "0.02")
    assert "not empty" in call("bundle", DIGITS, "--out", "parts").err
    shutil.copytree("parts", "damaged")
    piece = sorted(Path("damaged/part-0").glob("piece-*"))[0]
    piece.write_bytes(b"x" + piece.read_bytes()[1:])
    finished = call("run", DIGITS, "--bundle", "damaged", "--work", "there")
    assert (finished.code, finished.err) == (2, "book: part-0 of the bundle is damaged; carry it again\n")
    shutil.rmtree("parts/part-1")
    finished = call("run", DIGITS, "--bundle", "parts", "--work", "there")
    message = "book: part-1 of the bundle is missing or incomplete; give that folder too\n"
    assert (finished.code, finished.err) == (2, message)
    assert "neither a bundle" in call("run", DIGITS, "--bundle", "nowhere").err


def test_a_row_that_is_not_in_the_bundle_is_not_released_elsewhere(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    call("bundle", "real/digits/*", "--out", "parts")
    finished = call("run", DIGITS, "--bundle", "parts", "--work", "there")
    assert finished.code == 1
    assert "the bundle holds no release of it" in finished.out


def test_a_bundle_carries_a_finished_training_and_known_results(call: Call) -> None:
    call("run", DIGITS, "--score", "fid-dp-gan")
    call("bundle", DIGITS, "--out", "parts")
    finished = call("run", DIGITS, "--bundle", "parts", "--work", "there", "--results", "came")
    assert finished.code == 0
    assert "train begins" not in finished.out
    assert "fid-dp-gan begins" not in finished.out
    assert set(scores(DIGITS, "came")) == {"fid-dp-gan", "lr-mlp-6000"}


def test_weights_travel_when_a_scoring_of_these_rows_needs_them(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    from simulacra.datasets.places import cache_folder

    kept = cache_folder() / "weights" / "inception.safetensors"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(b"weights")
    monkeypatch.setattr("simulacra.networks.weights.get", lambda name: kept)
    plain = scoring.SCORINGS["fid-dp-gan"]
    needy = scoring.Scoring(name=plain.name, words="", fits=plain.fits, compute=plain.compute, weights=("inception",))
    monkeypatch.setitem(scoring.SCORINGS, "fid-dp-gan", needy)
    call("bundle", "real/digits/*", "--out", "with")
    call("bundle", "real/adult/*", "--out", "without")
    assert "cache/weights/inception.safetensors" in json.loads(Path("with/manifest.json").read_text())["files"]
    assert json.loads(Path("without/manifest.json").read_text())["files"] == {}


def test_data_files_travel_from_the_data_folder(small: None, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks.bundle import data_files

    for name in ("fashion_mnist.npz", "mnist.npz", "cifar10/train_00.webp", "tables/census_test.parquet"):
        path = work / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"1")
    monkeypatch.setenv("SIMULACRA_DATA", str(work / "data"))
    assert list(data_files("fashion-mnist")) == ["data/fashion_mnist.npz"]
    assert list(data_files("mnist")) == ["data/mnist.npz"]
    assert list(data_files("cifar10")) == ["data/cifar10/train_00.webp"]
    assert list(data_files("census")) == ["data/tables/census_test.parquet"]
    assert data_files("digits") == {}


def test_photographs_travel_with_the_list_of_their_labels(
    small: None, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from benchmarks.bundle import data_files

    for name in ("img_align_celeba/000001.jpg", "list_attr_celeba.txt"):
        path = work / "data" / "celeba" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"1")
    monkeypatch.setenv("SIMULACRA_DATA", str(work / "data"))
    photograph, attributes = "data/celeba/img_align_celeba/000001.jpg", "data/celeba/list_attr_celeba.txt"
    assert list(data_files("celeba")) == [photograph]
    assert list(data_files("celeba-gender")) == [photograph, attributes]


def test_collecting_never_loses_a_scoring_and_the_newer_wins(call: Call) -> None:
    call("run", DIGITS)
    shutil.copytree("book", "back")
    changed = result(DIGITS)
    newer = {**changed["scorings"].pop("fid-dp-gan"), "date": "2999-01-01T00:00:00Z", "scores": {"fid": 5.0}}
    changed["scorings"] = {"fid-dp-gan": newer, "cnn": {**newer, "scores": {"cnn_accuracy": 0.5}}}
    outcomes.save(Path("back"), changed)
    out = call("collect", "back").out
    assert "cnn is new" in out
    assert "fid-dp-gan of 2999-01-01T00:00:00Z replaces" in out
    assert set(scores(DIGITS)) == {"fid-dp-gan", "cnn", "lr-mlp-6000"}
    assert scores(DIGITS)["fid-dp-gan"] == {"fid": 5.0}
    older = result(DIGITS)
    older["scorings"]["fid-dp-gan"] |= {"date": "2001-01-01T00:00:00Z", "scores": {"fid": 9.0}}
    outcomes.save(Path("back"), older)
    assert call("collect", "back").out == "nothing new\n"
    older["row"]["delta"] = 0.1
    with pytest.raises(click.ClickException, match="other settings"):
        outcomes.save(Path("back"), older)
    Path("back", f"{DIGITS}.json").write_text(outcomes.dump(older))
    assert "other settings" in call("collect", "back").err
    Path("back/junk.json").write_text("{}")
    assert "is not a result of the book" in call("collect", "back/junk.json").err
    assert "is not there" in call("collect", "gone").err


@pytest.fixture
def side_by_side(call: Call, monkeypatch: pytest.MonkeyPatch) -> Iterator[Call]:
    """The command, whose processes have the small book too, and as many threads as this one, so that sums agree."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    program = (
        "import sys, tiny_book; tiny_book.install(); from benchmarks import book, scoring; "
        "book.SCORINGS = scoring.SCORINGS; book.main(sys.argv[1:])"
    )
    monkeypatch.setattr(processes, "PROGRAM", [sys.executable, "-c", program])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(ROOT / "src"), str(Path(__file__).parent)]))
    yield call
    torch.set_num_threads(threads)


def test_rows_side_by_side_score_as_one_by_one(side_by_side: Call) -> None:
    rows = ["dp-merf/digits/eps5/seed[01]", "real/digits/*"]
    finished = side_by_side("run", *rows, "--jobs", 3, "--pack", "out/pack.json")
    assert finished.code == 0, finished.out
    together = {name: scores(name) for name in (DIGITS, "dp-merf/digits/eps5/seed1", "real/digits/seed0")}
    assert side_by_side("collect", "out/pack.json", "--results", "home").out.count("is new") == 6
    shutil.rmtree("book")
    assert side_by_side("run", *rows).code == 0
    assert {name: scores(name) for name in together} == together


def test_side_by_side_a_failure_is_told_and_ends_no_other_row(side_by_side: Call) -> None:
    assert side_by_side("run", DIGITS).code == 0
    shutil.rmtree("book")
    certificate = Path("w", "rows", DIGITS, "run", "certificate.json")
    certificate.write_text("{")
    finished = side_by_side("run", "dp-merf/digits/eps5/seed[01]", "--jobs", 2, "--pack", "out/pack.json")
    assert finished.code == 1
    assert re.search(rf"^failed: {DIGITS}: ", finished.out, re.MULTILINE)
    assert scores("dp-merf/digits/eps5/seed1")
    packed = json.loads(Path("out/pack.json").read_text())["results"]
    assert [one["row"]["name"] for one in packed] == ["dp-merf/digits/eps5/seed1"]


def test_side_by_side_a_process_that_dies_without_a_word_has_failed(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "PROGRAM", [sys.executable, "-c", "import nothing_of_this_name"])
    finished = call("run", "dp-merf/digits/eps5/seed[01]", "--jobs", 2)
    assert finished.code == 1
    assert finished.out.count("ended with exit code 1: ModuleNotFoundError") == 2


@pytest.mark.slow
def test_side_by_side_what_was_scored_before_is_not_packed(side_by_side: Call) -> None:
    assert side_by_side("run", DIGITS).code == 0
    side_by_side("run", "dp-merf/digits/eps5/seed[01]", "--jobs", 2, "--pack", "out/pack.json")
    packed = json.loads(Path("out/pack.json").read_text())["results"]
    assert [one["row"]["name"] for one in packed] == ["dp-merf/digits/eps5/seed1"]


def test_side_by_side_no_row_begins_after_the_time_limit(side_by_side: Call) -> None:
    finished = side_by_side("run", "dp-merf/digits/eps5/seed[01]", "--jobs", 2, "--time-limit", 0)
    assert finished.out.count("left for the next call: dp-merf/digits/eps5/seed") == 2
    assert not Path("book").exists()


def test_rows_of_a_bundle_run_side_by_side_and_release_nothing(
    side_by_side: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.hardware.commit", lambda: "where it was bundled")
    assert side_by_side("bundle", DIGITS, "--out", "parts").code == 0
    words = ["run", DIGITS, "dp-merf/digits/eps5/seed1", "--jobs", 2, "--bundle", "parts", "--work", "there"]
    finished = side_by_side(*words, "--results", "came")
    assert finished.code == 1
    assert "failed: dp-merf/digits/eps5/seed1: release: the bundle holds no release of it" in finished.out
    assert {one["commit"] for one in result(DIGITS, "came")["scorings"].values()} == {"where it was bundled"}
    assert side_by_side("run", DIGITS).code == 0
    assert scores(DIGITS, "came") == scores(DIGITS)

"""A run whose sampler is a condensed set: what it gives without being told a number, and in which forms."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import tiny
import torch
from PIL import Image

import simulacra
from simulacra.generators import GeneratorOptions, build
from simulacra.generators.sampler import Sampler
from simulacra.synthesis.run import Run


def condensed(run: Run, per_class: int = 3) -> Run:
    """The run with a set of noise in place of its sampler."""
    options = GeneratorOptions(kind="condensed", per_class=per_class)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        held = build(run.schema, options)
    shares = torch.full((run.schema.classes,), 1 / run.schema.classes)
    Sampler(schema=run.schema, options=options, generator=held, class_shares=shares).save(run.folder)
    return Run.load(run.folder)


@pytest.fixture
def rows(trained: Path) -> Run:
    return condensed(Run.load(trained))


@pytest.fixture
def images(work: Path) -> Run:
    return condensed(
        simulacra.release(
            tiny.pictures(),
            schema=tiny.schema(tiny.PICTURES),
            epsilon=5.0,
            delta=1e-5,
            adjacency="add-remove",
            out="pictures-run",
            ledger="pictures.ledger",
            method=tiny.METHOD,
            settings=tiny.SETTINGS,
        )
    )


def test_without_a_number_the_set_itself_comes_in_its_order(rows: Run, images: Run) -> None:
    frame = rows.sample()
    assert list(frame["buys"]) == ["no"] * 3 + ["yes"] * 3
    pd.testing.assert_frame_equal(frame, rows.sample())
    pixels, labels = images.sample()
    assert pixels.shape == (6, 8, 8)
    assert labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert np.array_equal(pixels, images.sample(6, seed=5)[0])


def test_a_class_without_a_number_is_all_of_it(rows: Run) -> None:
    assert list(rows.sample(labels=["yes"])["buys"]) == ["yes"] * 3
    assert rows.rows(labels=["yes", "no", "yes"]) == 6


def test_more_than_it_holds_comes_with_repeats_and_fewer_without(rows: Run) -> None:
    assert (rows.repeats(6), rows.repeats(7), rows.repeats(4, ["no"])) == (False, True, True)
    assert len(rows.sample(4).drop_duplicates()) == 4
    assert len(rows.sample(100).drop_duplicates()) == 6


def test_it_is_a_torch_data_set(rows: Run, images: Run) -> None:
    pixels, labels = images.as_dataset().tensors
    assert pixels.shape == (6, 1, 8, 8)
    assert pixels.abs().max() <= 1
    assert labels.tolist() == [0, 0, 0, 1, 1, 1]
    inputs, classes = rows.as_dataset()[4]
    assert inputs.shape == (rows.schema.inputs,)
    assert classes == 1
    batches = list(torch.utils.data.DataLoader(images.as_dataset(), batch_size=4))
    assert [len(numbers) for _, numbers in batches] == [4, 2]
    assert len(images.as_dataset(0)) == 0


def test_any_run_is_a_torch_data_set(trained: Path) -> None:
    assert len(Run.load(trained).as_dataset(7, seed=0)) == 7


def test_the_command_line_writes_the_whole_set(rows: Run, images: Run, cli: tiny.Cli) -> None:
    assert cli("sample", "run", "--out", "rows.csv", "--json").json == {"rows": 6, "repeated": False, "out": "rows.csv"}
    pd.testing.assert_frame_equal(pd.read_csv("rows.csv")[["age", "buys"]], rows.sample()[["age", "buys"]])
    cli("sample", "pictures-run", "--out", "set.npz")
    with np.load("set.npz", allow_pickle=False) as archive:
        assert np.array_equal(archive["x"], images.sample()[0])
        assert archive["y"].tolist() == [0, 0, 0, 1, 1, 1]
    cli("sample", "pictures-run", "--out", "folder")
    files = sorted(Path("folder").rglob("*.png"))
    assert [path.parent.name for path in files] == ["dark"] * 3 + ["light"] * 3
    assert np.array_equal(np.stack([np.asarray(Image.open(path)) for path in files]), images.sample()[0])


def test_the_command_line_says_when_records_come_twice(rows: Run, cli: tiny.Cli) -> None:
    assert "with replacement" not in cli("sample", "run", "-n", "5", "--out", "five.csv").out
    finished = cli("sample", "run", "-n", "50", "--out", "fifty.csv")
    assert finished.code == 0
    assert "holds 6 records" in finished.out
    assert len(pd.read_csv("fifty.csv")) == 50
    assert cli("sample", "run", "-n", "50", "--out", "again.csv", "--json").json["repeated"] is True


def test_scores_are_of_the_whole_set_and_no_record_counts_twice(rows: Run, images: Run) -> None:
    scores = simulacra.evaluate_run(images, tiny.pictures(40, seed=9), classifiers=["lr"], rows=1000)
    assert scores.details["train_rows"] == 6
    table = simulacra.evaluate_run(rows, tiny.people(60, seed=9), classifiers=["gaussian_nb"])
    assert table.details["train_rows"] == 6


def test_a_report_shows_the_set(images: Run) -> None:
    assert simulacra.write_report(images).exists()

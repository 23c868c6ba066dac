"""Rows have names, patterns choose them, and protocols follow from what is public about the data."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest

from benchmarks import outcomes, scoring
from benchmarks.material import Material, Real, digest
from benchmarks.published import PUBLISHED, REMARKS, SOURCES
from benchmarks.rows import FAMILIES, TABLES, Family, Row, all_rows, select
from benchmarks.scoring import SCORINGS, choose, trim
from benchmarks.tables import COLUMNS
from simulacra import datasets
from simulacra.evaluate import Scores


def names(*patterns: str) -> list[str]:
    return [row.name for row in select(patterns)]


def test_a_row_is_named_after_what_it_is() -> None:
    row = Row(method="dp-merf", data="mnist", epsilon=1.0, seed=0)
    assert row.name == "dp-merf/mnist/eps1/seed0"
    assert (
        Row(method="dp-merf", data="mnist", epsilon=0.2, seed=3, variant="wide").name
        == "dp-merf/mnist/eps0.2/seed3+wide"
    )
    assert Row(method="dp-merf", data="mnist", epsilon=None, seed=0).name == "dp-merf/mnist/not-private/seed0"
    assert Row(method="real", data="mnist", epsilon=None, seed=0).name == "real/mnist/seed0"


def test_patterns_choose_rows_in_the_order_of_the_registry() -> None:
    assert names("dp-merf/*/eps1/seed0") == [
        f"dp-merf/{data}/eps1/seed0" for data in ("mnist", "fashion-mnist", *TABLES)
    ]
    assert names("real/mnist/seed0", "real/mnist/*") == [f"real/mnist/seed{seed}" for seed in range(5)]
    assert len(select(["*"])) == len(all_rows())


def test_an_unknown_pattern_names_the_closest_rows() -> None:
    with pytest.raises(click.ClickException, match="closest are dp-merf/mnist/eps1/seed0"):
        select(["dp-merf/mnsit/eps1/seed0"])
    with pytest.raises(click.ClickException, match="see them all with"):
        select(["zzz"])


def test_two_rows_of_one_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    twice = [*FAMILIES, Family(method="dp-merf", data=("mnist",), epsilons=(1,), settings={"pairs": 7})]
    monkeypatch.setattr("benchmarks.rows.FAMILIES", twice)
    with pytest.raises(click.ClickException, match="variant"):
        all_rows()


def test_every_registered_row_is_of_a_known_data_set_and_method() -> None:
    from simulacra.methods import make_method

    for row in all_rows().values():
        schema = datasets.schema(row.data)
        if not row.real and not row.rival:
            make_method(row.method, row.settings, schema)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("mnist", ["lr-mlp-60000", "lr-mlp-6000", "cnn", "fid-dp-gan", "fid-dp-mepf"]),
        ("cifar10", ["resnet9", "fid-dp-gan", "fid-dp-mepf"]),
        ("adult", ["tables", "tables-as-published"]),
    ],
)
def test_scorings_follow_from_the_schema(data: str, expected: list[str]) -> None:
    row = Row(method="dp-merf", data=data, epsilon=1.0, seed=0)
    assert [name for name, one in SCORINGS.items() if one.suits(row)] == expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("mnist", ["convnet-condensed", "networks-condensed"]),
        ("cifar10", ["convnet-condensed", "networks-condensed"]),
        ("adult", ["tables"]),
    ],
)
def test_condensed_sets_are_scored_by_protocols_of_their_own(data: str, expected: list[str]) -> None:
    row = Row(method="dp-merf", data=data, epsilon=1.0, seed=0, condensed=50)
    assert [name for name, one in SCORINGS.items() if one.suits(row)] == expected


def test_an_unknown_scoring_is_refused() -> None:
    assert [one.name for one in choose(["cnn"])] == ["cnn"]
    assert [one.name for one in choose([])] == list(SCORINGS)
    with pytest.raises(click.ClickException, match="did you mean"):
        choose(["resnet"])


@pytest.fixture
def material() -> Material:
    images = np.arange(40 * 64, dtype=np.uint8).reshape(40, 8, 8)
    return Material(
        samples=(images, np.arange(40) % 10),
        real=Real(name="digits", schema=datasets.schema("digits")),
        seed=3,
        device="cpu",
    )


def test_classifiers_are_called_as_the_library_defines_them(
    material: Material, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, Any] = {}

    def stub(*arrays: Any, **options: Any) -> Scores:
        seen.update(options, arrays=arrays)
        return Scores(scores={})

    monkeypatch.setattr("simulacra.evaluate.evaluate_images", stub)
    SCORINGS["lr-mlp-6000"].compute(material)
    assert seen["train_rows"] == 6000
    assert seen["classifiers"] == ["lr", "mlp"]
    assert (seen["pixels"], seen["seed"], seen["seeds"], seen["device"]) == ("bytes", 3, 1, "cpu")
    assert len(seen["arrays"][0]) == 40
    assert len(seen["arrays"][2]) == len(datasets.load("digits", "test").data[1])


def test_the_library_takes_these_arguments(material: Material) -> None:
    from simulacra.evaluate import evaluate_images
    from simulacra.evaluate.fidelity import compare

    names = ("pixels", "seed", "seeds", "train_rows", "classifiers", "device", "engine", "progress")
    assert set(names) <= set(inspect.signature(evaluate_images).parameters)
    assert {"device", "progress"} <= set(inspect.signature(compare).parameters)


def test_fidelity_takes_a_seeded_choice_of_samples(material: Material, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def stub(images: Any, reference: Any, **options: Any) -> Scores:
        seen.append((images, len(reference)))
        return Scores(scores={})

    monkeypatch.setattr("simulacra.evaluate.fidelity.compare", stub)
    ten = scoring.fidelity(rows=10, against="train")
    for _ in range(2):
        ten(material)
    assert len(seen[0][0]) == 10
    assert (seen[0][0] == seen[1][0]).all()
    assert seen[0][1] == len(datasets.load("digits", "train").data[1])
    SCORINGS["fid-dp-gan"].compute(material)
    assert len(seen[2][0]) == 40


def test_details_are_trimmed_to_what_is_worth_keeping() -> None:
    details = {
        "train_rows": 5,
        "classes": ["a", "b"],
        "curve": list(range(1000)),
        "columns": {"age": {"distance": 0.1}},
        "classifiers": [{"name": "lr", "accuracy": 0.5, "seconds": 1.5}],
    }
    kept = {"train_rows": 5, "classes": ["a", "b"], "classifiers": [{"name": "lr", "accuracy": 0.5}]}
    assert trim(details) == kept


def test_a_digest_sees_values_labels_and_columns(material: Material) -> None:
    images, labels = material.samples
    assert digest((images, labels)) == digest((images.copy(), labels.copy()))
    assert digest((images, labels)) != digest((images, labels + 1))
    frame = datasets.load("adult", "test").data.slice(0, 20).to_pandas()
    assert digest(frame) == digest(frame.copy())
    assert digest(frame) != digest(frame[::-1])


def test_published_figures_have_a_source_and_a_column() -> None:
    assert set(SOURCES) == set(REMARKS)
    for paper in PUBLISHED:
        assert paper.source in SOURCES
        assert set(paper.figures) <= set(COLUMNS)
        assert paper.data in datasets.names()
        for (scoring_name, score), value in paper.figures.items():
            assert SCORINGS[scoring_name].fits(datasets.schema(paper.data))
            assert 0 < value < (200 if score == "fid" else 1)


@pytest.mark.parametrize("name", all_rows())
def test_every_row_finds_its_own_results_again(name: str, tmp_path: Path) -> None:
    row = all_rows()[name]
    kept = outcomes.empty(row)
    kept["scorings"]["cnn"] = {"draw": "none", "scores": {}}
    outcomes.save(tmp_path, kept)
    assert "cnn" in outcomes.load(tmp_path, row)["scorings"]
    file = tmp_path / f"{name}.json"
    older = json.loads(file.read_text())
    older["row"].pop("labelled")  # as it was written before there was such a field
    file.write_text(json.dumps(older))
    assert ("cnn" in outcomes.load(tmp_path, row)["scorings"]) is row.labelled


def test_details_keep_what_fid_was_computed_from() -> None:
    details = {"fidelity": {"synthetic_images": 50_000, "long": list(range(99))}, "columns": {"a": {"tvd": 0.1}}}
    assert trim(details) == {"fidelity": {"synthetic_images": 50_000}}


def test_the_published_protocol_keeps_a_part_of_the_largest_class(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def watch(samples: Any, test: Any, schema: Any, *, hard: bool, **_: Any) -> Scores:
        seen.extend([samples, test])
        assert hard
        return Scores(scores={"auroc_mean": 0.5})

    monkeypatch.setattr("simulacra.evaluate.downstream.train_and_test", watch)
    real = Real(name="adult", schema=datasets.schema("adult"))
    SCORINGS["tables-as-published"].compute(Material(samples=real.test, real=real, seed=1))
    before = real.test["income"].value_counts()
    for frame in seen:
        after = frame["income"].value_counts()
        assert after.min() == before.min()
        assert 0.38 < after.max() / before.max() < 0.42


def test_every_result_is_of_a_row_as_it_is_today() -> None:
    """Else the row would count as not begun, while its figures stand on the page."""
    rows = all_rows()
    for result in outcomes.read_all(outcomes.BOOK):
        name = result["row"]["name"]
        assert name in rows
        assert outcomes.same_row(result["row"], rows[name].to_mapping()), name


def test_a_setting_that_is_newer_than_a_result_means_what_was_done_before() -> None:
    row = all_rows()["dp-gan/adult/eps1/seed0"].to_mapping()
    older = {**row, "settings": {name: value for name, value in row["settings"].items() if name != "average"}}
    assert outcomes.same_row(older, row)
    assert not outcomes.same_row(older, {**row, "settings": {**row["settings"], "average": 0.9}})

"""Scores that are paid for: what they say, what they cost, and what they refuse.

The privacy argument, piece by piece: a judge sees one record at a time (`test_one_record_moves_one_cell`), so removing
a record changes its own cell and no other; the sums are bounded maps in the shared battery of maps; they go through
the vault, so the ledger of the test records is written before noise is drawn.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import tiny
import torch
from sklearn.metrics import average_precision_score, roc_auc_score

import simulacra
from simulacra.data.reference import Reference
from simulacra.errors import CapExceeded, DataError, OutputError, SettingError
from simulacra.evaluate import evaluate_table, released
from simulacra.evaluate.judging import train_judges
from simulacra.evaluate.paid import auprc_of, auroc_of
from simulacra.evaluate.released import load_released_scores
from simulacra.features.judged import Guesses, ScoreBins
from simulacra.privacy import durable
from simulacra.privacy.budget import Adjacency, Budget
from simulacra.privacy.ledger import Ledger
from simulacra.report.comparison import compare
from simulacra.report.runs import write_report
from simulacra.schema import Categorical, Numeric, Schema

BUDGET = {"delta": 1e-5, "adjacency": "add-remove"}
ENDLESS = 1e5
"""So large an epsilon leaves next to no noise: what is left is binning."""


@pytest.fixture
def people() -> tuple[pd.DataFrame, pd.DataFrame, Schema]:
    return tiny.people(400, seed=1), tiny.people(600, seed=2), tiny.schema(tiny.PEOPLE)


def test_bins_rank_as_exact_scores_do() -> None:
    random = np.random.default_rng(0)
    truth = random.random(5000) < 0.3
    values = random.normal(truth * 1.2, 1.0)
    edges = np.quantile(values, np.linspace(0, 1, 33)[1:-1])
    bins = np.searchsorted(edges, values)
    counts = np.stack([np.bincount(bins[truth == side], minlength=32) for side in (False, True)]).astype(float)
    assert auroc_of(counts) == pytest.approx(roc_auc_score(truth, values), abs=2e-3)
    assert auprc_of(counts) == pytest.approx(average_precision_score(truth, values), abs=1e-2)


def test_bins_that_noise_has_eaten_up_are_a_guess_and_never_nan() -> None:
    for counts in (np.zeros((2, 5)), np.full((2, 5), -3.0), np.array([[0.0, 0, 0], [1, 1, 1]])):
        assert auroc_of(counts) == 0.5
        assert 0 <= auprc_of(counts) <= 1
    # Two totals below nothing have a positive product.
    assert auroc_of(np.array([[-9.0, 0, 0], [0, 0, -9.0]])) == 0.5


@pytest.mark.parametrize("name", ["logistic_regression", "linear_svc", "gaussian_nb", "decision_tree"])
def test_one_record_moves_one_cell(name: str, people: tuple[pd.DataFrame, pd.DataFrame, Schema]) -> None:
    """Exactly, whoever else is there: the premise of the sensitivity. A judge that saw batches would fail this."""
    synthetic, real, schema = people
    ours, theirs = Reference.load(synthetic, schema), Reference.load(real.iloc[:60], schema)
    judge = train_judges(ours.inputs, ours.labels, schema, [name])[0]
    for feature_map in (ScoreBins(judge.judge, 2, judge.edges), Guesses(judge.judge, 2)):
        whole = feature_map.clipped_sum(theirs.inputs, theirs.labels)
        assert whole.sum() == 60
        for gone in (0, 31, 59):
            keep = torch.arange(60) != gone
            move = whole - feature_map.clipped_sum(theirs.inputs[keep], theirs.labels[keep])
            alone = feature_map.clipped_sum(theirs.inputs[gone : gone + 1], theirs.labels[gone : gone + 1])
            assert torch.equal(move, alone)
            assert sorted(move.flatten().tolist())[-2:] == [0.0, 1.0]


def test_the_judge_is_shown_one_record_at_a_time() -> None:
    shown: list[tuple[int, ...]] = []

    def judge(record: np.ndarray) -> np.ndarray:
        shown.append(record.shape)
        return np.array([0.0, 1.0])

    Guesses(judge, 2).clipped_sum(torch.zeros(7, 3), torch.zeros(7, dtype=torch.int64))
    assert shown == [(3,)] * 7


def test_with_next_to_no_noise_they_are_the_scores_that_cost_nothing(
    people: tuple[pd.DataFrame, pd.DataFrame, Schema], work: Path
) -> None:
    synthetic, real, schema = people
    paid = simulacra.evaluate_privately(
        synthetic, real, schema=schema, epsilon=ENDLESS, ledger="test.ledger", scores=ALL_FIVE, **BUDGET
    )
    free = evaluate_table(
        Reference.load(synthetic, schema).frame(),
        Reference.load(real, schema).frame(),
        schema,
        classifiers=["logistic_regression"],
    )
    assert paid.scores["accuracy_mean"] == pytest.approx(free.scores["accuracy_mean"], abs=2e-3)
    assert paid.scores["auroc_mean"] == pytest.approx(free.scores["auroc_mean"], abs=1e-2)
    assert paid.scores["auprc_mean"] == pytest.approx(free.scores["auprc_mean"], abs=3e-2)
    for name in ("tvd_1way_mean", "tvd_1way_max", "tvd_2way_mean", "tvd_2way_max"):
        assert paid.scores[name] == pytest.approx(free.scores[name], abs=1e-2)


ALL_FIVE = ("accuracy", "auroc", "auprc", "tvd_1way", "tvd_2way")


def test_what_is_promised_stands_beside_the_scores_and_no_count_of_records_does(
    people: tuple[pd.DataFrame, pd.DataFrame, Schema], work: Path
) -> None:
    synthetic, real, schema = people
    paid = simulacra.evaluate_privately(synthetic, real, schema=schema, epsilon=1.0, ledger="test.ledger", **BUDGET)
    assert paid.computed_on == "real data, released under epsilon 1, delta 1e-05, add-remove"
    privacy = paid.details["privacy"]
    assert privacy["epsilon"] <= 1.0
    assert [step["name"] for step in privacy["steps"]] == ["scores-logistic_regression", "columns"]
    assert privacy["ledger"] == "test"
    assert "test_rows" not in paid.to_json()
    assert "600" not in json.dumps(paid.details["privacy"]["steps"])
    assert set(privacy["releases"]) == {"scores-logistic_regression", "columns"}
    again = simulacra.evaluate_privately(synthetic, real, schema=schema, epsilon=1.0, ledger="test.ledger", **BUDGET)
    assert again.scores != paid.scores  # the noise is fresh
    total = Ledger("test.ledger").total()
    assert 1.0 < total.epsilon < 2.0  # and paid for again


def test_a_distance_that_noise_could_have_made_is_told_beside_what_noise_makes_of_the_worst(
    people: tuple[pd.DataFrame, pd.DataFrame, Schema], work: Path
) -> None:
    synthetic, real, schema = people
    ways = {"schema": schema, "ledger": "test.ledger", "scores": ["tvd_2way"], **BUDGET}
    drowned = simulacra.evaluate_privately(synthetic, real, epsilon=1.0, **ways)
    assert drowned.scores["tvd_2way_max_noise_floor"] > 1.5 * drowned.scores["tvd_2way_noise_floor"]
    assert any("much of it may be noise" in note for note in drowned.notes)
    assert not simulacra.evaluate_privately(synthetic, real, epsilon=ENDLESS, **ways).notes


@pytest.mark.slow
def test_the_noise_of_a_score_is_about_what_it_says(
    people: tuple[pd.DataFrame, pd.DataFrame, Schema], work: Path
) -> None:
    synthetic, real, schema = people
    words = {"schema": schema, "ledger": "test.ledger", "scores": ["accuracy"], **BUDGET}
    found = [simulacra.evaluate_privately(synthetic, real, epsilon=2.0, **words).scores for _ in range(12)]
    said = np.mean([one["accuracy_noise"] for one in found])
    seen = np.std([one["accuracy_mean"] for one in found], ddof=1)
    assert said / 3 < seen < said * 3
    assert "auroc_mean" not in found[0]


def test_several_classes_have_a_confusion_matrix_and_a_histogram_each(work: Path) -> None:
    schema = Schema(
        columns=(Numeric(name="x", lower=0, upper=3), Categorical(name="c", values=("a", "b", "d"))), label="c"
    )
    x = np.random.default_rng(0).random(500) * 3
    frame = pd.DataFrame({"x": x, "c": np.array(["a", "b", "d"])[x.astype(int)]})
    words = {"schema": schema, "ledger": "test.ledger", "classifiers": ["decision_tree"], **BUDGET}
    paid = simulacra.evaluate_privately(frame, frame, epsilon=ENDLESS, **words)
    assert paid.scores["accuracy_mean"] == pytest.approx(1.0, abs=1e-2)
    assert paid.scores["auroc_mean"] == pytest.approx(1.0, abs=2e-2)
    steps = {step["name"]: step for step in paid.details["privacy"]["steps"]}
    assert steps["guesses-decision_tree"]["norm_bound"] == 1.0
    assert steps["scores-decision_tree"]["norm_bound"] == pytest.approx(np.sqrt(3))


def test_a_cap_of_the_test_records_holds_and_nothing_is_asked(
    people: tuple[pd.DataFrame, pd.DataFrame, Schema], work: Path
) -> None:
    synthetic, real, schema = people
    cap = Budget(epsilon=0.5, delta=1e-5, adjacency=Adjacency.ADD_REMOVE)
    Ledger.create(work / "test.ledger", adjacency=Adjacency.ADD_REMOVE, cap=cap)
    with pytest.raises(CapExceeded):
        simulacra.evaluate_privately(synthetic, real, schema=schema, epsilon=1.0, ledger="test.ledger", **BUDGET)
    assert tiny.reservations(work / "test.ledger") == 0


@pytest.mark.parametrize("score", ["detection_auroc", "dcr_median", "fid", "correlation_difference_mean", "f1_best"])
def test_what_is_no_bounded_sum_is_refused_before_anything_is_spent(
    score: str, people: tuple[pd.DataFrame, pd.DataFrame, Schema], work: Path
) -> None:
    synthetic, real, schema = people
    with pytest.raises(SettingError, match="cannot be released privately"):
        simulacra.evaluate_privately(
            synthetic, real, schema=schema, epsilon=1.0, scores=[score], ledger="test.ledger", **BUDGET
        )
    assert not (work / "test.ledger").exists()


def test_one_synthetic_class_is_refused_before_anything_is_spent(
    people: tuple[pd.DataFrame, pd.DataFrame, Schema], work: Path
) -> None:
    synthetic, real, schema = people
    with pytest.raises(DataError, match="one class"):
        simulacra.evaluate_privately(
            synthetic.assign(buys="no"), real, schema=schema, epsilon=1.0, ledger="test.ledger", **BUDGET
        )
    assert not (work / "test.ledger").exists()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ({"scores": ["tvd_2way"]}, "one column has no pairs"),
        ({"scores": []}, "no score was chosen"),
        ({"rows": 0}, "rows must be at least 1"),
        ({"seed": -1}, "seeds must be from 0"),
        ({"seed": 2**32}, "seeds must be from 0"),
    ],
)
def test_what_could_not_be_read_afterwards_is_refused_before_it_is_paid_for(
    words: dict[str, object], line: str, work: Path
) -> None:
    """The answer to a question without a figure ended in a traceback, after it was paid for."""
    frame = pd.DataFrame({"x": np.arange(40.0)})
    with pytest.raises(SettingError, match=line):
        simulacra.evaluate_privately(
            frame,
            frame,
            schema=Schema(columns=(Numeric(name="x", lower=0, upper=40),)),
            epsilon=1.0,
            ledger="test.ledger",
            **BUDGET,
            **words,
        )
    assert not (work / "test.ledger").exists()


def test_a_classifier_that_cannot_be_trained_is_one_line_and_costs_nothing(work: Path) -> None:
    schema = Schema(columns=(Numeric(name="x", lower=0, upper=3), Categorical(name="c", values=("a", "b"))), label="c")
    for x in ([1.0, 2.0], [1.0] * 30):
        frame = pd.DataFrame({"x": x, "c": ["a", "b"] * (len(x) // 2)})
        with pytest.raises(DataError, match=r"Linear discriminant analysis cannot be trained .* nothing was spent"):
            simulacra.evaluate_privately(
                frame, frame, schema=schema, epsilon=1.0, ledger="test.ledger", classifiers=["lda"], **BUDGET
            )
    assert not (work / "test.ledger").exists()


def test_one_real_class_or_too_few_records_never_give_nan(
    people: tuple[pd.DataFrame, pd.DataFrame, Schema], work: Path
) -> None:
    synthetic, real, schema = people
    for data in (real.assign(buys="no"), real.iloc[:3]):
        paid = simulacra.evaluate_privately(
            synthetic, data, schema=schema, epsilon=0.1, ledger="test.ledger", scores=ALL_FIVE, **BUDGET
        )
        assert all(np.isfinite(value) for value in paid.scores.values())
    assert any("say nothing" in note for note in paid.notes)


def test_images_are_judged_by_their_pixels(work: Path) -> None:
    schema = tiny.schema(tiny.PICTURES)
    paid = simulacra.evaluate_privately(
        tiny.pictures(60, 0),
        tiny.pictures(80, 1),
        schema=schema,
        epsilon=ENDLESS,
        ledger="test.ledger",
        classifiers=["lr"],
        **BUDGET,
    )
    assert paid.scores["accuracy_mean"] == pytest.approx(1.0, abs=1e-2)
    assert "tvd_1way_mean" not in paid.scores
    with pytest.raises(SettingError, match="lr or mlp"):
        simulacra.evaluate_privately(
            tiny.pictures(), tiny.pictures(), schema=schema, epsilon=1, ledger="b.ledger", classifiers=["cnn"], **BUDGET
        )


def test_the_command_line_releases_scores_of_a_run_and_leaves_the_other_ledger_alone(
    cli: tiny.Cli, trained: Path, table: Path, trained_once: Path
) -> None:
    done = cli("evaluate", "run", "--test", "people.csv", "--epsilon", "2", "--ledger", "test.ledger", "--json")
    assert done.code == 0, done.err
    assert "released under epsilon 2" in done.json["computed_on"]
    assert json.loads((trained / "released-scores.json").read_text()) == done.json
    assert not (trained / "scores.json").exists()
    assert Ledger("test.ledger").total(1e-5).epsilon == pytest.approx(2.0, rel=1e-3)
    assert all(secret not in done.out for secret in tiny.SECRETS)


def test_scores_that_were_paid_for_are_never_overwritten(cli: tiny.Cli, trained: Path, table: Path) -> None:
    words = ("evaluate", "run", "--test", "people.csv", "--ledger", "test.ledger", "--json")
    first = cli(*words, "--epsilon", "2", "--score", "accuracy").json
    second = cli(*words, "--epsilon", "1", "--score", "tvd_1way").json
    assert json.loads((trained / "released-scores.json").read_text()) == first
    assert json.loads((trained / "released-scores-2.json").read_text()) == second
    run = simulacra.Run.load(trained)
    assert [one.to_mapping() for one in load_released_scores(run)] == [first, second]
    text = write_report(run, public=True).read_text()
    assert "2 times" in text
    assert "delta 1e-5" in text
    found = compare([run])
    assert {"released_accuracy_mean", "released_tvd_1way_mean"} <= set(found.groups[0].values)
    assert not list(trained.glob("*.partial"))


def test_a_place_for_the_scores_is_found_before_they_are_paid_for(
    trained: Path, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*words: object, **more: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(released, "open", full, raising=False)
    with pytest.raises(OutputError, match="No space left"):
        simulacra.evaluate_privately(trained, table, epsilon=1.0, ledger="test.ledger", **BUDGET)
    assert not Path("test.ledger").exists()


def test_the_ledger_of_the_test_records_outlives_the_run(trained: Path, table: Path) -> None:
    with pytest.raises(OutputError, match="outlives the run"):
        simulacra.evaluate_privately(trained, table, epsilon=1.0, ledger=trained / "test.ledger", **BUDGET)
    assert not (trained / "test.ledger").exists()


def test_scores_that_cannot_be_written_are_still_shown(
    cli: tiny.Cli, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are paid for: with synthetic data in a file, the screen may be all that is left of them."""

    def full(path: Path, content: bytes) -> None:
        if path.name == "scores.json":
            raise OutputError("cannot write: no space")
        written(path, content)

    written = durable.write_durably
    monkeypatch.setattr(durable, "write_durably", full)
    words = ("--schema", "schema.toml", "--epsilon", "1", "--ledger", "test.ledger", "--out", "scores.json")
    done = cli("evaluate", "people.csv", "--test", "people.csv", *words)
    assert done.code == 2
    assert "accuracy_mean" in done.out


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--epsilon", "1", "--group", "town"), "--group: not with --epsilon"),
        (("--epsilon", "1", "--seeds", "3"), "--seeds: not with --epsilon"),
        (("--epsilon", "1", "--fid", "dp-gan"), "--fid: not with --epsilon"),
        (("--epsilon", "1", "--score", "detection_auroc"), "cannot be released privately"),
        (("--epsilon", "0"), "epsilon must be"),
        (("--epsilon", "1", "--schema", "schema.toml"), "brings its own schema"),
        (("--score", "auroc"), "say --epsilon too"),
        (("--ledger", "test.ledger"), "say --epsilon too"),
    ],
)
def test_the_command_line_refuses_what_would_not_be_private(
    words: tuple[str, ...], line: str, cli: tiny.Cli, trained: Path, table: Path
) -> None:
    done = cli("evaluate", "run", "--test", "people.csv", *words)
    assert done.code == 2
    assert line in done.err
    assert len(done.lines) == 1
    assert not Path("people.ledger").exists()

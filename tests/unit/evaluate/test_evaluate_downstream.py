from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from simulacra.errors import DataError, SettingError
from simulacra.evaluate import Scores, evaluate_table
from simulacra.evaluate.classifiers import ALL, BOOSTER, choose
from simulacra.evaluate.downstream import train_and_test
from simulacra.schema import Categorical, Numeric, Schema

QUICK = ["logistic_regression", "gaussian_nb", "linear_svc", "lda"]


def test_there_are_twelve_and_the_last_is_the_booster_that_is_installed():
    assert len(ALL) == len(set(ALL)) == 12
    assert ALL[-1] == BOOSTER
    assert choose(["booster"])[0].name == BOOSTER


def test_all_twelve_find_the_pattern(schema: Schema, synthetic: pd.DataFrame, real: pd.DataFrame):
    heard: list[tuple[str, int, int]] = []

    def hear(stage: str, done: int = 0, total: int = 0, /) -> None:
        heard.append((stage, done, total))

    result = evaluate_table(synthetic, real, schema, progress=hear)
    assert [row["name"] for row in result.details["classifiers"]] == list(ALL)
    # The Bernoulli model sees only whether a number is above zero, so it has the town alone to go by.
    assert all(0.55 < row["auroc"] <= 1 for row in result.details["classifiers"])
    assert result.scores["auroc_mean"] > 0.8
    assert result.scores["auroc_mean"] < result.scores["auroc_best"]
    expected = {"auprc_mean", "f1_best", "accuracy_mean", "tvd_1way_mean", "tvd_2way_max", "tvd_3way_mean"}
    expected |= {"correlation_difference_mean", "detection_auroc", "dcr_median", "dcr_median_real"}
    assert expected <= set(result.scores)
    assert result.details["positive_class"] == "yes"
    assert [done for stage, done, _ in heard if stage == "classifiers"] == list(range(13))
    assert [stage for stage, _, _ in heard][13:] == [
        "marginal distances",
        "correlations",
        "detection",
        "closest records",
    ]
    assert Scores.from_json(result.to_json()) == result


def test_scores_are_ranked_and_the_same_again(schema: Schema, synthetic: pd.DataFrame, real: pd.DataFrame):
    first = train_and_test(synthetic, real, schema, seed=3, classifiers=["random_forest", "mlp"], train_rows=150)
    second = train_and_test(synthetic, real, schema, seed=3, classifiers=["random_forest", "mlp"], train_rows=150)
    assert first.scores == second.scores
    assert first.details["train_rows"] == 150
    # Ranking by scores gives far more than the one threshold of hard labels would.
    assert first.scores["auroc_mean"] > 0.75


def test_hard_scores_see_one_threshold_alone(schema: Schema, synthetic: pd.DataFrame, real: pd.DataFrame):
    from sklearn.metrics import average_precision_score, roc_auc_score
    from sklearn.naive_bayes import GaussianNB

    from simulacra.evaluate.design_matrix import class_index, design_matrix

    hard = train_and_test(synthetic, real, schema, classifiers=["gaussian_nb"], hard=True).scores
    soft = train_and_test(synthetic, real, schema, classifiers=["gaussian_nb"]).scores
    model = GaussianNB().fit(design_matrix(synthetic, schema).astype(float), class_index(synthetic, schema))
    predicted = model.predict(design_matrix(real, schema).astype(float))
    truth = class_index(real, schema)
    assert math.isclose(hard["auroc_mean"], roc_auc_score(truth, predicted))
    assert math.isclose(hard["auprc_mean"], average_precision_score(truth, predicted))
    assert hard["auroc_mean"] < soft["auroc_mean"]


def test_the_other_booster_works_too(schema: Schema, synthetic: pd.DataFrame, real: pd.DataFrame):
    result = train_and_test(synthetic, real, schema, classifiers=["hist_gradient_boosting"])
    assert result.scores["auroc_mean"] > 0.8


def test_shuffled_labels_score_like_a_coin(schema: Schema, synthetic: pd.DataFrame, real: pd.DataFrame):
    synthetic["bought"] = synthetic["bought"].sample(frac=1, random_state=0).to_numpy()
    result = train_and_test(synthetic, real, schema, classifiers=QUICK)
    assert abs(result.scores["auroc_mean"] - 0.5) < 0.2


@pytest.mark.parametrize("only", ["no", "yes"])
def test_one_synthetic_class_is_a_guess_with_a_reason(
    only: str, schema: Schema, synthetic: pd.DataFrame, real: pd.DataFrame
):
    result = train_and_test(synthetic.assign(bought=only), real, schema)
    share = float((real["bought"] == "yes").mean())
    assert result.scores["auroc_mean"] == result.scores["auroc_best"] == 0.5
    assert result.scores["auprc_mean"] == pytest.approx(share)
    assert any("same class" in note for note in result.notes)


def test_one_real_class_is_explained(schema: Schema, synthetic: pd.DataFrame, real: pd.DataFrame):
    result = train_and_test(synthetic, real.assign(bought="no"), schema, classifiers=QUICK)
    assert result.scores["auroc_mean"] == 0.5
    assert result.scores["auprc_mean"] == 0.0
    assert any("one class only" in note for note in result.notes)


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_tiny_tables_never_crash_and_never_give_nan(rows: int, schema: Schema, real: pd.DataFrame):
    tiny = real.sort_values("bought").iloc[[0, -1, 1][:rows]]
    result = train_and_test(tiny, real.iloc[:5], schema)
    assert all(math.isfinite(value) for value in result.scores.values())
    assert len(result.details["classifiers"]) == 12


def test_constant_columns_never_give_nan(schema: Schema, synthetic: pd.DataFrame, real: pd.DataFrame):
    for name in ("age", "wealth", "town", "rooms", "owner", "since"):
        synthetic[name] = [synthetic[name].iloc[1]] * len(synthetic)
    result = train_and_test(synthetic, real, schema)
    assert all(math.isfinite(value) for value in result.scores.values())


def test_rows_that_are_all_alike_are_a_guess_with_a_reason():
    """Discriminant analysis looks for the first of no directions, and says so with an IndexError."""
    schema = Schema(
        columns=(Numeric(name="x", lower=0, upper=3, missing=True), Categorical(name="c", values=("a", "b"))), label="c"
    )
    alike = pd.DataFrame({"x": [np.nan] * 40, "c": ["a", "b"] * 20})
    found = evaluate_table(alike, alike, schema, classifiers=["lda"])
    assert found.scores["auroc_mean"] == 0.5
    assert any("could not be trained" in note for note in found.notes)


def test_what_needs_classifiers_and_was_not_used_is_told(schema: Schema, synthetic: pd.DataFrame, real: pd.DataFrame):
    found = evaluate_table(synthetic, real, schema, classifiers=["none"], groups=["town"], train=real)
    assert "no classifier was trained, so groups, train had no use" in found.notes


def test_a_classifier_named_twice_is_trained_once(schema: Schema, synthetic: pd.DataFrame, real: pd.DataFrame):
    assert [one.name for one in choose(["gaussian_nb", "gaussian_nb", "booster", BOOSTER])] == ["gaussian_nb", BOOSTER]


def test_a_column_twice_is_one_line(schema: Schema, synthetic: pd.DataFrame, real: pd.DataFrame):
    with pytest.raises(DataError, match='synthetic table: column "age" is there twice'):
        evaluate_table(pd.concat([synthetic, synthetic[["age"]]], axis=1), real, schema)


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_a_seed_that_the_libraries_would_not_take_is_one_line(
    seed: int, schema: Schema, synthetic: pd.DataFrame, real: pd.DataFrame
):
    with pytest.raises(SettingError, match="seeds must be from 0"):
        evaluate_table(synthetic, real, schema, seed=seed, classifiers=["gaussian_nb"])


def test_values_that_the_schema_does_not_know_are_told(schema: Schema, synthetic: pd.DataFrame, real: pd.DataFrame):
    found = evaluate_table(synthetic.assign(wealth="much"), real, schema, classifiers=["gaussian_nb"])
    assert any("synthetic rows: some values of" in note and "wealth" in note for note in found.notes)


@pytest.fixture
def three() -> Schema:
    return Schema(
        columns=(
            Numeric(name="x", lower=0, upper=3),
            Numeric(name="y", lower=0, upper=1),
            Categorical(name="class", values=("low", "middle", "high")),
        ),
        label="class",
    )


def invent_three(rows: int, seed: int) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    x = random.random(rows) * 3
    names = np.array(["low", "middle", "high"])[np.minimum(x.astype(int), 2)]
    return pd.DataFrame({"x": x, "y": random.random(rows), "class": names})


def test_several_classes_are_scored_by_weighted_f1_and_auroc(three: Schema):
    result = train_and_test(invent_three(200, 0), invent_three(150, 1), three)
    assert result.scores["f1_mean"] > 0.75
    assert result.scores["auroc_mean"] > 0.85
    assert result.scores["auprc_mean"] > 0.7
    assert result.scores["accuracy_mean"] > 0.75
    assert all(row["note"] == "" for row in result.details["classifiers"])


def test_a_class_that_was_never_generated_is_named_and_counted_against(three: Schema):
    synthetic, real = invent_three(200, 0), invent_three(150, 1)
    whole = train_and_test(synthetic, real, three, classifiers=QUICK)
    partial = train_and_test(synthetic[synthetic["class"] != "middle"], real, three)
    assert any("middle" in note for note in partial.notes)
    assert partial.scores["f1_best"] < whole.scores["f1_best"]
    assert all(math.isfinite(value) for value in partial.scores.values())


def test_without_a_label_there_are_marginals_only(three: Schema):
    unlabelled = Schema(columns=three.columns)
    result = evaluate_table(invent_three(20, 0), invent_three(20, 1), unlabelled)
    starts = ("tvd_", "correlation_", "detection_", "dcr_")
    assert all(name.startswith(starts) for name in result.scores)
    assert "tvd_3way_mean" in result.scores
    assert any("no label" in note for note in result.notes)


def test_bad_choices_are_refused(three: Schema):
    frame = invent_three(20, 0)
    with pytest.raises(SettingError, match="did you mean"):
        train_and_test(frame, frame, three, classifiers=["random_forests"])
    with pytest.raises(SettingError, match="no classifier"):
        train_and_test(frame, frame, three, classifiers=[])
    with pytest.raises(SettingError, match="train_rows"):
        train_and_test(frame, frame, three, train_rows=0)

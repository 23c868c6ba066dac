"""Detection and closeness: telling synthetic rows from real ones, and how near they come."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from simulacra.evaluate.closeness import closest_records
from simulacra.evaluate.detection import detect
from simulacra.evaluate.scores import Scores
from simulacra.evaluate.tables import over_seeds
from simulacra.schema import Categorical, Numeric, Schema


def test_rows_from_one_source_cannot_be_told_apart(schema: Schema, synthetic: pd.DataFrame, real: pd.DataFrame):
    scores = detect(synthetic, real, schema).scores
    assert all(abs(value - 0.5) < 0.12 for value in scores.values())


def test_a_shifted_column_gives_the_rows_away(schema: Schema, synthetic: pd.DataFrame, real: pd.DataFrame):
    scores = detect(synthetic.assign(age=synthetic["age"] // 4), real, schema).scores
    assert scores["detection_auroc"] > 0.8
    assert scores["detection_auroc_linear"] > 0.7


def test_a_lost_combination_is_seen_by_the_booster_alone():
    schema = Schema(columns=(Numeric(name="x", lower=0, upper=1), Numeric(name="y", lower=0, upper=1)))
    random = np.random.default_rng(0)
    x = random.random(800)
    tied = pd.DataFrame({"x": x, "y": x})
    loose = pd.DataFrame({"x": random.random(800), "y": random.random(800)})
    scores = detect(loose, tied, schema).scores
    assert scores["detection_auroc"] > 0.8
    assert abs(scores["detection_auroc_linear"] - 0.5) < 0.1


def test_copies_of_real_rows_score_below_a_coin_and_that_is_explained(
    schema: Schema, synthetic: pd.DataFrame, real: pd.DataFrame
):
    """The twin of a row that is held out was learned under the other name."""
    copied = detect(real, real, schema)
    assert copied.scores["detection_auroc"] < 0.4
    assert any("repeat real ones" in note for note in copied.notes)
    assert detect(synthetic, real, schema).notes == []


def test_a_handful_of_rows_is_too_few_to_detect(schema: Schema, synthetic: pd.DataFrame, real: pd.DataFrame):
    result = detect(synthetic.iloc[:5], real, schema)
    assert result.scores == {}
    assert "at least 6 rows" in result.notes[0]


def test_copies_are_at_distance_zero_and_say_nothing_about_privacy(
    schema: Schema, synthetic: pd.DataFrame, real: pd.DataFrame
):
    copied = closest_records(real, real, schema)
    assert copied.scores["dcr_median"] == pytest.approx(0, abs=1e-3)
    assert copied.scores["dcr_median_real"] > 0.01
    fresh = closest_records(synthetic, real, schema).scores
    assert fresh["dcr_median"] == pytest.approx(fresh["dcr_median_real"], rel=0.3)
    assert any("no measure of privacy" in note for note in copied.notes)


def test_the_distance_is_the_root_of_the_mean_square_over_columns():
    schema = Schema(columns=(Numeric(name="x", lower=0, upper=10), Categorical(name="c", values=tuple(range(100_000)))))
    ours = pd.DataFrame({"x": [0.0], "c": [5]})
    theirs = pd.DataFrame({"x": [6.0, 10.0], "c": [5, 7]})
    scores = closest_records(ours, theirs, schema).scores
    assert scores["dcr_median"] == pytest.approx(np.sqrt(0.36 / 2))
    assert scores["dcr_median_real"] == pytest.approx(np.sqrt((0.16 + 1) / 2))
    assert closest_records(ours, theirs.iloc[:1], schema).scores == {}


def test_several_seeds_give_a_mean_and_a_spread():
    found = over_seeds(
        [Scores(scores={"a": 1.0, "b": 2.0}, details={"seed": 0}), Scores(scores={"a": 3.0}, notes=["odd"])], [0, 1]
    )
    assert found.scores == {"a": 2.0, "a_spread": pytest.approx(np.sqrt(2))}
    assert found.details["each_seed"] == [{"a": 1.0, "b": 2.0}, {"a": 3.0}]
    assert found.notes == ["odd", "not every seed has b, so there is no mean of it"]
    assert over_seeds([found], [0]) is found

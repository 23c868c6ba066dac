from __future__ import annotations

import math

import pytest

from simulacra.privacy.accountant import Event, calibrate, epsilon
from simulacra.report.charts import bars, curve, histogram, number, percent, split, versus
from simulacra.report.sections import budget_parts, flatten
from simulacra.report.words import best_guess, promise


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (1e-5, "1e-5"),
        (2.5e20, "2.5e20"),
        (8000, "8,000"),
        (math.inf, "∞"),
        (math.nan, "–"),
        (True, "True"),
    ],
)
def test_numbers_are_short(value: object, text: str):
    assert number(value) == text


def test_a_small_share_is_not_rounded_to_nothing():
    assert percent(0.0001).startswith("<")
    assert percent(0.0).startswith("0")


def test_charts_survive_empty_and_extreme_values():
    assert "svg" in histogram([0.0, 0.0], None, ends=("a", "b"), label="x")
    assert "svg" in bars(["a"], [0.0], [0.0], label="x")
    assert "svg" in curve([(0.0, 1.0), (0.0, 1.0)], label="x", titles=("a", "b"))
    assert "svg" in curve([(0.0, 1e-300), (1.0, 1e300)], label="x", titles=("a", "b"), log_y=True)
    assert "No points" in curve([(0.0, math.nan)], label="x", titles=("a", "b"))
    assert "svg" in versus([("a", 1.0), ("b", 0.0), ("c", 1e-9)], label="x")
    assert 'class="threshold" x1="' in versus([("a", 1.0)], label="x", threshold=10.0)
    assert "threshold" not in versus([("a", 1.0)], label="x")
    assert "svg" in split([], label="x")


def test_no_chart_holds_a_number_that_is_none():
    picture = curve([(1.0, 2.0), (2.0, math.inf), (3.0, 1.0)], label="x", titles=("a", "b"))
    assert "nan" not in picture
    assert "inf" not in picture


def test_the_budget_is_split_by_inverse_squared_noise():
    parts = budget_parts([{"name": "a", "noise_multiplier": 1.0}, {"name": "b", "noise_multiplier": 2.0, "count": 4}])
    assert parts == [("a", 0.5), ("b", 0.5)]
    assert budget_parts([{"name": "a", "noise_multiplier": None}]) == []
    sampled = {"name": "c", "noise_multiplier": 1.0, "count": 100, "sample_rate": 0.1}
    assert budget_parts([sampled, {"name": "a", "noise_multiplier": 1.0}])[0][1] == pytest.approx(0.5)


def test_a_loop_has_what_the_other_steps_leave_of_the_epsilon():
    """With little noise and few draws the leading term is far off: here it would give the loop a twentieth."""
    counts = Event(noise_multiplier=2.5)
    loop = Event(noise_multiplier=0.5, sample_rate=0.01, count=20)
    promised = epsilon((counts, loop), 1e-5)
    steps = [{"name": "counts", "noise_multiplier": 2.5, "count": 1}]
    steps += [{"name": "loop", "noise_multiplier": 0.5, "sample_rate": 0.01, "count": 20}]
    shares = dict(budget_parts(steps, promised, 1e-5))
    assert shares["counts"] == pytest.approx(0.12, abs=0.02)
    assert sum(shares.values()) == pytest.approx(1.0)
    # By itself the loop costs three times the epsilon of the counts.
    assert epsilon((loop,), 1e-5) > 3 * epsilon((counts,), 1e-5)
    assert dict(budget_parts(steps))["counts"] > 0.9


def test_settings_are_flattened_with_dots():
    assert flatten({"a": 1, "b": {"c": None, "d": [1, 2]}}) == [("a", "1"), ("b.c", "default"), ("b.d", "1, 2")]


def test_the_best_guess_follows_from_the_tightest_point_of_the_curve():
    assert best_guess({"epsilon": 0.0, "delta": 0.0}) == 0.5
    assert best_guess({"epsilon": math.log(3), "delta": 0.0}) == pytest.approx(0.75)
    curve_points = [{"epsilon": 0.0, "delta": 0.1}]
    assert best_guess({"epsilon": math.log(3), "delta": 0.0, "curve": curve_points}) == pytest.approx(0.55)
    assert best_guess({"epsilon": 1e6, "delta": 0.0}) == 1.0
    assert best_guess({}) is None


def test_a_large_epsilon_is_called_large():
    words = promise({"private": True, "epsilon": 50.0, "delta": 1e-5, "adjacency": "add-remove", "unit": "visit"})
    assert words.private
    assert any("promises little" in sentence for sentence in words.sentences)
    assert any("one visit's record left out or added" in sentence for sentence in words.sentences)


def test_no_bound_of_the_promise_is_rounded_down():
    certificate = {"private": True, "delta": 1e-5, "adjacency": "add-remove", "unit": "image"}
    for promised, factor in ((0.0, "1"), (0.1, "1.11"), (5.0, "149"), (12.0, "162,755"), (60.0, "more than 10^10")):
        said = " ".join(promise(certificate | {"epsilon": promised}).sentences)
        assert f"at most {factor} times" in said
        assert "one image left out or added" in said


def test_delta_is_added_and_is_not_how_often_the_factor_fails():
    """Under Gaussian noise of (1, 1e-5) the odds change by more than e sixteen times as often as delta says."""
    noise = calibrate(Event(noise_multiplier=1.0), 1.0, 1e-5).noise_multiplier
    fails = math.erfc((noise - 0.5 / noise) / math.sqrt(2)) / 2
    assert fails > 1.6e-4
    words = promise({"private": True, "epsilon": 1.0, "delta": 1e-5, "adjacency": "add-remove"})
    assert not any("except with probability" in sentence for sentence in words.sentences)

"""What to expect of a method, from figures that were not all measured on the same data."""

from __future__ import annotations

import numpy as np
import pytest

from simulacra.synthesis.expecting import Seen, expected, nearness


def figures(table: dict[tuple[str, str], float], **weights: float) -> list[Seen]:
    return [
        Seen(method=method, context=context, value=value, weight=weights.get(context, 1.0))
        for (method, context), value in table.items()
    ]


def test_a_method_that_was_only_tried_where_it_is_easy_does_not_win() -> None:
    """By plain means "lucky" has 0.85 and "better" 0.70, though "better" is ahead wherever both were run."""
    table = {("better", "easy"): 0.9, ("lucky", "easy"): 0.85, ("better", "hard"): 0.5, ("other", "hard"): 0.45}
    found = expected(figures(table))
    assert found["better"] > found["lucky"]


def test_contexts_that_are_like_the_question_decide() -> None:
    table = {("few", "small"): 0.8, ("many", "small"): 0.6, ("few", "large"): 0.7, ("many", "large"): 0.9}
    assert (near := expected(figures(table, large=0.01)))["few"] > near["many"]
    assert (near := expected(figures(table, small=0.01)))["few"] < near["many"]


def test_where_every_cell_is_filled_differences_are_those_of_the_means_but_for_caution() -> None:
    rng = np.random.default_rng(0)
    values = rng.random((3, 40))
    table = {(f"m{i}", f"c{j}"): float(values[i, j]) for i in range(3) for j in range(40)}
    found = expected(figures(table))
    means = values.mean(axis=1)
    assert found["m0"] - found["m1"] == pytest.approx(means[0] - means[1], rel=0.02)
    assert np.mean(list(found.values())) == pytest.approx(means.mean(), abs=1e-6)


def test_less_is_believed_of_what_was_seen_once() -> None:
    once = expected(figures({("a", "x"): 0.9, ("b", "x"): 0.5}))
    often = expected(figures({(m, f"x{k}"): v for m, v in (("a", 0.9), ("b", 0.5)) for k in range(10)}))
    assert 0 < once["a"] - once["b"] < often["a"] - often["b"] < 0.4


def test_a_method_that_was_alone_is_taken_for_an_average_one() -> None:
    found = expected(figures({("a", "x"): 0.9, ("b", "x"): 0.7, ("alone", "y"): 0.99}))
    assert found["b"] < found["alone"] < found["a"]


def test_far_contexts_can_still_be_solved_and_nothing_gives_nothing() -> None:
    assert expected([]) == {}
    far = nearness(1e12, 1e12)
    assert far < 1e-30
    found = expected([Seen(method="a", context="x", value=0.5, weight=max(far, 1e-300))])
    assert found["a"] == pytest.approx(0.5)

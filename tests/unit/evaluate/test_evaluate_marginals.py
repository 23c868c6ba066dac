from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from simulacra.evaluate.marginals import chosen_pairs, chosen_triples, marginal_distances
from simulacra.schema import Categorical, Numeric, Schema


def test_a_table_is_at_distance_zero_from_itself(schema: Schema, real: pd.DataFrame):
    result = marginal_distances(real, real.sample(frac=1, random_state=0), schema)
    assert set(result.scores.values()) == {0.0}
    assert len(result.scores) == 6
    assert set(result.details["columns"]) == {column.name for column in schema.columns}


def test_tables_with_nothing_in_common_are_at_distance_one():
    schema = Schema(columns=(Categorical(name="a", values=("x", "y")), Categorical(name="b", values=("x", "y"))))
    ours = pd.DataFrame({"a": ["x"] * 3, "b": ["x"] * 3})
    theirs = pd.DataFrame({"a": ["y"] * 5, "b": ["y"] * 5})
    assert set(marginal_distances(ours, theirs, schema).scores.values()) == {1.0}


def test_a_lost_correlation_shows_in_pairs_only():
    schema = Schema(columns=(Categorical(name="a", values=("x", "y")), Categorical(name="b", values=("x", "y"))))
    tied = pd.DataFrame({"a": ["x", "x", "y", "y"], "b": ["x", "x", "y", "y"]})
    loose = pd.DataFrame({"a": ["x", "x", "y", "y"], "b": ["x", "y", "x", "y"]})
    scores = marginal_distances(loose, tied, schema).scores
    assert scores["tvd_1way_max"] == 0.0
    assert scores["tvd_2way_mean"] == 0.5


def test_one_column_has_no_pairs():
    schema = Schema(columns=(Numeric(name="x", lower=0, upper=1),))
    result = marginal_distances(pd.DataFrame({"x": [0.1]}), pd.DataFrame({"x": [0.9]}), schema)
    assert result.scores == {"tvd_1way_mean": 1.0, "tvd_1way_max": 1.0}
    assert result.details["pairs"] == {"used": 0, "of": 0}


def test_a_wide_table_uses_a_fixed_subset_of_pairs_and_says_so():
    schema = Schema(columns=tuple(Numeric(name=f"x{k}", lower=0, upper=1, bins=2) for k in range(70)))
    random = np.random.default_rng(0)
    frame = pd.DataFrame(random.random((20, 70)), columns=[f"x{k}" for k in range(70)])
    first = marginal_distances(frame, frame.iloc[:10], schema, pair_limit=50)
    assert first == marginal_distances(frame, frame.iloc[:10], schema, pair_limit=50)
    assert first.details["pairs"] == {"used": 50, "of": 2415}
    assert any("50 of 2415" in note for note in first.notes)


def test_all_pairs_are_used_up_to_sixty_columns():
    assert len(chosen_pairs(60)[0]) == chosen_pairs(60)[1] == 1770


def test_columns_with_thousands_of_values_are_compared_without_a_huge_table():
    values = tuple(range(3000))
    schema = Schema(columns=(Categorical(name="a", values=values), Categorical(name="b", values=values)))
    ours = pd.DataFrame({"a": [0, 1, 2, 2999], "b": [0, 1, 2, 2999]})
    theirs = pd.DataFrame({"a": [0, 1, 2, 2999], "b": [0, 1, 2, 5]})
    assert marginal_distances(ours, theirs, schema).scores["tvd_2way_max"] == pytest.approx(0.25)


def test_a_dependence_of_three_columns_shows_in_triples_only():
    schema = Schema(columns=tuple(Categorical(name=name, values=(0, 1)) for name in "abc"))
    free = pd.DataFrame([(a, b, c) for a in (0, 1) for b in (0, 1) for c in (0, 1)], columns=list("abc"))
    tied = pd.DataFrame([(a, b, a ^ b) for a in (0, 1) for b in (0, 1)], columns=list("abc"))
    scores = marginal_distances(free, tied, schema).scores
    assert scores["tvd_2way_max"] == 0.0
    assert scores["tvd_3way_mean"] == scores["tvd_3way_max"] == 0.5


def test_triples_of_wide_tables_are_drawn_once_and_for_all():
    few, total = chosen_triples(19)
    assert len(few) == total == 969
    drawn, total = chosen_triples(600)
    assert total == 35_820_200
    assert len(set(drawn)) == 1000
    assert all(0 <= a < b < c < 600 for a, b, c in drawn)
    assert drawn == chosen_triples(600)[0]
    assert max(c for _, _, c in drawn) > 590  # from the whole table, not from its beginning


def test_every_triple_has_one_number():
    from simulacra.evaluate.marginals import _triple

    assert len({_triple(rank) for rank in range(1140)}) == 1140
    assert max(_triple(rank) for rank in range(1140)) == (17, 18, 19)


def test_three_columns_with_thousands_of_values_take_no_huge_table():
    values = tuple(range(4000))
    schema = Schema(columns=tuple(Categorical(name=name, values=values) for name in "abc"))
    ours = pd.DataFrame({"a": [0, 3999], "b": [0, 3999], "c": [0, 3999]})
    theirs = pd.DataFrame({"a": [0, 3999], "b": [0, 3999], "c": [0, 3998]})
    assert marginal_distances(ours, theirs, schema).scores["tvd_3way_max"] == pytest.approx(0.5)

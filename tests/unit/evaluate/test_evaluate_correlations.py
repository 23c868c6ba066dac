from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2_contingency

from simulacra.data.frames import encode_frame
from simulacra.evaluate.correlations import correlation_differences, strengths
from simulacra.schema import Categorical, Numeric, Schema


@pytest.fixture
def pair() -> Schema:
    return Schema(
        columns=(
            Numeric(name="x", lower=0, upper=10),
            Numeric(name="y", lower=0, upper=10, missing=True),
            Categorical(name="c", values=("a", "b", "d")),
            Categorical(name="e", values=("p", "q")),
        )
    )


def invent(rows: int, seed: int) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    x = random.random(rows) * 10
    y = np.clip(x + random.normal(0, 2, rows), 0, 10)
    c = np.where(x > 6, "a", random.choice(["b", "d"], rows))
    e = np.where((c == "a") ^ (random.random(rows) < 0.2), "p", "q")
    return pd.DataFrame({"x": x, "y": np.where(random.random(rows) < 0.1, np.nan, y), "c": c, "e": e})


def test_strengths_are_those_of_other_implementations(pair: Schema):
    frame = invent(500, 0)
    found = strengths(encode_frame(frame, pair), pair.columns)
    assert (found == found.T).all()
    assert (np.diag(found) == 1).all()
    assert found[0, 1] == pytest.approx(frame["x"].corr(frame["y"]), abs=1e-6)
    table = pd.crosstab(frame["c"], frame["e"])
    chi = chi2_contingency(table, correction=False).statistic
    assert found[2, 3] == pytest.approx(np.sqrt(chi / len(frame) / (min(table.shape) - 1)))
    # The correlation ratio squared is the share of variance between groups.
    means = frame.groupby("c")["x"].transform("mean")
    assert found[0, 2] == pytest.approx(np.sqrt(means.var() / frame["x"].var()), abs=1e-6)


def test_a_table_differs_from_itself_by_nothing_and_from_a_shuffled_one_by_much(pair: Schema):
    frame = invent(500, 0)
    same = correlation_differences(frame, frame, pair).scores
    assert set(same.values()) == {0.0}
    assert set(same) == {
        "correlation_difference_mean",
        "correlation_difference_max",
        "correlation_difference_numeric",
        "correlation_difference_categorical",
        "correlation_difference_mixed",
    }
    loose = frame.assign(x=frame["x"].sample(frac=1, random_state=0).to_numpy())
    result = correlation_differences(loose, frame, pair)
    assert result.scores["correlation_difference_max"] > 0.5
    assert "x" in result.details["worst_correlations"][0]["columns"]


def test_constant_and_missing_columns_go_with_nothing(pair: Schema):
    frame = invent(50, 0).assign(x=3.0, y=np.nan, e="p")
    found = strengths(encode_frame(frame, pair), pair.columns)
    assert np.isfinite(found).all()
    assert found[0, 1] == found[0, 2] == found[1, 2] == found[2, 3] == 0.0
    assert correlation_differences(frame.iloc[:1], frame.iloc[:1], pair).scores["correlation_difference_max"] == 0.0


def test_bounds_far_wider_than_the_values_hide_no_correlation():
    """Wages in euros between bounds of a thousand million: the spread is a millionth of the range, and no rounding."""
    wide = Schema(columns=tuple(Numeric(name=name, lower=0, upper=1e9) for name in ("wage", "tax")))
    wage = np.random.default_rng(0).normal(2000, 300, 500)
    together = pd.DataFrame({"wage": wage, "tax": 2 * wage})
    apart = together.assign(tax=np.random.default_rng(1).permutation(2 * wage))
    gap = correlation_differences(together, apart, wide).scores["correlation_difference_numeric"]
    assert gap == pytest.approx(1 - abs(np.corrcoef(apart["wage"], apart["tax"])[0, 1]), abs=0.1)


def test_one_column_has_no_correlations():
    schema = Schema(columns=(Numeric(name="x", lower=0, upper=1),))
    result = correlation_differences(pd.DataFrame({"x": [0.1]}), pd.DataFrame({"x": [0.9]}), schema)
    assert result.scores == {}
    assert "one column" in result.notes[0]


def test_a_wide_table_keeps_its_label():
    columns = tuple(Numeric(name=f"x{k}", lower=0, upper=1) for k in range(70))
    schema = Schema(columns=(*columns, Categorical(name="c", values=("a", "b"))), label="c")
    random = np.random.default_rng(0)
    frame = pd.DataFrame(random.random((30, 70)), columns=[c.name for c in columns])
    frame["c"] = np.where(frame["x0"] > 0.5, "a", "b")
    result = correlation_differences(frame.assign(x0=0.5), frame, schema)
    assert "60 of 71" in result.notes[0]
    assert result.details["worst_correlations"][0]["columns"] == ["x0", "c"]

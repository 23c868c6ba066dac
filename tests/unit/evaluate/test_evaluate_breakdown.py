"""What noise did to the small classes and groups."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from simulacra.errors import SettingError
from simulacra.evaluate.breakdown import FEWEST_ROWS, group_columns
from simulacra.evaluate.downstream import train_and_test
from simulacra.schema import Boolean, Categorical, Numeric, Schema

QUICK = ["logistic_regression", "lda"]


def test_each_class_has_its_shares_its_recall_and_its_distance(
    schema: Schema, synthetic: pd.DataFrame, real: pd.DataFrame
):
    found = train_and_test(synthetic, real, schema, classifiers=QUICK).details["by_class"]
    assert [line["class"] for line in found] == ["no", "yes"]
    assert sum(line["real_rows"] for line in found) == len(real)
    assert sum(line["real_share"] for line in found) == pytest.approx(1)
    assert found[1]["synthetic_share"] == pytest.approx((synthetic["bought"] == "yes").mean())
    assert all(0.5 < line["recall"] <= 1 and 0 < line["tvd_1way"] < 0.5 for line in found)
    # With two classes the ranking of one is the ranking of the other, upside down.
    assert found[0]["auroc"] == pytest.approx(found[1]["auroc"])


def test_groups_are_values_of_columns_with_few_of_them(schema: Schema, synthetic: pd.DataFrame, real: pd.DataFrame):
    found = train_and_test(synthetic, real, schema, classifiers=QUICK).details["by_group"]
    assert list(found) == ["town", "rooms", "owner"]
    towns = {line["value"]: line for line in found["town"]}
    assert list(towns) == ["north", "south", "other", "missing"]
    assert towns["north"]["accuracy"] > 0.6
    assert towns["missing"] == {
        "value": "missing",
        "real_rows": 0,
        "real_share": 0.0,
        "synthetic_share": 0.0,
        "accuracy": None,
        "auroc": None,
    }
    only = train_and_test(synthetic, real, schema, classifiers=QUICK, groups=["owner"]).details["by_group"]
    assert list(only) == ["owner"]


def test_a_group_of_a_few_rows_has_no_figure(schema: Schema, synthetic: pd.DataFrame, real: pd.DataFrame):
    few = real.assign(town=["north"] * (len(real) - FEWEST_ROWS + 1) + ["south"] * (FEWEST_ROWS - 1))
    found = train_and_test(synthetic, few, schema, classifiers=QUICK, groups=["town"]).details["by_group"]["town"]
    assert found[0]["accuracy"] is not None
    assert found[1]["real_rows"] == FEWEST_ROWS - 1
    assert found[1]["accuracy"] is None


def test_a_class_that_was_never_generated_is_found_never():
    schema = Schema(
        columns=(Numeric(name="x", lower=0, upper=1), Categorical(name="c", values=("a", "b", "d"))), label="c"
    )
    random = np.random.default_rng(0)
    real = pd.DataFrame({"x": random.random(90), "c": ["a", "b", "d"] * 30})
    found = train_and_test(real[real["c"] != "d"], real, schema, classifiers=QUICK).details["by_class"]
    assert found[2]["synthetic_share"] == found[2]["recall"] == 0.0
    assert found[2]["tvd_1way"] is None


def test_only_unordered_features_make_groups(schema: Schema):
    for name in ("age", "bought"):
        with pytest.raises(SettingError, match="categorical or boolean"):
            group_columns(schema, [name])
    wide = Schema(columns=tuple(Boolean(name=f"b{k}") for k in range(9)))
    assert len(group_columns(wide)) == 4

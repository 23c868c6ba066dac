from __future__ import annotations

import json
import math

import pytest

from simulacra.errors import DataError
from simulacra.evaluate import COMPUTED_ON, Scores


def test_scores_survive_json_and_carry_their_warning():
    scores = Scores(scores={"auroc_mean": 0.8}, details={"columns": {"é": {"tvd": 0.1}}}, notes=["a note"])
    assert Scores.from_json(scores.to_json()) == scores
    assert json.loads(scores.to_json())["computed_on"] == COMPUTED_ON == "real data, outside the privacy guarantee"


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_score_is_always_a_number(value: float):
    with pytest.raises(ValueError, match="auroc_mean"):
        Scores(scores={"auroc_mean": value})


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"scores": 3}', '{"scores": {"a": "x"}}'])
def test_damaged_scores_are_refused(text: str):
    with pytest.raises(DataError, match="damaged"):
        Scores.from_json(text)

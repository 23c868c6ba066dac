"""Invented tables for the tests of evaluation."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pandas as pd
import pytest

from simulacra.schema import Boolean, Categorical, Datetime, Numeric, Schema


@pytest.fixture
def schema() -> Schema:
    """One column of each kind, with missing values, and a label of two classes."""
    return Schema(
        columns=(
            Numeric(name="age", lower=0, upper=100, integer=True),
            Numeric(name="wealth", lower=0, upper=1e6, log=True, missing=True),
            Categorical(name="town", values=("north", "south"), other=True, missing=True),
            Categorical(name="rooms", values=(1, 2, 3), missing=True),
            Boolean(name="owner", missing=True),
            Datetime(name="since", lower=dt.date(2000, 1, 1), upper=dt.date(2020, 1, 1), missing=True),
            Categorical(name="bought", values=("no", "yes")),
        ),
        label="bought",
    )


def invent(rows: int, seed: int) -> pd.DataFrame:
    """Rows in which the label follows age and town."""
    random = np.random.default_rng(seed)
    age = random.integers(0, 101, rows)
    town = random.choice(["north", "south", "elsewhere"], rows)
    score = age / 25 - 2 + (town == "north") + random.normal(0, 0.7, rows)
    frame = pd.DataFrame(
        {
            "age": age,
            "wealth": np.where(random.random(rows) < 0.1, np.nan, random.lognormal(8, 2, rows)),
            "town": town,
            "rooms": pd.array(random.integers(1, 4, rows), dtype="Int64"),
            "owner": pd.array(random.random(rows) < 0.5, dtype="boolean"),
            "since": pd.Timestamp("2000-01-01") + pd.to_timedelta(random.integers(0, 7000, rows), unit="D"),
            "bought": np.where(score > 0, "yes", "no"),
        }
    )
    frame.loc[frame.index % 13 == 0, ["rooms", "owner", "since"]] = None
    return frame


@pytest.fixture
def synthetic() -> pd.DataFrame:
    """Rows to train on."""
    return invent(400, seed=1)


@pytest.fixture
def real() -> pd.DataFrame:
    """Rows to test on."""
    return invent(300, seed=2)

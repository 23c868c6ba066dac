from __future__ import annotations

import datetime as dt
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from simulacra.data.drafts import draft
from simulacra.errors import SchemaError
from simulacra.schema import Categorical, Datetime, ImageShape, Numeric, Schema
from simulacra.schema.toml import BLANK

FRAME = pd.DataFrame(
    {
        "age": [31337],
        "weight [kg]": [31337.5],
        'na"me': ["zebra"],
        "flag": [True],
        "when": [dt.datetime(2013, 3, 7)],
        "kind": pd.Categorical(["zebra"]),
    }
)


def fill(text: str) -> str:
    """What an owner would do, by hand."""
    text = text.replace(f'values = ["{BLANK}"]', 'values = ["a", "b"]').replace(
        f'classes = ["{BLANK}"]', 'classes = ["a", "b"]'
    )
    text = text.replace(f'lower = "{BLANK}"      # such', "lower = 2000-01-01T00:00:00 # such")
    text = text.replace(f'00:00:00\nupper = "{BLANK}"', "00:00:00\nupper = 2030-01-01T00:00:00")
    return text.replace(f'lower = "{BLANK}"', "lower = 0").replace(f'upper = "{BLANK}"', "upper = 9")


def test_a_draft_of_typed_data_loads_once_its_blanks_are_filled(tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_pandas(FRAME), tmp_path / "t.parquet")
    for data in (FRAME, tmp_path / "t.parquet"):
        text = draft(data, label="kind")
        assert "zebra" not in text
        assert "31337" not in text
        assert "2013" not in text
        (tmp_path / "s.toml").write_text(text)
        with pytest.raises(SchemaError, match=BLANK):
            Schema.load(tmp_path / "s.toml")
        (tmp_path / "s.toml").write_text(fill(text))
        schema = Schema.load(tmp_path / "s.toml")
        assert [column.name for column in schema.columns] == list(FRAME.columns)
        assert schema.column("age") == Numeric(name="age", lower=0, upper=9, integer=True)
        assert isinstance(schema.column("when"), Datetime)
        assert isinstance(schema.column('na"me'), Categorical)
        assert schema.label == "kind"


def test_a_draft_of_text_leaves_the_types_open(tmp_path: Path) -> None:
    FRAME.to_csv(tmp_path / "t.csv", index=False)
    text = draft(tmp_path / "t.csv")
    assert "zebra" not in text
    assert text.count(f'type = "{BLANK}"') == len(FRAME.columns)
    (tmp_path / "s.toml").write_text(text)
    with pytest.raises(SchemaError, match='column "age"'):
        Schema.load(tmp_path / "s.toml")
    (tmp_path / "s.toml").write_text(text.replace(f'type = "{BLANK}"', 'type = "boolean"'))
    assert len(Schema.load(tmp_path / "s.toml").columns) == len(FRAME.columns)


def test_a_draft_of_images_takes_only_their_shape(tmp_path: Path) -> None:
    np.savez(tmp_path / "t.npz", x=np.zeros((12345, 2, 3, 3), np.uint8), y=np.zeros(12345, np.int64))
    text = draft(tmp_path / "t.npz")
    assert "12345" not in text
    (tmp_path / "s.toml").write_text(fill(text))
    assert Schema.load(tmp_path / "s.toml").image == ImageShape(height=2, width=3, channels=3, classes=("a", "b"))


def test_an_unknown_label_is_refused_with_a_suggestion() -> None:
    with pytest.raises(SchemaError, match='did you mean "kind"'):
        draft(FRAME, label="kinds")

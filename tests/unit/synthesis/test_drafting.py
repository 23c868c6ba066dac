"""The private schema draft: sensible, paid for, counted ever after, and refused before anything is spent."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tiny

from simulacra import datasets
from simulacra.errors import BudgetError, CapExceeded, DataError, LedgerError, SchemaError
from simulacra.privacy.accountant import Event, epsilon
from simulacra.privacy.budget import Adjacency, Budget
from simulacra.privacy.ledger import Ledger
from simulacra.schema import Boolean, Categorical, Datetime, Numeric, Schema
from simulacra.schema.toml import BLANK
from simulacra.synthesis.drafting import draft_privately
from simulacra.synthesis.releasing import plan, release

ROWS = 3000


def invented_table() -> pa.Table:
    """Columns of every kind, with rare values that must not come out."""
    at = np.arange(ROWS)
    return pa.table(
        {
            "age": pa.array(17 + at % 60, pa.int16()),
            "income": pa.array(np.where(at % 10 == 0, 0.0, 2.0 ** (at % 20))),
            "change": pa.array((at % 100 - 50) / 10),
            "nothing": pa.nulls(ROWS, pa.float64()),
            "code": pa.array([None if i % 4 == 0 else int(i % 3) for i in at], pa.int32()),
            "colour": pa.array(["red", " blue", "green"] * (ROWS // 3)),
            "name": pa.array([f"secret-{i}" for i in at]),
            "alive": pa.array(at % 2 == 0),
            "born": pa.array([dt.date(1950 + int(i) % 50, 5, 5) for i in at]),
            "seen": pa.array([dt.datetime(2020 + int(i) % 3, 5, 5, 12) for i in at]),
            "ill": pa.array(["no" if i % 3 else "yes" for i in at]),
        }
    )


def draft(data: Any, folder: Path, **changes: Any) -> tuple[str, Path]:
    arguments = {"epsilon": 4.0, "delta": 1e-5, "adjacency": "add-remove", "ledger": folder / "data.ledger"} | changes
    text = draft_privately(data, **arguments)
    path = folder / "schema.toml"
    path.write_text(text, encoding="utf-8")
    return text, path


def fill(text: str) -> str:
    """What an owner would do, by hand."""
    text = text.replace(f'lower = "{BLANK}"', "lower = 0").replace(f'upper = "{BLANK}"', "upper = 9")
    return text.replace(f'    "{BLANK}",', '    "a",').replace(f'["{BLANK}"]', '["a"]')


@pytest.fixture(scope="module")
def invented(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Schema]:
    folder = tmp_path_factory.mktemp("invented")
    text, path = draft(invented_table(), folder, label="ill", types={"code": "categorical"})
    with pytest.raises(SchemaError, match=BLANK):
        Schema.load(path)
    path.write_text(fill(text), encoding="utf-8")
    return text, Schema.load(path)


# -- what it finds ------------------------------------------------------------------------------------------------


def test_bounds_enclose_what_many_records_have(invented: tuple[str, Schema]) -> None:
    schema = invented[1]
    assert schema.column("age") == Numeric(name="age", lower=16, upper=128, integer=True)
    assert schema.column("income") == Numeric(name="income", lower=0, upper=2.0**20, log=True)
    change = schema.column("change")
    assert isinstance(change, Numeric)
    assert (change.lower, change.upper, change.log) == (-8, 8, False)
    assert schema.column("born") == Datetime(name="born", lower=dt.date(1950, 1, 1), upper=dt.date(1999, 12, 31))
    seen = schema.column("seen")
    assert isinstance(seen, Datetime)
    assert (seen.lower, seen.upper) == (dt.datetime(2020, 1, 1), dt.datetime(2022, 12, 31, 23, 59, 59))


def test_categories_come_out_in_their_own_type_and_rare_ones_do_not(invented: tuple[str, Schema]) -> None:
    text, schema = invented
    code, colour = schema.column("code"), schema.column("colour")
    assert isinstance(code, Categorical)
    assert isinstance(colour, Categorical)
    assert Counter(code.values) == Counter((0, 1, 2))
    assert code.other
    assert code.missing  # a quarter of the rows has none
    assert set(colour.values) == {"red", "blue", "green"}
    assert not colour.missing
    assert "secret" not in text
    assert schema.column("alive") == Boolean(name="alive", missing=True)  # its field may hold nulls, and nobody paid
    label = schema.column("ill")
    assert isinstance(label, Categorical)
    assert (label.values, label.other, label.missing) == (("no", "yes"), False, False)  # the more frequent one first


def test_what_does_not_stand_out_is_left_blank(invented: tuple[str, Schema]) -> None:
    text = invented[0]
    assert text.count(f'"{BLANK}"') == 3  # two bounds of "nothing" and the values of "name"
    assert "Nothing stood out" in text
    assert invented[1].column("nothing").missing


def test_other_is_left_out_where_it_is_a_value(tmp_path: Path) -> None:
    table = pa.table({"c": pa.array(["other", "x"] * 1000)})
    column = Schema.load(draft(table, tmp_path)[1]).column("c")
    assert isinstance(column, Categorical)
    assert (set(column.values), column.other) == ({"other", "x"}, False)


def test_a_label_with_one_class_is_left_to_the_owner(tmp_path: Path) -> None:
    table = pa.table({"x": pa.array([1.0] * 1000), "c": pa.array(["only"] * 1000)})
    text, _ = draft(table, tmp_path, label="c")
    assert f'"{BLANK}"' in text
    assert "Found: 'only'" in text


def test_hostile_names_and_values_make_a_file_that_loads(tmp_path: Path) -> None:
    values = ['quo"te', "new\nline", "\u2028", "tab\tbed", BLANK, "[[spent]]"]
    table = pa.table({'na"me\n[x]': pa.array(values * 400), "": pa.array([0] * 2400)})
    schema = Schema.load(draft(table, tmp_path)[1])
    column = schema.columns[0]
    assert isinstance(column, Categorical)
    assert set(column.values) == {'quo"te', "new\nline", "tab\tbed", "[[spent]]"}
    assert schema.column("") == Numeric(name="", lower=0, upper=1, integer=True)


def test_an_empty_table_is_drafted_like_any_other(tmp_path: Path) -> None:
    """No rows is a fact about the data, so it must not be an error."""
    text, _ = draft(invented_table().slice(0, 0), tmp_path, label="ill")
    assert f'"{BLANK}"' in text


# -- types --------------------------------------------------------------------------------------------------------


def test_a_csv_needs_a_type_for_every_column(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    invented_table().select(["age", "colour", "born", "alive"]).to_pandas().to_csv(file, index=False)
    with pytest.raises(SchemaError, match=r'--type "colour=TYPE" --type "born=TYPE"') as error:
        draft(file, tmp_path, types={"age": "integer", "alive": "boolean"})
    assert '"age' not in str(error.value)
    types = {"age": "integer", "colour": "categorical", "born": "datetime", "alive": "boolean"}
    schema = Schema.load(draft(file, tmp_path, types=types, label="colour")[1])
    assert schema.column("age") == Numeric(name="age", lower=16, upper=128, integer=True)
    assert schema.column("born") == Datetime(name="born", lower=dt.date(1950, 1, 1), upper=dt.date(1999, 12, 31))


def test_a_frame_and_a_parquet_file_give_their_types(tmp_path: Path) -> None:
    frame = pd.DataFrame({"n": np.arange(2000), "flag": [True, False] * 1000, "when": pd.Timestamp("2024-05-05")})
    pq.write_table(pa.Table.from_pandas(frame), tmp_path / "t.parquet")
    for data, nullable in ((frame, False), (tmp_path / "t.parquet", True)):
        schema = Schema.load(draft(data, tmp_path, label=None)[1])
        assert schema.column("flag") == Boolean(name="flag", missing=nullable)
        assert isinstance(schema.column("when"), Datetime)
        n = schema.column("n")
        assert isinstance(n, Numeric)
        assert (n.upper, n.integer, n.missing) == (2048, True, False)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"types": {"ages": "numeric"}}, SchemaError, 'did you mean "age"'),
        ({"types": {"age": "integr"}}, SchemaError, 'did you mean "integer"'),
        ({"label": "il"}, SchemaError, 'did you mean "ill"'),
        ({"label": "income"}, SchemaError, "must be categorical or boolean: --type income=categorical"),
        ({"label": "ill", "types": {"ill": "numeric"}}, SchemaError, "is numeric"),
        ({"epsilon": 0.0}, BudgetError, "epsilon"),
        ({"epsilon": float("nan")}, BudgetError, "epsilon"),
        ({"delta": 0.0}, BudgetError, "delta"),
        ({"delta": 1e-30}, BudgetError, "delta"),
        ({"adjacency": "add_remove"}, BudgetError, "add-remove"),
        ({"ledger": None}, LedgerError, "name a ledger"),
    ],
)
def test_mistakes_end_before_anything_is_spent(
    tmp_path: Path, changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        draft(invented_table(), tmp_path, **changes)
    assert not list(tmp_path.iterdir())


def test_data_that_cannot_be_drafted_is_refused_before_anything_is_spent(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="nothing to find out"):
        draft(pa.table({"b": pa.array([True])}), tmp_path)
    with pytest.raises(SchemaError, match=r'does not tell the type .* --type "l=TYPE"'):
        draft(pa.table({"l": pa.array([[1]])}), tmp_path)
    (tmp_path / "t.csv").write_text("a,b\n1,2\n3\n")
    with pytest.raises(DataError, match="ragged"):
        draft(tmp_path / "t.csv", tmp_path, types={"a": "numeric", "b": "numeric"})
    assert not (tmp_path / "data.ledger").exists()


# -- what it costs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_the_draft_costs_what_it_says(tmp_path: Path, adjacency: Adjacency) -> None:
    _, path = draft(invented_table().drop_columns(["nothing", "name"]), tmp_path, adjacency=adjacency, label="ill")
    spent = [Event.from_json(event) for event in Schema.load(path).spent]
    assert len(spent) == 4  # numbers, moments, two categorical columns
    assert {event.adjacency for event in spent} == {adjacency}
    assert 3.99 < epsilon(spent, 1e-5) <= 4.0
    assert sum(event.failure_delta for event in spent) == pytest.approx(5e-6)
    ledger = Ledger(tmp_path / "data.ledger")
    assert [Event.from_json(e) for entry in ledger.entries() for e in entry.get("events", ())] == spent
    kinds = Counter(entry["kind"] for entry in ledger.entries())
    assert kinds == {"open": 1, "reserve": 1, "ask": 4, "answer": 4}
    assert all(entry["run"].startswith("draft-") for entry in ledger.entries()[1:])


def test_a_draft_does_not_pass_the_cap(tmp_path: Path) -> None:
    cap = Budget(epsilon=5.0, delta=1e-4, adjacency=Adjacency.ADD_REMOVE)
    ledger = Ledger.create(tmp_path / "data.ledger", adjacency=Adjacency.ADD_REMOVE, cap=cap, failure_delta=5e-5)
    draft(invented_table(), tmp_path)
    before = ledger.entries()
    with pytest.raises(CapExceeded):
        draft(invented_table(), tmp_path)
    assert ledger.entries() == before


# -- the whole way ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def adult(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("adult")
    draft(datasets.load("adult").data, folder, epsilon=1.0, label="income")
    return folder


def test_the_draft_of_adult_is_close_to_the_documented_schema(adult: Path) -> None:
    drafted, documented = Schema.load(adult / "schema.toml"), datasets.schema("adult")
    assert drafted.label == "income"
    found = listed = 0
    for column in documented.columns:
        other = drafted.column(column.name)
        assert type(other) is type(column)
        if isinstance(column, Categorical) and isinstance(other, Categorical):
            assert set(other.values) <= set(column.values)
            found, listed = found + len(other.values), listed + len(column.values)
        if isinstance(column, Numeric) and isinstance(other, Numeric):
            assert other.integer
            assert not other.missing
            assert other.lower <= max(8, 4 * column.lower)
            assert column.upper / 4 <= other.upper <= 4 * column.upper
    assert found > 0.6 * listed  # all but some countries of birth and a few rare values
    assert drafted.class_names == documented.class_names


def test_later_plans_count_the_draft(adult: Path) -> None:
    schema = Schema.load(adult / "schema.toml")
    later = plan(schema, epsilon=2.0, delta=1e-5, adjacency="add-remove")
    assert [event.to_json() for event in later.prior] == list(schema.spent)
    assert later.epsilon(1e-5) <= 2.0 < epsilon([*later.events, *later.events, *later.prior], 1e-5)
    with pytest.raises(BudgetError, match="spent before"):
        plan(schema, epsilon=0.5, delta=1e-5, adjacency="add-remove")
    with pytest.raises(BudgetError, match="failure probabilities"):
        plan(schema, epsilon=2.0, delta=1e-6, adjacency="add-remove")
    with pytest.raises(BudgetError, match="under add-remove"):
        plan(schema, epsilon=2.0, delta=1e-5, adjacency="replace-one")


def test_a_run_with_the_drafted_schema_certifies_both_and_the_ledger_has_both(adult: Path) -> None:
    run = release(
        datasets.load("adult").data,
        schema=adult / "schema.toml",
        epsilon=2.0,
        delta=1e-5,
        adjacency="add-remove",
        out=adult / "run",
        ledger=adult / "data.ledger",
        method=tiny.METHOD,
        settings={"pairs": 20},
    )
    verification = run.verify()
    assert verification.ok, verification.problems
    assert verification.epsilon == pytest.approx(2.0, abs=1e-3)
    certificate = run.certificate
    assert certificate["prior"] == list(run.schema.spent)
    assert any("bought with the prior events" in line for line in certificate["assumed_public"])
    ledger = Ledger(adult / "data.ledger")
    runs = [entry["run"] for entry in ledger.entries() if entry["kind"] == "reserve"]
    assert [name.startswith("draft-") for name in runs] == [True, False]
    assert ledger.total(1e-5).epsilon == pytest.approx(verification.epsilon)

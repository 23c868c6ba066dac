"""Pairs of columns: the layout, the sum against counting by hand, training's products, and what does not fit."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import tiny
import torch

from simulacra.errors import SettingError
from simulacra.features import pairs as pairs_module
from simulacra.features.groups import Groups
from simulacra.features.pairs import Columns, PairLayout, PairProducts, Pairs
from simulacra.privacy.query import FeatureMap
from simulacra.privacy.summing import chunk_rows
from simulacra.schema import Boolean, Categorical, Numeric, Schema

PEOPLE, UNLABELLED = map(tiny.schema, (tiny.PEOPLE, tiny.UNLABELLED))
SHAPES = {
    "labelled": PEOPLE,
    "unlabelled": UNLABELLED,
    "one-column": Schema(columns=(Numeric(name="x", lower=0, upper=1, missing=True),)),
    "one-column-and-label": Schema(columns=(Boolean(name="x"), Boolean(name="y")), label="y"),
    "constant-column": Schema(columns=(Categorical(name="x", values=("only",)), Boolean(name="y")), label="y"),
    "one-constant-column": Schema(columns=(Categorical(name="x", values=("only",)),)),
    "label-in-the-middle": replace(PEOPLE, label="town"),
}
every_shape = pytest.mark.parametrize("schema", SHAPES.values(), ids=SHAPES)
every_map = pytest.mark.parametrize(
    "make", [Columns, Pairs, lambda schema: Pairs(schema, label_share=0.7)], ids=["columns", "pairs", "weighted pairs"]
)


def records(schema: Schema, count: int = 200) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(5)
    inputs = torch.rand(count, schema.inputs, generator=random, dtype=torch.float64) * 2 - 1
    return inputs, torch.randint(schema.classes, (count,), generator=random)


@every_map
@every_shape
def test_every_record_has_length_one_and_no_negative_entry(
    schema: Schema, make: Callable[[Schema], Columns | Pairs]
) -> None:
    feature_map = make(schema)
    inputs, labels = records(schema, 20)
    values = torch.func.vmap(feature_map.features)(inputs, labels)
    torch.testing.assert_close(values.norm(dim=1), torch.ones(20, dtype=torch.float64), rtol=1e-12, atol=0)
    assert (values >= 0).all()
    assert feature_map.nonnegative


@every_map
@every_shape
def test_the_sum_is_the_specification(schema: Schema, make: Callable[[Schema], Columns | Pairs]) -> None:
    feature_map = make(schema)
    inputs, labels = records(schema)
    specified = FeatureMap.clipped_sum(feature_map, inputs, labels)
    torch.testing.assert_close(feature_map.clipped_sum(inputs, labels), specified, rtol=1e-12, atol=1e-12)


def test_the_tables_are_counts_of_pairs_of_cells_and_the_label_is_a_column() -> None:
    feature_map = Pairs(PEOPLE)
    inputs, labels = records(PEOPLE)
    columns = [*feature_map.cells.index(inputs).T, labels]
    tables = feature_map.layout.tables(feature_map.scaled(feature_map.clipped_sum(inputs, labels), back=True))
    assert list(tables) == list(itertools.combinations(range(6), 2))
    for (i, j), table in tables.items():
        expected = torch.zeros_like(table)
        for a, b in zip(columns[i].tolist(), columns[j].tolist(), strict=True):
            expected[a, b] += 1
        torch.testing.assert_close(table, expected)


def test_the_size_is_the_sum_over_pairs_of_cells_times_cells() -> None:
    layout = PairLayout((3, 1, 4, 2))
    assert layout.numbers == 3 + 12 + 6 + 4 + 2 + 8
    assert layout.pairs == 6
    assert (PairLayout((5,)).numbers, PairLayout((5,)).pairs) == (5, 1)


@pytest.mark.parametrize("share", [None, 0.4])
def test_counts_are_exact_however_the_records_are_cut(share: float | None) -> None:
    feature_map = Pairs(PEOPLE, label_share=share)
    inputs, labels = records(PEOPLE, 301)
    parts = zip(torch.split(inputs, 7), torch.split(labels, 7), strict=True)
    summed = sum(feature_map.scaled(feature_map.clipped_sum(*part), back=True).round() for part in parts)
    whole = feature_map.scaled(feature_map.clipped_sum(inputs, labels), back=True)
    assert torch.equal(torch.as_tensor(summed), whole.round())


def test_tables_with_the_label_have_their_share_of_the_squared_length() -> None:
    feature_map = Pairs(PEOPLE, label_share=0.4)
    inputs, labels = records(PEOPLE, 1)
    tables = feature_map.layout.tables(feature_map.features(inputs[0], labels[0]))
    with_label = sum(float(table.square().sum()) for (_, j), table in tables.items() if j == 5)
    assert math.isclose(with_label, 0.4)


def test_tables_are_joined_as_they_were_cut() -> None:
    layout = PairLayout((3, 1, 4, 2))
    values = torch.arange(layout.numbers)
    assert torch.equal(layout.join(layout.tables(values)), values)


def test_a_chunk_is_cut_by_columns_and_not_by_features() -> None:
    feature_map = Pairs(PEOPLE)
    assert feature_map.working_size < feature_map.size
    assert chunk_rows(feature_map, PEOPLE.inputs) > 50_000


@every_shape
def test_training_on_records_as_points_gives_the_sum_of_records(schema: Schema) -> None:
    feature_map = Pairs(schema)
    inputs, labels = records(schema)
    order = torch.argsort(labels, stable=True)
    sizes = tuple(torch.bincount(labels, minlength=schema.classes).tolist())
    groups = Groups(sizes=sizes, weights=torch.ones(schema.classes, dtype=torch.float64))
    trained = feature_map.class_sums(feature_map.cells.one_hot(inputs[order]), groups)
    assert trained.shape == (1, feature_map.size)
    torch.testing.assert_close(trained[0], feature_map.clipped_sum(inputs, labels))


def test_soft_points_give_the_expected_table_of_rows_drawn_from_them() -> None:
    schema = SHAPES["one-column-and-label"]
    groups = Groups(sizes=(1, 1), weights=torch.tensor([0.25, 0.75], dtype=torch.float64))
    points = torch.tensor([[0.9, 0.1], [0.2, 0.8]], dtype=torch.float64)
    expected = torch.tensor([[0.9 * 0.25, 0.2 * 0.75, 0.1 * 0.25, 0.8 * 0.75]], dtype=torch.float64)
    torch.testing.assert_close(Pairs(schema).class_sums(points, groups), expected)


@pytest.mark.parametrize("sizes", [(3, 1, 2), (4,), (1, 1), (1,)], ids=str)
def test_the_gradient_by_hand_is_the_gradient(sizes: tuple[int, ...]) -> None:
    layout = PairLayout(sizes)
    random = torch.Generator().manual_seed(8)
    points = torch.rand(5, layout.total, generator=random, dtype=torch.float64, requires_grad=True)
    weights = torch.rand(5, generator=random, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda p: PairProducts.apply(p, weights, layout), (points,))  # type: ignore[no-untyped-call]


def test_thousands_of_categories_are_refused_with_their_number_and_a_way_out() -> None:
    wide = tuple(Categorical(name=name, values=tuple(range(15_000))) for name in ("town", "street"))
    with pytest.raises(
        SettingError, match=r'225,060,000 pairs of cells.*"town" \(15,000 cells\).*groups.*fewer bins.*drop'
    ):
        Pairs(Schema(columns=(*wide, Boolean(name="ill")), label="ill"))


def test_what_does_not_fit_the_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    needed = Pairs(PEOPLE).size * pairs_module.BYTES_PER_NUMBER
    monkeypatch.setattr(pairs_module, "memory", lambda: needed)
    assert Pairs(PEOPLE).size
    monkeypatch.setattr(pairs_module, "memory", lambda: needed - 1)
    with pytest.raises(SettingError, match="allowed here"):
        Pairs(PEOPLE)


def test_one_wide_column_among_narrow_ones_is_fine() -> None:
    schema = Schema(columns=(Categorical(name="town", values=tuple(range(9000))), Boolean(name="ill")), label="ill")
    feature_map = Pairs(schema)
    assert feature_map.size == 18_000
    inputs, labels = records(schema, 50)
    assert math.isclose(float(feature_map.clipped_sum(inputs, labels).sum()), 50)

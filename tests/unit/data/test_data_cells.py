from __future__ import annotations

import pyarrow as pa
import pytest
import torch
from data_strategies import schemas
from hypothesis import example, given, settings
from hypothesis import strategies as st

from simulacra.data.cells import Cells
from simulacra.data.encode import decode, encode
from simulacra.errors import SchemaError
from simulacra.schema import Categorical, ImageShape, Numeric, Schema


def every_cell(cells: Cells, rows: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.stack([torch.randint(size, (rows,), generator=generator) for size in cells.sizes], dim=1)


@settings(max_examples=150, deadline=None)
@given(schemas(), st.integers(0, 2**31))
def test_placed_records_are_in_the_cells_that_were_asked_for(schema: Schema, seed: int) -> None:
    cells = Cells(schema)
    wanted = every_cell(cells, 200, seed)
    placed = cells.place(wanted, torch.Generator().manual_seed(seed))
    assert placed.dtype == torch.float32
    assert bool((placed.abs() <= 1).all())
    assert torch.equal(cells.index(placed), wanted)
    assert torch.equal(cells.index(placed.double()), wanted)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_any_input_has_one_cell_per_column_and_vmap_agrees(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    cells = Cells(schema)
    numbers = st.one_of(st.floats(-1, 1), st.sampled_from([-1.0, 1.0, 0.0, float("nan"), float("inf"), -7.0]))
    rows = data.draw(
        st.lists(st.lists(numbers, min_size=schema.inputs, max_size=schema.inputs), min_size=1, max_size=3)
    )
    inputs = torch.tensor(rows, dtype=torch.float32)
    index = cells.index(inputs)
    assert index.dtype == torch.int64
    assert bool((index >= 0).all())
    assert bool((index < torch.tensor(cells.sizes)).all())
    one_hot = cells.one_hot(inputs)
    assert one_hot.shape == (len(rows), cells.total)
    assert torch.equal(one_hot.sum(1), torch.full((len(rows),), float(len(cells.sizes))))
    assert torch.equal(one_hot.nonzero()[:, 1].reshape(index.shape) - torch.tensor(cells.offsets), index)
    assert torch.equal(torch.func.vmap(cells.index)(inputs), index)
    assert torch.equal(torch.func.vmap(cells.one_hot)(inputs), one_hot)
    assert torch.equal(cells.one_hot(inputs[0]), one_hot[0])


@settings(max_examples=100, deadline=None)
@given(schemas(), st.integers(0, 2**31))
def test_categories_decode_to_the_value_of_their_cell(schema: Schema, seed: int) -> None:
    cells = Cells(schema)
    wanted = every_cell(cells, 50, seed)
    records = encode(decode(cells.place(wanted), torch.zeros(50), schema), schema)
    unordered = [i for i, column in enumerate(schema.features) if not column.ordered]
    assert torch.equal(cells.index(records.inputs)[:, unordered], wanted[:, unordered])


def test_cells_follow_the_schema() -> None:
    schema = Schema(
        columns=(
            Numeric(name="n", lower=0, upper=4, integer=True, missing=True),
            Categorical(name="c", values=("a", "b"), other=True, missing=True),
        )
    )
    cells = Cells(schema)
    assert (cells.sizes, cells.offsets, cells.total, cells.inputs) == ((6, 4), (0, 6), 10, 3)
    table = pa.table({"n": [0, 4, None, 2], "c": ["b", "zzz", None, "a"]})
    assert cells.index(encode(table, schema).inputs).tolist() == [[0, 1], [4, 2], [5, 3], [2, 0]]


def test_a_one_hot_row_has_the_type_of_its_input() -> None:
    cells = Cells(Schema(columns=(Numeric(name="n", lower=0, upper=1),)))
    assert cells.one_hot(torch.zeros(2, 1, dtype=torch.float64)).dtype == torch.float64


def test_images_have_no_cells() -> None:
    with pytest.raises(SchemaError, match="no cells"):
        Cells(Schema(image=ImageShape(height=2, width=2)))


@settings(max_examples=150, deadline=None)
@example(lower=0, span=284, bins=54, log=False, seed=8)  # numbers whose own place is the edge of a bin
@given(
    lower=st.integers(-50, 50),
    span=st.integers(1, 400),
    bins=st.integers(2, 64),
    log=st.booleans(),
    seed=st.integers(0, 999),
)
def test_whole_numbers_stay_in_the_bin_they_were_generated_in(
    lower: int, span: int, bins: int, log: bool, seed: int
) -> None:
    """Unless the bin holds no whole number at all."""
    column = Numeric(name="x", lower=lower, upper=lower + span, integer=True, bins=bins, log=log)
    schema = Schema(columns=(column,))
    cells = Cells(schema)
    every = pa.table({"x": pa.array(range(lower, lower + span + 1))})
    inhabited = set(cells.index(encode(every, schema).inputs.double())[:, 0].tolist())
    wanted = every_cell(cells, 300, seed)
    placed = cells.place(wanted, torch.Generator().manual_seed(seed))
    again = cells.index(encode(decode(placed, None, schema), schema).inputs.double())  # as the boundary does
    kept = torch.tensor([cell in inhabited for cell in wanted[:, 0].tolist()])
    assert torch.equal(again[kept], wanted[kept])


def test_a_spike_at_zero_does_not_spill_onto_one() -> None:
    column = Numeric(name="gain", lower=0, upper=99_999, integer=True, bins=20, log=True)
    schema = Schema(columns=(column,))
    cells = Cells(schema)
    zeros = cells.place(torch.zeros(500, 1, dtype=torch.int64), torch.Generator().manual_seed(0))
    assert set(decode(zeros, None, schema).column("gain").to_pylist()) == {0}

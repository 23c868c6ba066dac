"""Sealed records and their sums: nothing to see, nothing to break."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from invented import SCHEMA, Counts, InMemory, Inputs, source

from simulacra.privacy.query import FeatureMap
from simulacra.privacy.records import Records
from simulacra.privacy.sealed import Sealed
from simulacra.privacy.summing import CHUNK_NUMBERS, add_chunks, chunk_rows, in_memory, sum_over


def sealed(inputs: list[list[float]], labels: list[int]) -> Sealed:
    return Sealed(InMemory(torch.tensor(inputs, dtype=torch.float64), torch.tensor(labels)), SCHEMA)


def test_sealed_records_have_no_length_no_index_and_no_iteration() -> None:
    box = Sealed(source(), SCHEMA)
    with pytest.raises(TypeError):
        len(box)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        box[0]  # type: ignore[index]
    with pytest.raises(TypeError):
        iter(box)  # type: ignore[call-overload]
    with pytest.raises(AttributeError):
        box.extra = 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("show", [repr, str, "{}".format])
def test_printing_sealed_records_shows_nothing(show: object) -> None:
    assert show(Sealed(source(), SCHEMA)) == "Sealed()"  # type: ignore[operator]


@pytest.mark.parametrize("attempt", [pickle.dumps, copy.copy, copy.deepcopy])
def test_sealed_records_are_not_pickled_or_copied(attempt: object) -> None:
    with pytest.raises(TypeError, match="not pickled"):
        attempt(Sealed(source(), SCHEMA))  # type: ignore[operator]


def test_every_number_is_made_valid_on_its_way_in() -> None:
    nan, inf = float("nan"), float("inf")
    box = sealed([[nan, inf], [-inf, 1e300], [5e-324, -1.0000001], [0.25, -0.5]], [0, 99, -7, 1])
    records = in_memory(box)
    assert records.inputs.tolist() == [[0, 1], [-1, 1], [0, -1], [0.25, -0.5]]
    assert records.labels.tolist() == [0, 2, 0, 1]


def test_a_sum_does_not_depend_on_how_the_records_are_cut_into_batches() -> None:
    inputs, labels = torch.rand(50, 2) * 2 - 1, torch.randint(3, (50,))
    sums = [
        sum_over(Sealed(InMemory(inputs, labels, batch), SCHEMA), {"inputs": Inputs(), "counts": Counts()})
        for batch in (1, 7, 50)
    ]
    for other in sums[1:]:
        torch.testing.assert_close(other, sums[0], rtol=0, atol=1e-12)


def test_no_records_sum_to_zero() -> None:
    nobody = Sealed(InMemory(torch.zeros(0, 2), torch.zeros(0, dtype=torch.int64)), SCHEMA)
    assert sum_over(nobody, {"inputs": Inputs()})["inputs"].tolist() == [0, 0]
    assert in_memory(nobody).inputs.shape == (0, 2)


def test_nan_of_a_closed_form_becomes_zero_without_a_second_copy_of_the_sums() -> None:
    """Releases have millions of numbers: a copy per chunk took as long as the sum itself."""

    class Careless(FeatureMap):
        shape = (3,)
        given = torch.tensor([1.0, torch.nan, -2.0], dtype=torch.float64)

        def features(self, inputs: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
            return self.given

        def clipped_sum(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
            return self.given

    total = torch.zeros(3, dtype=torch.float64)
    add_chunks(total, Careless(), Records(inputs=torch.zeros(2, 1), labels=torch.zeros(2, dtype=torch.int64)))
    assert total.tolist() == [1.0, 0.0, -2.0]
    assert Careless.given.tolist() == [1.0, 0.0, -2.0], "put right where it lies"


def test_a_chunk_is_more_work_than_adding_it_up() -> None:
    """Chunks grow with the release, since each is added to all of it, but not for ever."""

    class Sized(FeatureMap):
        def __init__(self, size: int) -> None:
            self.shape = (size,)

        def features(self, inputs: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
            raise NotImplementedError

        @property
        def working_size(self) -> int:
            return 1000

    small, large, huge = (chunk_rows(Sized(size), 10) * 1000 for size in (10, 6_000_000, 200_000_000))
    assert small == CHUNK_NUMBERS
    assert large == 12_000_000
    assert huge == 32_000_000

"""One battery for every feature map: the premise of every privacy claim we make, on hostile input.

Records go through `Sealed`, as in production; what one of them can do is compared with what the accountant was told.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from simulacra.features import examples
from simulacra.privacy.budget import Adjacency
from simulacra.privacy.query import FeatureMap, Step, sensitivity
from simulacra.privacy.records import Records
from simulacra.privacy.sealed import Sealed
from simulacra.privacy.summing import sum_over
from simulacra.schema import ImageShape, Numeric, Schema


class Counts(FeatureMap):
    """The plainest map: a one in the record's class."""

    nonnegative = True

    def __init__(self, classes: int) -> None:
        self.shape = (classes,)

    def features(self, inputs: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        return (torch.arange(self.shape[0]) == label).to(inputs.dtype)


class ClippedLinear(FeatureMap):
    """A map that needs its clipping, with a bound that is not 1."""

    norm_bound = 0.7

    def __init__(self, inputs: int, outputs: int) -> None:
        self.shape = (outputs,)
        self.matrix = torch.randn(outputs, inputs, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def features(self, inputs: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        return self.matrix @ inputs * 100


class Hostile(FeatureMap):
    """A map that answers with NaN, infinity and negative entries it swore not to have."""

    nonnegative = True
    shape = (2, 2)

    def features(self, inputs: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        x = inputs[0]
        return torch.stack([1 / x, x.log(), -(x**2), x * 1e308 * 10]).reshape(2, 2)


Example = tuple[str, FeatureMap, int, int]
LOCAL: tuple[Example, ...] = (
    ("local-counts", Counts(3), 2, 3),
    ("local-clipped-linear", ClippedLinear(4, 3), 4, 1),
    ("local-hostile", Hostile(), 1, 1),
)
MAPS = (*examples(), *LOCAL)
every_map = pytest.mark.parametrize("example", MAPS, ids=lambda example: example[0])

NASTY = (math.nan, math.inf, -math.inf, 5e-324, -5e-324, 1e-45, 1e308, -1e308, 0.0, -0.0, 1.0, -1.0, 1 + 1e-7, 3.5e38)
numbers = st.one_of(st.sampled_from(NASTY), st.floats(-1, 1), st.floats())
labels = st.one_of(st.integers(0, 5), st.sampled_from([-1, -(2**63), 2**63 - 1, 99]))


@dataclass(frozen=True)
class Invented:
    inputs: torch.Tensor
    labels: torch.Tensor
    batch: int = 1024

    def batches(self) -> Iterator[Records]:
        for start in range(0, len(self.inputs), self.batch):
            stop = start + self.batch
            yield Records(inputs=self.inputs[start:stop], labels=self.labels[start:stop])

    def check(self) -> None:
        return None


def schema_for(inputs: int, classes: int) -> Schema:
    if classes == 1:
        return Schema(columns=tuple(Numeric(name=f"x{i}", lower=-1, upper=1) for i in range(inputs)))
    return Schema(image=ImageShape(height=1, width=inputs, classes=tuple(map(str, range(classes)))))


def sealed_sum(example: Example, inputs: torch.Tensor, labels: torch.Tensor, batch: int = 1024) -> torch.Tensor:
    _, feature_map, width, classes = example
    sealed = Sealed(Invented(inputs, labels, batch), schema_for(width, classes))
    return sum_over(sealed, {"sum": feature_map})["sum"]


def charged(feature_map: FeatureMap, adjacency: Adjacency) -> float:
    return sensitivity(Step.asking("sum", feature_map), adjacency)


def hostile_records(width: int, least: int, most: int) -> st.SearchStrategy[tuple[torch.Tensor, torch.Tensor]]:
    row = st.tuples(st.lists(numbers, min_size=width, max_size=width), labels)
    return st.lists(row, min_size=least, max_size=most).map(
        lambda rows: (
            torch.tensor([values for values, _ in rows], dtype=torch.float64).reshape(len(rows), width),
            torch.tensor([label for _, label in rows], dtype=torch.int64),
        )
    )


def many(example: Example, records: int = 3000) -> tuple[torch.Tensor, torch.Tensor]:
    """A large batch with every kind of nasty number in it, the same each time."""
    _, _, width, classes = example
    generator = torch.Generator().manual_seed(11)
    inputs = torch.rand(records, width, generator=generator, dtype=torch.float64) * 2.2 - 1.1
    nasty = torch.tensor(NASTY, dtype=torch.float64)
    where = torch.rand(records, width, generator=generator) < 0.1
    inputs[where] = nasty[torch.randint(len(NASTY), (int(where.sum()),), generator=generator)]
    return inputs, torch.randint(-1, classes + 1, (records,), generator=generator)


def without(batch: torch.Tensor, index: int) -> torch.Tensor:
    return torch.cat([batch[:index], batch[index + 1 :]])


@every_map
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_removing_one_record_moves_the_sum_by_at_most_what_was_charged(example: Example, data: st.DataObject) -> None:
    inputs, labels = data.draw(hostile_records(example[2], 1, 3))
    index = data.draw(st.integers(0, len(inputs) - 1))
    move = sealed_sum(example, inputs, labels) - sealed_sum(example, without(inputs, index), without(labels, index))
    assert move.norm() <= charged(example[1], Adjacency.ADD_REMOVE)


@every_map
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_replacing_one_record_moves_the_sum_by_at_most_what_was_charged(example: Example, data: st.DataObject) -> None:
    inputs, labels = data.draw(hostile_records(example[2], 2, 4))
    before, after = sealed_sum(example, inputs[:-1], labels[:-1]), sealed_sum(example, inputs[1:], labels[1:])
    assert (before - after).norm() <= charged(example[1], Adjacency.REPLACE_ONE)


@every_map
def test_at_large_n_one_record_moves_the_sum_by_at_most_what_was_charged(example: Example) -> None:
    inputs, labels = many(example)
    whole = sealed_sum(example, inputs, labels)
    for index in (0, 1, 1500, 2999):
        fewer = sealed_sum(example, without(inputs, index), without(labels, index))
        assert (whole - fewer).norm() <= charged(example[1], Adjacency.ADD_REMOVE)
        other_inputs, other_labels = inputs.clone(), labels.clone()
        other_inputs[index], other_labels[index] = inputs[index - 7].flip(0), labels[index - 7]
        replaced = sealed_sum(example, other_inputs, other_labels)
        assert (whole - replaced).norm() <= charged(example[1], Adjacency.REPLACE_ONE)


@every_map
def test_the_closed_form_equals_the_specification(example: Example) -> None:
    _, feature_map, width, classes = example
    inputs, labels = many(example, 500)
    inputs = torch.nan_to_num(inputs, nan=0.0).clamp(-1, 1).to(torch.float32).to(feature_map.dtype)
    labels = labels.clamp(0, classes - 1)
    assert inputs.shape[1] == width
    closed = feature_map.clipped_sum(inputs, labels)
    specified = FeatureMap.clipped_sum(feature_map, inputs, labels)
    assert closed.dtype == specified.dtype == torch.float64
    assert closed.shape == specified.shape == feature_map.shape
    torch.testing.assert_close(closed, specified, rtol=1e-9, atol=1e-9)


@every_map
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_single_record_is_never_longer_than_the_bound(example: Example, data: st.DataObject) -> None:
    inputs, labels = data.draw(hostile_records(example[2], 1, 1))
    value = sealed_sum(example, inputs, labels)
    assert torch.isfinite(value).all()
    assert value.norm() <= example[1].norm_bound * (1 + 1e-9)
    if example[1].nonnegative:
        assert (value >= 0).all()


@every_map
def test_the_order_of_the_records_and_the_cut_into_batches_do_not_matter(example: Example) -> None:
    inputs, labels = many(example, 300)
    order = torch.randperm(300, generator=torch.Generator().manual_seed(3))
    whole = sealed_sum(example, inputs, labels)
    torch.testing.assert_close(sealed_sum(example, inputs[order], labels[order]), whole, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(sealed_sum(example, inputs, labels, batch=7), whole, rtol=1e-9, atol=1e-9)


@every_map
def test_the_sum_of_all_is_the_sum_of_each(example: Example) -> None:
    inputs, labels = many(example, 40)
    alone = [sealed_sum(example, inputs[i : i + 1], labels[i : i + 1]) for i in range(40)]
    torch.testing.assert_close(sealed_sum(example, inputs, labels), torch.stack(alone).sum(0), rtol=1e-9, atol=1e-9)


@every_map
def test_no_records_sum_to_nothing(example: Example) -> None:
    nobody = sealed_sum(example, torch.zeros(0, example[2]), torch.zeros(0, dtype=torch.int64))
    assert nobody.shape == example[1].shape
    assert not nobody.any()


@every_map
def test_a_map_holds_still(example: Example) -> None:
    """The same records give the same sum whatever happened in between: no state, no randomness."""
    inputs, labels = many(example, 50)
    first = sealed_sum(example, inputs, labels)
    torch.rand(5)
    sealed_sum(example, *many(example, 20))
    assert torch.equal(first, sealed_sum(example, inputs, labels))


# -- a map cannot mix records -------------------------------------------------------------------------------------


class WithBatchNorm(FeatureMap):
    shape = (2,)

    def __init__(self, track: bool) -> None:
        self.norm = torch.nn.BatchNorm1d(2, track_running_stats=track).double().train()

    def features(self, inputs: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        return self.norm(inputs.unsqueeze(0)).squeeze(0)


class WithDropout(FeatureMap):
    shape = (2,)

    def features(self, inputs: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(inputs, 0.5, training=True)


class WithRandomness(FeatureMap):
    shape = (2,)

    def features(self, inputs: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        return inputs + torch.rand(2, dtype=inputs.dtype)


class WithBranches(FeatureMap):
    shape = (2,)

    def features(self, inputs: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        return inputs if inputs.sum() > 0 else -inputs


@pytest.mark.parametrize(
    "mixing",
    [WithBatchNorm(True), WithBatchNorm(False), WithDropout(), WithRandomness(), WithBranches()],
    ids=["batch-norm", "batch-norm-without-tracking", "dropout", "randomness", "branch on a record"],
)
def test_a_map_that_mixes_records_or_draws_randomness_raises(mixing: FeatureMap) -> None:
    with pytest.raises((RuntimeError, ValueError)):
        sealed_sum(("mixing", mixing, 2, 1), torch.rand(4, 2), torch.zeros(4, dtype=torch.int64))

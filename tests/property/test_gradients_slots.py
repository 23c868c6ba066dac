"""Batches of clipped gradients: slots and how many there are change nothing, nor does a record's place among them."""

from __future__ import annotations

import math

import pytest
import torch
from gradient_losses import CLASSES, every_loss, invented, summed

from simulacra.features.critic_losses import FakeLoss
from simulacra.gradients.padding import FEW_SLOTS, PaddedSums, room_for, slots_for
from simulacra.gradients.summing import GradientSums
from simulacra.networks.critics import CriticOptions, build_critic


@every_loss
def test_empty_slots_add_exactly_nothing(name: str) -> None:
    loss, sums = summed(name, 0.5)
    inputs, labels = invented(loss.width, 6)
    garbage = inputs.clone()
    garbage[4:] = 0.5 if name == "embedding" else math.nan  # numbers pick rows there
    present = torch.tensor([True] * 4 + [False] * 2)
    assert torch.equal(sums.batch(inputs, labels, present), sums.batch(garbage, labels, present))
    assert not sums.batch(inputs, labels, torch.zeros(6, dtype=torch.bool)).any()


@every_loss
def test_micro_batches_and_slots_change_nothing(name: str) -> None:
    loss, sums = summed(name, 0.5, torch.float64)
    inputs, labels = invented(loss.width, 11, torch.float64)
    whole = sums(inputs, labels)
    for slots in (1, 4, 11, 32):
        padded = PaddedSums(sums, slots=slots, inputs=loss.width)
        torch.testing.assert_close(padded(inputs, labels), whole, rtol=1e-9, atol=1e-11)
        assert not padded(inputs[:0], labels[:0]).any()
        assert not padded.inputs.any()  # nothing private stays behind
    assert not sums(inputs[:0], labels[:0]).any()


@every_loss
def test_what_a_network_makes_of_a_record_does_not_depend_on_its_slot(name: str) -> None:
    """Narrow matrices are multiplied in pairs of rows, so some of these networks are run record by record."""
    loss, sums = summed(name, 0.5)
    padded = PaddedSums(sums, slots=32, inputs=loss.width)
    assert padded.slots in (1, 32)
    if name == "label-planes":
        assert padded.slots == 32
    inputs, _ = invented(loss.width, padded.slots)
    first = [values[0].clone() for values in sums.passing(inputs, padded.labels)]
    for slot in range(padded.slots):
        moved = [values[slot] for values in sums.passing(inputs.roll(slot, dims=0), padded.labels)]
        assert all(torch.equal(a, b) for a, b in zip(first, moved, strict=True))


@pytest.mark.parametrize("seed", range(20))
def test_nor_on_luck_with_the_record_that_was_tried(seed: int) -> None:
    """Two neurons give two records in three the same bits in every slot, and the third other ones."""
    torch.manual_seed(seed)
    critic = build_critic(CriticOptions(hidden=(2, 2)), image=None, width=9, classes=2)
    sums = GradientSums(FakeLoss(critic), inputs=9, classes=2, bound=1.0)
    padded = PaddedSums(sums, slots=32, inputs=9)
    for row in torch.rand(60, 9) * 2 - 1:
        for values in sums.passing(row.expand(padded.slots, 9).contiguous(), padded.labels):
            assert torch.equal(values, values[:1].expand_as(values))


def test_networks_of_a_usual_width_are_not_run_record_by_record() -> None:
    from simulacra.features.critic_losses import FakeLoss
    from simulacra.networks.critics import CriticOptions, build_critic

    for width in (3, 17, 133):
        critic = build_critic(CriticOptions(), image=None, width=width, classes=CLASSES)
        sums = GradientSums(FakeLoss(critic), inputs=width, classes=CLASSES, bound=1.0)
        for slots in (32, slots_for(650, sums)):
            assert PaddedSums(sums, slots=slots, inputs=width).slots == slots


@pytest.mark.parametrize(("always", "slots"), [(False, 32), (True, 1)])
def test_where_slots_differ_plainer_kernels_are_tried_and_then_records_go_one_by_one(
    monkeypatch: pytest.MonkeyPatch, always: bool, slots: int
) -> None:
    loss, sums = summed("label-planes", 0.5)
    genuine = GradientSums.passing

    def wobbling(self: GradientSums, inputs: torch.Tensor, labels: torch.Tensor) -> list[torch.Tensor]:
        found = genuine(self, inputs, labels)
        steps = 1 + 1e-6 * torch.arange(len(found[-1])).view(-1, 1, 1, 1)
        return [*found[:-1], found[-1] * steps] if always or self.searching else found

    monkeypatch.setattr(GradientSums, "passing", wobbling)
    padded = PaddedSums(sums, slots=32, inputs=loss.width)
    assert (padded.slots, sums.searching) == (slots, False)
    inputs, labels = invented(loss.width, 5)
    torch.testing.assert_close(padded(inputs, labels), sums(inputs, labels), rtol=1e-4, atol=1e-6)
    assert not padded.inputs.any()


def test_where_many_slots_differ_few_are_tried_before_records_go_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    loss, sums = summed("label-planes", 0.5)
    genuine = GradientSums.passing

    def wobbling(self: GradientSums, inputs: torch.Tensor, labels: torch.Tensor) -> list[torch.Tensor]:
        found = genuine(self, inputs, labels)
        found[-1][FEW_SLOTS:] += 1
        return found

    monkeypatch.setattr(GradientSums, "passing", wobbling)
    padded = PaddedSums(sums, slots=96, inputs=loss.width)
    assert padded.slots == len(padded.inputs) == len(padded.labels) == len(padded.present) == FEW_SLOTS
    inputs, labels = invented(loss.width, 50)
    torch.testing.assert_close(padded(inputs, labels), sums(inputs, labels), rtol=1e-4, atol=1e-6)


def test_room_for_nearly_every_poisson_batch() -> None:
    assert room_for(128) % 32 == 0
    assert 512 + 3 * 22 < room_for(512) < 640
    assert room_for(1) == 32


def test_a_processor_takes_many_small_records_and_few_large_ones_at_a_time() -> None:
    _, sums = summed("label-planes", 0.7)
    assert slots_for(None, sums) == FEW_SLOTS
    sums.numbers = 1
    assert slots_for(650, sums) == room_for(650)
    sums.numbers = 40_000
    assert slots_for(650, sums) == 96
    sums.numbers = 10**9
    assert slots_for(650, sums) == FEW_SLOTS


@pytest.mark.parametrize(("expected", "slots"), [(100, 160), (2048, 1120), (8192, 1696)])
def test_a_batch_that_does_not_fit_goes_in_equal_parts(
    expected: int, slots: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a batch of 2,048, which seldom has just so many, does not cost twice as much for the few beyond."""
    # Whether products of matrices as narrow as these are the same in all slots is for each processor to say.
    monkeypatch.setattr(PaddedSums, "_steady", lambda self: True)
    _, sums = summed("linear", 1.0)
    padded = PaddedSums(sums, slots=room_for(expected), inputs=6)
    assert padded.slots == slots
    assert -(-room_for(expected) // slots) == -(-room_for(expected) // sums.rows)

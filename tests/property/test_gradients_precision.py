"""Clipped sums of gradients in few bits: what may be rounded, what is charged for it, and that the bound holds."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from gradient_losses import CLASSES, Loss, every_loss, invented, losses, summed
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from simulacra.features.gradient import LossGradient
from simulacra.gradients import arithmetic, convolution, products, summing
from simulacra.gradients.arithmetic import Precision
from simulacra.gradients.clipping import SLACK, clipped_to
from simulacra.gradients.padding import PaddedSums, room_for
from simulacra.gradients.summing import GradientSums
from simulacra.gradients.tracing import Passed
from simulacra.privacy.records import Records
from simulacra.privacy.summing import add_chunks


def test_the_more_numbers_are_added_up_the_more_is_charged_for_it() -> None:
    assert [Precision.SINGLE.measuring(added) for added in (4, 4096)] == [2.0**-22, 2.0**-12]
    assert [Precision.MIXED.measuring(added) for added in (4, 4096)] == [2.0**-13, 2.0**-12]


@pytest.fixture
def with_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a processor take the way of a GPU: slower, and the same numbers are rounded."""
    monkeypatch.setattr(arithmetic, "_multiplies_halves", lambda device: True)


def mixed(name: str, bound: float) -> tuple[nn.Module, GradientSums]:
    loss = losses()[name]
    return loss, GradientSums(loss, inputs=loss.width, classes=CLASSES, bound=bound, precision=Precision.MIXED)


def test_a_processor_has_single_precision_whatever_is_asked() -> None:
    assert mixed("label-planes", 0.5)[1].precision is Precision.SINGLE


@pytest.mark.parametrize("precision", Precision)
def test_what_may_be_rounded_is_what_the_precision_says(
    monkeypatch: pytest.MonkeyPatch, precision: Precision, with_halves: None
) -> None:
    """Networks in mixed precision compute in bfloat16. Lengths and sums never do, nor in TF32."""
    loss, sums = summed("label-planes", 0.5)
    inputs, labels = invented(loss.width, 3)
    right = sums(inputs, labels)
    seen: dict[str, set[tuple[bool, ...]]] = {"passes": set(), "lengths": set(), "sums": set()}

    def rounded() -> tuple[bool, ...]:
        flags = torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32
        return *flags, torch.is_autocast_enabled("cpu")

    def watched(passed: Passed) -> Any:
        layer: Any = contribution(passed)
        lengths, weighted = layer.lengths, layer.weighted
        layer.lengths = lambda: (seen["lengths"].add(rounded()), lengths())[1]
        layer.weighted = lambda weights: (seen["sums"].add(rounded()), weighted(weights))[1]
        seen["lengths"].add(rounded())  # some are measured in part as they are made
        return layer

    def spying(*words: Any) -> list[Any]:
        seen["passes"].add(rounded())
        return list(genuine(*words))

    genuine, contribution = summing.trace, Passed.contribution
    monkeypatch.setattr(summing, "trace", spying)
    monkeypatch.setattr(Passed, "contribution", watched)
    before = rounded()
    sums.precision = precision
    torch.testing.assert_close(sums(inputs, labels), right, rtol=1e-1, atol=2e-3)
    never, in_passes = (False, False, False), (False, False, precision is Precision.MIXED)
    assert seen == {"passes": {in_passes}, "lengths": {never}, "sums": {never}}
    assert rounded() == before


def test_in_passes_that_round_signals_must_be_steady_too_or_nothing_is_rounded(
    monkeypatch: pytest.MonkeyPatch, with_halves: None
) -> None:
    loss, sums = summed("label-planes", 0.5)
    plain = len(sums.passing(*invented(loss.width, 3)))
    sums.precision = Precision.MIXED
    assert len(sums.passing(*invented(loss.width, 3))) == 2 * plain
    genuine = GradientSums.passing

    def wobbling(self: GradientSums, inputs: torch.Tensor, labels: torch.Tensor) -> list[torch.Tensor]:
        found = genuine(self, inputs, labels)
        steps = 1 + torch.arange(len(found[-1])).view(-1, 1, 1, 1)
        return [*found[:-1], found[-1] * steps] if self.precision is Precision.MIXED else found

    monkeypatch.setattr(GradientSums, "passing", wobbling)
    padded = PaddedSums(sums, slots=32, inputs=loss.width)
    assert (padded.slots, sums.precision) == (32, Precision.SINGLE)


@every_loss
def test_in_mixed_precision_no_gradient_is_longer_than_the_bound(name: str, with_halves: None) -> None:
    """And where nothing is clipped, the sum is that of a network which computes in bfloat16."""
    loss, sums = mixed(name, 0.01)
    assert sums.precision is Precision.MIXED
    inputs, labels = invented(loss.width, 6)
    for index in range(6):
        one = sums(inputs[index : index + 1], labels[index : index + 1])
        assert 0.004 < one.norm() <= clipped_to(0.01, torch.float32)
    single = GradientSums(loss, inputs=loss.width, classes=CLASSES, bound=1e4)(inputs, labels)
    sums.bound = 1e4
    assert (sums(inputs, labels) - single).norm() <= 0.02 * single.norm()


def test_products_of_halves_lose_nothing() -> None:
    random = torch.Generator().manual_seed(0)
    left, right = (torch.randn(3, 40, 50, generator=random).to(torch.bfloat16) for _ in range(2))
    exact = left.double() @ right.double().transpose(1, 2)
    found = products.product(left, right.transpose(1, 2))
    assert found.dtype == torch.float32
    assert (found - exact).abs().max() <= 1e-5  # what adding up 50 numbers in float32 loses
    assert (products.product(left[0], right[0].T) - exact[0]).abs().max() <= 1e-5


@given(value=st.floats(min_value=2.0**-100, max_value=2.0**100, width=32), negative=st.booleans())
def test_what_is_charged_for_two_halves_covers_what_they_lose(value: float, negative: bool) -> None:
    """With a float32 product of a signal and a weight, which is off by 2^-24, in front of them."""
    number = torch.tensor(-value if negative else value)
    high, low = products.in_two(number.view(1, 1))[0]
    lost = abs(float(number.double() - high.double() - low.double())) / abs(float(number))
    assert lost + 2.0**-24 <= Precision.MIXED.rounding
    assert Precision.SINGLE.rounding == 0


def test_in_mixed_precision_the_lengths_leave_room_for_rounded_signals(
    monkeypatch: pytest.MonkeyPatch, with_halves: None
) -> None:
    """With halves so coarse that what they lose is seen: one record's share of the sum stays within the bound."""
    loss = losses()["convolution-of-few-positions"]
    inputs, labels = invented(loss.width, 8)
    monkeypatch.setattr(convolution, "in_two", lambda values: torch.cat([_coarse(values), 0 * _coarse(values)], dim=1))
    sums = GradientSums(loss, inputs=loss.width, classes=CLASSES, bound=0.1)
    sums.precision = Precision.MIXED
    monkeypatch.setattr(Precision, "measuring", lambda *_: 2.0**-22)  # which leaves room as well

    def longest() -> float:
        alone = [sums(inputs[index : index + 1], labels[index : index + 1]) for index in range(8)]
        return max(float(each.norm()) for each in alone)

    assert longest() > 0.1  # with what is charged for exact halves
    monkeypatch.setattr(Precision, "rounding", 2.0**-4)
    assert longest() <= 0.1


def _coarse(values: torch.Tensor) -> torch.Tensor:
    """Rounded up to 4 significant bits."""
    mantissa, exponent = torch.frexp(values)
    return torch.ldexp((mantissa * 16).abs().ceil() * mantissa.sign() / 16, exponent).bfloat16()


@pytest.mark.parametrize("name", ["label-planes", "residual-critic", "linear"])
@pytest.mark.parametrize("precision", Precision)
def test_removing_one_of_many_records_that_point_the_same_way_moves_the_sum_by_at_most_the_bound(
    name: str, precision: Precision, with_halves: None
) -> None:
    """Adding up in float32 rounds anew when a record leaves; see SLACK."""
    loss, sums = summed(name, 1e-3)  # so low that every record is clipped
    sums.precision = precision
    one, label = invented(loss.width, 1)
    random = torch.Generator().manual_seed(2)
    inputs = one + 1e-3 * torch.rand(2000, loss.width, generator=random)
    labels = label.expand(2000)
    feature_map = LossGradient(sums, inputs=loss.width)
    whole = vault_sum(feature_map, inputs, labels)
    assert whole.norm() > 1.9  # they do point the same way: the worst case for rounding
    for index in (0, 777, 1999):
        rest = torch.arange(2000) != index
        move = (whole - vault_sum(feature_map, inputs[rest], labels[rest])).norm()
        assert move <= 1e-3
        assert -0.01 < float(move) / clipped_to(1e-3, torch.float32) - 1 < SLACK / 3


def vault_sum(feature_map: LossGradient, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    total = torch.zeros(feature_map.shape, dtype=torch.float64)
    add_chunks(total, feature_map, Records(inputs=inputs, labels=labels))
    return total


def test_no_more_records_are_added_up_at_once_than_the_slack_was_measured_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simulacra.gradients.summing.MOST_NUMBERS", {"cpu": 1 << 40})
    sums = GradientSums(Loss(nn.Linear(5, 1), shape=(5,)), inputs=5, classes=2, bound=1.0)
    assert sums.rows == 2048
    assert PaddedSums(sums, slots=room_for(100_000), inputs=5).slots <= 2048

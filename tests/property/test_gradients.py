"""Clipped sums of gradients: equal to the specification and to Opacus, and within the bound whatever a record holds."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import softplus, unfold

from simulacra.errors import SettingError
from simulacra.features.critic_losses import FakeLoss
from simulacra.features.gradient import LossGradient
from simulacra.gradients import arithmetic, convolution, products, specified, summing
from simulacra.gradients.arithmetic import Precision
from simulacra.gradients.clipping import SLACK, clipped_to
from simulacra.gradients.padding import FEW_SLOTS, PaddedSums, room_for, slots_for
from simulacra.gradients.summing import GradientSums
from simulacra.gradients.tracing import Passed
from simulacra.networks import critics
from simulacra.networks.critics import CriticOptions, build_critic
from simulacra.networks.label_convolution import LabelConvolution
from simulacra.privacy.budget import Adjacency
from simulacra.privacy.query import Step, sensitivity
from simulacra.privacy.records import Records
from simulacra.privacy.summing import add_chunks
from simulacra.schema import ImageShape

CLASSES = 3


class Loss(nn.Module):
    """Layers between a reshape of the record and a number per record."""

    def __init__(self, *layers: nn.Module, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.layers, self.shape = nn.Sequential(*layers), shape

    @property
    def width(self) -> int:
        return math.prod(self.shape)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        values = self.layers(inputs.view(-1, *self.shape)).flatten(1)
        return softplus(values).sum(dim=1) * (1 + labels)


class Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm, self.convolution = nn.GroupNorm(2, channels), nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images + self.convolution(self.norm(images).relu())


class Words(nn.Module):
    """A few numbers of a record pick rows of a table; several may pick the same one."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.table, self.last = nn.Embedding(rows, 4), nn.Linear(4, 1)
        self.width = 5

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        chosen = ((inputs + 1) * 0.499 * self.table.num_embeddings).long()
        return softplus(self.last(self.table(chosen).tanh()).squeeze(2)).sum(dim=1) + labels


class Conditional(nn.Module):
    """A critic in miniature, with label planes."""

    def __init__(self, planes: bool = True) -> None:
        super().__init__()
        self.image = nn.Conv2d(1, 4, 4, 2, 1)
        self.label = LabelConvolution(CLASSES, 4, kernel=4, stride=2, padding=1, height=8, width=8)
        self.rest = nn.Sequential(nn.LeakyReLU(0.2), nn.Conv2d(8, 16, 3, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(16, 1, 2))
        self.width = 64

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        both = torch.cat([self.image(inputs.view(-1, 1, 8, 8)), self.label(labels)], dim=1)
        return softplus(-self.rest(both).flatten())


def losses() -> dict[str, nn.Module]:
    torch.manual_seed(0)
    return {
        "linear": Loss(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 1), shape=(6,)),
        "linear-without-bias": Loss(nn.Linear(6, 4, bias=False), nn.ReLU(), nn.Linear(4, 2), shape=(6,)),
        "linear-at-few-positions": Loss(nn.Linear(9, 8), shape=(2, 9)),
        "linear-at-many-positions": Loss(nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 2), shape=(7, 3)),
        "convolution-of-many-positions": Loss(nn.Conv2d(1, 3, 3, padding=1), nn.LeakyReLU(0.2), shape=(1, 6, 6)),
        "convolution-of-few-positions": Loss(nn.Conv2d(6, 8, 3, stride=2, padding=1), shape=(6, 4, 4)),
        "convolution-to-one-pixel": Loss(nn.Conv2d(4, 5, 4), shape=(4, 4, 4)),
        "convolution-uneven": Loss(
            nn.Conv2d(2, 9, (3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2), bias=False), shape=(2, 5, 7)
        ),
        "convolution-that-leaves-a-rest": Loss(nn.Conv2d(3, 9, 3, stride=2), nn.SiLU(), shape=(3, 6, 6)),
        "transposed-of-few-positions": Loss(nn.ConvTranspose2d(8, 6, 4), shape=(8, 1, 1)),
        "transposed-of-many-positions": Loss(nn.ConvTranspose2d(2, 1, 4, stride=2, padding=1), shape=(2, 5, 5)),
        "transposed-uneven": Loss(nn.ConvTranspose2d(3, 7, 3, stride=2, padding=1, output_padding=1), shape=(3, 2, 2)),
        "group-norm": Loss(nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.Conv2d(4, 1, 2), shape=(1, 5, 5)),
        "group-norm-of-vectors": Loss(nn.Linear(3, 6), nn.GroupNorm(2, 6), nn.Tanh(), shape=(3,)),
        "layer-norm": Loss(nn.Linear(3, 6), nn.LayerNorm(6), nn.Tanh(), nn.Linear(6, 1), shape=(2, 3)),
        "embedding": Words(4),
        "label-planes": Conditional(),
        "residual-critic": Loss(
            nn.Conv2d(3, 6, 3, padding=1),
            Residual(6),
            nn.AvgPool2d(2),
            nn.Conv2d(6, 8, 3, padding=1),
            Residual(8),
            nn.Flatten(),
            nn.Linear(8 * 16, 1),
            shape=(3, 8, 8),
        ),
    }


every_loss = pytest.mark.parametrize("name", losses())


def summed(name: str, bound: float, dtype: torch.dtype = torch.float32) -> tuple[nn.Module, GradientSums]:
    loss = losses()[name].to(dtype)
    return loss, GradientSums(loss, inputs=loss.width, classes=CLASSES, bound=bound)


def invented(width: int, records: int, dtype: torch.dtype = torch.float32, seed: int = 1) -> tuple[torch.Tensor, ...]:
    random = torch.Generator().manual_seed(seed)
    inputs = torch.rand(records, width, generator=random, dtype=torch.float64) * 2 - 1
    return inputs.to(dtype), torch.randint(0, CLASSES, (records,), generator=random)


@every_loss
@pytest.mark.parametrize("bound", [0.05, 1.0, 1e4])
@pytest.mark.parametrize(("dtype", "close"), [(torch.float32, 1e-5), (torch.float64, 1e-11)])
def test_the_sum_equals_the_specification(name: str, bound: float, dtype: torch.dtype, close: float) -> None:
    loss, sums = summed(name, bound, dtype)
    sums.charging = False  # a little less is added than could be, for what float32 may lose
    assert not sums.slow
    inputs, labels = invented(loss.width, 9, dtype)
    right = specified.clipped_sum(loss, inputs, labels, bound)
    assert (sums(inputs, labels) - right).norm() <= close * right.norm()


@every_loss
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_the_sum_equals_the_specification_for_any_records(name: str, data: st.DataObject) -> None:
    loss, sums = summed(name, 0.5, torch.float64)
    value = st.one_of(st.floats(-1, 1), st.sampled_from([0.0, -1.0, 1.0, 1e-300]))
    rows = data.draw(st.lists(st.lists(value, min_size=loss.width, max_size=loss.width), max_size=4))
    inputs = torch.tensor(rows, dtype=torch.float64).reshape(-1, loss.width)
    labels = torch.arange(len(rows)) % CLASSES
    right = specified.clipped_sum(loss, inputs, labels, 0.5)
    assert (sums(inputs, labels) - right).norm() <= 1e-9 * (1 + right.norm())


@every_loss
def test_no_single_gradient_is_longer_than_the_bound(name: str) -> None:
    loss, sums = summed(name, 0.05)
    inputs, labels = invented(loss.width, 5)
    for row, label in zip(inputs, labels, strict=True):
        assert sums(row[None], label[None]).norm() <= clipped_to(0.05, torch.float32) * (1 + 1e-5)


class Opposed(nn.Module):
    """Half of a record's positions pull up and half pull down: their gradients cancel, all but a thousandth."""

    def __init__(self, layer: nn.Module, shape: tuple[int, ...], pull: tuple[int, ...]) -> None:
        super().__init__()
        self.layer, self.shape = layer, shape
        self.register_buffer("pull", 1000 * torch.tensor([1.0, -1.0]).view(pull))

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return (self.layer(inputs.view(-1, *self.shape)) * self.pull).flatten(1).sum(dim=1)


@pytest.mark.parametrize(
    "loss",
    [
        Opposed(nn.Linear(2048, 256, bias=False), (2, 2048), (2, 1)),
        Opposed(nn.Conv2d(2048, 256, (1, 1), bias=False), (2048, 1, 2), (1, 2)),
    ],
    ids=["linear", "convolution"],
)
def test_nor_one_whose_positions_cancel_all_but_a_little(loss: Opposed) -> None:
    """In float32 thousands of equal numbers are all rounded the same way, and differently where positions differ."""
    sums = GradientSums(loss, inputs=4096, classes=1, bound=1.0)
    assert not sums.slow
    random = torch.Generator().manual_seed(0)
    for _ in range(100):
        level, apart = 0.1 + 0.8 * torch.rand((), generator=random), 10 ** (-2.5 - torch.rand((), generator=random))
        record = (level * (1 + apart * loss.pull[None] / 1000)).expand(1, *loss.shape).reshape(1, -1)
        assert sums(record, torch.zeros(1, dtype=torch.int64)).norm() <= 1.0


def test_the_more_numbers_are_added_up_the_more_is_charged_for_it() -> None:
    assert [Precision.SINGLE.measuring(added) for added in (4, 4096)] == [2.0**-22, 2.0**-12]
    assert [Precision.MIXED.measuring(added) for added in (4, 4096)] == [2.0**-13, 2.0**-12]


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
def test_a_record_that_is_not_finite_adds_nothing_and_harms_no_other(name: str) -> None:
    loss, sums = summed(name, 0.5)
    if name == "embedding":
        pytest.skip("numbers pick rows there, so nothing that is not finite reaches a layer")
    inputs, labels = invented(loss.width, 6)
    for value in (math.nan, math.inf, -math.inf, 1e38):
        spoiled = inputs.clone()
        spoiled[2] = value
        alone = sums(torch.cat([inputs[:2], inputs[3:]]), torch.cat([labels[:2], labels[3:]]))
        difference = sums(spoiled, labels) - alone
        assert difference.norm() <= 0.5
        if not math.isfinite(value):
            assert difference.norm() <= 1e-5


@pytest.mark.parametrize("side_by_side", [False, True])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_nor_does_it_where_patches_are_cut_once_for_lengths_and_sums(
    value: float, side_by_side: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU: zero times what is not finite would spoil the sum of all."""
    if side_by_side:
        monkeypatch.setattr(critics, "_laid_out", lambda maps: maps.contiguous(memory_format=torch.channels_last))
    monkeypatch.setattr(convolution, "_on_matrix_units", lambda _: True)
    image = ImageShape(height=12, width=12, classes=("a", "b"))
    critic = build_critic(CriticOptions(channels=4), image=image, width=image.pixels, classes=2)
    # In vmap no layout can be asked for, so the rules are taken at their word here.
    monkeypatch.setattr(GradientSums, "_tried", lambda *_: 1000)
    sums = GradientSums(FakeLoss(critic), inputs=image.pixels, classes=2, bound=0.5)
    points, labels = torch.rand(6, image.pixels), torch.arange(6) % 2
    alone = sums.batch(points[:5], labels[:5])
    points[5, 70] = value
    spoiled = sums.batch(points, labels)
    assert spoiled.isfinite().all()
    torch.testing.assert_close(spoiled, alone, rtol=1e-4, atol=1e-6)


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


def test_the_map_charges_its_bound() -> None:
    _, sums = summed("label-planes", 0.7)
    feature_map = LossGradient(sums, inputs=64, slots=room_for(16))
    step = Step.asking("gradient", feature_map)
    assert sensitivity(step, Adjacency.ADD_REMOVE) >= 0.7
    assert feature_map.size == sum(each.numel() for each in losses()["label-planes"].parameters())
    inputs, labels = invented(64, 40)
    torch.testing.assert_close(feature_map.clipped_sum(inputs, labels), sums(inputs, labels), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "dilation"),
    [((3, 3), (1, 1), (1, 1), (1, 1)), ((4, 4), (2, 2), (1, 1), (1, 1)), ((3, 2), (2, 1), (1, 0), (1, 2))],
)
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=["channels-first", "last"])
def test_both_ways_to_multiply_patches_and_to_sum_gradients_agree(
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int],
    dilation: tuple[int, int],
    layout: torch.memory_format,
) -> None:
    from simulacra.gradients.convolution import Window, _as_weight, _channels_last, _pixels, _weight_sum

    window = Window(kernel, stride, padding, dilation)
    layer = nn.Conv2d(3, 5, kernel, stride, padding, dilation).double()
    images = torch.rand(4, 3, 8, 9, dtype=torch.float64).contiguous(memory_format=layout)
    side_by_side = _channels_last(images)
    assert side_by_side == (layout == torch.channels_last)
    signals = torch.rand_like(layer(images))
    height, width = signals.shape[2:]
    patches = window.patches(images, height, width)
    torch.testing.assert_close(patches.transpose(1, 2), unfold(images, kernel, dilation, padding, stride))
    torch.testing.assert_close(window.pixel_products(images, height, width), patches @ patches.transpose(1, 2))
    longer = window.patches(images, height, width, channels_last=side_by_side, rows=height * width + 3)
    assert not longer[:, height * width :].any()
    shape = layer.weight.shape
    patches = window.patches(images, height, width, channels_last=side_by_side)
    assert torch.equal(longer[:, : height * width], patches)
    sums = _pixels(signals).flatten(0, 1).T @ patches.flatten(0, 1)
    torch.testing.assert_close(
        _as_weight(sums, shape, side_by_side=side_by_side), _weight_sum(images, signals, shape, window)
    )


@pytest.mark.parametrize("side", [16, 32])
def test_critics_have_the_same_gradients_with_channels_side_by_side(side: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they are laid out on a GPU."""
    image = ImageShape(height=side, width=side, channels=3, classes=("a", "b"))
    critic = build_critic(CriticOptions(channels=4), image=image, width=image.pixels, classes=2)
    sums = GradientSums(FakeLoss(critic), inputs=image.pixels, classes=2, bound=0.5)
    points, labels = torch.rand(6, image.pixels), torch.arange(6) % 2
    usual = sums.batch(points, labels)
    layouts = []

    def laid_out(maps: torch.Tensor) -> torch.Tensor:
        layouts.append(maps.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2))
        return layouts[-1]

    monkeypatch.setattr(critics, "_laid_out", laid_out)
    monkeypatch.setattr(convolution, "_on_matrix_units", lambda _: True)
    torch.testing.assert_close(sums.batch(points, labels), usual, rtol=1e-4, atol=1e-6)
    assert layouts[0].is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(sums._specified(points, labels, 0.5), usual, rtol=1e-4, atol=1e-6)  # under vmap, too


def test_label_planes_are_a_convolution_of_one_hot_planes() -> None:
    planes = LabelConvolution(3, 4, kernel=4, stride=2, padding=1, height=8, width=6)
    labels = torch.tensor([0, 2, 2, 1])
    pictures = nn.functional.one_hot(labels, 3).float()[:, :, None, None].expand(-1, -1, 8, 6)
    usual = nn.functional.conv2d(pictures, planes.weight, planes.bias, stride=2, padding=1)
    torch.testing.assert_close(planes(labels), usual)


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


# -- what cannot be clipped, and what takes the slow way ------------------------------------------------------------


@pytest.mark.parametrize(
    ("layer", "named"),
    [
        (nn.BatchNorm1d(4), "BatchNorm1d"),
        (nn.Dropout(0.5), "Dropout"),
        (nn.InstanceNorm1d(4), "InstanceNorm1d"),
        (nn.RReLU(), "RReLU"),
    ],
)
def test_layers_that_mix_records_or_draw_at_random_are_refused_by_name(layer: nn.Module, named: str) -> None:
    loss = Loss(nn.Linear(4, 4), layer, shape=(4,))
    with pytest.raises(SettingError, match=rf'"layers.1" \({named}\).*GroupNorm'):
        GradientSums(loss, inputs=4, classes=1, bound=1.0)


class Mixing(Loss):
    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        values = self.layers(inputs)
        return (values - values.mean(dim=0)).square().sum(dim=1) + values.sum(dim=1)


class Sorted(Loss):
    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return self.layers(inputs).flatten().roll(1) * torch.arange(1, len(inputs) + 1)


class Chancy(Loss):
    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return nn.functional.dropout(self.layers(inputs), 0.5, training=True).sum(dim=1)


class Total(Loss):
    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return self.layers(inputs).sum()


@pytest.mark.parametrize("kind", [Mixing, Sorted, Chancy, Total])
def test_a_loss_that_mixes_records_is_found_out_on_invented_ones(kind: type[Loss]) -> None:
    with pytest.raises(SettingError, match=r"mixes records|different gradients|one number per record"):
        GradientSums(kind(nn.Linear(4, 1), shape=(4,)), inputs=4, classes=1, bound=1.0)


class Own(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return values * self.scale


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self.layer(self.layer(values).tanh())


class Spoiling(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        inner = self.first(values).tanh() * 1.0
        outer = self.second(inner)
        inner.mul_(2.0)  # what the second layer was given is gone
        return outer


class Scaled(nn.Linear):
    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return super().forward(values) * self.weight.sum()


def frozen() -> nn.Module:
    layer = nn.Linear(4, 4)
    layer.weight.requires_grad_(False)
    return layer


@pytest.mark.parametrize(
    "layer",
    [
        Own(),
        Twice(),
        Scaled(4, 4),
        nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True)),
        frozen(),
        nn.Bilinear(2, 2, 1),
    ],
    ids=["own-parameter", "used-twice", "subclass", "in-place", "partly-frozen", "unknown-unused"],
)
def test_what_has_no_rule_is_summed_by_the_specification(layer: nn.Module) -> None:
    loss = Loss(
        nn.Linear(4, 4), nn.Identity() if isinstance(layer, nn.Bilinear) else layer, nn.Linear(4, 1), shape=(4,)
    )
    if isinstance(layer, nn.Bilinear):
        loss.unused = layer
    sums = GradientSums(loss, inputs=4, classes=1, bound=0.2)
    assert sums.slow
    inputs, labels = invented(4, 7)
    labels.zero_()
    found = LossGradient(sums, inputs=4, slots=32).clipped_sum(inputs, labels)
    slowly = torch.stack([_one(loss, row, 0.2) for row in inputs]).sum(dim=0)
    torch.testing.assert_close(found, slowly, rtol=1e-5, atol=1e-7)


def test_on_the_slow_way_a_gradient_does_not_depend_on_its_slot() -> None:
    """Where a ReLU is decided by the last bit, which may differ from slot to slot, all of a gradient would."""
    torch.manual_seed(0)
    first = nn.Linear(6, 5)
    loss = Loss(first, Own(), nn.ReLU(), nn.Linear(5, 1), shape=(6,))
    inputs, labels = invented(6, 32)
    with torch.no_grad():
        first.bias.zero_()
        alike = torch.func.vmap(lambda row: first(row[None])[0])(inputs[:1].expand(32, 6).contiguous())
        first.bias.copy_(-alike.min(dim=0).values)
    feature_map = LossGradient(GradientSums(loss, inputs=6, classes=CLASSES, bound=1.0), inputs=6)
    assert feature_map.sums.slow
    rest = feature_map.clipped_sum(inputs[1:], labels[1:])
    for slot in range(32):
        order = [*range(1, slot + 1), 0, *range(slot + 1, 32)]
        share = feature_map.clipped_sum(inputs[order], labels[order]) - rest
        alone = feature_map.clipped_sum(inputs[:1], labels[:1])
        torch.testing.assert_close(share, alone, rtol=0, atol=1e-6)


def _one(loss: nn.Module, row: torch.Tensor, bound: float) -> torch.Tensor:
    """No engine and no vmap: plain autograd for a single record."""
    trained = [parameter for parameter in loss.parameters() if parameter.requires_grad]
    value = loss(row[None].clone(), torch.zeros(1, dtype=torch.int64)).sum()
    parts = torch.autograd.grad(value, trained, allow_unused=True)
    flat = torch.cat(
        [(torch.zeros_like(p) if g is None else g).flatten() for p, g in zip(trained, parts, strict=True)]
    ).double()
    limit = clipped_to(bound, torch.float32)
    return flat * (limit / flat.norm().clamp(min=limit))


def test_a_loss_that_spoils_what_a_layer_was_given_is_refused() -> None:
    with pytest.raises(SettingError, match=r"in-?place"):
        GradientSums(Loss(Spoiling(), nn.Linear(4, 1), shape=(4,)), inputs=4, classes=1, bound=1.0)


def test_a_layer_the_loss_does_not_reach_has_no_gradient() -> None:
    loss = Loss(nn.Linear(4, 1), shape=(4,))
    loss.unused = nn.Linear(2, 2)
    sums = GradientSums(loss, inputs=4, classes=1, bound=1.0)
    found = sums(*invented(4, 3))
    assert found[:5].any()
    assert not found[5:].any()


def test_a_bound_must_be_positive() -> None:
    with pytest.raises(SettingError, match="positive"):
        GradientSums(losses()["linear"], inputs=6, classes=1, bound=0.0)


# -- against another implementation ---------------------------------------------------------------------------------


@every_loss
@pytest.mark.filterwarnings("ignore")
def test_the_sum_equals_that_of_opacus(name: str) -> None:
    opacus = pytest.importorskip("opacus", reason="pip install opacus opt-einsum --no-deps")
    if name == "label-planes":
        pytest.skip("a layer of ours; the critic test compares it")
    bound = 0.3
    loss, sums = summed(name, bound, torch.float64)
    inputs, labels = invented(loss.width, 6, torch.float64)
    model = opacus.GradSampleModule(loss, loss_reduction="sum", strict=False)
    model(inputs, labels).sum().backward()
    samples = torch.cat([each.grad_sample.flatten(1) for each in model.parameters()], dim=1)
    limit = clipped_to(bound, torch.float64)
    right = (samples * (limit / samples.norm(dim=1, keepdim=True).clamp(min=limit))).sum(dim=0)
    model.remove_hooks()
    assert (sums(inputs, labels) - right).norm() <= 1e-5 * right.norm()


class Folded(nn.Module):
    """Sees every record as several rows: 16 positions of 4 numbers, through one layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 8)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return softplus(self.layer(inputs.reshape(-1, 4)).sum(dim=1)).view(len(inputs), -1).sum(dim=1)


def test_a_record_that_is_folded_into_many_rows_is_still_clipped_as_one() -> None:
    """Followed row by row it would add 16 times the bound."""
    torch.manual_seed(0)
    loss = Folded()
    sums = GradientSums(loss, inputs=64, classes=2, bound=0.01)
    assert "first dimension" in sums.slow[0]
    assert sums(*invented(64, 1)).norm() <= 0.01


class Counting(Loss):
    """As spectral norm does: every forward pass leaves a trace."""

    def __init__(self, width: int) -> None:
        super().__init__(nn.Linear(width, 1), shape=(width,))
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            self.calls += 1
        return super().forward(inputs, labels)


def settled() -> Loss:
    """A power iteration that has come to rest, until the weights change."""
    layer = nn.utils.parametrizations.spectral_norm(nn.Linear(5, 3))
    for _ in range(1000):
        layer.weight  # noqa: B018
    return Loss(layer, shape=(5,))


@pytest.mark.parametrize(
    "loss",
    [Counting(5), Loss(nn.utils.parametrizations.spectral_norm(nn.Linear(5, 3)), shape=(5,)), settled()],
    ids=["counting", "spectral norm", "settled spectral norm"],
)
def test_a_loss_that_changes_when_it_is_computed_is_refused(loss: nn.Module) -> None:
    """Its state would tell how many micro-batches, and so how many records, there were."""
    with pytest.raises(SettingError, match=r"changes its own state|mixes records"):
        GradientSums(loss, inputs=5, classes=2, bound=1.0)


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


def test_pixels_are_copied_as_they_are_however_many_channels_there_are() -> None:
    """Several at a time where channels lie side by side, and whatever bits they are."""
    for channels, dtype in ((8, torch.bfloat16), (3, torch.bfloat16), (4, torch.float32), (2, torch.float64)):
        images = torch.randn(2, channels, 5, 5, dtype=torch.float64).to(dtype)
        images[0, 0, 0, 0], images[1, 1, 2, 2] = math.nan, math.inf
        window = convolution.Window((3, 3), (2, 2), (1, 1), (1, 1))
        first = window.patches(images, 3, 3).view(2, 9, channels, 9)
        last = window.patches(images.contiguous(memory_format=torch.channels_last), 3, 3, channels_last=True)
        assert torch.equal(last.view(2, 9, 9, channels).transpose(2, 3).nan_to_num(7.0), first.nan_to_num(7.0))


def test_no_more_records_are_added_up_at_once_than_the_slack_was_measured_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simulacra.gradients.summing.MOST_NUMBERS", {"cpu": 1 << 40})
    sums = GradientSums(Loss(nn.Linear(5, 1), shape=(5,)), inputs=5, classes=2, bound=1.0)
    assert sums.rows == 2048
    assert PaddedSums(sums, slots=room_for(100_000), inputs=5).slots <= 2048

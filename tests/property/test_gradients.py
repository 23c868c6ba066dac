"""Clipped sums of gradients: equal to the specification and to Opacus, and within the bound whatever a record holds."""

from __future__ import annotations

import math

import pytest
import torch
from gradient_losses import CLASSES, every_loss, invented, losses, summed
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import unfold

from simulacra.features.critic_losses import FakeLoss
from simulacra.features.gradient import LossGradient
from simulacra.gradients import convolution, specified
from simulacra.gradients.clipping import clipped_to
from simulacra.gradients.padding import room_for
from simulacra.gradients.summing import GradientSums
from simulacra.networks import critics
from simulacra.networks.critics import CriticOptions, build_critic
from simulacra.networks.label_convolution import LabelConvolution
from simulacra.privacy.budget import Adjacency
from simulacra.privacy.query import Step, sensitivity
from simulacra.schema import ImageShape


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


def test_the_map_charges_its_bound() -> None:
    _, sums = summed("label-planes", 0.7)
    feature_map = LossGradient(sums, inputs=64, slots=room_for(16))
    step = Step.asking("gradient", feature_map)
    assert sensitivity(step, Adjacency.ADD_REMOVE) >= 0.7
    assert feature_map.size == sum(each.numel() for each in losses()["label-planes"].parameters())
    inputs, labels = invented(64, 40)
    torch.testing.assert_close(feature_map.clipped_sum(inputs, labels), sums(inputs, labels), rtol=1e-4, atol=1e-6)


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


def test_pixels_are_copied_as_they_are_however_many_channels_there_are() -> None:
    """Several at a time where channels lie side by side, and whatever bits they are."""
    for channels, dtype in ((8, torch.bfloat16), (3, torch.bfloat16), (4, torch.float32), (2, torch.float64)):
        images = torch.randn(2, channels, 5, 5, dtype=torch.float64).to(dtype)
        images[0, 0, 0, 0], images[1, 1, 2, 2] = math.nan, math.inf
        window = convolution.Window((3, 3), (2, 2), (1, 1), (1, 1))
        first = window.patches(images, 3, 3).view(2, 9, channels, 9)
        last = window.patches(images.contiguous(memory_format=torch.channels_last), 3, 3, channels_last=True)
        assert torch.equal(last.view(2, 9, 9, channels).transpose(2, 3).nan_to_num(7.0), first.nan_to_num(7.0))


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

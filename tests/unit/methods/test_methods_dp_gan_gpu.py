"""On a GPU: captured steps are the plain ones, halves keep the bound, and a run goes on from its state."""

from __future__ import annotations

import pytest
import tiny
import torch

from simulacra.data.points import PixelPoints
from simulacra.features.critic_losses import FakeLoss, RealLoss
from simulacra.features.gradient import LossGradient
from simulacra.gradients import padding
from simulacra.gradients.arithmetic import Precision
from simulacra.gradients.clipping import clipped_to
from simulacra.gradients.padding import PaddedSums, room_for
from simulacra.gradients.summing import GradientSums
from simulacra.methods import make_method
from simulacra.methods.dp_gan import DPGAN
from simulacra.methods.gan_training import LOSS, Adversaries
from simulacra.networks.critics import CriticOptions, build_critic
from simulacra.privacy.query import FeatureMap
from simulacra.schema import ImageShape, Schema

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="captured CUDA graphs exist on a GPU only; run there"
)

TEN = tuple("0123456789")
IMAGES = {
    "digits": ImageShape(height=28, width=28, classes=TEN),
    "colour": ImageShape(height=32, width=32, channels=3, classes=TEN),
}
GPU = torch.device("cuda")


def loss_for(name: str) -> tuple[RealLoss, int]:
    torch.manual_seed(0)
    image = IMAGES[name]
    critic = build_critic(CriticOptions(channels=16), image=image, width=image.pixels, classes=10)
    return RealLoss(critic, PixelPoints(image.pixels)), image.pixels


def invented(pixels: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(1)
    return torch.rand(count, pixels, generator=random) * 2 - 1, torch.arange(count) % 10


@pytest.mark.parametrize("name", IMAGES)
@pytest.mark.parametrize("bound", [0.5, 1e6])
def test_a_captured_sum_equals_that_of_a_processor(name: str, bound: float) -> None:
    loss, pixels = loss_for(name)
    inputs, labels = invented(pixels, 50)
    right = GradientSums(loss, inputs=pixels, classes=10, bound=bound)(inputs, labels)
    sums = GradientSums(loss.to(GPU), inputs=pixels, classes=10, bound=bound)
    feature_map = LossGradient(sums, inputs=pixels, slots=room_for(16))
    for _ in range(2):  # the second time it is replayed
        found = feature_map.clipped_sum(inputs.to(GPU), labels.to(GPU)).cpu()
        assert (found - right).norm() <= 1e-4 * right.norm()


@pytest.mark.parametrize("name", IMAGES)
def test_a_sum_can_be_captured(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    loss, pixels = loss_for(name)
    sums = GradientSums(loss.to(GPU), inputs=pixels, classes=10, bound=1.0)
    padded = PaddedSums(sums, slots=32, inputs=pixels)
    padded(*(each.to(GPU) for each in invented(pixels, 5)))
    assert isinstance(padded._sum, padding.Replayed)  # a step that waits for the device would be given back as it is


@pytest.mark.parametrize("name", IMAGES)
def test_in_mixed_precision_no_record_adds_more_than_the_bound(name: str) -> None:
    loss, pixels = loss_for(name)
    inputs, labels = (each.to(GPU) for each in invented(pixels, 32))
    sums = GradientSums(loss.to(GPU), inputs=pixels, classes=10, bound=0.1, precision=Precision.MIXED)
    feature_map = LossGradient(sums, inputs=pixels, slots=32)
    assert sums.precision is Precision.MIXED  # the kernels for it are steady
    exact = GradientSums(loss, inputs=pixels, classes=10, bound=0.1)(inputs, labels)
    assert (feature_map.clipped_sum(inputs, labels) - exact).norm() <= 0.05 * exact.norm()
    for index in range(32):
        one = feature_map.clipped_sum(inputs[index : index + 1], labels[index : index + 1])
        assert one.norm() <= clipped_to(0.1, torch.float32)


@pytest.mark.parametrize("precision", list(Precision))
@pytest.mark.parametrize("name", IMAGES)
def test_one_of_two_thousand_that_point_the_same_way_moves_the_sum_within_the_bound(
    name: str, precision: Precision
) -> None:
    """The worst case for adding up: partial sums are thousands of times as long as what one record adds."""
    loss, pixels = loss_for(name)
    one, label = invented(pixels, 1)
    inputs = (one + 1e-3 * torch.rand(2000, pixels, generator=torch.Generator().manual_seed(2))).to(GPU)
    labels = label.expand(2000).to(GPU)
    bound = 1e-3  # so low that every record is clipped
    sums = GradientSums(loss.to(GPU), inputs=pixels, classes=10, bound=bound, precision=precision)
    feature_map = LossGradient(sums, inputs=pixels, slots=2048)
    whole = feature_map.clipped_sum(inputs, labels)
    assert whole.norm() > 1.9
    for index in (0, 777, 1999):
        rest = torch.arange(2000, device=GPU) != index
        move = float((whole - feature_map.clipped_sum(inputs[rest], labels[rest])).norm())
        print(f"{name}, {precision}: {move / bound:.6f} of the bound")
        assert move <= bound


@pytest.mark.parametrize("precision", list(Precision))
@pytest.mark.parametrize("name", IMAGES)
def test_at_one_size_a_gradient_does_not_depend_on_slot_or_company(name: str, precision: Precision) -> None:
    """Of all slots: the clipped gradient of one record alone, among empty slots and among others."""
    loss, pixels = loss_for(name)
    inputs, labels = (each.to(GPU) for each in invented(pixels, 64))
    sums = GradientSums(loss.to(GPU), inputs=pixels, classes=10, bound=0.1, precision=precision)
    alone = []
    for slot in (0, 1, 31, 62, 63):
        places = inputs.roll(slot, dims=0)
        present = torch.zeros(64, dtype=torch.bool, device=GPU)
        present[slot] = True  # that is record 0
        alone.append(sums.batch(places, labels.roll(slot), present))
    for each in alone[1:]:
        assert (each - alone[0]).norm() <= 1e-5 * alone[0].norm()


@pytest.mark.parametrize("schema", [Schema(image=IMAGES["digits"]), tiny.schema(tiny.PEOPLE)], ids=["images", "table"])
@pytest.mark.parametrize("precision", ["mixed", "single"])
def test_a_game_on_a_gpu_goes_on_from_its_state(schema: Schema, precision: str) -> None:
    method = make_method("dp-gan", {"critic.channels": 8, "schedule.critic_steps": "2", "precision": precision}, schema)
    assert isinstance(method, DPGAN)
    shares = torch.full((schema.classes,), 1 / schema.classes)

    def game() -> Adversaries:
        return Adversaries(method, schema, shares=shares, batch=16, seed=0, device=GPU)

    def draw(feature_map: FeatureMap) -> torch.Tensor:
        inputs = torch.rand(20, schema.inputs, device=GPU, generator=torch.Generator(GPU).manual_seed(0)) * 2 - 1
        return feature_map.clipped_sum(inputs, torch.zeros(20, dtype=torch.int64, device=GPU))

    def play(one: Adversaries, steps: int) -> None:
        for number in range(steps):
            if one.critic_step(draw):
                one.generator_step()
            one.look(number)

    first, second = game(), game()
    play(first, 5)
    second.load({name: value.cpu().clone() for name, value in first.state().items()})
    play(first, 3)
    play(second, 3)
    assert len(first.curves[LOSS]) == len(second.curves[LOSS]) == 8
    for name, value in first.state().items():
        if name.startswith(("critic.", "generator.")):
            torch.testing.assert_close(second.state()[name], value, rtol=1e-2, atol=1e-3, msg=name)


def test_a_graph_that_cannot_be_captured_is_run_as_it_is() -> None:
    def waits() -> torch.Tensor:
        total = torch.ones(3, device=GPU).sum()
        return torch.full((2,), total.item(), device=GPU)

    assert torch.equal(padding.captured(waits, GPU)(), torch.full((2,), 3.0, device=GPU))


def test_fakes_are_summed_in_a_graph_as_without() -> None:
    loss, pixels = loss_for("digits")
    fakes = FakeLoss(loss.critic.to(GPU))
    inputs, labels = (each.to(GPU) for each in invented(pixels, 24))
    sums = GradientSums(fakes, inputs=pixels, classes=10, bound=1.0)
    replayed = padding.captured(lambda: sums(inputs, labels), GPU)
    torch.testing.assert_close(replayed(), sums(inputs, labels), rtol=1e-4, atol=1e-6)

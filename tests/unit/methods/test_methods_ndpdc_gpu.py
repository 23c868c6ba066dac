"""On a GPU: captured rounds of NDPDC are the plain ones, keep the bound, and leave nothing private behind."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext, suppress

import pytest
import torch

from simulacra.errors import PlanError
from simulacra.features.embedding import ClippedEmbedding
from simulacra.features.embedding_slots import EmbeddingSlots
from simulacra.features.extractors import ConvolutionalExtractor, mixed
from simulacra.generators import GeneratorOptions
from simulacra.methods.condensation import fresh_set
from simulacra.methods.condensing import Condensing, Matching
from simulacra.networks.augmentation import OPERATIONS
from simulacra.networks.convnet import ConvNet
from simulacra.networks.graphs import Graphs
from simulacra.schema import ImageShape, Schema

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="captured CUDA graphs exist on a GPU only; run there"
)

TEN = tuple("0123456789")
IMAGES = {
    "digits": ImageShape(height=28, width=28, classes=TEN),
    "colour": ImageShape(height=32, width=32, channels=3, classes=TEN),
    "odd": ImageShape(height=13, width=18, classes=TEN),
}
ROWS = 48
ROUNDS = 24


def extractor_for(image: ImageShape, operations: Sequence[str] = OPERATIONS) -> ConvolutionalExtractor:
    return ConvolutionalExtractor(image, 10, operations=operations, device="cuda")


def records(image: ImageShape, count: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(seed)
    return (torch.rand(count, image.pixels, generator=random) * 2 - 1).cuda(), (torch.arange(count) % 10).cuda()


def slots_of(feature_map: ClippedEmbedding) -> EmbeddingSlots:
    assert feature_map._slots is not None
    return feature_map._slots


@pytest.mark.parametrize("name", IMAGES)
def test_captured_sums_are_the_sums_whatever_the_order_of_rounds_and_the_size_of_the_sample(name: str) -> None:
    image = IMAGES[name]
    extractor = extractor_for(image)
    feature_map = ClippedEmbedding(extractor, 10, clip=1.0, rows=ROWS)
    sizes = [ROWS - 5, 1, ROWS, ROWS + 1, 3 * ROWS + 7, 0]
    for number in [*range(ROUNDS), *reversed(range(ROUNDS))]:
        extractor.draw_anew(3, number)
        inputs, labels = records(image, sizes[number % len(sizes)], seed=number)
        found, right = feature_map.clipped_sum(inputs, labels), feature_map._plain_sum(inputs, labels)
        assert (found - right).norm() <= 1e-6 * max(1, len(inputs))
        slots = slots_of(feature_map)
        assert not any(tensor.any() for tensor in (slots.inputs, slots.labels, slots.present, slots.total))
    assert slots_of(feature_map).graphs.captured == set(OPERATIONS)


@pytest.mark.parametrize("name", IMAGES)
def test_an_image_is_seen_the_same_in_every_place(name: str) -> None:
    """Where it is not, nothing is drawn: so it is for a size that the pooling does not divide, on an H200."""
    extractor = extractor_for(IMAGES[name])
    feature_map = ClippedEmbedding(extractor, 10, clip=1.0, rows=ROWS)
    for number in range(ROUNDS):
        extractor.draw_anew(4, number)
        with suppress(PlanError) if name == "odd" else nullcontext():
            feature_map.require_same_everywhere("cuda")


def test_of_the_size_of_a_round_on_digits_an_image_is_seen_the_same_in_every_place() -> None:
    extractor = extractor_for(IMAGES["digits"])
    feature_map = ClippedEmbedding(extractor, 10, clip=1.0, rows=576)
    for number in range(ROUNDS):
        extractor.draw_anew(5, number)
        feature_map.require_same_everywhere("cuda")


def test_in_a_replay_no_record_adds_more_than_the_bound_or_moves_another() -> None:
    image = IMAGES["digits"]
    extractor = extractor_for(image)
    feature_map = ClippedEmbedding(extractor, 10, clip=0.5, rows=ROWS)
    inputs, labels = records(image, ROWS + 9)
    for number in range(6):
        extractor.draw_anew(0, number)
        whole = feature_map.clipped_sum(inputs, labels)
        for index in (0, 7, ROWS - 1, ROWS, ROWS + 8):
            kept = torch.arange(len(inputs), device="cuda") != index
            rest = feature_map.clipped_sum(inputs[kept], labels[kept])
            alone = feature_map.clipped_sum(inputs[~kept], labels[~kept])
            assert (whole - rest).norm() <= 0.5 * (1 + 1e-9)
            assert alone.norm() <= 0.5 * (1 + 1e-9)
            assert (whole - rest - alone).norm() <= 1e-10  # the others have kept their bits


def test_sums_are_computed_without_tensor_floats() -> None:
    """The same network in float64 on a processor is nearer than TF32 could be."""
    image = IMAGES["digits"]
    extractor = extractor_for(image, ["color"])
    extractor.draw_anew(0, 0)
    feature_map = ClippedEmbedding(extractor, 10, clip=1.0, rows=ROWS)
    inputs, labels = records(image, ROWS)
    feature_map.clipped_sum(inputs, labels)
    found = feature_map.clipped_sum(inputs, labels).cpu()
    processor = ConvolutionalExtractor(image, 10, operations=["color"], in_place=True)
    for ours, theirs in zip(processor.network.features, extractor.network.features, strict=True):
        if isinstance(ours, torch.nn.Conv2d):
            assert isinstance(theirs, torch.nn.Conv2d)
            ours.weight.copy_(theirs.weight.cpu())
    processor._shares.copy_(extractor._shares.cpu())
    processor.variant = "color"
    processor.network.double()
    embedded = processor.of_records(inputs.cpu().double(), labels.cpu())
    clipped = embedded / embedded.norm(dim=1, keepdim=True).clamp(min=1.0)
    right = torch.zeros(10, extractor.width, dtype=torch.float64).index_add_(0, labels.cpu(), clipped)
    assert (found - right).norm() <= 2e-5 * right.norm()


def matching(image: ImageShape, operations: Sequence[str] = OPERATIONS) -> Matching:
    held = fresh_set(Schema(image=image), GeneratorOptions(kind="condensed", per_class=4, spread=1.0), 0)
    weights = torch.linspace(1, 9, 10, device="cuda").unsqueeze(1)
    return Matching(Condensing(held, "cuda"), extractor_for(image, operations), weights=weights, clip=1.0, momentum=0.5)


def plainly(made: Matching, noisy: torch.Tensor, rate: float) -> torch.Tensor:
    loss, gradient = made._descent(noisy.float())
    made.learned.step(gradient, rate=rate, momentum=made.momentum)
    return loss


@pytest.mark.parametrize("name", IMAGES)
def test_captured_steps_are_the_steps(name: str) -> None:
    """From the same state in each round, so that rounding has no time to grow."""
    image = IMAGES[name]
    captured, plain = matching(image), matching(image)
    random = torch.Generator("cuda").manual_seed(0)
    for number in range(ROUNDS):
        noisy = torch.randn(
            10, captured.extractor.width, generator=random, device="cuda", dtype=torch.float64
        )  # fmt: skip
        plain.learned.load({key: value.detach().clone() for key, value in captured.learned.state().items()})
        for each in (captured, plain):
            each.extractor.draw_anew(2, number)
        rate = 0.1 / (number + 1)
        expected = plainly(plain, noisy, rate)
        assert captured(noisy, rate=rate).item() == pytest.approx(expected.item(), rel=1e-3)
        for key, value in plain.learned.state().items():
            torch.testing.assert_close(captured.learned.state()[key], value, rtol=1e-2, atol=1e-3, msg=key)
    assert captured.graphs.captured == set(OPERATIONS)


def test_warming_up_leaves_no_trace_and_rounds_repeat_from_the_seed() -> None:
    ends = []
    for _ in range(2):
        made = matching(IMAGES["digits"], ["color"])  # whose gradient adds nothing up in a random order
        for number in range(2):
            made.extractor.draw_anew(7, number)
            made(torch.ones(10, made.extractor.width, device="cuda", dtype=torch.float64), rate=0.1)
        ends.append(made.learned.held.values.detach().clone())
    # Convolutions backwards add up in any order, and the next round magnifies it; a step too many is far more.
    torch.testing.assert_close(*ends, rtol=1e-2, atol=3e-3)


def test_both_halves_run_in_turn_and_do_not_disturb_each_other() -> None:
    image = IMAGES["digits"]
    made, alone = matching(image), matching(image)
    feature_map = ClippedEmbedding(made.extractor, 10, clip=1.0, rows=ROWS)
    inputs, labels = records(image, ROWS + 3)
    for number in range(ROUNDS):
        alone.learned.load({key: value.detach().clone() for key, value in made.learned.state().items()})
        for each in (made, alone):
            each.extractor.draw_anew(2, number)
        noisy = feature_map.clipped_sum(inputs, labels)
        loss = made(noisy, rate=0.05).item()
        right = ClippedEmbedding(alone.extractor, 10, clip=1.0, rows=ROWS)._plain_sum(inputs, labels)
        assert loss == pytest.approx(plainly(alone, right, 0.05).item(), rel=1e-3)
        torch.testing.assert_close(made.learned.held.values, alone.learned.held.values, rtol=1e-2, atol=1e-3)


def test_draws_of_networks_leave_every_other_generator_alone() -> None:
    image = IMAGES["digits"]
    made = matching(image)
    feature_map = ClippedEmbedding(made.extractor, 10, clip=1.0, rows=ROWS)
    noise = torch.Generator("cuda").manual_seed(11)
    states = torch.cuda.get_rng_state(), noise.get_state(), torch.get_rng_state()
    for number in range(8):
        made.extractor.draw_anew(0, number)
        made(feature_map.clipped_sum(*records(image, 9)), rate=0.1)
    after = torch.cuda.get_rng_state(), noise.get_state(), torch.get_rng_state()
    assert all(torch.equal(a, b) for a, b in zip(states, after, strict=True))
    assert mixed(0, 1) != mixed(0, 2)


def test_an_untrained_network_shows_the_same_either_way() -> None:
    torch.manual_seed(0)
    network = ConvNet(channels=1, height=28, width=28, classes=2).cuda()
    images = torch.rand(64, 1, 28, 28, device="cuda") * 2 - 1
    tensor_floats = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    try:
        torch.testing.assert_close(network.embed_untrained(images), network.embed(images), rtol=1e-3, atol=1e-3)
    finally:
        torch.backends.cudnn.allow_tf32 = tensor_floats


def test_what_only_a_work_held_stays_alive() -> None:
    """A graph that reads memory which was given to others in the meantime would show it."""
    total = torch.zeros(1 << 20, device="cuda")
    graphs = Graphs("cuda")

    def made(number: float) -> None:
        held = torch.full((1 << 20,), number, device="cuda")

        def adds() -> None:
            total.add_(held)

        graphs.add(str(number), adds, changed=[total])

    made(2.0)
    others = [torch.full((1 << 20,), 9.0, device="cuda") for _ in range(8)]
    graphs("2.0")
    assert torch.equal(total, torch.full_like(total, 2.0))
    assert len(others) == 8


def test_work_that_waits_for_the_device_is_done_as_it_is_and_so_is_all_that_follows() -> None:
    value = torch.ones(3, device="cuda")
    graphs = Graphs("cuda")

    def waits() -> None:
        value.add_(float(value.sum().item()) * 0 + 1)

    def adds() -> None:
        value.add_(2)

    graphs.add("waits", waits, changed=[value])
    graphs.add("adds", adds, changed=[value])
    assert not graphs.captured
    assert value.tolist() == [1, 1, 1]
    graphs("waits")
    graphs("adds")
    assert value.tolist() == [4, 4, 4]

"""Slots: the same sums as without them for any number of records, and nothing private left in them."""

from __future__ import annotations

import pytest
import torch

from simulacra.errors import PlanError
from simulacra.features.embedding import ClippedEmbedding
from simulacra.features.embedding_slots import EmbeddingSlots
from simulacra.features.extractors import ConvolutionalExtractor, Extractor
from simulacra.networks.augmentation import OPERATIONS
from simulacra.networks.convnet import ConvNet
from simulacra.schema import ImageShape

IMAGE = ImageShape(height=9, width=10)
ROWS = 6
CPU = torch.device("cpu")


class Narrow(ConvNet):
    WIDTH = 5


def extractor(*operations: str, number: int = 1) -> ConvolutionalExtractor:
    made = ConvolutionalExtractor(IMAGE, 3, operations=operations, network=Narrow, in_place=True)
    made.draw_anew(5, number)
    return made


def slots_for(made: Extractor, bound: float = 1.0) -> EmbeddingSlots:
    return EmbeddingSlots(made, 3, bound=bound, rows=ROWS, device=CPU)


def records(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(0)
    return torch.rand(count, IMAGE.pixels, generator=random) * 2 - 1, torch.arange(count) % 3


def assert_empty(slots: EmbeddingSlots) -> None:
    for tensor in (slots.inputs, slots.labels, slots.present, slots.total):
        assert not tensor.any()


@pytest.mark.parametrize("operation", [None, *OPERATIONS])
@pytest.mark.parametrize("count", [0, 1, ROWS - 1, ROWS, ROWS + 1, 3 * ROWS + 2])
def test_a_sum_in_slots_is_the_sum(count: int, operation: str | None) -> None:
    made = extractor(*[operation] if operation else [])
    slots = slots_for(made)
    plain = ClippedEmbedding(made, 3, clip=1.0, rows=ROWS).clipped_sum(*records(count))
    for _ in range(2):
        torch.testing.assert_close(slots(*records(count)), plain, rtol=1e-12, atol=1e-12)
        assert_empty(slots)


class Strange(Extractor):
    """Gives back what it is given, and infinity for an empty slot."""

    inputs = width = IMAGE.pixels
    longest = 1e9

    def draw_anew(self, seed: int, number: int) -> None: ...

    def of_records(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return torch.where(inputs.abs().sum(dim=1, keepdim=True) == 0, torch.inf, inputs)

    def of_points(self, points: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return points


class Lively(Strange):
    """Long embeddings in empty slots."""

    def of_records(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return inputs + 1e6 * (inputs.abs().sum(dim=1, keepdim=True) == 0)


@pytest.mark.parametrize("made", [Strange(), Lively()])
def test_empty_slots_add_exactly_nothing(made: Extractor) -> None:
    inputs, labels = records(1)
    slots = slots_for(made, bound=1e9)
    expected = torch.zeros(3, IMAGE.pixels, dtype=torch.float64)
    assert torch.equal(slots(inputs[:0], labels[:0]), expected)
    expected[0] = inputs[0]
    assert torch.equal(slots(inputs, labels), expected)


@pytest.mark.parametrize("operation", [None, *OPERATIONS])
def test_no_record_adds_more_than_the_bound(operation: str | None) -> None:
    slots = slots_for(extractor(*[operation] if operation else []), bound=0.5)
    inputs, labels = records(2 * ROWS + 1)
    whole = slots(inputs, labels)
    for index in (0, ROWS - 1, ROWS, 2 * ROWS):
        alone = slots(inputs[index : index + 1], labels[index : index + 1])
        assert 0 < alone.norm() <= 0.5 * (1 + 1e-12)
        kept = torch.arange(len(inputs)) != index
        assert (whole - slots(inputs[kept], labels[kept])).norm() <= 0.5 * (1 + 1e-9)


def test_nothing_private_stays_behind_when_something_breaks() -> None:
    class Breaks(Strange):
        times = 0

        def of_records(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
            self.times += 1
            if self.times == 2:
                raise ZeroDivisionError
            return inputs

    slots = slots_for(Breaks())
    with pytest.raises(ZeroDivisionError):
        slots(*records(2 * ROWS))
    assert_empty(slots)


def test_what_is_given_back_is_not_overwritten_by_the_next_sum() -> None:
    slots = slots_for(extractor())
    first = slots(*records(4))
    before = first.clone()
    slots(*records(5))
    assert torch.equal(first, before)


def test_a_new_round_changes_the_sum_and_each_operation_has_its_own_work() -> None:
    made = extractor("rotate", "crop", number=0)
    slots = slots_for(made)
    sums = []
    for number in range(6):
        made.draw_anew(5, number)
        sums.append(slots(*records(4)))
        plain = ClippedEmbedding(made, 3, clip=1.0, rows=ROWS).clipped_sum(*records(4))
        torch.testing.assert_close(sums[-1], plain, rtol=1e-12, atol=1e-12)
    assert len({float(each.sum()) for each in sums}) == 6
    assert "rotate" in slots.graphs
    assert "crop" in slots.graphs


def test_draws_in_place_stay_in_place_repeat_and_leave_torch_alone() -> None:
    made = extractor("rotate")
    inputs, labels = records(3)
    weights = [layer.weight for layer in made.network.features if isinstance(layer, torch.nn.Conv2d)]
    places = [weight.data_ptr() for weight in weights]
    before = torch.get_rng_state()
    one = made.of_records(inputs, labels)
    made.draw_anew(5, 2)
    two = made.of_records(inputs, labels)
    made.draw_anew(5, 1)
    assert torch.equal(made.of_records(inputs, labels), one)
    assert not torch.allclose(one, two)
    assert [weight.data_ptr() for weight in weights] == places
    assert torch.equal(torch.get_rng_state(), before)


def test_weights_drawn_at_once_are_as_torch_draws_them() -> None:
    made = ConvolutionalExtractor(ImageShape(height=28, width=28), 3, operations=["color"], in_place=True)
    made.draw_anew(0, 0)
    for layer in made.network.features:
        if isinstance(layer, torch.nn.Conv2d):
            bound = layer.weight[0].numel() ** -0.5
            assert layer.weight.abs().max() <= bound
            assert layer.weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.05)
            assert abs(layer.weight.mean().item()) < 0.1 * bound


def test_a_captured_sum_that_differs_is_refused() -> None:
    feature_map = ClippedEmbedding(extractor(), 3, clip=1.0, rows=ROWS)
    feature_map.require_same_everywhere(CPU)
    genuine = feature_map.clipped_sum
    feature_map.clipped_sum = lambda inputs, labels: genuine(inputs, labels) + 1.0  # type: ignore[method-assign]
    with pytest.raises(PlanError, match="captured sum"):
        feature_map.require_same_everywhere(CPU)


def test_kernels_that_are_quick_and_not_steady_are_given_up() -> None:
    feature_map = ClippedEmbedding(extractor(), 3, clip=1.0, rows=ROWS, searching=True)
    genuine = feature_map._embed

    def embed(inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        found = genuine(inputs, labels)
        return found + 1e-6 * found.roll(1, dims=0) if feature_map.searching else found

    feature_map._embed = embed  # type: ignore[method-assign]
    feature_map.require_same_everywhere(CPU)
    assert not feature_map.searching


def test_every_augmentation_is_met_when_rounds_are_tried_out() -> None:
    made = extractor(*OPERATIONS)
    for seed in range(20):
        numbers = made.of_each_kind(seed, 10_000, 2)
        met = []
        for number in numbers:
            made.draw_anew(seed, number)
            met.append(made.variant)
        assert sorted(met) == sorted([*OPERATIONS] * 2)
    assert extractor().of_each_kind(0, 10_000, 3) == [0, 1, 2]
    assert extractor(*OPERATIONS).of_each_kind(0, 1, 3) == [0]

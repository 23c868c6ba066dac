"""Clipped embeddings: the same bits whatever shares the batch, bounds that hold, and seeds that leave noise alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from simulacra.errors import PlanError, SettingError
from simulacra.features.embedding import ClippedEmbedding
from simulacra.features.extractors import ConvolutionalExtractor, LinearExtractor, mixed, natural_depth
from simulacra.networks.augmentation import OPERATIONS
from simulacra.networks.convnet import ConvNet
from simulacra.schema import Boolean, ImageShape, Numeric, Schema

DIGIT = ImageShape(height=28, width=28)
TABLE = Schema(
    columns=(Numeric(name="age", lower=0, upper=9), Boolean(name="ill"), Boolean(name="label")), label="label"
)


def extractor(operation: str = "", image: ImageShape = DIGIT, number: int = 1) -> ConvolutionalExtractor:
    made = ConvolutionalExtractor(image, 3, operations=[operation] if operation else [])
    made.draw_anew(5, number)
    return made


def images(count: int, image: ImageShape = DIGIT, seed: int = 0) -> torch.Tensor:
    return torch.rand(count, image.pixels, generator=torch.Generator().manual_seed(seed)) * 2 - 1


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("operation", ["", *OPERATIONS])
@pytest.mark.parametrize("used", [1, 2])
def test_a_record_has_the_same_bits_in_any_place_beside_any_others(operation: str, used: int, threads: None) -> None:
    """Removing one record shifts all others to other places of the batch and must not move them."""
    torch.set_num_threads(used)
    rows = 24
    feature_map = ClippedEmbedding(extractor(operation), 3, clip=1.0, rows=rows)
    hard = torch.stack([torch.full((784,), -1.0), torch.full((784,), 1e-30), images(1)[0], images(1)[0] * 1e-7])
    labels = torch.tensor([0, 1, 2, 0])
    alone = [feature_map._embed(hard[i : i + 1], labels[i : i + 1])[0] for i in range(len(hard))]
    for place in (1, 7, 19):
        crowd, classes = images(place + len(hard), seed=place), torch.arange(place + len(hard)) % 3
        crowd[place:], classes[place:] = hard, labels
        together = feature_map._embed(crowd, classes)
        for i, expected in enumerate(alone):
            assert torch.equal(together[place + i], expected)


@pytest.mark.parametrize("operation", ["", "color", "scale"])
def test_removing_a_record_from_a_sample_moves_the_sum_by_at_most_the_bound(operation: str) -> None:
    feature_map = ClippedEmbedding(extractor(operation), 3, clip=0.5, rows=16)
    inputs, labels = images(40), torch.arange(40) % 3
    whole = feature_map.clipped_sum(inputs, labels)
    for index in (0, 15, 16, 39):
        kept = torch.arange(40) != index
        assert (whole - feature_map.clipped_sum(inputs[kept], labels[kept])).norm() <= 0.5 * (1 + 1e-9)


def test_a_sample_that_overflows_its_batch_is_never_cut() -> None:
    inputs, labels = images(23), torch.arange(23) % 3
    sums = [ClippedEmbedding(extractor(), 3, clip=1.0, rows=rows).clipped_sum(inputs, labels) for rows in (8, 23, 64)]
    torch.testing.assert_close(sums[0], sums[1], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(sums[2], sums[1], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "image",
    [DIGIT, ImageShape(height=32, width=32, channels=3), ImageShape(height=9, width=13), ImageShape(height=2, width=3)],
    ids=["grey", "colour", "odd", "tiny"],
)
def test_no_embedding_is_longer_than_it_can_be(image: ImageShape) -> None:
    made = extractor(image=image)
    inputs = torch.cat([images(20, image), images(20, image).sign(), torch.zeros(1, image.pixels)])
    embedded = made.of_records(inputs, torch.zeros(41, dtype=torch.int64))
    assert embedded.shape == (41, made.width)
    assert embedded.norm(dim=1).max() <= made.longest
    assert embedded.norm(dim=1).max() > made.longest / 4
    linear = LinearExtractor(TABLE, width=7)
    linear.draw_anew(0, 0)
    rows = linear.of_records(torch.rand(50, TABLE.inputs) * 2 - 1, torch.zeros(50, dtype=torch.int64))
    assert rows.norm(dim=1).max() <= linear.longest


def test_the_network_is_the_one_of_the_papers_and_its_weights_as_torch_draws_them() -> None:
    made = extractor()
    assert (made.width, natural_depth(DIGIT)) == (2048, 3)
    torch.manual_seed(0)
    fresh = ConvNet(channels=1, height=28, width=28, classes=1)
    for ours, theirs in zip(made.network.features, fresh.features, strict=True):
        if isinstance(ours, torch.nn.Conv2d):
            assert isinstance(theirs, torch.nn.Conv2d)
            assert ours.weight.std().item() == pytest.approx(theirs.weight.std().item(), rel=0.1)
            assert ours.weight.abs().max().item() == pytest.approx(theirs.weight.abs().max().item(), rel=0.05)


@pytest.mark.parametrize(("side", "depth"), [(4, 1), (8, 1), (16, 2), (28, 3), (32, 3), (64, 4)])
def test_the_depth_leaves_places(side: int, depth: int) -> None:
    assert natural_depth(ImageShape(height=side, width=side)) == depth


def test_too_many_poolings_are_refused() -> None:
    with pytest.raises(SettingError, match="lower depth"):
        ConvolutionalExtractor(ImageShape(height=8, width=8), 2, operations=[], depth=4)
    with pytest.raises(SettingError, match="nothing left"):
        ConvolutionalExtractor(ImageShape(height=1, width=8), 2, operations=[])


def test_rounds_differ_and_repeat_and_leave_torch_alone() -> None:
    inputs, labels = images(3), torch.arange(3)
    torch.manual_seed(3)
    before = torch.get_rng_state()
    one, two = (extractor("rotate", number=n).of_records(inputs, labels) for n in (1, 2))
    assert torch.equal(before, torch.get_rng_state())
    assert not torch.allclose(one, two)
    assert torch.equal(one, extractor("rotate", number=1).of_records(inputs, labels))
    assert len({mixed(seed, number) for seed in range(9) for number in range(9)}) == 81


def test_images_of_a_class_are_changed_alike_and_classes_differently() -> None:
    made = extractor("rotate")
    same = images(1).expand(4, -1)
    embedded = made.of_records(same, torch.tensor([0, 0, 1, 2]))
    torch.testing.assert_close(embedded[0], embedded[1])
    assert not torch.allclose(embedded[0], embedded[2], rtol=1e-3, atol=1e-3)
    points = (same + 1) / 2
    torch.testing.assert_close(made.of_points(points, torch.tensor([0, 0, 1, 2])), embedded, rtol=1e-3, atol=1e-4)


def test_a_device_that_sees_an_image_differently_elsewhere_is_refused() -> None:
    feature_map = ClippedEmbedding(extractor("color"), 3, clip=1.0, rows=12)
    feature_map.require_same_everywhere("cpu")
    genuine = feature_map.extractor.of_records

    def mixing(inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        embedded = genuine(inputs, labels)
        return embedded + 1e-6 * embedded.roll(1, dims=0)

    feature_map.extractor.of_records = mixing  # type: ignore[method-assign]
    with pytest.raises(PlanError, match="nothing was drawn"):
        feature_map.require_same_everywhere("cpu")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU: whether its convolutions keep to themselves")
@pytest.mark.parametrize("operation", ["", *OPERATIONS])
def test_a_gpu_sees_an_image_the_same_in_every_place(operation: str) -> None:
    made = ConvolutionalExtractor(DIGIT, 3, operations=[operation] if operation else [], device="cuda")
    made.draw_anew(5, 1)
    ClippedEmbedding(made, 3, clip=1.0, rows=576).require_same_everywhere("cuda")

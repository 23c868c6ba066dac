"""Blocks, sum and product kernels: closed forms equal the definition, and points of records have records' features."""

from __future__ import annotations

import hashlib
import itertools
import math

import pytest
import tiny
import torch

from simulacra.features.combine import PerClass
from simulacra.features.groups import Groups
from simulacra.features.hermite import Hermite
from simulacra.features.hermite_blocks import LEVELS, PixelBlocks, PooledBlocks, TableBlocks, blocks_for, widths_for
from simulacra.features.hermite_kernels import ProductKernel, SumKernel, draw_subsets
from simulacra.privacy.query import FeatureMap
from simulacra.schema import Boolean, Categorical, ImageShape, Numeric, Schema

PEOPLE, UNLABELLED, PICTURES = map(tiny.schema, (tiny.PEOPLE, tiny.UNLABELLED, tiny.PICTURES))
SCHEMAS = pytest.mark.parametrize("schema", [PEOPLE, UNLABELLED, PICTURES], ids=["table", "unlabelled", "images"])


def kernels(schema: Schema, order: int = 4) -> list[SumKernel | ProductKernel]:
    blocks = blocks_for(schema, order=order, length_scale=0.3)
    coordinates = len(blocks.widths)
    return [SumKernel(blocks), *(ProductKernel(blocks, draw_subsets(coordinates, size, 7, 0)) for size in (1, 2, 3, 5))]


def records(schema: Schema, number: int = 40) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(3)
    inputs = torch.rand(number, schema.inputs, generator=random, dtype=torch.float64) * 2 - 1
    return inputs, torch.randint(0, schema.classes, (number,), generator=random)


@SCHEMAS
def test_the_closed_form_is_the_specification(schema: Schema) -> None:
    inputs, labels = records(schema)
    for kernel in kernels(schema):
        for each in (kernel, PerClass(kernel, schema.classes)):
            wanted = FeatureMap.clipped_sum(each, inputs, labels)
            torch.testing.assert_close(each.clipped_sum(inputs, labels), wanted, rtol=0, atol=1e-12)


@SCHEMAS
def test_the_points_of_a_record_have_the_features_of_the_record(schema: Schema) -> None:
    inputs, labels = records(schema)
    for kernel in kernels(schema):
        each = torch.stack([kernel.features(row, label) for row, label in zip(inputs, labels, strict=True)])
        torch.testing.assert_close(kernel.embed(kernel.blocks.of_records(inputs)), each, rtol=0, atol=1e-14)
        assert each.norm(dim=1).max() <= 1 + 1e-12


@SCHEMAS
def test_class_sums_equal_weighted_sums_of_embeddings_in_value_and_gradient(schema: Schema) -> None:
    inputs, _ = records(schema, 9)
    groups = Groups(sizes=(4, 0, 5), weights=torch.tensor([0.5, 1.0, 0.2], dtype=torch.float64))
    for kernel in kernels(schema):
        points = (kernel.blocks.of_records(inputs) * 0.9 + 0.01).requires_grad_()
        sums, wanted = kernel.class_sums(points, groups), groups.averaging @ kernel.embed(points)
        torch.testing.assert_close(sums, wanted, rtol=0, atol=1e-13)
        upstream = torch.randn(sums.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        (ours,), (plain,) = (torch.autograd.grad(value, points, upstream) for value in (sums, wanted))
        torch.testing.assert_close(ours, plain, rtol=1e-11, atol=1e-12)


@SCHEMAS
def test_widths_are_known_without_building(schema: Schema) -> None:
    for order in (0, 1, 30):
        assert widths_for(schema, order) == blocks_for(schema, order=order, length_scale=0.3).widths


@SCHEMAS
def test_precision_follows_the_points(schema: Schema) -> None:
    inputs, _ = records(schema, 4)
    groups = Groups(sizes=(4,), weights=torch.ones(1))
    for kernel in kernels(schema):
        points = kernel.blocks.of_records(inputs).float()
        assert kernel.embed(points).dtype == kernel.class_sums(points, groups).dtype == torch.float32


# -- pixels ----------------------------------------------------------------------------------------------------------


def test_every_pixel_of_eight_bits_is_its_own_level() -> None:
    blocks = PixelBlocks(LEVELS, Hermite(order=3, length_scale=0.2))
    levels = torch.arange(LEVELS)
    encoded = (levels.float() * (2.0 / 255.0) - 1.0).double()  # as `data/images.py` encodes them
    assert torch.equal(blocks.of_records(encoded), levels.double() / 255)


def test_other_values_are_moved_to_the_nearest_level_and_nothing_is_refused() -> None:
    blocks = PixelBlocks(6, Hermite(order=3, length_scale=0.2))
    inputs = torch.tensor([0.2 / 127.5 - 1, -5.0, 7.0, math.nan, math.inf, -math.inf], dtype=torch.float64)
    assert (blocks.of_records(inputs) * 255).tolist() == [0, 0, 255, 128, 255, 0]


def test_large_images_are_counted_a_part_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs, labels = records(PICTURES)
    kernel = PerClass(SumKernel(blocks_for(PICTURES, order=3, length_scale=0.2)), 2)
    whole = kernel.clipped_sum(inputs, labels)
    monkeypatch.setattr("simulacra.features.hermite_blocks.HISTOGRAM_NUMBERS", 5 * 2 * LEVELS)
    assert torch.allclose(kernel.clipped_sum(inputs, labels), whole, rtol=0, atol=1e-14)


def test_the_sum_kernel_is_the_mean_of_the_gaussian_kernels_of_all_pixels() -> None:
    kernel = SumKernel(PixelBlocks(5, Hermite(order=40, length_scale=0.1)))
    one, two = torch.rand(2, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    wanted = torch.exp(-((one - two) ** 2) / (2 * 0.1**2)).mean()
    assert float(kernel.embed(one) @ kernel.embed(two)) == pytest.approx(float(wanted), abs=1e-4)


def test_the_product_kernel_is_the_mean_over_subsets_of_gaussian_kernels() -> None:
    subsets = [(0, 3), (1, 4), (0, 4)]
    kernel = ProductKernel(PixelBlocks(5, Hermite(order=20, length_scale=0.3)), subsets)
    one, two = torch.rand(2, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    squares = (one - two) ** 2 / (2 * 0.3**2)
    wanted = sum(math.exp(-float(sum(squares[at] for at in subset))) for subset in subsets) / 3
    assert float(kernel.embed(one) @ kernel.embed(two)) == pytest.approx(wanted, abs=1e-6)


# -- tables ----------------------------------------------------------------------------------------------------------


def test_a_table_of_categories_alone_is_nonnegative_and_its_sum_a_histogram() -> None:
    schema = Schema(columns=(Categorical(name="a", values=("x", "y", "z")), Boolean(name="b", missing=True)))
    kernel = SumKernel(blocks_for(schema, order=5, length_scale=0.2))
    assert kernel.nonnegative
    assert ProductKernel(kernel.blocks, [(0, 1)]).nonnegative
    assert not SumKernel(blocks_for(PEOPLE, order=5, length_scale=0.2)).nonnegative
    inputs, labels = records(schema)
    counts = kernel.clipped_sum(inputs, labels) * math.sqrt(2)
    wanted = kernel.blocks.of_records(inputs).sum(dim=0)
    torch.testing.assert_close(counts, wanted)


def test_a_missing_value_is_at_right_angles_to_all_others_and_bins_tell_each_other_apart() -> None:
    schema = Schema(columns=(Numeric(name="a", lower=0, upper=1, bins=6, missing=True),))
    blocks = TableBlocks(schema, order=50, length_scale=0.3)
    (table,) = blocks.tables
    assert table.shape == (7, 7), "no more features than cells"
    assert table[-1].tolist() == [0, 0, 0, 0, 0, 0, 1]
    assert not table[:-1, -1].any()
    assert torch.linalg.matrix_rank(table) == 7


def test_soft_points_have_the_expected_features_of_records_drawn_from_them() -> None:
    """Columns are drawn independently given a generated point, so products of probabilities are the expectation."""
    schema = Schema(columns=(Numeric(name="a", lower=0, upper=1, bins=3), Categorical(name="b", values=("x", "y"))))
    kernel = ProductKernel(blocks_for(schema, order=4, length_scale=0.3), [(0, 1)])
    soft = torch.tensor([0.2, 0.5, 0.3, 0.6, 0.4], dtype=torch.float64)
    expected = torch.zeros(kernel.size, dtype=torch.float64)
    for one, other in itertools.product(range(3), range(2)):
        point = torch.zeros(5, dtype=torch.float64)
        point[one] = point[3 + other] = 1
        expected += soft[one] * soft[3 + other] * kernel.embed(point)
    torch.testing.assert_close(kernel.embed(soft), expected)


# -- subsets ---------------------------------------------------------------------------------------------------------


def test_subsets_are_distinct_sorted_and_the_same_on_every_machine() -> None:
    drawn = draw_subsets(784, 2, 500, 0)
    assert len(set(drawn)) == len(drawn) == 500
    assert all(0 <= one < other < 784 for one, other in drawn)
    digest = hashlib.sha256(str(drawn).encode()).hexdigest()
    assert digest == "55d277e346710aa66024f78cfd79cb942ddc895368e1518faad0cf85e6a2bdd4"
    assert drawn != draw_subsets(784, 2, 500, 1)


def test_all_subsets_are_taken_where_there_are_no_more() -> None:
    assert draw_subsets(4, 2, 6, 0) == list(itertools.combinations(range(4), 2))
    assert draw_subsets(4, 2, 99, 0) == draw_subsets(4, 2, 6, 5)
    assert len(draw_subsets(4, 2, 5, 0)) == 5
    assert draw_subsets(3, 3, 10, 0) == [(0, 1, 2)]


def test_every_coordinate_is_drawn_about_equally_often() -> None:
    drawn = draw_subsets(10, 3, 100, 4)
    counts = torch.bincount(torch.tensor(drawn).flatten(), minlength=10)
    assert counts.sum() == 300
    assert counts.min() > 15


def test_shapes_follow_the_images() -> None:
    schema = Schema(image=ImageShape(height=2, width=3, channels=3))
    kernel = SumKernel(blocks_for(schema, order=2, length_scale=0.2))
    assert kernel.shape == (18 * 3,)
    assert ProductKernel(kernel.blocks, [(0, 17), (3, 4)]).shape == (2 * 9,)


# -- squares of pixels -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("channels", [1, 3])
def test_squares_have_the_mean_of_their_pixels_and_are_cut_off_at_the_edges(channels: int) -> None:
    image = ImageShape(height=5, width=7, channels=channels)
    hermite = Hermite(order=3, length_scale=0.3)
    blocks = PooledBlocks(image, 3, hermite)
    point = torch.rand(channels, 5, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    means = [
        point[channel, top : top + 3, left : left + 3].mean()
        for channel in range(channels)
        for top in (0, 3)
        for left in (0, 3, 6)
    ]
    assert len(blocks.widths) == len(means) == 6 * channels
    torch.testing.assert_close(blocks.rows(point.flatten()), hermite.values(torch.stack(means)).flatten())


def test_squares_larger_than_the_image_are_the_whole_image() -> None:
    schema = Schema(image=ImageShape(height=2, width=3))
    blocks = blocks_for(schema, order=2, length_scale=0.3, square=9)
    assert widths_for(schema, 2, 9) == blocks.widths == (3,)
    inputs, labels = records(schema)
    kernel = PerClass(ProductKernel(blocks, [(0,)]), 1)
    wanted = FeatureMap.clipped_sum(kernel, inputs, labels)
    torch.testing.assert_close(kernel.clipped_sum(inputs, labels), wanted, rtol=0, atol=1e-12)


def test_squares_keep_the_closed_form_and_the_gradient() -> None:
    blocks = blocks_for(PICTURES, order=3, length_scale=0.3, square=3)
    assert widths_for(PICTURES, 3, 3) == blocks.widths == (4,) * 9
    inputs, labels = records(PICTURES)
    groups = Groups(sizes=(30, 10), weights=torch.tensor([0.5, 0.2], dtype=torch.float64))
    for kernel in (SumKernel(blocks), ProductKernel(blocks, draw_subsets(9, 3, 5, 0))):
        each = PerClass(kernel, 2)
        wanted = FeatureMap.clipped_sum(each, inputs, labels)
        torch.testing.assert_close(each.clipped_sum(inputs, labels), wanted, rtol=0, atol=1e-12)
        points = blocks.of_records(inputs).requires_grad_()
        sums, plain = kernel.class_sums(points, groups), groups.averaging @ kernel.embed(points)
        torch.testing.assert_close(sums, plain, rtol=0, atol=1e-13)
        (ours,), (theirs,) = (torch.autograd.grad(value.square().sum(), points) for value in (sums, plain))
        torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-12)

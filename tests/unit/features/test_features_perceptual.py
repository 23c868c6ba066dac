"""Perceptual features: bounds that hold in single precision, one pass for all moments, and the closed-form gradient."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from simulacra.errors import SettingError
from simulacra.features.combine import PerClass
from simulacra.features.groups import Groups
from simulacra.features.perceptual import OnePass, Perceptual
from simulacra.features.projections import public_mean, random_matrices
from simulacra.features.refined_views import Centred, Deepest, Even, Projected
from simulacra.features.unit_sums import FLOOR, unit_sums
from simulacra.features.views import InceptionView, LastLayer, Perceived
from simulacra.networks import encoders
from simulacra.networks.encoder import Encoder
from simulacra.networks.inception import Inception
from simulacra.networks.small_encoder import SmallEncoder
from simulacra.privacy import summing
from simulacra.privacy.records import Records
from simulacra.privacy.sealed import Sealed
from simulacra.schema import ImageShape, Schema

GREY = ImageShape(height=12, width=10, classes=("a", "b", "c"))
COLOUR = ImageShape(height=32, width=32, channels=3)


def small(image: ImageShape = GREY, widths: tuple[int, ...] = (4, 6)) -> Perceived:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return Perceived(image, SmallEncoder(widths), name="small")


def records(count: int, image: ImageShape = GREY, seed: int = 0) -> torch.Tensor:
    return torch.rand(count, image.pixels, generator=torch.Generator().manual_seed(seed)) * 2 - 1


@pytest.mark.parametrize("name", ["vgg11", "resnet18", "resnet18-small"])
def test_a_record_has_the_same_bits_in_any_place_beside_any_others(name: str) -> None:
    """Removing one record shifts all others to other places of the batch and must not move them."""
    passing = OnePass(Perceived(COLOUR, encoders.build(name), name=name), rows=8)
    whole = records(11, COLOUR)
    alone = [passing._looked(whole[i : i + 1]) for i in range(11)]
    assert passing._steady
    for start in (0, 3):
        for place, layers in enumerate(zip(*passing._looked(whole[start : start + 8]), strict=True)):
            assert all(torch.equal(a, b[0]) for a, b in zip(layers, alone[start + place], strict=True))


def test_a_network_that_is_not_steady_runs_in_double_precision() -> None:
    view = small()
    genuine = view.look

    def wavering(points: torch.Tensor) -> list[torch.Tensor]:
        layers = genuine(points)
        return layers if points.dtype == torch.float64 else [each + 1e-6 * each.roll(1, dims=0) for each in layers]

    view.look = wavering  # type: ignore[method-assign]
    passing = OnePass(view, rows=8)
    total = passing.sums(1, records(9), torch.zeros(9, dtype=torch.int64), 1)
    assert passing._steady is False
    right = OnePass(small(), rows=8).sums(1, records(9).double(), torch.zeros(9, dtype=torch.int64), 1)
    torch.testing.assert_close(total, right, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("order", [1, 2])
def test_in_single_precision_no_record_adds_more_than_its_bound(order: int) -> None:
    feature_map = PerClass(Perceptual(OnePass(small(), rows=8), order=order), 3)
    hard = torch.stack([torch.full((120,), -1.0), torch.full((120,), 1.0), records(1)[0] * 1e-30, records(1)[0].sign()])
    inputs = torch.cat([hard, records(30)])
    labels = torch.arange(34) % 3
    for i in range(34):
        alone = feature_map.clipped_sum(inputs[i : i + 1], labels[i : i + 1])
        assert alone.norm() <= 1 + 1e-9
        assert alone.norm() > 0.99
        assert order == 1 or alone.min() >= 0
    whole = feature_map.clipped_sum(inputs, labels)
    for index in (0, 7, 8, 33):
        kept = torch.arange(34) != index
        assert (whole - feature_map.clipped_sum(inputs[kept], labels[kept])).norm() <= 1 + 1e-9


def silent() -> Encoder:
    encoder = SmallEncoder((4,))
    for weight in encoder.parameters():
        torch.nn.init.zeros_(weight)
    return encoder


@pytest.mark.parametrize("order", [1, 2])
def test_features_that_are_all_zero_sum_to_zero_and_never_to_nan(order: int) -> None:
    feature_map = Perceptual(OnePass(Perceived(GREY, silent(), name="small"), rows=4), order=order)
    assert not feature_map.clipped_sum(records(5), torch.zeros(5, dtype=torch.int64)).any()
    points = ((records(4) + 1) / 2).requires_grad_()
    groups = Groups(sizes=(4,), weights=torch.ones(1))
    (gradient,) = torch.autograd.grad(feature_map.class_sums(points, groups).sum(), points)
    assert torch.isfinite(gradient).all()


def test_a_network_of_infinite_numbers_adds_nothing_infinite() -> None:
    encoder = SmallEncoder((4,))
    torch.nn.init.constant_(encoder.watched[0].weight, 3e38)
    feature_map = Perceptual(OnePass(Perceived(GREY, encoder, name="small"), rows=4), order=2)
    total = feature_map.clipped_sum(records(5), torch.zeros(5, dtype=torch.int64))
    assert torch.isfinite(total).all()
    assert total.norm() <= 5 + 1e-9


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("wild", [1e300, torch.inf, torch.nan])
def test_features_too_long_to_measure_add_nothing_and_spoil_no_other(order: int, wild: float) -> None:
    """In double precision a square may overflow. One such record must not turn the sum of all others into NaN."""
    view = small()
    genuine = view.read

    def wildly(looked: list[torch.Tensor]) -> list[torch.Tensor]:
        first, *others = genuine(looked)
        return [torch.where(first[:, :1] > first[:, :1].median(), first, first * wild), *others]

    view.read = wildly  # type: ignore[method-assign]
    feature_map = Perceptual(OnePass(view, rows=8), order=order)
    labels = torch.zeros(7, dtype=torch.int64)
    total = feature_map.clipped_sum(records(7), labels)
    assert torch.isfinite(total).all()
    assert total.norm() > 1  # the others are still there


def test_two_moments_of_the_same_records_take_one_pass() -> None:
    passing = OnePass(small(), rows=8)
    looked: list[int] = []
    genuine = passing.view.look

    def counting(points: torch.Tensor) -> list[torch.Tensor]:
        looked.append(len(points))
        return genuine(points)

    passing.view.look = counting  # type: ignore[method-assign]
    first, second = (PerClass(Perceptual(passing, order=order), 3) for order in (1, 2))
    inputs, labels = records(20), torch.arange(20) % 3
    passing._looked(inputs[:8])
    looked.clear()
    chunks = [slice(0, 12), slice(12, 20)]
    together = []
    for chunk in chunks:
        first.clipped_sum(inputs[chunk], labels[chunk])
        together.append(second.clipped_sum(inputs[chunk], labels[chunk]))
    assert looked == [8, 8, 8]
    assert not passing.waiting
    alone = PerClass(Perceptual(OnePass(small(), (2,), rows=8), order=2), 3)
    for chunk, found in zip(chunks, together, strict=True):
        assert torch.equal(found, alone.clipped_sum(inputs[chunk], labels[chunk]))
    # Other labels, or one pixel more or less, are other records.
    first.clipped_sum(inputs, labels)
    other = second.clipped_sum(inputs, (labels + 1) % 3)
    assert torch.equal(other, second.clipped_sum(inputs, labels).roll(1, dims=0))


def test_a_second_view_of_the_same_network_takes_no_pass_of_its_own() -> None:
    view = small()
    passing = OnePass(view, rows=8, also=LastLayer(view))
    assert passing.beside is not None
    main = [PerClass(Perceptual(passing, order=order), 3) for order in (1, 2)]
    proxies = [Perceptual(passing.beside, order=order) for order in (1, 2)]
    inputs, labels = records(20), torch.arange(20) % 3
    for feature_map in main:
        feature_map.clipped_sum(inputs, labels)
    looked: list[int] = []
    genuine = view.look
    view.look = lambda points: looked.append(len(points)) or genuine(points)  # type: ignore[func-returns-value,method-assign]
    shared = [feature_map.clipped_sum(inputs, labels) for feature_map in proxies]
    assert not looked
    alone = [feature_map.clipped_sum(inputs, labels) for feature_map in proxies]
    assert looked
    for one, other in zip(shared, alone, strict=True):
        assert torch.equal(one, other)


def test_per_class_records_arrive_in_the_precision_of_the_map() -> None:
    assert PerClass(Perceptual(OnePass(small()), order=1), 3).dtype == torch.float32


class Held:
    """Records in one batch, as a vault gets them."""

    def __init__(self, inputs: torch.Tensor, labels: torch.Tensor) -> None:
        self.inputs, self.labels = inputs, labels

    def batches(self) -> Iterator[Records]:
        yield Records(inputs=self.inputs, labels=self.labels)


def sealed(count: int) -> Sealed:
    return Sealed(Held(records(count), torch.arange(count) % 3), Schema(image=GREY))


def test_what_was_summed_on_the_way_waits_for_one_chunk_only() -> None:
    passing = OnePass(small(), rows=4)
    for seed in range(3):
        passing.sums(1, records(2, seed=seed), torch.zeros(2, dtype=torch.int64), 1)
        assert len(passing.waiting) == 1


def test_a_vault_looks_once_at_each_record_however_large_the_questions_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks are cut by the size of a question; the proxy's is small, and it must meet the same chunks all the same."""
    monkeypatch.setattr(summing, "CHUNK_NUMBERS", 2000)
    view = small()
    view.work = 1
    passing = OnePass(view, rows=8, also=LastLayer(view))
    assert passing.beside is not None
    maps: dict[str, Any] = {str(order): PerClass(Perceptual(passing, order=order), 3) for order in (1, 2)}
    maps |= {f"proxy {order}": Perceptual(passing.beside, order=order) for order in (1, 2)}
    assert len({summing.chunk_rows(each, GREY.pixels) for each in maps.values()}) == 2
    passing._looked(records(8))
    looked: list[int] = []
    genuine = view.look
    view.look = lambda points: looked.append(len(points)) or genuine(points)  # type: ignore[func-returns-value,method-assign]
    sums = summing.sum_over(sealed(64), maps)
    assert len(looked) == 64 / 8
    assert not passing.waiting
    for name, each in maps.items():
        alone = each.clipped_sum(records(64), torch.arange(64) % 3)
        torch.testing.assert_close(sums[name], alone, rtol=1e-12, atol=1e-12)


def test_sums_without_noise_do_not_outlive_a_failure() -> None:
    passing = OnePass(small(), rows=8)
    first, second = (PerClass(Perceptual(passing, order=order), 3) for order in (1, 2))
    second.clipped_sum = lambda inputs, labels: [][len(inputs)]  # type: ignore[method-assign]
    with pytest.raises(IndexError):
        summing.sum_over(sealed(20), {"first": first, "second": second})
    assert not passing.waiting


def test_a_chunk_that_is_rehearsed_is_no_more_than_a_few_minutes_of_work() -> None:
    from simulacra.privacy.summing import chunk_rows

    assert chunk_rows(PerClass(Perceptual(OnePass(small()), order=1), 3), 120) <= 1000
    inception = InceptionView(GREY, Inception())
    assert chunk_rows(Perceptual(OnePass(inception), order=1), 120) <= 100


def test_a_chunk_has_fewer_images_where_a_network_takes_longer_over_each() -> None:
    """A whole chunk is rehearsed before anything is asked: of images of 224 pixels that was most of an hour."""
    from simulacra.privacy.summing import chunk_rows

    with torch.random.fork_rng(devices=[]):
        encoder = SmallEncoder((64,))
    plain, larger = (Perceived(COLOUR, encoder, name="small", resize=side) for side in (None, 128))
    projected = Projected(larger, random_matrices(larger.sizes, 2, seed=0))
    for view in (larger, projected, LastLayer(larger)):
        assert view.work > 5 * plain.work
    for classes in (1, 10):
        one, other = (chunk_rows(PerClass(Perceptual(OnePass(v), order=1), classes), 3072) for v in (plain, larger))
        assert other <= 1.5 * one


@pytest.mark.parametrize("orders", [(1,), (2,), (1, 2)])
def test_the_gradient_in_closed_form_is_that_of_automatic_differentiation(orders: tuple[int, ...]) -> None:
    random = torch.Generator().manual_seed(1)
    layers = [torch.randn(6, size, generator=random, dtype=torch.float64) for size in (5, 1, 7)]
    for layer in layers:
        layer[4] *= 1e-5  # shorter than the floor
        layer.requires_grad_()
    averaging = torch.rand(3, 6, generator=random, dtype=torch.float64)

    def plainly(order: int) -> torch.Tensor:
        value = torch.cat(layers, dim=1) ** order
        return averaging @ (value / value.norm(dim=1, keepdim=True).clamp(min=FLOOR**order))

    target = [torch.randn(3, 13, generator=random, dtype=torch.float64) for _ in orders]
    ours = unit_sums(averaging, layers, orders)
    theirs = [plainly(order) for order in orders]
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b)

    def gradients(found: Any) -> tuple[torch.Tensor, ...]:
        loss = sum((t - f).square().sum() for t, f in zip(target, found, strict=True))
        return torch.autograd.grad(loss, layers, retain_graph=True)

    for a, b in zip(gradients(ours), gradients(theirs), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


def test_features_in_half_precision_are_added_up_in_single() -> None:
    layers = [torch.randn(4, 9, dtype=torch.bfloat16, requires_grad=True)]
    (total,) = unit_sums(torch.ones(1, 4), layers, (2,))
    assert total.dtype == torch.float32
    (gradient,) = torch.autograd.grad(total.sum(), layers)
    assert gradient.dtype == torch.bfloat16


def test_grey_images_are_seen_as_colour_ones_of_equal_channels() -> None:
    grey, colour = ImageShape(height=8, width=8), ImageShape(height=8, width=8, channels=3)
    points = torch.rand(2, 64)
    for a, b in zip(small(grey).layers(points), small(colour).layers(points.repeat(1, 3)), strict=True):
        torch.testing.assert_close(a, b)


def test_an_image_too_small_for_the_network_is_refused_in_one_line() -> None:
    tiny = ImageShape(height=8, width=8)
    with pytest.raises(SettingError, match=r"at least 16 x 16 pixels, got 8 x 8; set encoder\.resize to 32"):
        Perceived(tiny, encoders.build("vgg11"), name="vgg11")
    assert Perceived(tiny, encoders.build("vgg11"), name="vgg11", resize=16).width > 0


@pytest.mark.parametrize("name", ["vgg11", "vgg19-normalised", "resnet18", "resnet18-small", "convnext-tiny"])
def test_the_least_side_is_enough(name: str) -> None:
    encoder = encoders.build(name)
    least = encoder.least_side
    assert Perceived(ImageShape(height=least, width=least), encoder, name=name).width > 0


def test_a_projection_keeps_the_bound_and_must_fit() -> None:
    view = small()
    matrices = [10 * torch.randn(3, size) for size in view.sizes]
    feature_map = Perceptual(OnePass(Projected(view, matrices), rows=4), order=1)
    assert feature_map.size == 3 * len(view.sizes)
    assert feature_map.clipped_sum(records(1), torch.zeros(1, dtype=torch.int64)).norm() <= 1 + 1e-9
    with pytest.raises(SettingError, match="made for another encoder"):
        Projected(view, matrices[:-1])


def test_even_layers_have_the_same_length_in_every_image_and_keep_the_bound() -> None:
    view = Even(small())
    features = torch.stack([Perceptual(OnePass(view), order=1).features(each, torch.tensor(0)) for each in records(5)])
    parts = torch.split(features, list(view.sizes), dim=1)
    for part in parts:
        torch.testing.assert_close(part.square().sum(dim=1), torch.full((5,), 1 / len(parts)).double())
    before = torch.stack([layer.norm(dim=1) for layer in small().layers((records(5) + 1) / 2)])
    assert before.std(dim=0).min() > 0.1, "which they had not before"
    for order in (1, 2):
        feature_map = Perceptual(OnePass(view, rows=4), order=order)
        for record in records(5):
            assert feature_map.clipped_sum(record[None], torch.zeros(1, dtype=torch.int64)).norm() <= 1 + 1e-9


def test_the_deepest_layers_are_the_last_ones() -> None:
    whole, points = small(), (records(3) + 1) / 2
    assert all(map(torch.equal, Deepest(whole, 2).layers(points), whole.layers(points)[-2:]))
    assert (Deepest(whole, 2).sizes, Deepest(whole, 2).shapes) == (whole.sizes[-2:], whole.shapes[-2:])
    for layers in (0, len(whole.sizes) + 1):
        with pytest.raises(SettingError, match=rf"layers\.last must be from 1 to {len(whole.sizes)}"):
            Deepest(whole, layers)


def test_layers_that_are_all_zero_stay_so_when_they_are_made_even() -> None:
    view = Even(Perceived(GREY, silent(), name="small"))
    points = ((records(4) + 1) / 2).requires_grad_()
    (first, *_) = layers = view.layers(points)
    assert not first.any()
    (gradient,) = torch.autograd.grad(sum(layer.sum() for layer in layers), points)
    assert torch.isfinite(gradient).all()


def test_layers_in_half_precision_stay_so_when_they_are_made_even() -> None:
    """Their lengths are not added up in it: ten thousand ones have length 100."""
    inner = small()
    inner.read = lambda looked: [torch.ones(2, 10_000, dtype=torch.bfloat16)]  # type: ignore[method-assign]
    (layer,) = Even(inner).read([])
    assert layer.dtype == torch.bfloat16
    torch.testing.assert_close(layer.float(), torch.full((2, 10_000), 0.01), rtol=0.004, atol=0)


def test_what_images_share_has_none_of_the_length_about_a_public_mean() -> None:
    """So sums of unlike images are further apart, while no record contributes more than before."""
    inner = small()
    view = Centred(inner, public_mean(inner, records(40, seed=5) / 2 + 0.5))
    ours, plain = (
        torch.stack([Perceptual(OnePass(each), order=1).features(one, torch.tensor(0)) for one in records(30)])
        for each in (view, inner)
    )
    torch.testing.assert_close(ours.norm(dim=1), torch.ones(30).double())
    assert plain.mean(dim=0).norm() > 0.5, "half of the length is what noise has in common with noise"
    assert ours.mean(dim=0).norm() < 0.3
    expected = (plain - torch.cat(view.mean)) / (plain - torch.cat(view.mean)).norm(dim=1, keepdim=True)
    torch.testing.assert_close(ours, expected.double(), rtol=1e-5, atol=1e-6)
    for order in (1, 2):
        feature_map = Perceptual(OnePass(view, rows=4), order=order)
        for record in records(5):
            assert feature_map.clipped_sum(record[None], torch.zeros(1, dtype=torch.int64)).norm() <= 1 + 1e-9
    assert view.shapes == inner.shapes
    assert not view.nonnegative
    with pytest.raises(SettingError, match="the mean is of other features"):
        Centred(Deepest(inner, 1), view.mean)


def test_nothing_at_all_about_a_mean_is_the_mean_away() -> None:
    """A network that says nothing of an image leaves no NaN behind, in features or in gradients."""
    inner = Perceived(GREY, silent(), name="small")
    points = ((records(4) + 1) / 2).requires_grad_()
    for mean in ([torch.full((size,), 0.1) for size in inner.sizes], [torch.zeros(size) for size in inner.sizes]):
        layers = Centred(inner, mean).layers(points)
        assert all(torch.equal(layer, -part.expand_as(layer)) for layer, part in zip(layers, mean, strict=True))
        (gradient,) = torch.autograd.grad(sum(layer.square().sum() for layer in layers), points)
        assert torch.isfinite(gradient).all()


@pytest.mark.parametrize("projected", [True, False])
def test_no_record_moves_another_by_rounding(projected: bool) -> None:
    """In single precision a product of matrices adds up in another order when a batch is one row shorter."""
    view = small()
    seen = Projected(view, random_matrices(view.sizes, 5, seed=0)) if projected else LastLayer(view)
    feature_map = Perceptual(OnePass(seen, rows=8), order=1)
    inputs, labels = records(30), torch.zeros(30, dtype=torch.int64)
    whole = feature_map.clipped_sum(inputs, labels)
    for index in (0, 3, 29):
        kept = torch.arange(30) != index
        alone = feature_map.clipped_sum(inputs[index : index + 1], labels[:1])
        others = feature_map.clipped_sum(inputs[kept], labels[kept])
        assert (whole - others - alone).norm() < 1e-12


def test_pooled_features_are_never_negative() -> None:
    last = LastLayer(small())
    assert last.sizes == (6,)
    assert Perceptual(OnePass(last), order=1).nonnegative
    assert last.layers((records(3) + 1) / 2)[0].min() >= 0


def test_inception_looks_at_images_as_fid_does() -> None:
    from simulacra.evaluate.fidelity.extraction import Extractor

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = Inception()
    pixels = torch.randint(0, 256, (2, 8, 8), dtype=torch.uint8)
    (theirs,) = Extractor(network=network)(pixels.unsqueeze(-1).numpy())
    view = InceptionView(ImageShape(height=8, width=8), network)
    (ours,) = view.layers(pixels.flatten(1).float() / 255)
    assert ours.shape == (2, 2048)
    assert ours.min() >= 0
    torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)

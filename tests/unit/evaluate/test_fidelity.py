"""FID, KID and neighbours against independent computations; streams, caches and bad input. No pretrained weights."""

from __future__ import annotations

import stat
from pathlib import Path

import numpy as np
import pytest
import scipy.linalg
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.metrics.pairwise import polynomial_kernel
from sklearn.neighbors import NearestNeighbors

from simulacra.errors import DataError, SettingError
from simulacra.evaluate.fidelity import compare, statistics
from simulacra.evaluate.fidelity.cache import cached, folder, key
from simulacra.evaluate.fidelity.extraction import Extractor, prepare
from simulacra.evaluate.fidelity.frechet import frechet_distance
from simulacra.evaluate.fidelity.kernel import kernel_distance
from simulacra.evaluate.fidelity.neighbours import NEAREST, neighbour_scores
from simulacra.evaluate.fidelity.statistics import Statistics, Stream, collect, kept_indices

WIDTH = 6


class Thumbnail(torch.nn.Module):
    """A stand-in for the Inception: 6 features of an image, and a count of how many it has seen."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(9, WIDTH, generator=torch.Generator().manual_seed(0)))
        self.seen = 0

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        self.seen += len(images)
        return torch.nn.functional.adaptive_avg_pool2d(images.mean(dim=1), 3).flatten(1) @ self.weight


@pytest.fixture
def extractor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Extractor:
    monkeypatch.setenv("SIMULACRA_CACHE", str(tmp_path))
    return Extractor(network=Thumbnail())


def invent(count: int, seed: int, shape: tuple[int, ...] = (8, 8)) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (count, *shape), dtype=np.uint8)


def described(features: NDArray[np.float64]) -> Statistics:
    stream = Stream()
    stream.add(torch.from_numpy(features))
    mean, covariance = stream.moments()
    return Statistics(count=len(features), mean=mean, covariance=covariance, kept=torch.from_numpy(features).float())


def by_sqrtm(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """The textbook formula with scipy's matrix square root."""
    root = scipy.linalg.sqrtm(np.cov(first.T) @ np.cov(second.T))
    apart = np.square(first.mean(0) - second.mean(0)).sum()
    return float(apart + np.trace(np.cov(first.T)) + np.trace(np.cov(second.T)) - 2 * np.trace(root).real)


# -- statistics -----------------------------------------------------------------------------------------------------


@given(count=st.integers(2, 50), batch=st.integers(1, 60), seed=st.integers(0, 9))
@settings(max_examples=25, deadline=None)
def test_the_stream_is_the_mean_and_covariance_whatever_the_batches(count: int, batch: int, seed: int) -> None:
    features = np.random.default_rng(seed).normal(5, 2, (count, WIDTH))
    stream = Stream()
    for start in range(0, count, batch):
        stream.add(torch.from_numpy(features[start : start + batch]))
    mean, covariance = stream.moments()
    np.testing.assert_allclose(mean, features.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(covariance, np.cov(features.T), rtol=1e-9, atol=1e-10)


def test_batches_change_nothing(extractor: Extractor) -> None:
    images, others = invent(70, 0, (8, 8, 1)), invent(50, 1, (8, 8, 1))
    found = []
    for batch in (1, 7, 70):
        sized = Extractor(network=extractor.network, batch=batch)
        found.append(compare(images, others, extractor=sized, cache=False).scores)
    for other in found[1:]:
        assert other == pytest.approx(found[0], rel=1e-5)


def test_kept_features_are_bounded_and_do_not_depend_on_the_batches(
    extractor: Extractor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statistics, "KEEP", 20)
    images = invent(33, 0, (8, 8, 1))
    one = collect(images, Extractor(network=extractor.network, batch=4))
    other = collect(images, Extractor(network=extractor.network, batch=33))
    assert one.kept.shape == (20, WIDTH)
    torch.testing.assert_close(one.kept, other.kept)
    assert len(np.unique(kept_indices(33))) == 20


# -- distances ------------------------------------------------------------------------------------------------------


@given(first=st.integers(8, 200), second=st.integers(8, 200), seed=st.integers(0, 99))
@settings(max_examples=25, deadline=None)
def test_fid_agrees_with_the_matrix_square_root(first: int, second: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    mix = random.normal(size=(WIDTH, WIDTH))
    ours, theirs = random.normal(size=(first, WIDTH)) @ mix, random.normal(1, 2, (second, WIDTH))
    assert frechet_distance(described(ours), described(theirs)) == pytest.approx(by_sqrtm(ours, theirs), rel=1e-6)


def test_fid_of_a_singular_covariance_is_right() -> None:
    """Fewer images than features: the square root of a product would be complex; here the answer is known exactly."""
    random = np.random.default_rng(0)
    plane = random.normal(size=(40, 3))
    wide = np.concatenate([plane, np.zeros((40, 60))], axis=1)
    other = np.concatenate([2 * plane, np.zeros((40, 60))], axis=1)
    assert frechet_distance(described(wide), described(wide)) == pytest.approx(0.0, abs=1e-9)
    expected = np.square(plane.mean(axis=0)).sum() + np.trace(np.cov(plane.T))
    assert frechet_distance(described(wide), described(other)) == pytest.approx(expected, rel=1e-9)


def test_kid_is_the_unbiased_estimate() -> None:
    random = np.random.default_rng(0)
    ours, theirs = random.normal(size=(30, WIDTH)), random.normal(0.5, 1, (41, WIDTH))
    within, across = [], polynomial_kernel(ours, theirs, degree=3, gamma=1 / WIDTH, coef0=1).mean()
    for points in (ours, theirs):
        kernel = polynomial_kernel(points, degree=3, gamma=1 / WIDTH, coef0=1)
        within.append((kernel.sum() - np.trace(kernel)) / (len(points) * (len(points) - 1)))
    found = kernel_distance(torch.from_numpy(ours), torch.from_numpy(theirs))
    assert found.value == pytest.approx(sum(within) - 2 * across, rel=1e-9)
    assert found.error is None


def test_kid_of_equal_distributions_is_zero_within_its_error() -> None:
    random = torch.Generator().manual_seed(3)
    ours, theirs = (torch.randn(4000, 16, generator=random) for _ in range(2))
    found = kernel_distance(ours, theirs)
    assert found.error is not None
    assert abs(found.value) < 4 * found.error
    assert kernel_distance(ours, theirs + 0.5).value > 50 * found.error


def test_neighbours_agree_with_scikit_learn() -> None:
    random = np.random.default_rng(1)
    ours, theirs = random.normal(size=(60, 4)), random.normal(0.7, 1, (80, 4))
    radii = [
        NearestNeighbors(n_neighbors=NEAREST).fit(points).kneighbors()[0][:, -1] for points in (ours, theirs)
    ]  # without arguments a point is not its own neighbour
    distances = np.linalg.norm(theirs[:, None] - ours[None], axis=2)
    in_real, in_synthetic = distances <= radii[1][:, None], distances <= radii[0][None]
    expected = {
        "precision": in_real.any(axis=0).mean(),
        "recall": in_synthetic.any(axis=1).mean(),
        "density": in_real.sum(axis=0).mean() / NEAREST,
        "coverage": in_real.any(axis=1).mean(),
    }
    assert neighbour_scores(torch.from_numpy(ours), torch.from_numpy(theirs)) == pytest.approx(expected)


def test_the_error_of_kid_does_not_depend_on_the_order_of_the_images() -> None:
    random = torch.Generator().manual_seed(0)
    classes = torch.repeat_interleave(torch.arange(4.0), 1000).unsqueeze(1)
    ours, theirs = (torch.randn(4000, 8, generator=random) * 0.1 + classes for _ in range(2))
    sorted_error = kernel_distance(ours, theirs.flip(0)).error
    mixed_error = kernel_distance(ours[torch.randperm(4000, generator=random)], theirs).error
    assert sorted_error is not None
    assert mixed_error is not None
    assert sorted_error < 5 * mixed_error


def test_features_that_are_no_numbers_are_refused_and_not_called_perfect() -> None:
    fine = described(np.random.default_rng(0).normal(size=(30, WIDTH)))
    broken = Statistics(count=30, mean=fine.mean * torch.nan, covariance=fine.covariance, kept=fine.kept)
    with pytest.raises(DataError, match="not a finite number"):
        frechet_distance(broken, fine)


# -- compare --------------------------------------------------------------------------------------------------------


def test_equal_sets_are_at_distance_zero(extractor: Extractor) -> None:
    images = invent(40, 0)
    found = compare(images, images, extractor=extractor).scores
    assert found["fid"] == pytest.approx(0, abs=1e-9)
    assert found["precision"] == found["recall"] == found["coverage"] == 1


def test_too_few_images_are_a_warning_in_the_score(extractor: Extractor) -> None:
    few, many = compare(invent(WIDTH, 0), invent(40, 1), extractor=extractor), invent(40, 2)
    assert any("biased upwards: 6 images" in note for note in few.notes)
    assert compare(many, invent(40, 1), extractor=extractor).notes == []
    fewest = compare(invent(2, 0), invent(40, 1), extractor=extractor)
    assert "precision" not in fewest.scores
    assert any("more than 5 images" in note for note in fewest.notes)


def test_constant_images_give_finite_scores_and_say_so(extractor: Extractor) -> None:
    flat = np.full((30, 8, 8), 7, dtype=np.uint8)
    for pair in ((flat, invent(30, 0)), (invent(30, 0), flat), (flat, flat)):
        found = compare(*pair, extractor=extractor)
        assert all(np.isfinite(value) for value in found.scores.values())
        assert any("all the same picture" in note for note in found.notes)


@pytest.mark.parametrize(
    ("images", "words"),
    [
        (np.zeros((5, 8, 8)), "must be uint8"),
        (np.zeros((5, 8), dtype=np.uint8), "must be uint8 .n, height, width"),
        (np.zeros((5, 8, 8, 2), dtype=np.uint8), "1 or 3 channels"),
        (np.zeros((1, 8, 8), dtype=np.uint8), "at least 2 synthetic images"),
    ],
)
def test_bad_images_are_one_clear_line(extractor: Extractor, images: NDArray[np.uint8], words: str) -> None:
    with pytest.raises(DataError, match=words):
        compare(images, invent(10, 0), extractor=extractor)


def test_missing_weights_are_one_clear_line(extractor: Extractor) -> None:
    with pytest.raises(DataError, match="simulacra weights get inception"):
        compare(invent(5, 0), invent(5, 1))


def test_bad_settings_of_the_extractor_are_refused() -> None:
    with pytest.raises(SettingError, match="precision"):
        Extractor(precision="float8")
    with pytest.raises(SettingError, match="batch"):
        Extractor(batch=0)


def test_images_are_resized_between_pixel_centres() -> None:
    """Two columns, 0 and 255: the first and last quarter are constant, the middle is a straight line."""
    pixels = torch.tensor([[0, 255], [0, 255]], dtype=torch.uint8).reshape(1, 2, 2, 1)
    row = prepare(pixels)[0, 0, 150]
    assert row.shape == (299,)
    assert (row[:75] == -1).all()
    assert (row[-74:] == 1).all()
    steps = row[76:222].diff()
    torch.testing.assert_close(steps, torch.full_like(steps, 2 * 2 / 299), rtol=1e-4, atol=1e-6)


# -- the cache ------------------------------------------------------------------------------------------------------


def test_the_second_time_the_reference_is_read_and_not_computed(extractor: Extractor) -> None:
    images, network = invent(30, 0, (8, 8, 1)), extractor.network
    first = cached(images, extractor)
    assert network.seen == 30
    second = cached(images, extractor)
    assert network.seen == 30
    assert second.count == first.count
    assert torch.equal(second.covariance, first.covariance)
    assert stat.S_IMODE(folder().stat().st_mode) == 0o700


def test_one_pixel_more_is_another_reference(extractor: Extractor) -> None:
    images = invent(30, 0, (8, 8, 1))
    changed = images.copy()
    changed[7, 3, 3] ^= 1
    assert key(images, extractor) != key(changed, extractor)
    assert key(images, extractor) != key(images.reshape(30, 4, 16, 1), extractor)
    assert key(images, extractor) != key(images, Extractor(network=extractor.network, precision="bf16"))
    assert key(images, extractor) != key(images, Extractor())


def test_a_damaged_cache_is_computed_again(extractor: Extractor) -> None:
    images = invent(30, 0, (8, 8, 1))
    expected = cached(images, extractor)
    for file in folder().iterdir():
        file.write_bytes(file.read_bytes()[:100])
    assert torch.equal(cached(images, extractor).mean, expected.mean)


def test_statistics_that_somebody_changed_are_computed_again(extractor: Extractor) -> None:
    from safetensors.torch import load_file, save_file

    images = invent(30, 0, (8, 8, 1))
    expected = cached(images, extractor)
    (file,) = folder().iterdir()
    save_file({**load_file(file), "mean": expected.mean * 1.5}, file)
    assert torch.equal(cached(images, extractor).mean, expected.mean)


def test_nothing_is_kept_if_the_user_says_so(extractor: Extractor) -> None:
    compare(invent(20, 0), invent(20, 1), extractor=extractor, cache=False)
    assert not folder().exists()

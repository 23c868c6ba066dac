"""DP-MEPF: what is asked and charged, which public things are stated, and training elsewhere."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from mepf_runs import SCHEMA, SIZE, WIDTHS, encoder_file, release, settings

import simulacra
from simulacra.errors import DataError, PlanError
from simulacra.features.leaves import dead_leaves
from simulacra.features.projections import leading_directions, random_matrices, write
from simulacra.features.refined_views import Centred
from simulacra.features.views import Perceived
from simulacra.methods import make_method
from simulacra.methods.perceiving import EncoderOptions, LayerOptions, ProjectionOptions, view_of
from simulacra.networks import encoder_files, weights
from simulacra.networks.small_encoder import SmallEncoder
from simulacra.schema import ImageShape, Schema

# -- the plan ---------------------------------------------------------------------------------------------------------


def planned(file: Path, adjacency: str = "replace-one", **more: Any) -> dict[str, Any]:
    plan = simulacra.plan(
        SCHEMA, method="dp-mepf", epsilon=1.0, delta=1e-5, adjacency=adjacency, settings=settings(file, **more)
    )
    return {step.step.name: step for step in plan.steps}


def test_both_moments_are_asked_and_charged_what_one_record_can_do(folder: Path) -> None:
    steps = planned(folder / "encoder.safetensors")
    assert list(steps) == ["class-counts", "first-moment", "second-moment"]
    assert steps["first-moment"].step.size == steps["second-moment"].step.size == 2 * SIZE
    assert steps["first-moment"].sensitivity == pytest.approx(2, rel=1e-4)
    # The published code charges 1 for squares, and its paper 2.
    assert steps["second-moment"].sensitivity == pytest.approx(math.sqrt(2), rel=1e-4)
    multipliers = {name: step.event.noise_multiplier for name, step in steps.items()}
    assert multipliers["second-moment"] == pytest.approx(multipliers["first-moment"])
    assert multipliers["class-counts"] == pytest.approx(5 * multipliers["first-moment"])


def test_grey_images_are_learned_in_small_steps_unless_somebody_says_otherwise() -> None:
    grey, photos = (Schema(image=ImageShape(height=32, width=32, channels=channels)) for channels in (1, 3))
    chosen = {"encoder.network": "small", "encoder.weights": "none.safetensors"}
    quick, usual = (make_method("dp-mepf", chosen, schema).to_mapping() for schema in (grey, photos))
    assert (quick["training"]["batch"], quick["training"]["steps"], quick["generator"]["latent"]) == (64, 8000, 90)
    assert (usual["training"]["batch"], usual["training"]["steps"], usual["generator"]["latent"]) == (256, 10_000, None)
    told = make_method("dp-mepf", {**chosen, "training.batch": 100}, grey).to_mapping()["training"]
    assert (told["batch"], told["learning_rate"]) == (100, 6e-3)


def test_under_add_remove_either_moment_is_charged_one(folder: Path) -> None:
    steps = planned(folder / "encoder.safetensors", "add-remove")
    assert steps["first-moment"].sensitivity == pytest.approx(1, rel=1e-4)
    assert steps["second-moment"].sensitivity == pytest.approx(1, rel=1e-4)


def test_stopping_is_in_the_plan_with_ten_times_the_noise(folder: Path) -> None:
    file = folder / "encoder.safetensors"
    steps = planned(file, stopping__proxy="encoder", moments=1)
    assert list(steps) == ["class-counts", "first-moment", "stopping-first", "stopping-second"]
    for name in ("stopping-first", "stopping-second"):
        assert steps[name].step.size == WIDTHS[-1]
        assert steps[name].step.nonnegative
        ratio = steps[name].event.noise_multiplier / steps["first-moment"].event.noise_multiplier
        assert ratio == pytest.approx(10)
    alone = planned(file, moments=1)["first-moment"].event.noise_multiplier
    # Two more releases of a hundredth of the cost each, beside the counts' twenty-fifth.
    expected = math.sqrt((1 + 1 / 25 + 2 / 100) / (1 + 1 / 25))
    assert steps["first-moment"].event.noise_multiplier / alone == pytest.approx(expected, rel=1e-4)


def test_auto_is_the_encoder_where_inception_is_missing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIMULACRA_CACHE", str(folder / "cache"))
    method: Any = make_method("dp-mepf", settings(folder / "encoder.safetensors", stopping__proxy="auto"), SCHEMA)
    assert method.stopping.proxy == "encoder"
    kept = weights.find("inception").path
    kept.parent.mkdir(parents=True)
    kept.touch()
    method = make_method("dp-mepf", settings(folder / "encoder.safetensors", stopping__proxy="auto"), SCHEMA)
    assert method.stopping.proxy == "inception"


def test_projections_make_the_release_smaller(folder: Path) -> None:
    file = folder / "encoder.safetensors"
    random = planned(file, projection__source="random", projection__directions=5)
    assert random["first-moment"].step.size == 2 * 5 * 4
    assert random["second-moment"].step.nonnegative
    view = Perceived(
        ImageShape(height=8, width=8), encoder_files.load("small", file=file, widths=WIDTHS).encoder, name=""
    )
    matrices = leading_directions(view, torch.rand(20, 64), 7)
    for matrix in matrices:
        torch.testing.assert_close(matrix @ matrix.T, torch.eye(7), rtol=1e-4, atol=1e-4)
    write(folder / "directions.safetensors", matrices, {"data": "public pictures"})
    found = planned(file, projection__source=str(folder / "directions.safetensors"))
    assert found["first-moment"].step.size == 2 * 7 * 4


def test_fewer_layers_make_the_release_smaller_and_a_generator_learns_from_them(folder: Path) -> None:
    run = release(folder, layers__last=2, layers__even=True, stopping__proxy="encoder")
    assert run.releases["first-moment"].value.shape == (2, 2 * 6 * 16)
    trained = simulacra.train(run)
    assert trained.sample(4)[0].shape == (4, 8, 8)
    with pytest.raises(PlanError, match=r"layers\.even decided what was released"):
        simulacra.train(run, settings={"layers.even": False})


def test_a_generator_learns_from_features_about_the_mean_of_invented_pictures(folder: Path) -> None:
    run = release(folder, layers__centred=True, layers__even=True, stopping__proxy="encoder")
    assert "the mean of 128 invented pictures" in " ".join(run.certificate["remarks"])
    assert simulacra.train(run).sample(4)[0].shape == (4, 8, 8)
    with pytest.raises(PlanError, match=r"layers\.centred decided what was released"):
        simulacra.train(run, settings={"layers.centred": False})


def test_the_mean_is_of_the_features_that_are_released(folder: Path) -> None:
    """With a projection, and of layers that were chosen and made even; and the same at every call."""
    encoder = EncoderOptions(network="small", widths=WIDTHS, weights=str(folder / "encoder.safetensors"))
    image = ImageShape(height=8, width=8)
    projection, layers = ProjectionOptions(source="random", directions=5), {"last": 3, "even": True}
    view = view_of(encoder, projection, LayerOptions(**layers, centred=True), image)
    assert isinstance(view, Centred)
    assert view.sizes == (5, 5, 5)
    inner = view_of(encoder, projection, LayerOptions(**layers), image)
    for mean, layer in zip(view.mean, inner.layers(dead_leaves(128, image, seed=0)), strict=True):
        torch.testing.assert_close(mean, layer.mean(dim=0) / 3**0.5)
    again = view_of(encoder, projection, LayerOptions(**layers, centred=True), image)
    assert all(map(torch.equal, again.mean, view.mean))
    unprojected = view_of(encoder, ProjectionOptions(), LayerOptions(centred=True), image)
    assert unprojected.mean[0].shape != view.mean[0].shape


def test_leading_directions_hold_more_than_random_ones() -> None:
    view = Perceived(ImageShape(height=8, width=8), SmallEncoder(WIDTHS), name="small")
    points = torch.rand(40, 1) * torch.ones(40, 64) + 0.1 * torch.rand(40, 64)
    led, drawn = leading_directions(view, points, 4), random_matrices(view.sizes, 4, seed=0)
    for layer, one, other in zip(view.layers(points), led, drawn, strict=True):
        kept = (layer @ one.T).square().sum() / layer.square().sum()
        orthonormal = torch.linalg.qr(other.T)[0]
        assert kept > 0.9
        assert kept > (layer @ orthonormal).square().sum() / layer.square().sum()
    with pytest.raises(DataError, match="at least as many public images"):
        leading_directions(view, points[:3], 4)


def test_random_matrices_keep_lengths_on_average_and_are_the_same_everywhere() -> None:
    (one,) = random_matrices([400], 200, seed=3)
    (two,) = random_matrices([400], 200, seed=3)
    assert torch.equal(one, two)
    vectors = torch.randn(50, 400)
    ratio = (vectors @ one.T).norm(dim=1) / vectors.norm(dim=1)
    assert ratio.mean().item() == pytest.approx(1, abs=0.05)
    assert torch.equal(random_matrices([3], 5, seed=0)[0], torch.eye(3))


# -- what is stated, and training elsewhere ---------------------------------------------------------------------------


def test_the_certificate_names_the_public_network_and_data(folder: Path) -> None:
    run = release(folder, projection__source="random", projection__directions=3, stopping__proxy="encoder")
    assert run.verify().ok
    remarks = run.certificate["remarks"]
    checksum = encoder_files.load("small", file=folder / "encoder.safetensors", widths=WIDTHS).checksum
    assert 'network "small"' in remarks[0]
    assert "some public pictures" in remarks[0]
    assert checksum in remarks[0]
    assert "random matrices of seed 0" in remarks[1]
    assert set(run.releases) == {"class-counts", "first-moment", "second-moment", "stopping-first", "stopping-second"}


def test_training_elsewhere_may_name_another_path_but_no_other_weights(folder: Path) -> None:
    run = release(folder)
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    (folder / "encoder.safetensors").rename(elsewhere / "moved.safetensors")
    with pytest.raises(DataError, match="no file"):
        simulacra.train(run.folder, device="cpu")
    trained = simulacra.train(
        run.folder, device="cpu", settings={"encoder.weights": str(elsewhere / "moved.safetensors")}
    )
    images, labels = trained.sample(10, seed=0)
    assert np.asarray(images).shape == (10, 8, 8)
    assert len(labels) == 10
    other = encoder_file(elsewhere, seed=2, name="other")
    with pytest.raises(DataError, match="are others than those of this run"):
        simulacra.train(run.folder, device="cpu", settings={"encoder.weights": str(other)})
    with pytest.raises(PlanError, match=r"moments, encoder.resize decided what was released"):
        simulacra.train(run.folder, device="cpu", settings={"moments": 1, "encoder.resize": 16})


def test_a_file_is_also_found_by_its_name_in_the_cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIMULACRA_CACHE", str(folder / "cache"))
    kept = folder / "cache" / "encoders"
    kept.mkdir(parents=True)
    (folder / "encoder.safetensors").rename(kept / "mine.safetensors")
    method: Any = make_method("dp-mepf", settings("mine.safetensors", stopping__proxy="encoder"), SCHEMA)
    assert method.encoder.checksum is not None
    assert method.public_files() == [kept / "mine.safetensors"]
    assert len(method.plan(SCHEMA)) == 5


def test_a_projection_of_another_release_is_refused(folder: Path) -> None:
    view = Perceived(ImageShape(height=8, width=8), SmallEncoder(WIDTHS), name="small")
    for name in ("one", "two"):
        write(folder / f"{name}.safetensors", leading_directions(view, torch.rand(9, 64), 3), {"data": "pictures"})
    run = release(folder, projection__source=str(folder / "one.safetensors"))
    assert "directions found on public images of pictures" in run.certificate["remarks"][1]
    with pytest.raises(DataError, match="another projection than that of this run"):
        simulacra.train(run.folder, device="cpu", settings={"projection.source": str(folder / "two.safetensors")})


# -- images of all kinds ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("channels", [1, 3])
def test_grey_and_colour_images_work_alike(channels: int, folder: Path) -> None:
    image = ImageShape(height=8, width=8, channels=channels)
    pixels = np.random.default_rng(0).integers(0, 256, (20, 8, 8, channels), dtype=np.uint8)
    run = simulacra.fit(
        pixels.squeeze(-1) if channels == 1 else pixels,
        schema=Schema(image=image),
        method="dp-mepf",
        epsilon=None,
        delta=None,
        not_private=True,
        adjacency="add-remove",
        out=folder / "run",
        ledger=folder / "x.ledger",
        settings=settings(folder / "encoder.safetensors", moments=1),
        device="cpu",
    )
    images, _ = run.sample(3, seed=0)
    assert np.asarray(images).shape == ((3, 8, 8) if channels == 1 else (3, 8, 8, 3))


def test_faces_of_64_pixels_come_from_a_folder_of_images(folder: Path) -> None:
    from PIL import Image

    place = folder / "faces"
    place.mkdir()
    random = np.random.default_rng(0)
    for number in range(6):
        Image.fromarray(random.integers(0, 256, (64, 64, 3), dtype=np.uint8)).save(place / f"{number}.png")
    run = simulacra.fit(
        place,
        schema=Schema(image=ImageShape(height=64, width=64, channels=3)),
        method="dp-mepf",
        epsilon=1.0,
        delta=1e-5,
        adjacency="add-remove",
        out=folder / "run",
        ledger=folder / "faces.ledger",
        settings={
            **settings(folder / "encoder.safetensors", moments=1, training__steps=1, training__batch=2),
            "generator.kind": "residual",
        },
        device="cpu",
    )
    images, _ = run.sample(2, seed=0)
    assert np.asarray(images).shape == (2, 64, 64, 3)

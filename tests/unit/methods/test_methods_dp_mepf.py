"""DP-MEPF: what is asked and charged, which public things are stated, and matching that repeats and resumes."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
import torch

import simulacra
from simulacra.errors import DataError, PlanError, SettingError
from simulacra.features.projections import leading_directions, random_matrices, write
from simulacra.features.unit_sums import unit_sums
from simulacra.features.views import LastLayer, Perceived
from simulacra.generators import GeneratorOptions, build
from simulacra.methods import make_method, perceiving
from simulacra.methods.base import Context
from simulacra.methods.dp_mepf import MOMENTS
from simulacra.methods.perceptual_matching import PerceptualTraining, match_moments
from simulacra.methods.stopping import CURVE, Judge
from simulacra.networks import encoder_files, weights
from simulacra.networks.small_encoder import SmallEncoder
from simulacra.schema import ImageShape, Schema
from simulacra.synthesis.watching import Watcher

WIDTHS = (4, 6)
SCHEMA = tiny.schema(tiny.PICTURES)
QUICK = {"training.steps": 6, "training.batch": 16, "generator.hidden": (16,), "generator.latent": 4}
SIZE = 2 * 4 * 64 + 2 * 6 * 16


def encoder_file(folder: Path, seed: int = 1, name: str = "encoder") -> Path:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = SmallEncoder(WIDTHS)
    file = folder / f"{name}.safetensors"
    encoder_files.save(file, network.state_dict(), {"data": "some public pictures"})
    return file


def settings(file: Path | str, **more: Any) -> dict[str, Any]:
    chosen = {"encoder.network": "small", "encoder.widths": WIDTHS, "encoder.weights": str(file)}
    return {**chosen, **QUICK, **{name.replace("__", "."): value for name, value in more.items()}}


def release(folder: Path, out: str = "run", **more: Any) -> simulacra.Run:
    return simulacra.release(
        tiny.pictures(),
        schema=SCHEMA,
        method="dp-mepf",
        epsilon=5.0,
        delta=1e-5,
        adjacency="replace-one",
        out=folder / out,
        ledger=folder / "pictures.ledger",
        settings=settings(folder / "encoder.safetensors", **more),
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    encoder_file(tmp_path)
    return tmp_path


# -- the plan -----------------------------------------------------------------------------------------------------


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


# -- what is stated, and training elsewhere -----------------------------------------------------------------------


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


def test_directions_of_other_weights_are_refused_and_nothing_is_spent(folder: Path) -> None:
    """Two trainings of one network have layers of the same sizes, and nothing else in common."""
    matrices = random_matrices([4 * 64, 4 * 64, 6 * 16, 6 * 16], 3, seed=0)
    mine = encoder_files.load("small", file=folder / "encoder.safetensors", widths=WIDTHS).checksum
    other = encoder_files.load("small", file=encoder_file(folder, seed=2, name="other"), widths=WIDTHS).checksum
    for name, checksum in (("mine", mine), ("theirs", other)):
        write(folder / f"{name}.safetensors", matrices, {"data": "pictures", "network_checksum": checksum})
    with pytest.raises(DataError, match="was found with other weights of the network"):
        release(folder, projection__source=str(folder / "theirs.safetensors"))
    assert tiny.reservations(folder / "pictures.ledger") == 0
    assert release(folder, projection__source=str(folder / "mine.safetensors")).verify().ok


# -- bad input: one line, and nothing is spent --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chosen", "says"),
    [
        ({"encoder.network": "vgg18"}, 'no encoder "vgg18"; did you mean "vgg1'),
        ({"encoder.network": "resnet18-small"}, 'do not fit the encoder "resnet18-small"'),
        ({"encoder.widths": (4, 8)}, 'do not fit the encoder "small"'),
        ({"encoder.weights": "absent.safetensors"}, 'no file "absent.safetensors"'),
        ({"encoder.weights": None}, "simulacra pretrain small"),
        ({"encoder.weights": None, "encoder.network": "vgg19-normalised"}, "simulacra weights get vgg19-normalised"),
        ({"encoder.checksum": "0123456789abcdef"}, "are others than those of this run"),
        ({"encoder.resize": 1}, "needs images of at least 2 x 2 pixels, got 1 x 1"),
        ({"encoder.resize": 0}, "resize must be from 1"),
        ({"stopping.proxy": "inception"}, "simulacra weights get inception"),
        ({"stopping.noise": 0}, "stopping.noise must be positive"),
        ({"projection.source": "absent.safetensors"}, 'no file "absent.safetensors"'),
        ({"projection.source": "encoder.safetensors"}, "is not a projection"),
        ({"projection.directions": 0}, "projection.directions must be from 1"),
        ({"moments": 3}, "moments must be 1 or 2"),
        ({"generator.kind": "condensed"}, "a condensed generator is not for"),
        ({"training.newest": 0}, "training.newest must be above 0"),
        ({"training.average": 1}, "training.average must be at least 0 and below 1"),
        ({"training.loss": "fast"}, "expected one of plain, averaged, tracked"),
    ],
)
def test_bad_settings_end_in_one_line_with_nothing_spent(
    chosen: dict[str, Any], says: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("SIMULACRA_CACHE", str(folder / "cache"))
    with pytest.raises((DataError, SettingError), match=says) as error:
        simulacra.fit(
            tiny.pictures(),
            schema=SCHEMA,
            method="dp-mepf",
            epsilon=1.0,
            delta=1e-5,
            adjacency="replace-one",
            out="run",
            ledger="pictures.ledger",
            settings={**settings("encoder.safetensors"), **chosen},
            device="cpu",
        )
    assert "\n" not in str(error.value)
    assert tiny.reservations(folder / "pictures.ledger") == 0
    assert not (folder / "run").exists()


def test_weights_that_were_changed_are_refused_and_nothing_is_spent(folder: Path) -> None:
    file = folder / "encoder.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(DataError, match="changed or cut short"):
        release(folder)
    assert tiny.reservations(folder / "pictures.ledger") == 0


def test_published_weights_are_named_as_such_where_a_run_had_others(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published = encoder_files.load("small", file=folder / "encoder.safetensors", widths=WIDTHS)
    monkeypatch.setattr(perceiving, "_loaded", lambda options: published)
    method: Any = make_method("dp-mepf", {"encoder.checksum": "0123456789abcdef"}, SCHEMA)
    with pytest.raises(DataError, match="the published file of vgg19-normalised are others than those of this run"):
        method.encoder.load()


@pytest.mark.parametrize("factor", [1e4, 1e10, 1e30])
def test_weights_with_which_training_could_not_go_on_are_refused_and_nothing_is_spent(
    factor: float, folder: Path
) -> None:
    """They are finite, and so is what is released; the squares of features are not."""
    file = folder / "encoder.safetensors"
    tensors, _ = encoder_files.read_safetensors(file)
    large = {name: value * factor if name.endswith("weight") else value for name, value in tensors.items()}
    encoder_files.save(file, large, {"data": "some public pictures"})
    with pytest.raises(DataError, match="single precision cannot hold"):
        release(folder)
    assert tiny.reservations(folder / "pictures.ledger") == 0


def test_tables_are_refused() -> None:
    with pytest.raises(simulacra.SimulacraError, match="dp-mepf is for images"):
        make_method("dp-mepf", {}, tiny.schema(tiny.PEOPLE))


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


# -- matching -----------------------------------------------------------------------------------------------------

IMAGE = ImageShape(height=8, width=8, classes=("a", "b"))


def view() -> Perceived:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        return Perceived(IMAGE, SmallEncoder(WIDTHS), name="small")


def generator(seed: int = 0) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build(Schema(image=IMAGE), GeneratorOptions(latent=4, hidden=(16,)))


def targets(looking: Perceived, orders: tuple[int, ...] = (1, 2)) -> dict[int, torch.Tensor]:
    points = torch.rand(40, 64, generator=torch.Generator().manual_seed(2)).square()
    averaging = torch.zeros(2, 40)
    averaging[0, :20] = averaging[1, 20:] = 1 / 20
    return dict(zip(orders, unit_sums(averaging, looking.layers(points), orders), strict=True))


def trained(training: PerceptualTraining, context: Context | None = None, judge: Judge | None = None) -> Any:
    looking = view()
    return match_moments(
        generator(),
        looking,
        targets=targets(looking),
        shares=torch.tensor([0.5, 0.5]),
        training=training,
        context=context or Context(),
        judge=judge,
        checks=4,
    )


@pytest.mark.parametrize("loss", ["plain", "averaged", "tracked"])
@pytest.mark.parametrize("precision", ["single", "bf16"])
def test_training_comes_nearer_to_the_target(loss: Any, precision: Any) -> None:
    context = Context()
    rate = 5e-3 if loss == "tracked" else 1e-3
    trained(
        PerceptualTraining(
            steps=60, batch=32, learning_rate=0.01, loss=loss, tracking_rate=rate, precision=precision, average=0.0
        ),
        context,
    )
    values = [loss for _, loss in context.curve]
    assert np.mean(values[-5:]) < 0.5 * values[0]


def test_the_plain_loss_is_unbiased() -> None:
    """Small batches have the same expectation as the squared distance of the means; the naive loss has not."""
    from simulacra.methods.matching import groups_for
    from simulacra.methods.perceptual_matching import Learning, _optimiser, _Step, _weighted

    looking, training = view(), PerceptualTraining(batch=4, average=0.0)
    wanted = targets(looking)
    made = generator().eval()
    groups = _weighted(groups_for(made, torch.tensor([0.5, 0.5]), 4), 2)
    assert groups.sizes == (2, 2)
    learning = Learning(made, wanted, training)
    step = _Step(
        learning, looking, wanted, (1, 2), groups, _optimiser(learning, training, torch.device("cpu")), training,
        torch.device("cpu"),
    )  # fmt: skip
    with torch.no_grad():
        many = 4000
        noise = torch.randn(2, many, 4, generator=torch.Generator().manual_seed(0))
        features = []
        for label in range(2):
            one_hot = torch.nn.functional.one_hot(torch.full((many,), label), 2).float()
            features.append(looking.layers(made(noise[label], one_hot)))
        found, naive = [], []
        for start in range(0, many, 2):
            layers = [torch.cat([a[start : start + 2], b[start : start + 2]]) for a, b in zip(*features, strict=True)]
            means = dict(zip((1, 2), unit_sums(groups.averaging, layers, (1, 2)), strict=True))
            found.append(step._distance(means).item())
            naive.append(sum(float((wanted[o] - m).square().sum()) for o, m in means.items()) * step.scale)
        averaging = torch.zeros(2, 2 * many)
        averaging[0, :many] = averaging[1, many:] = 1 / many
        whole = unit_sums(averaging, [torch.cat(pair) for pair in zip(*features, strict=True)], (1, 2))
        right = sum(float((wanted[o] - m).square().sum()) for o, m in zip((1, 2), whole, strict=True)) * step.scale
    assert np.mean(found) == pytest.approx(right, rel=0.01)
    assert abs(np.mean(naive) - right) > 5 * abs(np.mean(found) - right)


def test_the_tracked_difference_is_adam_on_the_mean_squared_error() -> None:
    from simulacra.methods.matching import groups_for
    from simulacra.methods.perceptual_matching import Learning, _optimiser, _Step, _weighted

    looking = view()
    training = PerceptualTraining(batch=8, loss="tracked", tracking_rate=1e-3, average=0.0)
    wanted = targets(looking)
    learning = Learning(generator(), wanted, training).train()
    groups = _weighted(groups_for(learning.generator, torch.tensor([0.5, 0.5]), 8), 2)
    optimiser = _optimiser(learning, training, torch.device("cpu"))
    step = _Step(learning, looking, wanted, (1, 2), groups, optimiser, training, torch.device("cpu"))
    theirs = {o: torch.nn.Parameter(learning.tracked[str(o)].detach().clone()) for o in (1, 2)}
    reference = torch.optim.Adam(theirs.values(), lr=1e-3, betas=(0.5, 0.999))
    for turn in range(3):
        step.noise.normal_(generator=torch.Generator().manual_seed(turn))
        before = {k: v.detach().clone() for k, v in learning.generator.state_dict().items()}
        with torch.no_grad():
            layers = looking.layers(learning.generator(step.noise, groups.one_hot))
            means = unit_sums(groups.averaging, layers, (1, 2))
        learning.generator.load_state_dict(before)
        step()
        reference.zero_grad()
        loss = sum(
            torch.nn.functional.mse_loss(theirs[order], wanted[order] - mean)
            for order, mean in zip((1, 2), means, strict=True)
        )
        loss.backward()  # type: ignore[union-attr]
        reference.step()
        for order in (1, 2):
            torch.testing.assert_close(learning.tracked[str(order)].detach(), theirs[order].detach())


def test_an_average_of_the_newest_batch_alone_has_the_gradient_of_its_squared_distance() -> None:
    from simulacra.methods.matching import groups_for
    from simulacra.methods.perceptual_matching import Learning, _optimiser, _Step, _weighted

    looking = view()
    training = PerceptualTraining(batch=8, loss="averaged", newest=1.0, average=0.0)
    wanted = targets(looking)
    learning = Learning(generator(), wanted, training).train()
    groups = _weighted(groups_for(learning.generator, torch.tensor([0.5, 0.5]), 8), 2)
    optimiser = _optimiser(learning, training, torch.device("cpu"))
    step = _Step(learning, looking, wanted, (1, 2), groups, optimiser, training, torch.device("cpu"))
    step.noise.normal_(generator=torch.Generator().manual_seed(0))
    layers = looking.layers(learning.generator(step.noise, groups.one_hot))
    means = dict(zip((1, 2), unit_sums(groups.averaging, layers, (1, 2)), strict=True))
    naive = torch.stack([(wanted[order] - mean).square().sum() for order, mean in means.items()]).sum() * step.scale
    weights_of = list(learning.generator.parameters())
    right = torch.autograd.grad(naive, weights_of, retain_graph=True)
    found = torch.autograd.grad(step._averaged(means), weights_of)
    for one, other in zip(found, right, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-7)


def judge() -> Judge:
    last = LastLayer(view())
    first, second = unit_sums(torch.full((1, 30), 1 / 30), last.layers(torch.rand(30, 64)), (1, 2))
    shares = torch.tensor([0.5, 0.5])
    return Judge(last, (first[0].double(), second[0].double()), shares=shares, samples=60, seed=0)


class Interrupt:
    def __init__(self, at: int) -> None:
        self.at = at

    def __call__(self, step: int, steps: int, loss: float) -> None:
        if step == self.at:
            raise KeyboardInterrupt


@pytest.mark.parametrize("loss", ["plain", "averaged", "tracked"])
def test_training_that_was_interrupted_goes_on_as_if_it_had_not(loss: Any, tmp_path: Path) -> None:
    training = PerceptualTraining(steps=40, batch=16, loss=loss, average=0.9)
    torch.manual_seed(0)
    whole_judge, first_judge, second_judge = judge(), judge(), judge()
    targets_of = whole_judge._targets
    first_judge._targets = second_judge._targets = targets_of
    whole = trained(training, Context(), whole_judge)
    cut = Context(checkpoint=tmp_path, on_step=Interrupt(23))
    trained(training, cut, first_judge)
    assert cut.stopped_early
    at_once = Context(checkpoint=tmp_path, on_step=Interrupt(23))
    again_judge = judge()
    again_judge._targets = targets_of
    trained(training, at_once, again_judge)
    assert [step for step, _ in at_once.curves[CURVE]] == [10, 20]  # looks before the interruption are not forgotten
    again = Context(checkpoint=tmp_path)
    resumed = trained(training, again, second_judge)
    for name, value in whole.state_dict().items():
        torch.testing.assert_close(resumed.state_dict()[name], value)
    assert whole_judge._least == pytest.approx(second_judge._least)
    assert [step for step, _ in again.curves[CURVE]] == [10, 20, 30, 40]


def test_the_best_checkpoint_is_kept_and_taken() -> None:
    torch.manual_seed(1)
    judging = judge()
    made = [generator(seed) for seed in range(3)]
    distances = [judging.judge(each, 1) for each in made]
    assert distances == [judging.judge(each, 1) for each in made]  # the same codes each time
    judging.take(made[0])
    best = made[int(np.argmin(distances))] if int(np.argmin(distances)) else generator(0)
    for name, value in best.state_dict().items():
        assert torch.equal(made[0].state_dict()[name], value)


def test_the_choice_of_the_checkpoint_is_free_and_its_curve_is_kept(folder: Path) -> None:
    run = release(folder, stopping__proxy="encoder", stopping__checks=3, stopping__samples=20)
    best = simulacra.train(run.folder, device="cpu", settings={"training.learning_rate": 0.05})
    training = json.loads((run.folder / "training.json").read_text())
    assert len(training["curves"][CURVE]) == 3
    assert best.sampler is not None
    simulacra.train(run.folder, device="cpu", settings={"stopping.choice": "last"})


def test_what_is_drawn_along_the_way_changes_nothing_and_is_what_training_would_give(folder: Path) -> None:
    run = release(folder, stopping__proxy="encoder", stopping__checks=3, stopping__samples=20, stopping__choice="last")
    alone = simulacra.train(run.folder, device="cpu").sample(5, seed=0)
    seen: list[int] = []
    last: list[Any] = []

    class Drawing(Watcher):
        def on_look(self, step: int, sampler: Any) -> None:
            seen.append(step)
            last[:] = [torch.cat([records.inputs for records in sampler.records(5, seed=0)])]

    watched = simulacra.train(run.folder, device="cpu", watcher=Drawing())
    assert seen == [2, 4, 6]
    np.testing.assert_array_equal(watched.sample(5, seed=0)[0], alone[0])
    drawn = torch.cat([records.inputs for records in watched.sampler.records(5, seed=0)])
    assert torch.equal(last[0], drawn)


def test_noise_is_taken_out_before_training_unless_told_otherwise(folder: Path) -> None:
    run = release(folder)
    released = {order: run.releases[name] for order, name in MOMENTS.items()}
    counts = run.releases["class-counts"].value.clamp(min=1.0)

    def begun_from(**more: Any) -> Any:
        method: Any = make_method("dp-mepf", settings(folder / "encoder.safetensors", **more), SCHEMA)
        return method._sums(run.releases, method._view(SCHEMA), counts)

    clean, noisy = begun_from(), begun_from(denoise=False)
    for order, release_ in released.items():
        assert torch.equal(noisy[order], release_.value)
        assert clean[order].square().sum() < 0.5 * noisy[order].square().sum()
    assert clean[2].min() >= 0 > noisy[2].min()
    simulacra.train(run.folder, device="cpu", settings={"denoise": False})  # no question of privacy


def test_a_release_of_nothing_but_noise_is_not_trained_on_in_silence(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denoised(sums: dict[int, torch.Tensor], *_: object) -> dict[int, torch.Tensor]:
        return {order: torch.zeros_like(value) for order, value in sums.items()}

    run = release(folder)
    monkeypatch.setattr("simulacra.methods.dp_mepf.denoised", denoised)
    with pytest.raises(SettingError, match="nothing in this release can be told from noise"):
        simulacra.train(run.folder, device="cpu")
    simulacra.train(run.folder, device="cpu", settings={"denoise": False})


def test_a_release_too_large_for_taking_noise_out_of_it_says_how_to_go_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is paid for by then."""

    def denoised(*_: object) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 20141047808 bytes.")

    run = release(folder)
    monkeypatch.setattr("simulacra.methods.dp_mepf.denoised", denoised)
    with pytest.raises(SettingError, match=r"taking noise out .* does not fit into memory; set denoise=false"):
        simulacra.train(run.folder, device="cpu")
    simulacra.train(run.folder, device="cpu", settings={"denoise": False})


def test_without_privacy_there_is_no_noise_to_take_out(folder: Path) -> None:
    run = simulacra.release(
        tiny.pictures(),
        schema=SCHEMA,
        method="dp-mepf",
        epsilon=None,
        delta=None,
        adjacency="replace-one",
        not_private=True,
        out=folder / "open",
        ledger=folder / "pictures.ledger",
        settings=settings(folder / "encoder.safetensors"),
    )
    method: Any = make_method("dp-mepf", settings(folder / "encoder.safetensors"), SCHEMA)
    sums = method._sums(run.releases, method._view(SCHEMA), run.releases["class-counts"].value)
    assert torch.equal(sums[1], run.releases["first-moment"].value)


def test_a_run_that_diverges_says_so() -> None:
    with pytest.raises(SettingError, match="training diverged"):
        match_moments(
            generator(),
            view(),
            targets={1: torch.full((2, SIZE), torch.nan)},
            shares=torch.tensor([0.5, 0.5]),
            training=PerceptualTraining(steps=3, batch=8),
            context=Context(),
        )

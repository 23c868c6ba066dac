"""Moments: what it plans and asks, that it recovers Gaussians, and that noise at its worst does no harm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tiny
import torch

import simulacra
from simulacra.errors import PlanError, SchemaError, SettingError
from simulacra.features.combine import PerClass
from simulacra.features.moments import Moments
from simulacra.generators.sampler import Sampler
from simulacra.methods import make_method
from simulacra.methods.base import Context
from simulacra.methods.moments import Frequencies, MomentsMethod, _spikes
from simulacra.privacy.accountant import Event
from simulacra.privacy.release import Release
from simulacra.report.runs import write_report
from simulacra.schema import ImageShape, Schema

PEOPLE, PICTURES = map(tiny.schema, (tiny.PEOPLE, tiny.PICTURES))
SHAPES = {
    "labelled": PICTURES,
    "unlabelled": Schema(image=ImageShape(height=5, width=3)),
    "colour": Schema(image=ImageShape(height=4, width=6, channels=3, classes=("a", "b", "c"))),
    "one pixel": Schema(image=ImageShape(height=1, width=1, classes=("a", "b"))),
}


def method(schema: Schema = PICTURES, **settings: Any) -> MomentsMethod:
    made = make_method("moments", settings, schema)
    assert isinstance(made, MomentsMethod)
    return made


def smooth(schema: Schema, counts: list[int], seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Dark images of a few long waves, each class around its own grey; encoded."""
    assert schema.image is not None
    random = torch.Generator().manual_seed(seed)
    labels = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    waves = torch.zeros(len(labels), schema.inputs, dtype=torch.float64)
    few = min(3, schema.inputs)
    spread = torch.tensor([0.4, 0.2, 0.1], dtype=torch.float64)[:few]
    waves[:, :few] = torch.randn(len(labels), few, generator=random, dtype=torch.float64) * spread
    points = Frequencies(schema.image).back(waves) + (0.2 + 0.1 * labels.unsqueeze(1))
    return points.clamp(0, 1) * 2 - 1, labels


def answers(made: MomentsMethod, schema: Schema, counts: list[int], noise: float = 0.0) -> dict[str, Release]:
    """The release as the vault would give it, with seeded noise."""
    value = made.questions(schema)["moments"].clipped_sum(*smooth(schema, counts))
    value = value + noise * torch.randn(value.shape, generator=torch.Generator().manual_seed(9), dtype=value.dtype)
    event = Event(noise_multiplier=noise or 1.0)
    return {"moments": Release(step="moments", value=value, noise_std=noise, noise="seeded", event=event)}


def parameters(sampler: Sampler) -> dict[str, torch.Tensor]:
    return {**sampler.generator.state_dict(), "class_shares": sampler.class_shares}


def test_the_plan_has_one_nonnegative_step_of_norm_one() -> None:
    (step,) = method().plan(PICTURES)
    assert (step.name, step.size) == ("moments", 2 * (1 + 64 + 64 * 65 // 2))
    assert (step.norm_bound, step.nonnegative, step.relative_noise) == (1.0, True, 1.0)
    large = Schema(image=ImageShape(height=28, width=28, classes=tuple("0123456789")))
    assert method(large).plan(large)[0].size == 10 * 308_505


def test_the_norm_follows_from_the_schema_alone() -> None:
    (question,) = method(radius=0.25).questions(PICTURES).values()
    assert isinstance(question, PerClass)
    assert isinstance(question.inner, Moments)
    assert question.inner.norm == 0.25 * 8


def test_asking_names_exactly_the_settings_that_change_the_question() -> None:
    assert set(method().asking()) == set(method().to_mapping()) - {"rank", "generator", "training"}


@pytest.mark.parametrize("noise", [0.0, 1.0, 1e6])
@pytest.mark.parametrize("schema", SHAPES.values(), ids=SHAPES)
def test_it_samples_every_kind_of_image_under_any_noise(schema: Schema, noise: float) -> None:
    made = method(schema)
    sampler = made.train(schema, answers(made, schema, [300] * schema.classes, noise), Context())
    (drawn,) = sampler.records(20, seed=0)
    assert drawn.inputs.shape == (20, schema.inputs)
    assert all(torch.isfinite(value).all() for value in parameters(sampler).values())


def test_without_noise_the_means_and_covariances_are_those_of_the_records() -> None:
    made = method(radius=1.0)
    sampler = made.train(PICTURES, answers(made, PICTURES, [400, 600]), Context())
    inputs, labels = smooth(PICTURES, [400, 600])
    assert sampler.class_shares.tolist() == pytest.approx([0.4, 0.6])
    for label in range(2):
        points = (inputs[labels == label] + 1) / 2
        factor = sampler.generator.factors[label].detach().double()
        torch.testing.assert_close(sampler.generator.means[label].detach().double(), points.mean(0), atol=1e-5, rtol=0)
        torch.testing.assert_close(factor @ factor.T, points.T.cov(correction=0), atol=1e-5, rtol=0)


def test_under_noise_it_is_nearer_to_the_truth_than_the_release() -> None:
    made = method(radius=0.6)
    counts = [3000, 3000]
    clear = made.train(PICTURES, answers(made, PICTURES, counts), Context()).generator
    noisy = made.train(PICTURES, answers(made, PICTURES, counts, 4.0), Context()).generator
    assert PICTURES.image is not None
    question = made._moments(PICTURES.image)
    count, total, products = question.parts(answers(made, PICTURES, counts, 4.0)["moments"].value[0])
    plain = products / count - torch.outer(total, total) / count**2
    true, ours = (each.factors[0].detach().double() @ each.factors[0].detach().double().T for each in (clear, noisy))
    assert (ours - true).norm() < 0.3 * (plain - true).norm()
    assert (noisy.means - clear.means).norm() < 0.6 * (total / count - clear.means[0]).norm() * 2**0.5
    assert noisy.latent < 20 < clear.latent


def test_eigenvalues_come_back_from_beneath_the_noise() -> None:
    """A spike of t shows as t + e^2 / 4t, and is worth t - e^2 / 4t; without one nothing much is kept."""
    size, noise = 300, 0.1
    square = torch.randn(size, size, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    goe = (square + square.T) / 2**0.5 * noise
    spike = torch.zeros(size, size, dtype=torch.float64)
    spike[0, 0] = 10.0
    edge = 2 * noise * size**0.5
    directions = _spikes(goe + spike, noise)
    assert float(directions[0].norm() ** 2) == pytest.approx(10 - edge**2 / 40, rel=0.03)
    assert abs(float(directions[0, 0])) > 0.95 * float(directions[0].norm())
    assert sum(float(one.norm() ** 2) for one in _spikes(goe, noise)) < edge


def test_directions_are_capped_and_the_longest_are_kept() -> None:
    made = method(radius=1.0, rank=2)
    all_of_them = method(radius=1.0)
    releases = answers(made, PICTURES, [400, 600])
    few, many = (each.train(PICTURES, releases, Context()).generator for each in (made, all_of_them))
    assert few.latent == 2
    assert torch.equal(few.factors, many.factors[:, :, :2])


@pytest.mark.parametrize("counts", [[0, 2000], [0, 0]])
def test_a_class_without_records_is_grey_and_still(counts: list[int]) -> None:
    made = method()
    for noise in (0.0, 2.0):
        sampler = made.train(PICTURES, answers(made, PICTURES, counts, noise), Context())
        assert (sampler.class_shares > 0).all()
        torch.testing.assert_close(sampler.generator.means[0].detach(), torch.full((64,), 0.5))
        assert not sampler.generator.factors[0].any()


def test_a_negative_count_does_no_harm() -> None:
    made = method()
    releases = answers(made, PICTURES, [50, 2000], 1.0)
    releases["moments"].value[0, 0] = -40.0
    sampler = made.train(PICTURES, releases, Context())
    assert (sampler.class_shares > 0).all()
    torch.testing.assert_close(sampler.generator.means[0].detach(), torch.full((64,), 0.5))


@pytest.mark.parametrize("schema", SHAPES.values(), ids=SHAPES)
def test_noise_that_drowns_everything_leaves_grey(schema: Schema) -> None:
    made = method(schema)
    releases = answers(made, schema, [300] * schema.classes, 1e6)
    releases["moments"].value[:, 0] = -1.0  # else one class in a thousand would seem to be there
    sampler = made.train(schema, releases, Context())
    torch.testing.assert_close(sampler.generator.means.detach(), torch.full((schema.classes, schema.inputs), 0.5))
    assert not sampler.generator.factors.any()


def test_the_same_release_gives_the_same_sampler_whatever_the_seed() -> None:
    made = method()
    releases = answers(made, PICTURES, [300, 300], 1.0)
    one, two = (parameters(made.train(PICTURES, releases, Context(seed=seed))) for seed in (0, 1))
    assert all(torch.equal(one[name], two[name]) for name in one)


@pytest.mark.parametrize("image", [ImageShape(height=5, width=3), ImageShape(height=2, width=4, channels=3)])
def test_waves_are_an_orthonormal_basis_that_begins_with_grey(image: ImageShape) -> None:
    frequencies = Frequencies(image)
    points = torch.rand(7, image.pixels, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    waves = frequencies.of(points)
    torch.testing.assert_close(waves.norm(dim=1), points.norm(dim=1))
    torch.testing.assert_close(frequencies.back(waves), points)
    grey = frequencies.of(torch.ones(1, image.pixels, dtype=torch.float64))[0]
    torch.testing.assert_close(grey[image.channels :], torch.zeros_like(grey[image.channels :]))


def test_a_run_is_fitted_sampled_verified_and_reported(tmp_path: Path) -> None:
    run = simulacra.fit(
        tiny.pictures(200),
        schema=PICTURES,
        method="moments",
        epsilon=10.0,
        delta=1e-5,
        adjacency="replace-one",
        out=tmp_path / "run",
        ledger=tmp_path / "ledger",
    )
    assert run.verify().ok
    drawn = run.sample(30, seed=1)
    assert isinstance(drawn, tuple)
    images, labels = drawn
    assert images.shape == (30, 8, 8)
    assert set(labels) <= {0, 1}
    assert write_report(run).exists()
    assert simulacra.train(run, settings={"rank": 1}).sampler.generator.latent == 1
    with pytest.raises(PlanError, match="radius decided what was released"):
        simulacra.train(run, settings={"radius": 0.5})


def test_tables_are_refused() -> None:
    with pytest.raises(SchemaError, match="moments is for images"):
        make_method("moments", {}, PEOPLE)
    with pytest.raises(SchemaError, match="moments is for images"):
        MomentsMethod().questions(PEOPLE)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"radius": 0}, "radius must be from"),
        ({"radius": 1.1}, "radius must be from"),
        ({"count_weight": 0}, "at least"),
        ({"mean_weight": -0.5}, "at least"),
        ({"mean_weight": 1}, "add up to less than 1"),
        ({"count_weight": 0.8, "mean_weight": 0.8}, "add up to less than 1"),
        ({"rank": 0}, "rank must be from 1"),
        ({"ranks": 3}, 'did you mean "rank"'),
    ],
)
def test_a_bad_setting_is_refused_before_anything_is_asked(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingError, match=says):
        method(**settings).plan(PICTURES)


@pytest.mark.parametrize("kind", ["condensed", "dense"])
def test_another_generator_is_trained_to_have_the_moments_of_the_gaussians(kind: str) -> None:
    settings = {"generator.kind": kind, "generator.per_class": 40, "generator.hidden": "32", "training.batch": 200}
    made = method(radius=1.0, **settings, **{"training.steps": 300, "training.learning_rate": 0.02})
    context = Context()
    sampler = made.train(PICTURES, answers(made, PICTURES, [400, 600]), context)
    assert context.curve[-1][1] < 0.01
    gaussian = method(radius=1.0).train(PICTURES, answers(made, PICTURES, [400, 600]), Context())
    for label in range(2):
        (drawn,) = sampler.records(40, seed=0, labels=torch.tensor([label]))
        mean = gaussian.generator.means[label].detach()
        assert ((drawn.inputs + 1) / 2).mean(dim=0).sub(mean).abs().max() < 0.1

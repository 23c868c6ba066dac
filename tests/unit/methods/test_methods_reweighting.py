"""Reweighting: off it changes nothing; on, weights move within bounds; all of it is post-processing."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import tiny
import torch

from simulacra.data.points import PixelPoints
from simulacra.errors import CertificateError, SettingError
from simulacra.features.fourier import RandomFourier
from simulacra.generators.sampler import Sampler
from simulacra.methods import make_method
from simulacra.methods.base import Context
from simulacra.methods.dp_merf import DPMERF
from simulacra.methods.matching import match
from simulacra.methods.reweighting import FrequencyWeights, Reweighting
from simulacra.privacy.accountant import Event
from simulacra.privacy.release import Release
from simulacra.schema import Schema

PEOPLE, PICTURES = map(tiny.schema, (tiny.PEOPLE, tiny.PICTURES))
ON = {"reweighting.every": 2}


def merf(schema: Schema = PEOPLE, **settings: object) -> DPMERF:
    method = make_method("dp-merf", {**tiny.SETTINGS, **settings}, schema)
    assert isinstance(method, DPMERF)
    return method


def answers(method: DPMERF, schema: Schema) -> dict[str, Release]:
    inputs = torch.rand(120, schema.inputs, generator=torch.Generator().manual_seed(0), dtype=torch.float64) - 1
    labels = torch.arange(120) % schema.classes
    return {
        name: Release(
            step=name,
            value=each.clipped_sum(inputs, labels),
            noise_std=1.0,
            noise="exact",
            event=Event(noise_multiplier=1.0),
        )
        for name, each in method.questions(schema).items()
    }


def parameters(sampler: Sampler) -> list[torch.Tensor]:
    return [*sampler.generator.state_dict().values(), sampler.class_shares]


def same(one: Sampler, other: Sampler) -> bool:
    return all(torch.equal(a, b) for a, b in zip(parameters(one), parameters(other), strict=True))


def weights(pairs: int = 200, width: int = 6, **settings: float) -> FrequencyWeights:
    fourier = RandomFourier(PixelPoints(width), pairs=pairs, length_scales=[0.5, 3.0], seed=0)
    made = Reweighting(every=1, **settings).of(fourier, [0.5, 3.0])  # type: ignore[arg-type]
    assert made is not None
    return made


def test_off_is_the_default_and_weights_that_stay_at_one_give_the_same_sampler() -> None:
    method = merf()
    releases = answers(method, PEOPLE)
    assert method.reweighting.every == 0
    assert merf(**{"reweighting.strength": 9}).reweighting.of(method._fourier(PEOPLE), [1.0]) is None
    plain = method.train(PEOPLE, releases, Context())
    assert same(plain, method.train(PEOPLE, releases, Context()))
    never = merf(**{"reweighting.every": 1000})  # on, but the first update is after the last step
    assert same(plain, never.train(PEOPLE, releases, Context()))
    assert not same(plain, merf(**ON).train(PEOPLE, releases, Context()))


def test_nothing_about_it_is_asked() -> None:
    """Weights are learned from releases: they are free, may change with every training, and leave the plan alone."""
    assert merf(**ON).plan(PEOPLE) == merf().plan(PEOPLE)
    assert merf(**ON).asking() == merf().asking()


def test_weights_start_at_one_move_towards_what_is_wrong_and_stay_normalised_and_bounded() -> None:
    each = weights(strength=3.0)
    assert torch.equal(each._weights, torch.ones(400))
    # The distance sits at frequencies that are high in the first dimension: these should come to count more.
    high = each._squares[:, 0] > 1
    squared = torch.cat([high, high]).float().unsqueeze(0) + 0.1
    for _ in range(60):
        each.learn(squared)
        assert float(each._weights.mean()) == pytest.approx(1.0, abs=1e-5)
        assert float(each._weights.max() / each._weights.min()) <= 3.0 * (1 + 1e-5)
        assert float(each._weights.min()) >= 1 / 3
    assert torch.equal(each._weights[:200], each._weights[200:]), "a cosine and its sine share their weight"
    assert float(each._weights[:200][high].mean()) > 1.3 * float(each._weights[:200][~high].mean())
    assert float(each.distance(squared)) > 1.2 * float(squared.sum())
    assert int(each.state.argmax()) == 0
    assert float(each.state.max()) < 1, "precisions stay positive"


def test_length_scales_are_taken_out_so_that_frequencies_are_comparable() -> None:
    squares = weights(pairs=20_000)._squares + 1
    assert squares[0::2].mean() == pytest.approx(1.0, abs=0.02)
    assert squares[1::2].mean() == pytest.approx(1.0, abs=0.02)


def test_weights_are_density_ratios_where_they_are_not_bent() -> None:
    each = weights(strength=1e6)
    shifts = torch.tensor([0.1, -0.05, 0.0, 0.02, 0.0, 0.0])
    ratios = torch.exp((each._squares * shifts).sum(dim=1) / 2)
    torch.testing.assert_close(each._of(shifts)[:200], ratios / ratios.mean(), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("squared", [torch.zeros(2, 400), torch.full((2, 400), 1e30)])
def test_a_distance_of_nothing_or_of_very_much_does_no_harm(squared: torch.Tensor) -> None:
    each = weights()
    for _ in range(5):
        each.learn(squared)
    assert torch.isfinite(each._weights).all()


@pytest.mark.parametrize("schema", [PEOPLE, PICTURES], ids=["table", "images"])
def test_the_generator_still_trains(schema: Schema) -> None:
    method = merf(schema, **ON, **{"training.steps": 60, "training.batch": 200})
    context = Context()
    method.train(schema, answers(method, schema), context)
    assert context.curve[-1][1] < 0.5 * context.curve[0][1]


@pytest.mark.parametrize("stop", [1, 17, 29])
def test_a_resumed_training_equals_an_uninterrupted_one_bit_for_bit(stop: int, tmp_path: Path) -> None:
    method = merf(**ON, **{"training.steps": 30})
    releases = answers(method, PEOPLE)

    def stopping(step: int, steps: int, loss: float) -> None:
        if step == stop:
            raise KeyboardInterrupt

    whole, second = Context(seed=3), Context(seed=3, checkpoint=tmp_path)
    expected = method.train(PEOPLE, releases, whole)
    method.train(PEOPLE, releases, Context(seed=3, checkpoint=tmp_path, on_step=stopping))
    assert same(method.train(PEOPLE, releases, second), expected)
    assert second.curve == whole.curve


def test_a_checkpoint_without_weights_is_not_continued_with_them(tmp_path: Path) -> None:
    releases = answers(merf(), PEOPLE)
    merf().train(PEOPLE, releases, Context(checkpoint=tmp_path))
    with pytest.raises(CertificateError, match="checkpoint"):
        merf(**ON).train(PEOPLE, releases, Context(checkpoint=tmp_path))


def test_matching_takes_any_weights() -> None:
    """The weights given to `match` are the ones that learn."""
    method = merf(**{"training.steps": 10})
    fourier = method._fourier(PEOPLE)
    learning = Reweighting(every=3).of(fourier, method._scales(PEOPLE))
    assert learning is not None
    from simulacra.generators import build

    target = answers(method, PEOPLE)["embedding"].value / 120
    match(
        build(PEOPLE, method.generator),
        fourier,
        target=target,
        shares=torch.tensor([0.5, 0.5]),
        training=method.training,
        context=Context(),
        weights=learning,
    )
    assert 0 < float(learning.state.norm()) <= math.sqrt(2) * learning.limit * (1 + 1e-6)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"reweighting.every": -1}, "every"),
        ({"reweighting.learning_rate": 0}, "learning_rate"),
        ({"reweighting.learning_rate": 2}, "learning_rate"),
        ({"reweighting.strength": 1}, "strength"),
        ({"reweighting.strenght": 3}, 'did you mean "strength"'),
    ],
)
def test_a_bad_setting_is_refused(settings: dict[str, object], says: str) -> None:
    with pytest.raises(SettingError, match=says):
        merf(**settings)

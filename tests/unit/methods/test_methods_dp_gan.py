"""DP-GAN: the plan, both sides of a step, the schedule at work, and what happens when things go wrong."""

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
from simulacra import datasets
from simulacra.errors import SettingError
from simulacra.features.gradient import LossGradient
from simulacra.gradients.clipping import clipped_to
from simulacra.methods import make_method
from simulacra.methods.dp_gan import DPGAN
from simulacra.methods.gan_fakes import Fakes
from simulacra.methods.gan_training import ACCURACY, LOSS, PACE, SPREAD, Adversaries
from simulacra.privacy.ledger import Ledger
from simulacra.privacy.query import FeatureMap
from simulacra.schema import ImageShape, Schema
from simulacra.synthesis.run import Run

CPU = torch.device("cpu")
SMALL = {
    "rate": 1.0,  # every record in every step: accounted for at once, where a sample takes seconds
    "steps": 12,
    "critic.channels": 4,
    "critic.hidden": "16",
    "generator.latent": 4,
    "schedule.critic_steps": "2",
}


def fit(data: Any, schema: Schema, out: str = "run", **settings: Any) -> Run:
    return simulacra.fit(
        data,
        schema=schema,
        method="dp-gan",
        epsilon=5.0,
        delta=1e-5,
        adjacency="add-remove",
        out=out,
        ledger="gan.ledger",
        device="cpu",
        settings={**SMALL, **settings},
    )


def pictures() -> Schema:
    return tiny.schema(tiny.PICTURES)


def adversaries(schema: Schema, batch: int = 8, **settings: Any) -> Adversaries:
    method = make_method("dp-gan", {**SMALL, **settings}, schema)
    assert isinstance(method, DPGAN)
    shares = torch.full((schema.classes,), 1 / schema.classes)
    return Adversaries(method, schema, shares=shares, batch=batch, seed=3, device=CPU)


class Asked:
    """In the place of the vault: gives what it is told to, and remembers what was asked."""

    def __init__(self, answer: float = 0.0) -> None:
        self.answer = answer
        self.maps: list[FeatureMap] = []

    def __call__(self, feature_map: FeatureMap) -> torch.Tensor:
        self.maps.append(feature_map)
        return torch.full(feature_map.shape, self.answer, dtype=torch.float64)


# -- the plan -------------------------------------------------------------------------------------------------------


def test_the_plan_has_the_counts_once_and_the_gradient_in_every_step() -> None:
    schema = datasets.schema("mnist")
    method = make_method("dp-gan", {"steps": 1000, "rate": 0.01, "clip": 0.5}, schema)
    counts, gradient = method.plan(schema)
    assert (counts.name, counts.count, counts.sample_rate, counts.relative_noise) == ("class-counts", 1, 1.0, 5.0)
    assert (gradient.name, gradient.count, gradient.sample_rate) == ("gradient", 1000, 0.01)
    assert (gradient.size, gradient.norm_bound) == (1_724_289, 0.5)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"rate": 1.5}, "at most 1"),
        ({"rate": 0.0}, "above 0"),
        ({"steps": 0}, "rounds"),
        ({"batch": 0}, "batch must be from 1"),
        ({"clip": 0.0}, "clip"),
        ({"learning_rate": -1.0}, "learning_rate"),
        ({"count_noise": 0.0}, "count_noise"),
        ({"precision": "half"}, "precision"),
        ({"final_rate": 0.0}, "final_rate must be above 0 and at most 1"),
        ({"average": 1.0}, "average must be at least 0 and below 1"),
        ({"generator.kind": "condensed"}, "does not learn from a critic"),
        ({"critic.kind": "residual", "critic.channels": 0}, "critic.channels"),
    ],
)
def test_impossible_settings_are_refused_before_anything_is_spent(settings: dict[str, Any], words: str) -> None:
    schema = pictures()
    with pytest.raises(SettingError, match=words):
        make_method("dp-gan", settings, schema).plan(schema)


# -- a step ---------------------------------------------------------------------------------------------------------


def test_the_learning_rate_of_both_falls_with_the_paid_steps_if_asked_to() -> None:
    def rates(progress: float, **settings: Any) -> list[float]:
        game = adversaries(pictures(), learning_rate=0.01, **settings)
        game.slow_down(progress)
        return [group["lr"] for part in (game._of_critic, game._of_generator) for group in part.param_groups]

    assert rates(0.0, final_rate=0.1) == pytest.approx([0.01, 0.01])
    assert rates(0.5, final_rate=0.1) == pytest.approx([0.0055, 0.0055])
    assert rates(1.0, final_rate=0.1) == pytest.approx([0.001, 0.001])
    assert rates(1.0) == [0.01, 0.01], "as published"


@pytest.mark.usefixtures("work")
def test_a_run_slows_down_from_its_first_step_to_its_last(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[float] = []
    monkeypatch.setattr(Adversaries, "slow_down", lambda self, progress: told.append(progress))
    fit(tiny.people(), tiny.schema(tiny.PEOPLE), final_rate=0.1)
    assert told == [turn / SMALL["steps"] for turn in range(SMALL["steps"])]  # type: ignore[call-overload, operator]


def test_a_critic_step_adds_clipped_fakes_to_the_noisy_answer_and_divides_by_both_batches() -> None:
    """Lines 6 to 8 of Algorithm 1; with plain gradient descent in the place of Adam the sum can be read off."""
    game = adversaries(pictures(), batch=8)
    game._of_critic = torch.optim.SGD(game._critic_weights, lr=1.0)  # type: ignore[assignment]
    before = torch.cat([weight.detach().flatten() for weight in game._critic_weights])
    asked = Asked(answer=0.25)
    game.critic_step(asked)
    with torch.no_grad():
        points = game.fakes.points()
    labels = game.fakes.labels
    after = torch.cat([weight.detach().flatten() for weight in game._critic_weights])
    _put(game._critic_weights, before)
    expected, limit = torch.full_like(before, 0.25), clipped_to(1.0, torch.float32)
    for index in range(8):
        loss = torch.nn.functional.softplus(game.critic(points[index : index + 1], labels[index : index + 1])).sum()
        gradient = torch.cat([each.flatten() for each in torch.autograd.grad(loss, game._critic_weights)])
        expected += gradient * (limit / gradient.norm().clamp(min=limit))
    torch.testing.assert_close(before - after, expected / 16, rtol=1e-4, atol=1e-6)
    assert [type(each) for each in asked.maps] == [LossGradient]


def _put(weights: list[torch.nn.Parameter], flat: torch.Tensor) -> None:
    with torch.no_grad():
        for weight, part in zip(weights, flat.split([each.numel() for each in weights]), strict=True):
            weight.copy_(part.view_as(weight))


def test_a_generator_step_leaves_the_critic_alone_and_lowers_the_generators_loss() -> None:
    game = adversaries(pictures(), learning_rate=1e-3)
    before = [weight.detach().clone() for weight in game._critic_weights]
    losses = []
    for _ in range(20):
        losses.append(game.look(len(losses)))
        game.generator_step()
    assert losses[-1] < losses[0]
    assert all(torch.equal(a, b) for a, b in zip(before, game._critic_weights, strict=True))


def test_the_generator_steps_once_in_so_many_critic_steps() -> None:
    game = adversaries(pictures(), **{"schedule.critic_steps": "3"})
    turns = []
    for _ in range(7):
        turns.append(game.critic_step(Asked()))
        if turns[-1]:
            game.generator_step()
    assert turns == [False, False, True, False, False, True, False]


def test_the_curves_hold_what_fakes_tell() -> None:
    game = adversaries(pictures())
    game.critic_step(Asked())
    game.look(1)
    assert set(game.curves) == {LOSS, ACCURACY, PACE, SPREAD}
    assert 0 <= game.curves[ACCURACY][0][1] <= 1
    assert game.curves[PACE] == [(1, 2.0)]


def test_a_state_goes_on_as_if_nothing_had_happened() -> None:
    game, other = adversaries(tiny.schema(tiny.PEOPLE)), adversaries(tiny.schema(tiny.PEOPLE))
    for _ in range(3):
        if game.critic_step(Asked(0.1)):
            game.generator_step()
    game.look(3)
    other.load({name: value.clone() for name, value in game.state().items()})
    for both in (game, other):
        for _ in range(3):
            if both.critic_step(Asked(0.2)):
                both.generator_step()
    for name, value in game.state().items():
        torch.testing.assert_close(other.state()[name], value, rtol=0, atol=0, msg=name)


def test_the_result_is_an_average_of_the_generators_weights_or_the_last() -> None:
    one, last = adversaries(pictures(), average=0.9), adversaries(pictures(), average=0.0)
    begun = [weight.detach().clone() for weight in one.result.parameters()]
    for each in (one, last):
        for _ in range(4):
            each.critic_step(Asked())
            each.generator_step()
    for first, average, weight in zip(begun, one.result.parameters(), one.generator.parameters(), strict=True):
        assert (average - first).norm() < (weight - first).norm()
    assert last.result is last.generator
    other = adversaries(pictures(), average=0.9)
    other.load(one.state())
    for here, there in zip(one.result.parameters(), other.result.parameters(), strict=True):
        assert torch.equal(here, there)


def test_fakes_of_a_table_are_rows_of_ones_and_zeros_with_a_gradient() -> None:
    schema = tiny.schema(tiny.PEOPLE)
    game = adversaries(schema, batch=64)
    game.fakes.fresh(game.random)
    points = game.fakes.points()
    assert torch.all((points.detach() == 0) | ((points.detach() - 1).abs() < 1e-6))
    columns = len(schema.features)
    torch.testing.assert_close(points.detach().sum(dim=1), torch.full((64,), float(columns)))
    slope = torch.autograd.grad((points * torch.rand_like(points)).sum(), game._generator_weights[-1])[0]
    assert slope.any()


def test_labels_of_fakes_follow_the_shares() -> None:
    schema = tiny.schema(tiny.PEOPLE)
    game = adversaries(schema)
    fakes = Fakes(schema, game.generator, 20_000, torch.tensor([0.8, 0.2]), CPU)
    fakes.fresh(torch.Generator().manual_seed(0))
    assert 0.78 < float((fakes.labels == 0).float().mean()) < 0.82


# -- whole runs -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "schema"),
    [
        (tiny.pictures(), pictures()),
        (tiny.pictures()[0], Schema(image=ImageShape(height=8, width=8))),
        (tiny.people(), tiny.schema(tiny.PEOPLE)),
        (tiny.people(), tiny.schema(tiny.UNLABELLED)),
    ],
    ids=["pictures", "pictures-unlabelled", "table", "table-unlabelled"],
)
def test_from_records_to_samples(work: Path, data: Any, schema: Schema) -> None:
    run = fit(data, schema)
    assert run.verify().problems == ()
    training = json.loads((run.folder / "training.json").read_text())
    assert training["rounds"] == {"gradient": {"planned": 12, "done": 12}}
    assert not training["diverged"]
    assert all(math.isfinite(value) for curve in training["curves"].values() for _, value in curve)
    sample = run.sample(7)
    if schema.image is None:
        assert sample.shape == (7, len(schema.columns))
    else:
        assert sample[0].shape[:3] == (7, 8, 8)


def test_colour_images_go_through_a_residual_critic(work: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (6, 32, 32, 3), dtype=np.uint8)
    schema = Schema(image=ImageShape(height=32, width=32, channels=3))
    run = fit(images, schema, steps=2, **{"schedule.critic_steps": "1"})
    assert run.sample(2)[0].shape == (2, 32, 32, 3)


def test_empty_poisson_samples_are_only_noise(work: Path) -> None:
    run = simulacra.fit(
        tiny.pictures(),
        schema=pictures(),
        method="dp-gan",
        epsilon=None,
        delta=None,
        adjacency="add-remove",
        not_private=True,
        out="empty",
        ledger="gan.ledger",
        device="cpu",
        settings={**SMALL, "rate": 1e-12},
    )
    training = json.loads((run.folder / "training.json").read_text())
    assert training["rounds"]["gradient"]["done"] == 12
    assert not training["diverged"]


def test_a_batch_larger_than_the_data_is_no_matter(work: Path) -> None:
    run = fit(tiny.pictures(), pictures(), batch=500, steps=3)
    assert run.verify().problems == ()


@pytest.mark.parametrize("spoiled", [math.nan, math.inf])
def test_weights_that_are_no_numbers_end_the_run_with_the_last_good_state_and_the_budget_stays_spent(
    work: Path, monkeypatch: pytest.MonkeyPatch, spoiled: float
) -> None:
    genuine = Adversaries.critic_step

    def spoils(self: Adversaries, draw: Any) -> bool:
        turn = genuine(self, draw)
        if len(self.curves.get(LOSS, [])) == 5:
            self.critic.image.weight.data[0] = spoiled
        return turn

    monkeypatch.setattr(Adversaries, "critic_step", spoils)
    run = fit(tiny.pictures(), pictures())
    training = json.loads((run.folder / "training.json").read_text())
    assert training["diverged"]
    assert [step for step, _ in training["curves"][LOSS]] == [1, 2, 3, 4, 5]
    assert training["rounds"]["gradient"]["done"] == 5
    assert all(weight.isfinite().all() for weight in run.sampler.generator.parameters())
    assert run.sample(3)[0].shape == (3, 8, 8)
    assert Ledger("gan.ledger").reserved(run.facts["run"], "gradient") >= 1
    assert run.verify().problems == ()


@pytest.mark.parametrize("data", ["table", "pictures"])
def test_a_run_keeps_the_critic_which_may_choose_among_candidates(
    work: Path, monkeypatch: pytest.MonkeyPatch, data: str
) -> None:
    trained: list[Any] = []
    genuine = Adversaries.critic_step

    def remembers(self: Adversaries, draw: Any) -> bool:
        trained[:] = [self.critic]
        return genuine(self, draw)

    monkeypatch.setattr(Adversaries, "critic_step", remembers)
    records, schema = (tiny.people(), tiny.schema(tiny.PEOPLE)) if data == "table" else (tiny.pictures(), pictures())
    run = fit(records, schema, candidates=6)
    assert run.sampler.chooser is not None
    kept, last = run.sampler.chooser.critic.state_dict(), trained[0].state_dict()
    assert all(torch.equal(kept[name], last[name]) for name in last)

    def drawn(**more: Any) -> torch.Tensor:
        return torch.cat([inputs for inputs, _ in run.encoded(40, seed=1, **more)])

    assert torch.equal(drawn(), drawn(candidates=6)), "as the run was trained to"
    assert not torch.equal(drawn(), drawn(candidates=1))
    assert not torch.equal(drawn(candidates=7), drawn(candidates=6))
    assert run.as_dataset(5, seed=1, candidates=2).tensors[0].shape[0] == 5
    assert run.verify().problems == ()


def test_a_number_of_candidates_that_makes_no_sense_is_refused_before_anything_is_spent(work: Path) -> None:
    with pytest.raises(SettingError, match="candidates must be from 1"):
        fit(tiny.pictures(), pictures(), candidates=0)
    assert not Path("gan.ledger").exists()


def test_a_run_that_was_stopped_goes_on_and_draws_no_more_than_planned(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simulacra.synthesis.looping.block_for", lambda count: 4)
    genuine = Adversaries.critic_step

    def stops(self: Adversaries, draw: Any) -> bool:
        if len(self.curves.get(LOSS, [])) == 6:
            raise RuntimeError("the power went out")
        return genuine(self, draw)

    with monkeypatch.context() as patch:
        patch.setattr(Adversaries, "critic_step", stops)
        with pytest.raises(RuntimeError, match="power"):
            fit(tiny.pictures(), pictures())
    run = simulacra.resume(tiny.pictures(), "run", ledger="gan.ledger", device="cpu")
    training = json.loads((run.folder / "training.json").read_text())
    assert training["rounds"]["gradient"] == {"planned": 12, "done": 8}  # the block of four in hand is lost
    assert [step for step, _ in training["curves"][LOSS]] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert Ledger("gan.ledger").reserved(run.facts["run"], "gradient") == 12
    assert run.verify().problems == ()


def test_the_same_answers_give_the_same_generator_whatever_the_records() -> None:
    """Fitting is post-processing of what the vault said."""
    first, second = adversaries(pictures()), adversaries(pictures())
    for game in (first, second):
        for _ in range(4):
            if game.critic_step(Asked(0.3)):
                game.generator_step()
    for name, value in first.state().items():
        assert torch.equal(second.state()[name], value), name


def test_the_report_shows_the_critic_and_the_same_codes_over_time(work: Path) -> None:
    run = fit(tiny.pictures(), pictures())
    page = simulacra.write_report(run).read_text()
    for words in (
        "critic accuracy on fakes",
        "spread of fakes within a class",
        "after 12 steps",
        "noisy gradients alone",
    ):
        assert words in page
    assert "fitted to the release alone" not in page


def test_fakes_that_are_all_alike_have_no_spread() -> None:
    game = adversaries(pictures(), batch=16)
    game.look(1)
    with torch.no_grad():
        for weight in game.generator.parameters():
            weight.zero_()
    game.look(2)
    (_, before), (_, after) = game.curves[SPREAD]
    assert before > 0
    assert after < 1e-6


# -- public pretraining ---------------------------------------------------------------------------------------------


def test_pretraining_learns_from_public_images_and_the_certificate_says_so(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    genuine = Adversaries.begin_again
    monkeypatch.setattr(Adversaries, "begin_again", lambda self: (seen.append(self.curves), genuine(self))[1])
    run = fit(tiny.pictures(), pictures(), **{"pretraining.data": "digits", "pretraining.steps": 2})
    assert len(seen) == 1
    assert "digits" in json.dumps(run.certificate)
    training = json.loads((run.folder / "training.json").read_text())
    assert training["rounds"]["gradient"]["done"] == 12
    assert len(training["curves"][LOSS]) == 12


def test_after_pretraining_only_the_weights_stay() -> None:
    game = adversaries(pictures())
    game.critic_step(Asked(0.5))
    game.generator_step()
    game.look(1)
    weights = {name: value for name, value in game.state().items() if name.startswith("critic.")}
    game.begin_again()
    state = game.state()
    assert all(torch.equal(state[name], value) for name, value in weights.items())
    assert not any(value.any() for name, value in state.items() if "-moments." in name)
    assert game.pace.accuracy is None
    assert not game.curves


@pytest.mark.parametrize(
    ("schema", "data", "words"),
    [(pictures(), "mnist", "28 x 28 x 1"), (tiny.schema(tiny.PEOPLE), "adult", "for images")],
)
def test_public_data_of_another_form_is_refused_before_anything_is_spent(schema: Schema, data: str, words: str) -> None:
    with pytest.raises(SettingError, match=words):
        make_method("dp-gan", {"pretraining.data": data}, schema).plan(schema)

"""DP-MERF: what it plans and asks, and that everything after the releases is post-processing."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import tiny
import torch

from simulacra.errors import CertificateError, SchemaError, SettingError
from simulacra.features.combine import ClassCount, PerClass
from simulacra.generators import GeneratorOptions, build
from simulacra.generators.sampler import Sampler
from simulacra.methods import all_methods, make_method
from simulacra.methods.base import Ask, Context, Method, ReleaseOnce
from simulacra.methods.checkpoints import CHECKPOINT
from simulacra.methods.dp_merf import DPMERF
from simulacra.methods.matching import Training
from simulacra.privacy.accountant import Event
from simulacra.privacy.release import Release
from simulacra.schema import ImageShape, Schema

PEOPLE, UNLABELLED, PICTURES = map(tiny.schema, (tiny.PEOPLE, tiny.UNLABELLED, tiny.PICTURES))


def merf(schema: Schema = PEOPLE, **settings: object) -> DPMERF:
    method = make_method("dp-merf", {**tiny.SETTINGS, **settings}, schema)
    assert isinstance(method, DPMERF)
    return method


def answers(method: DPMERF, schema: Schema, counts: list[float] | None = None, seed: int = 0) -> dict[str, Release]:
    """Releases as the vault would give them, from invented records."""
    random = torch.Generator().manual_seed(seed)
    classes = torch.tensor(counts or [60.0] * schema.classes, dtype=torch.float64)
    inputs = torch.rand(int(classes.clamp(min=0).sum()), schema.inputs, generator=random, dtype=torch.float64) - 1
    labels = torch.repeat_interleave(torch.arange(schema.classes), classes.clamp(min=0).long())
    values = {"class-counts": classes, "embedding": method.questions(schema)["embedding"].clipped_sum(inputs, labels)}
    event = Event(noise_multiplier=1.0)
    return {
        name: Release(step=name, value=value, noise_std=1.0, noise="exact", event=event)
        for name, value in values.items()
    }


def parameters(sampler: Sampler) -> dict[str, torch.Tensor]:
    return {**sampler.generator.state_dict(), "class_shares": sampler.class_shares}


def assert_same(one: Sampler, other: Sampler) -> None:
    ours, theirs = parameters(one), parameters(other)
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        assert torch.equal(value, theirs[name]), name


# -- what is asked ---------------------------------------------------------------------------------------------------


def test_the_plan_has_two_one_shot_steps_with_the_bounds_of_their_maps() -> None:
    counts, embedding = merf().plan(PEOPLE)
    assert (counts.name, counts.size, counts.nonnegative, counts.relative_noise) == ("class-counts", 2, True, 5.0)
    assert (embedding.name, embedding.size, embedding.nonnegative) == ("embedding", 2 * 2 * 20, False)
    assert embedding.relative_noise == 1.0
    for step in (counts, embedding):
        assert (step.norm_bound, step.count, step.sample_rate) == (1.0, 1, 1.0)


@pytest.mark.parametrize(("schema", "classes"), [(PEOPLE, 2), (UNLABELLED, 1), (PICTURES, 2)])
def test_the_questions_are_class_counts_and_an_embedding_per_class(schema: Schema, classes: int) -> None:
    asked = merf(schema).questions(schema)
    assert list(asked) == ["class-counts", "embedding"]
    counts, embedding = asked.values()
    assert isinstance(counts, ClassCount)
    assert isinstance(embedding, PerClass)
    assert counts.shape == (classes,)
    assert embedding.shape == (classes, 40)


def test_the_embedding_is_the_sum_of_unit_vectors_in_the_row_of_each_class() -> None:
    """Equation 7 of the paper, record by record."""
    method = merf()
    embedding = method.questions(PEOPLE)["embedding"]
    inputs = torch.rand(5, PEOPLE.inputs, dtype=torch.float64) * 2 - 1
    labels = torch.tensor([0, 1, 1, 0, 1])
    each = torch.stack([embedding.features(row, label) for row, label in zip(inputs, labels, strict=True)])
    assert each.flatten(1).norm(dim=1).allclose(torch.ones(5, dtype=torch.float64))
    assert each[0, 1].abs().sum() == 0
    assert embedding.clipped_sum(inputs, labels).allclose(each.sum(dim=0))


def test_the_embedding_is_the_gaussian_kernel_of_the_one_hot_rows() -> None:
    """Inner products of features approach the kernel with the public length scale."""
    method = merf(pairs=20000, length_scales=(1.5,))
    fourier = method._fourier(PEOPLE)
    inputs = torch.rand(4, PEOPLE.inputs, dtype=torch.float64) * 2 - 1
    features = fourier.batch(inputs)
    points = fourier.points.of_records(inputs)
    scale = 1.5 * math.sqrt(fourier.points.spread)
    kernel = torch.exp(-(torch.cdist(points, points) ** 2) / (2 * scale**2))
    assert (features @ features.T - kernel).abs().max() < 0.03


def test_the_questions_are_the_same_whenever_they_are_made() -> None:
    inputs, labels = torch.rand(9, PEOPLE.inputs, dtype=torch.float64), torch.arange(9) % 2
    one, two, other = (
        method.questions(PEOPLE)["embedding"].clipped_sum(inputs, labels)
        for method in (merf(), merf(), merf(feature_seed=1))
    )
    assert torch.equal(one, two)
    assert not torch.allclose(one, other)


def test_asking_names_exactly_the_settings_that_change_plan_or_questions() -> None:
    assert set(merf().asking()) == {"pairs", "length_scales", "feature_seed", "count_noise"}


# -- settings --------------------------------------------------------------------------------------------------------


def test_images_and_tables_have_their_own_defaults_and_settings_come_on_top() -> None:
    table, image = DPMERF().suited_to(PEOPLE), DPMERF().suited_to(PICTURES)
    assert table == DPMERF()
    assert image.pairs == 5000, "the 10,000 features of the paper"
    assert image.length_scales != table.length_scales
    assert merf(PICTURES, pairs=7).pairs == 7
    assert merf(PICTURES, pairs=7).length_scales == image.length_scales


def test_settings_survive_a_round_trip_through_plain_values() -> None:
    method = merf(length_scales="0.5,2", **{"generator.latent": 3})
    assert method.length_scales == (0.5, 2.0)
    assert DPMERF.from_mapping(method.to_mapping()) == method


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"pairs": 0}, "positive"),
        ({"pairs": 2.5}, "whole number"),
        ({"pairs": "nan"}, "finite"),
        ({"length_scales": ""}, "positive"),
        ({"length_scales": "1,-1"}, "positive"),
        ({"count_noise": 0}, "positive"),
        ({"training.steps": 0}, "steps >= 1"),
        ({"training.batch": 1}, "batch >= 2"),
        ({"training.learning_rate": 0}, "learning_rate"),
        ({"training.final_rate": 2}, "final_rate"),
        ({"generator.latent": 0}, "latent"),
        ({"generator.hidden": "0"}, "hidden"),
        ({"pair": 3}, 'did you mean "pairs"'),
        ({"training.lerning_rate": 3}, 'did you mean "learning_rate"'),
    ],
)
def test_a_bad_setting_is_refused(settings: dict[str, object], says: str) -> None:
    with pytest.raises(SettingError, match=says):
        merf(**settings)


def test_an_unknown_method_is_refused_with_a_suggestion() -> None:
    with pytest.raises(SettingError, match="dp-merf"):
        make_method("dp_merf", {}, PEOPLE)


def test_a_method_is_offered_only_the_kind_of_data_it_can_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DPMERF, "tables", False)
    with pytest.raises(SchemaError, match="for images"):
        make_method("dp-merf", {}, PEOPLE)
    monkeypatch.setattr(DPMERF, "images", False)
    with pytest.raises(SchemaError, match="for tables"):
        make_method("dp-merf", {}, PICTURES)


@pytest.mark.parametrize("method", all_methods().values(), ids=all_methods())
def test_every_method_describes_itself(method: type[Method]) -> None:
    assert method.name == next(name for name, kind in all_methods().items() if kind is method)
    assert method.summary.endswith(".")
    assert method.tables or method.images


# -- training --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("schema", [PEOPLE, UNLABELLED, PICTURES], ids=["labelled", "unlabelled", "images"])
def test_the_same_releases_and_seed_give_the_same_sampler(schema: Schema) -> None:
    method = merf(schema)
    releases = answers(method, schema)
    one, two = (method.train(schema, releases, Context(seed=4)) for _ in range(2))
    assert_same(one, two)
    other = method.train(schema, releases, Context(seed=5))
    assert not torch.equal(next(iter(parameters(one).values())), next(iter(parameters(other).values())))


def test_training_does_not_disturb_or_depend_on_the_global_random_state() -> None:
    method = merf()
    releases = answers(method, PEOPLE)
    torch.manual_seed(1)
    before = torch.get_rng_state()
    one = method.train(PEOPLE, releases, Context())
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    assert_same(one, method.train(PEOPLE, releases, Context()))


def test_fit_is_post_processing_of_what_it_was_answered() -> None:
    """Whatever the records, the same answers give the same sampler: `fit` has nothing else to look at."""
    method = merf()
    releases = answers(method, PEOPLE)

    def ask(questions: object) -> dict[str, Release]:
        assert set(questions) == set(releases)  # type: ignore[call-overload]
        return releases

    asking: Ask = ask
    assert isinstance(method, ReleaseOnce)
    assert_same(method.fit(PEOPLE, asking, Context()), method.train(PEOPLE, releases, Context()))


def test_labels_are_drawn_by_the_noisy_counts() -> None:
    method = merf()
    sampler = method.train(PEOPLE, answers(method, PEOPLE, [30.0, 90.0]), Context())
    assert sampler.class_shares.tolist() == pytest.approx([0.25, 0.75])
    (drawn,) = sampler.records(4000, seed=0)
    assert drawn.labels.float().mean() == pytest.approx(0.75, abs=0.03)


@pytest.mark.parametrize("counts", [[-40.0, 80.0], [0.0, 80.0], [-5.0, -7.0]])
def test_noise_that_makes_counts_negative_does_no_harm(counts: list[float]) -> None:
    method = merf()
    sampler = method.train(PEOPLE, answers(method, PEOPLE, counts), Context())
    assert sampler.class_shares.sum() == pytest.approx(1.0)
    assert (sampler.class_shares > 0).all()
    assert all(torch.isfinite(value.float()).all() for value in parameters(sampler).values())


def test_the_loss_goes_down() -> None:
    method = merf(**{"training.steps": 60, "training.batch": 200})
    context = Context()
    method.train(PEOPLE, answers(method, PEOPLE), context)
    losses = [loss for _, loss in context.curve]
    assert [step for step, _ in context.curve] == list(range(1, 61))
    assert losses[-1] < 0.5 * losses[0]


def test_every_class_is_trained_however_rare() -> None:
    schema = tiny.schema(tiny.PEOPLE.replace('["no", "yes"]', '["a", "b", "c", "d", "e"]'))
    method = merf(schema)
    sampler = method.train(schema, answers(method, schema, [1.0, 1.0, 1.0, 1.0, 5000.0]), Context())
    for label in range(5):
        (drawn,) = sampler.records(20, seed=0, labels=torch.tensor([label]))
        assert torch.isfinite(drawn.inputs).all()


def test_a_training_that_diverges_is_an_error_and_not_a_sampler_of_nan() -> None:
    method = merf(**{"training.learning_rate": 1e30})
    with pytest.raises(SettingError, match="diverged"):
        method.train(PEOPLE, answers(method, PEOPLE), Context())


# -- stopping and resuming -------------------------------------------------------------------------------------------


def stop_at(wanted: int) -> object:
    def on_step(step: int, steps: int, loss: float) -> None:
        if step == wanted:
            raise KeyboardInterrupt

    return on_step


@pytest.mark.parametrize("schema", [PEOPLE, PICTURES], ids=["table", "images"])
@pytest.mark.parametrize("stop", [1, 17, 29])
def test_a_resumed_training_equals_an_uninterrupted_one_bit_for_bit(schema: Schema, stop: int, tmp_path: Path) -> None:
    method = merf(schema, **{"training.steps": 30})
    releases = answers(method, schema)
    whole = Context(seed=3)
    expected = method.train(schema, releases, whole)
    first = Context(seed=3, checkpoint=tmp_path, on_step=stop_at(stop))  # type: ignore[arg-type]
    method.train(schema, releases, first)
    assert first.stopped_early
    assert not whole.stopped_early
    second = Context(seed=3, checkpoint=tmp_path)
    assert_same(method.train(schema, releases, second), expected)
    assert second.curve == whole.curve


def test_a_stopped_training_keeps_what_was_learned() -> None:
    method = merf(**{"training.steps": 30})
    context = Context(on_step=stop_at(10))  # type: ignore[arg-type]
    sampler = method.train(PEOPLE, answers(method, PEOPLE), context)
    assert context.stopped_early
    assert len(context.curve) == 10
    (drawn,) = sampler.records(50, seed=0)
    assert drawn.inputs.abs().max() <= 1


def test_the_moments_of_adam_keep_the_layout_of_the_weights_over_a_restart(tmp_path: Path) -> None:
    """A fused step on a GPU reads both in the order of memory."""
    from simulacra.methods import checkpoints

    schema = Schema(image=ImageShape(height=8, width=8, classes=("a", "b")))
    generator = build(schema, GeneratorOptions(kind="residual"))

    def adam() -> torch.optim.Adam:
        return torch.optim.Adam(generator.parameters(), lr=0.01)

    first, second, random = adam(), adam(), torch.Generator()
    noise, labels = torch.randn(4, generator.latent), torch.eye(2).repeat(2, 1)
    generator(noise, labels).sum().backward()
    first.step()
    context = Context(checkpoint=tmp_path)
    checkpoints.save(tmp_path, generator, first, random, 1, [(1, 0.5)], None, None)
    assert checkpoints.restore(context, generator, second, random, None, None) == 1
    for parameter, state in second.state.items():
        assert state["exp_avg"].stride() == parameter.stride()
        assert torch.equal(state["exp_avg"], first.state[parameter]["exp_avg"])


@pytest.mark.parametrize("damage", [b"", b"no tensors", b"\x00" * 100])
def test_a_damaged_checkpoint_is_named_and_not_used(damage: bytes, tmp_path: Path) -> None:
    method = merf()
    (tmp_path / CHECKPOINT).write_bytes(damage)
    with pytest.raises(CertificateError, match="checkpoint"):
        method.train(PEOPLE, answers(method, PEOPLE), Context(checkpoint=tmp_path))


def test_the_learning_rate_falls_along_a_halfcosine() -> None:
    from simulacra.methods.matching import cosine

    training = Training()
    rates = [cosine(step / 10, training.final_rate) for step in range(11)]
    assert rates[0] == pytest.approx(1)
    assert rates[-1] == pytest.approx(training.final_rate)
    assert rates == sorted(rates, reverse=True)

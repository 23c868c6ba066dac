"""DP-NTK: what it plans and asks, bad settings, and that training is post-processing of releases."""

from __future__ import annotations

import pytest
import tiny
import torch

from simulacra.errors import SettingError
from simulacra.features.combine import ClassCount, PerClass
from simulacra.features.tangent import Tangent
from simulacra.generators.sampler import Sampler
from simulacra.methods import make_method
from simulacra.methods.base import Context
from simulacra.methods.dp_ntk import DPNTK
from simulacra.privacy.accountant import Event
from simulacra.privacy.release import Release
from simulacra.schema import Boolean, Categorical, ImageShape, Numeric, Schema

PEOPLE, UNLABELLED, PICTURES = map(tiny.schema, (tiny.PEOPLE, tiny.UNLABELLED, tiny.PICTURES))
QUICK = {"training.steps": 5, "training.batch": 40, "widths": "6"}
NETWORKS = [("fc_1l", "6"), ("fc_2l", "6,5"), ("cnn_2l", "3,4")]
SHAPES = {
    "one-column": Schema(columns=(Numeric(name="x", lower=0, upper=1),)),
    "one-column-and-label": Schema(columns=(Boolean(name="x"), Boolean(name="y")), label="y"),
    "categorical": Schema(columns=tuple(Categorical(name=n, values=("a", "b", "c")) for n in "pqr"), label="p"),
    "numeric": Schema(columns=tuple(Numeric(name=n, lower=-1, upper=1) for n in "pq")),
    "labelled": PEOPLE,
    "unlabelled": UNLABELLED,
    "images": PICTURES,
}


def ntk(schema: Schema = PEOPLE, **settings: object) -> DPNTK:
    method = make_method("dp-ntk", {**QUICK, **settings}, schema)
    assert isinstance(method, DPNTK)
    return method


def answers(method: DPNTK, schema: Schema, counts: list[float] | None = None, seed: int = 0) -> dict[str, Release]:
    """Releases as the vault would give them, from invented records."""
    random = torch.Generator().manual_seed(seed)
    classes = torch.tensor(counts or [30.0] * schema.classes, dtype=torch.float64)
    inputs = torch.rand(int(classes.clamp(min=0).sum()), schema.inputs, generator=random, dtype=torch.float64) * 2 - 1
    labels = torch.repeat_interleave(torch.arange(schema.classes), classes.clamp(min=0).long())
    values = {"class-counts": classes, "embedding": method.questions(schema)["embedding"].clipped_sum(inputs, labels)}
    return {
        name: Release(step=name, value=value, noise_std=1.0, noise="exact", event=Event(noise_multiplier=1.0))
        for name, value in values.items()
    }


def parameters(sampler: Sampler) -> dict[str, torch.Tensor]:
    return {**sampler.generator.state_dict(), "class_shares": sampler.class_shares}


def test_the_plan_has_counts_and_an_embedding_with_one_output_block() -> None:
    counts, embedding = ntk(PICTURES).plan(PICTURES)
    assert (counts.name, counts.size, counts.nonnegative, counts.relative_noise) == ("class-counts", 2, True, 5.0)
    # 64 pixels, 6 hidden: weights and biases, and the output layer's block once and not once per class.
    assert (embedding.name, embedding.size) == ("embedding", 2 * (6 * 64 + 6 + 6 + 1))
    assert (embedding.norm_bound, embedding.nonnegative, embedding.relative_noise) == (1.0, False, 1.0)


def test_the_questions_are_maps_of_the_tangent_kind() -> None:
    counts, embedding = ntk().questions(PEOPLE).values()
    assert isinstance(counts, ClassCount)
    assert isinstance(embedding, PerClass)
    assert isinstance(embedding.inner, Tangent)


def test_images_take_the_papers_width_and_more_and_smaller_steps() -> None:
    image = DPNTK().suited_to(PICTURES)
    assert image.widths == (800,)
    assert (image.training.steps, image.training.batch) == (6000, 1000)


def test_colours_are_seen_on_both_sides_of_zero() -> None:
    for channels, inputs in ((1, "unit"), (3, "signed")):
        schema = Schema(image=ImageShape(height=4, width=4, channels=channels, classes=("a", "b")))
        method = make_method("dp-ntk", {}, schema)
        assert isinstance(method, DPNTK)
        assert method.inputs == inputs
        assert method._tangent(schema).signed == (channels == 3)


def test_asking_names_exactly_the_settings_that_change_plan_or_questions() -> None:
    assert set(ntk().asking()) == {"network", "widths", "inputs", "feature_seed", "count_noise"}


@pytest.mark.parametrize(("network", "widths"), NETWORKS)
@pytest.mark.parametrize("schema", SHAPES.values(), ids=SHAPES)
def test_every_network_trains_on_every_kind_of_data(schema: Schema, network: str, widths: str) -> None:
    method = ntk(schema, network=network, widths=widths)
    sampler = method.train(schema, answers(method, schema), Context())
    (drawn,) = sampler.records(20, seed=0)
    assert drawn.inputs.shape == (20, schema.inputs)
    assert torch.isfinite(drawn.inputs).all()


@pytest.mark.parametrize("counts", [[-40.0, 80.0], [0.0, 80.0], [-5.0, -7.0]])
def test_a_class_without_records_does_no_harm(counts: list[float]) -> None:
    method = ntk()
    sampler = method.train(PEOPLE, answers(method, PEOPLE, counts), Context())
    assert (sampler.class_shares > 0).all()
    assert all(torch.isfinite(value.float()).all() for value in parameters(sampler).values())


def test_the_same_releases_and_seed_give_the_same_sampler() -> None:
    method = ntk()
    releases = answers(method, PEOPLE)
    one, two = (parameters(method.train(PEOPLE, releases, Context(seed=4))) for _ in range(2))
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_the_loss_goes_down() -> None:
    method = ntk(**{"training.steps": 80, "training.batch": 200, "widths": "30"})
    context = Context()
    method.train(PEOPLE, answers(method, PEOPLE), context)
    losses = [loss for _, loss in context.curve]
    assert losses[-1] < 0.7 * losses[0]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"widths": ""}, "positive"),
        ({"widths": "0"}, "positive"),
        ({"widths": "3,4"}, "takes 1 hidden"),
        ({"network": "fc_2l"}, "takes 2 hidden"),
        ({"network": "resnet"}, "expected one of"),
        ({"count_noise": 0}, "positive"),
        ({"feature_seed": -1}, "feature_seed"),
        ({"widths": "1000000000"}, "numbers"),
        ({"width": 3}, 'did you mean "widths"'),
    ],
)
def test_a_bad_setting_is_refused_before_anything_is_asked(settings: dict[str, object], says: str) -> None:
    with pytest.raises(SettingError, match=says):
        ntk(**settings).plan(PEOPLE)

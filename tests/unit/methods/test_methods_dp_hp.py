"""DP-HP: what it plans and asks, tables and settings at the edge, and that the rest is post-processing."""

from __future__ import annotations

from pathlib import Path

import pytest
import tiny
import torch

from simulacra.errors import SettingError
from simulacra.features.combine import ClassCount, PerClass
from simulacra.features.hermite_kernels import ProductKernel, SumKernel
from simulacra.generators.sampler import Sampler
from simulacra.methods import make_method
from simulacra.methods.base import Context, ReleaseOnce
from simulacra.methods.dp_hp import DPHP, Joint
from simulacra.privacy.accountant import Event
from simulacra.privacy.budget import Adjacency, Budget
from simulacra.privacy.plan import make_plan
from simulacra.privacy.release import Release
from simulacra.schema import Boolean, Categorical, Column, Numeric, Schema

PEOPLE, UNLABELLED, PICTURES = map(tiny.schema, (tiny.PEOPLE, tiny.UNLABELLED, tiny.PICTURES))
QUICK = {"order": 4, "subsets": 8, "training.steps": 6, "training.batch": 64, "generator.hidden": "16"}
STEPS = ["class-counts", "sum-embedding", "product-embedding"]


def table(*columns: Column, label: str | None = None) -> Schema:
    return Schema(columns=columns, label=label)


NUMBER, OTHER_NUMBER = Numeric(name="a", lower=0, upper=1), Numeric(name="b", lower=0, upper=9, integer=True)
COLOUR, FLAG, CLASS = Categorical(name="c", values=("x", "y", "z")), Boolean(name="d"), Boolean(name="label")
EDGES = {
    "one number": table(NUMBER),
    "one category": table(COLOUR),
    "one number and a label": table(NUMBER, CLASS, label="label"),
    "numbers": table(NUMBER, OTHER_NUMBER),
    "categories": table(COLOUR, FLAG, CLASS, label="label"),
    "a column of one cell": table(Categorical(name="c", values=("only",)), NUMBER),
}


def hermite(schema: Schema = PEOPLE, **settings: object) -> DPHP:
    method = make_method("dp-hp", {**QUICK, **settings}, schema)
    assert isinstance(method, DPHP)
    return method


def answers(method: DPHP, schema: Schema, counts: list[float] | None = None) -> dict[str, Release]:
    """Releases as the vault would give them, from invented records."""
    random = torch.Generator().manual_seed(0)
    classes = torch.tensor(counts or [60.0] * schema.classes, dtype=torch.float64)
    inputs = torch.rand(int(classes.clamp(min=0).sum()), schema.inputs, generator=random, dtype=torch.float64) - 1
    labels = torch.repeat_interleave(torch.arange(schema.classes), classes.clamp(min=0).long())
    values = {name: each.clipped_sum(inputs, labels) for name, each in method.questions(schema).items()}
    values["class-counts"] = classes
    return {
        name: Release(step=name, value=value, noise_std=1.0, noise="exact", event=Event(noise_multiplier=1.0))
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


@pytest.mark.parametrize(("schema", "classes"), [(PEOPLE, 2), (UNLABELLED, 1), (PICTURES, 2)])
def test_three_questions_are_asked_once_each_with_a_bound_of_one(schema: Schema, classes: int) -> None:
    method = hermite(schema, product_noise=2.0)
    counts, sums, products = method.questions(schema).values()
    assert isinstance(counts, ClassCount)
    assert isinstance(sums, PerClass)
    assert isinstance(products, PerClass)
    assert isinstance(sums.inner, SumKernel)
    assert isinstance(products.inner, ProductKernel)
    assert counts.shape[0] == sums.shape[0] == products.shape[0] == classes
    steps = method.plan(schema)
    assert [step.name for step in steps] == STEPS
    assert [step.relative_noise for step in steps] == [5.0, 1.0, 2.0]
    assert all((step.count, step.sample_rate) == (1, 1.0) and 0 < step.norm_bound <= 1 for step in steps)


def test_the_budget_is_split_by_the_shares_and_never_passed() -> None:
    method = hermite(product_noise=2.0, count_noise=10.0)
    plan = make_plan(method.plan(PEOPLE), Budget(epsilon=1.0, delta=1e-5, adjacency=Adjacency.REPLACE_ONE))
    counts, sums, products = (plan.step(name).event.noise_multiplier for name in STEPS)
    assert (counts / sums, products / sums) == (pytest.approx(10.0), pytest.approx(2.0))
    assert plan.epsilon(1e-5) == pytest.approx(1.0, abs=1e-3)
    assert plan.epsilon(1e-5) <= 1.0


def test_the_products_of_a_record_are_in_the_row_of_its_class_alone() -> None:
    """The published code of the tabular runs adds every record to every class, which its noise does not cover."""
    products = hermite().questions(PEOPLE)["product-embedding"]
    one = products.clipped_sum(torch.zeros(1, PEOPLE.inputs, dtype=torch.float64), torch.tensor([1]))
    assert not one[0].any()
    assert 0.3 < float(one[1].norm()) <= 1


def test_without_subsets_there_is_no_product_release() -> None:
    method = hermite(subsets=0)
    assert [step.name for step in method.plan(PEOPLE)] == STEPS[:2]
    method.train(PEOPLE, answers(method, PEOPLE), Context())


def test_tables_of_categories_alone_are_charged_less() -> None:
    schema = EDGES["categories"]
    assert all(step.nonnegative for step in hermite(schema).plan(schema))
    assert [step.nonnegative for step in hermite().plan(PEOPLE)] == [True, False, False]


def test_subsets_follow_the_seed_and_nothing_else() -> None:
    one, two, other = (
        make.questions(PICTURES)["product-embedding"].inner.subsets  # type: ignore[attr-defined]
        for make in (hermite(PICTURES), hermite(PICTURES), hermite(PICTURES, feature_seed=1))
    )
    assert one == two
    assert one != other


def test_asking_names_exactly_the_settings_that_change_plan_or_questions() -> None:
    assert set(hermite().to_mapping()) - set(hermite().asking()) == {"product_weight", "training", "generator"}


# -- settings and tables at the edge ---------------------------------------------------------------------------------


def test_images_and_tables_have_their_own_defaults_and_settings_come_on_top() -> None:
    table, image, single = (DPHP().suited_to(each) for each in (PEOPLE, PICTURES, EDGES["one number"]))
    assert table == DPHP()
    assert image.product_columns > table.product_columns
    assert image.product_order < table.product_order
    large = DPHP().suited_to(tiny.schema(tiny.PICTURES.replace("8", "28")))
    assert (image.product_square, large.product_square) == (1, 4)
    assert single.subsets == 0
    assert hermite(PICTURES, subsets=3).subsets == 3


def test_settings_survive_a_round_trip_through_plain_values() -> None:
    method = hermite(**{"length_scale": 0.25, "generator.latent": 3})
    assert DPHP.from_mapping(method.to_mapping()) == method


@pytest.mark.parametrize("name", EDGES)
@pytest.mark.parametrize("settings", [{}, {"product_columns": 50, "subsets": 3}, {"order": 0, "product_order": 0}])
def test_every_kind_of_table_works(name: str, settings: dict[str, object]) -> None:
    schema = EDGES[name]
    method = hermite(schema, **settings)
    sampler = method.train(schema, answers(method, schema), Context())
    (drawn,) = sampler.records(30, seed=0)
    assert drawn.inputs.shape == (30, schema.inputs)
    assert torch.isfinite(drawn.inputs).all()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"order": -1}, "from 0 to 1000"),
        ({"product_order": 1001}, "from 0 to 1000"),
        ({"order": 2.5}, "whole number"),
        ({"length_scale": 0}, "length scales"),
        ({"product_length_scale": "nan"}, "finite"),
        ({"product_length_scale": 1e9}, "length scales"),
        ({"product_columns": 0}, "product_columns"),
        ({"subsets": -1}, "subsets"),
        ({"product_square": 0}, "product_square"),
        ({"product_noise": 0}, "positive"),
        ({"count_noise": -1}, "positive"),
        ({"product_weight": 0}, "positive"),
        ({"feature_seed": -1}, "feature_seed"),
        ({"orders": 3}, 'did you mean "order"'),
    ],
)
def test_a_bad_setting_is_refused(settings: dict[str, object], says: str) -> None:
    with pytest.raises(SettingError, match=says):
        hermite(**settings)


@pytest.mark.parametrize("settings", [{"product_columns": 12, "product_order": 5}, {"product_columns": 60}])
def test_products_that_do_not_fit_are_refused_before_anything_is_built_or_spent(settings: dict[str, object]) -> None:
    method = hermite(PICTURES, **settings)
    with pytest.raises(SettingError, match="lower product_order, product_columns or subsets"):
        method.plan(PICTURES)


def test_an_order_that_does_not_fit_is_refused_before_anything_is_built_or_spent() -> None:
    schema = tiny.schema(tiny.PICTURES.replace("8", "1024"))
    with pytest.raises(SettingError, match="lower order"):
        hermite(schema, order=500).plan(schema)


# -- training --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("schema", [PEOPLE, UNLABELLED, PICTURES], ids=["labelled", "unlabelled", "images"])
def test_the_same_releases_and_seed_give_the_same_sampler(schema: Schema) -> None:
    method = hermite(schema)
    releases = answers(method, schema)
    torch.manual_seed(1)
    one = method.train(schema, releases, Context(seed=4))
    torch.manual_seed(2)
    assert_same(one, method.train(schema, releases, Context(seed=4)))


def test_fit_is_post_processing_of_what_it_was_answered() -> None:
    method = hermite()
    releases = answers(method, PEOPLE)
    assert isinstance(method, ReleaseOnce)
    assert list(method.questions(PEOPLE)) == STEPS
    assert_same(method.fit(PEOPLE, lambda questions: releases, Context()), method.train(PEOPLE, releases, Context()))


@pytest.mark.parametrize("schema", [PEOPLE, PICTURES], ids=["table", "images"])
def test_the_loss_goes_down(schema: Schema) -> None:
    method = hermite(schema, **{"training.steps": 80, "training.batch": 200})
    context = Context()
    method.train(schema, answers(method, schema), context)
    assert context.curve[-1][1] < 0.5 * context.curve[0][1]


@pytest.mark.parametrize("counts", [[-40.0, 80.0], [0.0, 80.0], [-5.0, -7.0]])
def test_noise_that_makes_counts_negative_does_no_harm(counts: list[float]) -> None:
    method = hermite()
    sampler = method.train(PEOPLE, answers(method, PEOPLE, counts), Context())
    assert sampler.class_shares.sum() == pytest.approx(1.0)
    assert all(torch.isfinite(value.float()).all() for value in parameters(sampler).values())


def test_a_generator_learns_an_association_from_products_that_sums_do_not_show() -> None:
    """Two columns that always agree, each evenly spread: only the products tell."""
    schema = table(COLOUR, FLAG, Boolean(name="e"))
    random = torch.Generator().manual_seed(0)
    signs = torch.randint(0, 2, (4000, 1), generator=random).double() - 0.5
    inputs = torch.cat([torch.zeros(4000, 1).double(), signs, signs], dim=1)
    labels = torch.zeros(4000, dtype=torch.int64)

    def agreement(subsets: int) -> float:
        settings = {"subsets": subsets, "training.steps": 200, "training.learning_rate": 0.02, "generator.hidden": "32"}
        method = hermite(schema, **settings)
        releases = {
            name: Release(
                step=name,
                value=each.clipped_sum(inputs, labels),
                noise_std=1.0,
                noise="exact",
                event=Event(noise_multiplier=1.0),
            )
            for name, each in method.questions(schema).items()
        }
        (drawn,) = method.train(schema, releases, Context()).records(2000, seed=0)
        return float((drawn.inputs[:, 1].sign() == drawn.inputs[:, 2].sign()).float().mean())

    assert agreement(3) > 0.9
    assert agreement(0) < 0.75


def test_the_joint_loss_is_the_weighted_sum_of_its_parts() -> None:
    one, two = torch.randn(2, 3), torch.randn(2, 5)
    kernels = hermite()._kernels(PEOPLE)
    joint = Joint([(kernels[0][1], 1.0), (kernels[1][1], 4.0)])
    assert joint.side_by_side([one, two]).square().sum() == pytest.approx(
        float(one.square().sum() + 4 * two.square().sum()), rel=1e-5
    )


@pytest.mark.parametrize("schema", [PEOPLE, PICTURES], ids=["table", "images"])
def test_a_resumed_training_equals_an_uninterrupted_one_bit_for_bit(schema: Schema, tmp_path: Path) -> None:
    method = hermite(schema, **{"training.steps": 30})
    releases = answers(method, schema)

    def stop(step: int, steps: int, loss: float) -> None:
        if step == 17:
            raise KeyboardInterrupt

    expected = method.train(schema, releases, Context(seed=3))
    method.train(schema, releases, Context(seed=3, checkpoint=tmp_path, on_step=stop))
    assert_same(method.train(schema, releases, Context(seed=3, checkpoint=tmp_path)), expected)

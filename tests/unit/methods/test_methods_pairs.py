"""Pairs: what it plans and asks, consistency of noisy tables, and that training is post-processing of releases."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import tiny
import torch

import simulacra
from simulacra.errors import SchemaError, SettingError
from simulacra.features.combine import ClassCount
from simulacra.features.groups import Groups
from simulacra.features.pairs import PairLayout, Pairs
from simulacra.generators.sampler import Sampler
from simulacra.methods import make_method
from simulacra.methods.base import Context
from simulacra.methods.pairs import AllPairs, LabelWeighted, consistent
from simulacra.privacy.accountant import Event
from simulacra.privacy.release import Release
from simulacra.schema import Boolean, Categorical, Numeric, Schema

PEOPLE, UNLABELLED, PICTURES = map(tiny.schema, (tiny.PEOPLE, tiny.UNLABELLED, tiny.PICTURES))
QUICK = {"training.steps": 5, "training.batch": 40, "generator.hidden": "16"}
SHAPES = {
    "one-column": Schema(columns=(Numeric(name="x", lower=0, upper=1),)),
    "one-constant-column": Schema(columns=(Categorical(name="x", values=("only",)),)),
    "one-column-and-label": Schema(columns=(Boolean(name="x"), Boolean(name="y")), label="y"),
    "constant-column": Schema(columns=(Categorical(name="x", values=("only",)), Boolean(name="y")), label="y"),
    "categorical": Schema(columns=tuple(Categorical(name=n, values=("a", "b", "c")) for n in "pqr"), label="p"),
    "numeric": Schema(columns=tuple(Numeric(name=n, lower=-1, upper=1) for n in "pq")),
    "labelled": PEOPLE,
    "unlabelled": UNLABELLED,
}


def pairs(schema: Schema = PEOPLE, **settings: object) -> AllPairs:
    method = make_method("pairs", {**QUICK, **settings}, schema)
    assert isinstance(method, AllPairs)
    return method


def answers(method: AllPairs, schema: Schema, counts: list[float] | None = None) -> dict[str, Release]:
    """Releases as the vault would give them, from invented records."""
    random = torch.Generator().manual_seed(0)
    classes = torch.tensor(counts or [30.0] * schema.classes, dtype=torch.float64)
    inputs = torch.rand(int(classes.clamp(min=0).sum()), schema.inputs, generator=random, dtype=torch.float64) * 2 - 1
    labels = torch.repeat_interleave(torch.arange(schema.classes), classes.clamp(min=0).long())
    values = {"class-counts": classes, "pairs": method.questions(schema)["pairs"].clipped_sum(inputs, labels)}
    return {
        name: Release(step=name, value=value, noise_std=1.0, noise="exact", event=Event(noise_multiplier=1.0))
        for name, value in values.items()
    }


def parameters(sampler: Sampler) -> dict[str, torch.Tensor]:
    return {**sampler.generator.state_dict(), "class_shares": sampler.class_shares}


def true_tables(layout: PairLayout, rows: int = 400) -> tuple[torch.Tensor, torch.Tensor]:
    """The cross tables of invented rows, and the counts of their last column."""
    random = torch.Generator().manual_seed(2)
    drawn = [torch.randint(size, (rows,), generator=random) // (1 + torch.randint(2, (rows,))) for size in layout.sizes]
    columns = [torch.nn.functional.one_hot(cell, size).double() for cell, size in zip(drawn, layout.sizes, strict=True)]
    values = torch.zeros(layout.numbers, dtype=torch.float64)
    for (i, j), table in layout.tables(values).items():
        table.copy_(columns[i].T @ columns[j])
    if len(columns) == 1:
        values = columns[0].sum(dim=0)
    return values, columns[-1].sum(dim=0)


def test_the_plan_has_counts_and_the_tables_of_all_pairs() -> None:
    counts, tables = pairs().plan(PEOPLE)
    assert (counts.name, counts.size, counts.nonnegative, counts.relative_noise) == ("class-counts", 2, True, 5.0)
    cells = [column.cells for column in PEOPLE.columns]
    assert (tables.name, tables.size) == ("pairs", (sum(cells) ** 2 - sum(size**2 for size in cells)) // 2)
    assert (tables.norm_bound, tables.nonnegative, tables.relative_noise) == (1.0, True, 1.0)


def test_the_questions_are_counts_and_pairs() -> None:
    counts, tables = pairs().questions(PEOPLE).values()
    assert isinstance(counts, ClassCount)
    assert isinstance(tables, Pairs)


def test_images_are_refused() -> None:
    with pytest.raises(SchemaError, match="pairs is for tables"):
        pairs(PICTURES)


def test_asking_names_exactly_the_settings_that_change_plan_or_questions() -> None:
    assert set(pairs().asking()) == {"count_noise"}


@pytest.mark.parametrize("schema", SHAPES.values(), ids=SHAPES)
def test_it_trains_on_every_kind_of_table(schema: Schema) -> None:
    method = pairs(schema)
    sampler = method.train(schema, answers(method, schema), Context())
    (drawn,) = sampler.records(20, seed=0)
    assert drawn.inputs.shape == (20, schema.inputs)
    assert torch.isfinite(drawn.inputs).all()


def test_from_a_frame_to_rows_with_a_column_that_is_missing_throughout(tmp_path: Path) -> None:
    frame = tiny.people()
    frame["income"] = None
    run = simulacra.fit(
        frame,
        schema=PEOPLE,
        method="pairs",
        epsilon=1.0,
        delta=1e-5,
        adjacency="replace-one",
        out=tmp_path / "run",
        ledger=tmp_path / "pairs.ledger",
        settings=QUICK,
    )
    assert run.verify().ok
    assert len(run.sample(30, seed=0)) == 30


@pytest.mark.parametrize("counts", [[-40.0, 80.0], [0.0, 80.0], [-5.0, -7.0]])
def test_a_class_without_records_does_no_harm(counts: list[float]) -> None:
    method = pairs()
    sampler = method.train(PEOPLE, answers(method, PEOPLE, counts), Context())
    assert (sampler.class_shares > 0).all()
    assert all(torch.isfinite(value.float()).all() for value in parameters(sampler).values())


def test_the_same_releases_and_seed_give_the_same_sampler() -> None:
    method = pairs()
    releases = answers(method, PEOPLE)
    one, two = (parameters(method.train(PEOPLE, releases, Context(seed=4))) for _ in range(2))
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_the_loss_goes_down() -> None:
    method = pairs(**{"training.steps": 80, "training.batch": 200})
    context = Context()
    method.train(PEOPLE, answers(method, PEOPLE), context)
    losses = [loss for _, loss in context.curve]
    assert losses[-1] < 0.7 * losses[0]


def test_a_column_that_follows_another_is_learned() -> None:
    schema = Schema(columns=tuple(Categorical(name=n, values=("a", "b", "c")) for n in "pqr"), label="r")
    method = pairs(schema, **{"training.steps": 200, "training.batch": 300})
    cells = torch.arange(900) % 3
    inputs = (2 * cells.double().unsqueeze(1).expand(-1, 2) + 1) / 3 - 1  # q is p, and the label too
    releases = answers(method, schema, [300.0] * 3)
    tables = method.questions(schema)["pairs"].clipped_sum(inputs, cells)
    releases["pairs"] = Release(
        step="pairs", value=tables, noise_std=1.0, noise="exact", event=Event(noise_multiplier=1.0)
    )
    (drawn,) = method.train(schema, releases, Context()).records(300, seed=0)
    index = Pairs(schema).cells.index(drawn.inputs)
    agree = (index == drawn.labels.unsqueeze(1)).float().mean()
    assert agree > 0.9


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"count_noise": 0}, "positive"),
        ({"label_weight": 0}, "positive"),
        ({"label_weight": -1}, "positive"),
        ({"training.steps": 0}, "steps"),
        ({"label_weigth": 3}, 'did you mean "label_weight"'),
    ],
)
def test_a_bad_setting_is_refused_before_anything_is_asked(settings: dict[str, object], says: str) -> None:
    with pytest.raises(SettingError, match=says):
        pairs(**settings).plan(PEOPLE)


def test_columns_that_are_too_wide_are_refused_by_the_plan() -> None:
    wide = tuple(Numeric(name=f"x{i}", lower=0, upper=1, bins=4096) for i in range(9))
    with pytest.raises(SettingError, match="fewer bins"):
        pairs().plan(Schema(columns=wide))


def test_released_and_generated_tables_are_on_the_same_scale() -> None:
    feature_map = Pairs(PEOPLE)
    random = torch.Generator().manual_seed(3)
    inputs = torch.rand(50, PEOPLE.inputs, generator=random, dtype=torch.float64) * 2 - 1
    groups = Groups(sizes=(20, 30), weights=torch.ones(2, dtype=torch.float64))
    weighted = LabelWeighted(feature_map, 7.0)
    generated = weighted.class_sums(feature_map.cells.one_hot(inputs), groups)
    torch.testing.assert_close(weighted.scaled(feature_map.clipped_sum(inputs, groups.labels)), generated)


# -- consistency --------------------------------------------------------------------------------------------------

LAYOUTS = pytest.mark.parametrize("sizes", [(4, 1, 3, 2), (5, 2), (6,), (1, 1)], ids=str)


@LAYOUTS
@pytest.mark.parametrize("whole", [True, False], ids=["counts of the last column", "the total alone"])
def test_consistent_tables_are_left_as_they_are(sizes: tuple[int, ...], whole: bool) -> None:
    layout = PairLayout(sizes)
    values, last = true_tables(layout)
    found, total, label = consistent(layout, values, last if whole else last.sum().unsqueeze(0), noise=0.3)
    torch.testing.assert_close(found, values)
    torch.testing.assert_close(label, last)
    assert math.isclose(float(total), 400)


@LAYOUTS
def test_afterwards_all_tables_agree(sizes: tuple[int, ...]) -> None:
    layout = PairLayout(sizes)
    values, last = true_tables(layout)
    random = torch.Generator().manual_seed(1)
    noisy = values + 20 * torch.randn(values.shape, generator=random, dtype=torch.float64)
    found, total, label = consistent(layout, noisy, last + 5, noise=0.3)
    tables = layout.tables(found)
    for (i, j), table in tables.items():
        torch.testing.assert_close(table.sum(), total)
        for (a, b), other in tables.items():
            if i == a:
                torch.testing.assert_close(table.sum(dim=1), other.sum(dim=1))
            if j == a:
                torch.testing.assert_close(table.sum(dim=0), other.sum(dim=1))
            if j == b:
                torch.testing.assert_close(table.sum(dim=0), other.sum(dim=0))
        if j == len(sizes) - 1:
            torch.testing.assert_close(table.sum(dim=0), label)


def test_it_is_the_least_squares_projection() -> None:
    """Against a solver that knows nothing of tables: the projection onto what all joint distributions span."""
    layout = PairLayout((3, 2, 4))
    random = torch.Generator().manual_seed(4)
    noisy = 10 * torch.randn(layout.numbers, generator=random, dtype=torch.float64)
    counts = 10 * torch.randn(4, generator=random, dtype=torch.float64)
    joint = torch.cartesian_prod(*(torch.arange(size) for size in layout.sizes))
    columns = [torch.nn.functional.one_hot(joint[:, k], size).double() for k, size in enumerate(layout.sizes)]
    design = torch.zeros(len(joint), layout.numbers, dtype=torch.float64)
    for row in range(len(joint)):
        for (i, j), table in layout.tables(design[row]).items():
            table.copy_(torch.outer(columns[i][row], columns[j][row]))
    noise = 0.4
    looks = torch.cat([design, columns[2] / noise], dim=1).T
    seen = torch.cat([noisy, counts / noise])
    solved = torch.linalg.lstsq(looks, seen, driver="gelsd").solution
    found, _, label = consistent(layout, noisy, counts, noise=noise)
    torch.testing.assert_close(found, design.T @ solved)
    torch.testing.assert_close(label, columns[2].T @ solved)


def test_it_brings_noisy_tables_nearer_to_the_truth() -> None:
    layout = PairLayout((4, 6, 3, 5, 2))
    values, last = true_tables(layout)
    random = torch.Generator().manual_seed(9)
    before, after, label_before, label_after = 0.0, 0.0, 0.0, 0.0
    for _ in range(50):
        noisy = values + 10 * torch.randn(values.shape, generator=random, dtype=torch.float64)
        counts = last + 5 * torch.randn(2, generator=random, dtype=torch.float64)
        found, _, label = consistent(layout, noisy, counts, noise=0.5)
        before += float((noisy - values).square().sum())
        after += float((found - values).square().sum())
        label_before += float((counts - last).square().sum())
        label_after += float((label - last).square().sum())
    assert after < 0.85 * before
    assert label_after < label_before

"""Pairs: what it plans and asks, and that training is post-processing of releases."""

from __future__ import annotations

from pathlib import Path

import pytest
import tiny
import torch

import simulacra
from simulacra.errors import SchemaError, SettingError
from simulacra.features.pairs import Columns, Pairs
from simulacra.generators.sampler import Sampler
from simulacra.methods import make_method
from simulacra.methods.base import Context
from simulacra.methods.pairs import AllPairs
from simulacra.privacy.accountant import Event
from simulacra.privacy.release import Release
from simulacra.schema import Boolean, Categorical, Numeric, Schema

PEOPLE, UNLABELLED, PICTURES = map(tiny.schema, (tiny.PEOPLE, tiny.UNLABELLED, tiny.PICTURES))
FIELD = {"fitting.steps": 5, "fitting.rows": 40}
NETWORK = {"training.steps": 5, "training.batch": 40, "generator.hidden": "16"}
KINDS = pytest.mark.parametrize("kind", ["markov", "auto"])
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
    quick = FIELD if settings.get("generator.kind", "markov") == "markov" else NETWORK
    method = make_method("pairs", {**quick, **settings}, schema)
    assert isinstance(method, AllPairs)
    return method


def answers(method: AllPairs, schema: Schema, counts: list[float] | None = None) -> dict[str, Release]:
    """Releases as the vault would give them, from invented records."""
    random = torch.Generator().manual_seed(0)
    classes = torch.tensor(counts or [30.0] * schema.classes, dtype=torch.float64)
    inputs = torch.rand(int(classes.clamp(min=0).sum()), schema.inputs, generator=random, dtype=torch.float64) * 2 - 1
    labels = torch.repeat_interleave(torch.arange(schema.classes), classes.clamp(min=0).long())
    return released(method, schema, inputs, labels)


def released(
    method: AllPairs, schema: Schema, inputs: torch.Tensor, labels: torch.Tensor, noise: float = 0.1
) -> dict[str, Release]:
    random = torch.Generator().manual_seed(1)
    found = {}
    for name, question in method.questions(schema).items():
        value = question.clipped_sum(inputs, labels)
        value = value + noise * torch.randn(value.shape, generator=random, dtype=torch.float64)
        found[name] = Release(
            step=name, value=value, noise_std=noise, noise="exact", event=Event(noise_multiplier=noise or None)
        )
    return found


def parameters(sampler: Sampler) -> dict[str, torch.Tensor]:
    return {**sampler.generator.state_dict(), "class_shares": sampler.class_shares}


def test_the_plan_has_all_columns_and_the_tables_of_all_pairs() -> None:
    columns, tables = pairs().plan(PEOPLE)
    cells = [column.cells for column in PEOPLE.columns]
    assert (columns.name, columns.size, columns.norm_bound) == ("columns", sum(cells), 1.0)
    assert (columns.nonnegative, columns.relative_noise) == (True, 3.0)
    assert (tables.name, tables.size) == ("pairs", (sum(cells) ** 2 - sum(size**2 for size in cells)) // 2)
    assert (tables.norm_bound, tables.nonnegative, tables.relative_noise) == (1.0, True, 1.0)


def test_the_questions_are_columns_and_pairs() -> None:
    columns, tables = pairs().questions(PEOPLE).values()
    assert isinstance(columns, Columns)
    assert isinstance(tables, Pairs)


def test_images_are_refused() -> None:
    with pytest.raises(SchemaError, match="pairs is for tables"):
        pairs(PICTURES)


def test_asking_names_exactly_the_settings_that_change_plan_or_questions() -> None:
    assert set(pairs().asking()) == {"column_noise", "label_share"}


@KINDS
@pytest.mark.parametrize("schema", SHAPES.values(), ids=SHAPES)
def test_it_trains_on_every_kind_of_table(schema: Schema, kind: str) -> None:
    method = pairs(schema, **{"generator.kind": kind})
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
        settings=FIELD,
    )
    assert run.verify().ok
    assert len(run.sample(30, seed=0)) == 30


@KINDS
@pytest.mark.parametrize("counts", [[0.0, 80.0], [0.0, 0.0]])
def test_a_class_without_records_does_no_harm(counts: list[float], kind: str) -> None:
    method = pairs(**{"generator.kind": kind})
    sampler = method.train(PEOPLE, answers(method, PEOPLE, counts), Context())
    assert (sampler.class_shares > 0).all()
    assert all(torch.isfinite(value.float()).all() for value in parameters(sampler).values())


@pytest.mark.parametrize("schema", SHAPES.values(), ids=SHAPES)
def test_records_per_class_are_read_off_the_columns_of_the_release(schema: Schema) -> None:
    method = pairs(schema)
    counts = [30.0 + 10 * number for number in range(schema.classes)]
    found = method.counted(schema, answers(method, schema, counts))
    assert found is not None
    assert found.tolist() == pytest.approx(counts, abs=5)
    assert method.counted(schema, {}) is None


@KINDS
def test_the_same_releases_and_seed_give_the_same_sampler(kind: str) -> None:
    method = pairs(**{"generator.kind": kind})
    releases = answers(method, PEOPLE)
    one, two = (parameters(method.train(PEOPLE, releases, Context(seed=4))) for _ in range(2))
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_the_loss_of_a_network_goes_down() -> None:
    method = pairs(**{"generator.kind": "auto", "training.steps": 80, "training.batch": 200})
    context = Context()
    method.train(PEOPLE, answers(method, PEOPLE), context)
    losses = [loss for _, loss in context.curve]
    assert losses[-1] < 0.7 * losses[0]


@pytest.mark.parametrize(
    "settings",
    [
        {"fitting.steps": 200, "fitting.rows": 1000},
        {"generator.kind": "auto", "training.steps": 200, "training.batch": 300},
    ],
    ids=["markov", "network"],
)
def test_a_column_that_follows_another_is_learned(settings: dict[str, object]) -> None:
    schema = Schema(columns=tuple(Categorical(name=n, values=("a", "b", "c")) for n in "pqr"), label="r")
    method = pairs(schema, **settings)
    cells = torch.arange(900) % 3
    inputs = (2 * cells.double().unsqueeze(1).expand(-1, 2) + 1) / 3 - 1  # q is p, and the label too
    sampler = method.train(schema, released(method, schema, inputs, cells), Context())
    (drawn,) = sampler.records(300, seed=0)
    agree = (Pairs(schema).cells.index(drawn.inputs) == drawn.labels.unsqueeze(1)).float().mean()
    assert agree > 0.9


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"column_noise": 0}, "positive"),
        ({"label_share": 0}, "label_share must be from"),
        ({"label_share": 1}, "label_share must be from"),
        ({"training.steps": 0, "generator.kind": "auto"}, "steps"),
        ({"training.steps": 7}, r"a random field is fitted: set fitting\.\*"),
        ({"fitting.steps": 0}, "steps"),
        ({"fitting.rows": 1}, "rows"),
        ({"fitting.spread": 0}, "fitting.spread must be"),
        ({"fitting.label_spread": 2000}, "label_spread"),
        ({"fitting.tilt_spread": 0}, "tilt_spread"),
        ({"fitting.tilt_reach": -1}, "tilt_reach"),
        ({"fitting.learning_rate": 2}, "learning_rate"),
        ({"label_shrae": 3}, 'did you mean "label_share"'),
    ],
)
def test_a_bad_setting_is_refused_before_anything_is_asked(settings: dict[str, object], says: str) -> None:
    with pytest.raises(SettingError, match=says):
        pairs(**settings).plan(PEOPLE)


def test_columns_that_are_too_wide_are_refused_by_the_plan() -> None:
    wide = tuple(Numeric(name=f"x{i}", lower=0, upper=1, bins=4096) for i in range(9))
    with pytest.raises(SettingError, match="fewer bins"):
        pairs().plan(Schema(columns=wide))


def test_one_column_too_wide_for_a_field_is_refused_by_the_plan_and_a_network_takes_it() -> None:
    town = Categorical(name="town", values=tuple(range(60_000)))
    schema = Schema(columns=(town, Boolean(name="ill")), label="ill")
    with pytest.raises(SettingError, match=r'"town" \(60,000 cells\)'):
        pairs(schema).plan(schema)
    assert pairs(schema, **{"generator.kind": "auto"}).plan(schema)


@pytest.mark.parametrize("method", ["dp-merf", "dp-ntk", "dp-hp", "dp-gan"])
def test_no_other_method_takes_the_field_and_says_so_before_anything_is_asked(method: str) -> None:
    with pytest.raises(SettingError, match="only pairs has the markov generator"):
        make_method(method, {"generator.kind": "markov"}, PEOPLE).plan(PEOPLE)

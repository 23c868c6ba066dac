"""Noise against signal, before anything is spent: the inequality behind the bound, the figures, and the words."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tiny
from hypothesis import given, settings
from hypothesis import strategies as st

from simulacra.methods import make_method
from simulacra.privacy.accountant import Event
from simulacra.privacy.budget import Adjacency, Budget
from simulacra.privacy.plan import Plan, make_plan, make_plan_without_privacy
from simulacra.privacy.query import Noise, Step
from simulacra.report.runs import write_report
from simulacra.schema import ImageShape, Schema
from simulacra.synthesis.forecasting import class_signal, forecast
from simulacra.synthesis.gauge import FAVOURABLE, Gauge, fold, gauge, percent_up

PEOPLE = tiny.schema(tiny.PEOPLE)
UNLABELLED = tiny.schema(tiny.UNLABELLED)
COUNTS = Step(name="counts", size=2, nonnegative=True, relative_noise=5.0)
EMBEDDING = Step(name="embedding", size=2000)
PRIOR = (Event(noise_multiplier=20.0, failure_delta=1e-7), Event(noise_multiplier=30.0, count=2))


def budget(epsilon: float = 1.0, adjacency: str = "add-remove") -> Budget:
    return Budget(epsilon=epsilon, delta=1e-5, adjacency=Adjacency(adjacency))


def one(**changed: Any) -> Gauge:
    values = {"name": "yes", "step": "embedding", "numbers": 100, "norm_bound": 2.0, "nonnegative": False}
    return Gauge(**(values | {"noise_std": 6.0, "records": 100.0} | changed))


@settings(max_examples=200, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    candidates=st.integers(1, 30),
    numbers=st.integers(1, 12),
    spread=st.floats(1e-3, 1e3),
    exact=st.booleans(),
)
def test_noise_never_adds_more_to_the_loss_than_the_bound(
    seed: int, candidates: int, numbers: int, spread: float, exact: bool
) -> None:
    random = np.random.default_rng(seed)
    target = random.normal(size=numbers)
    embeddings = random.normal(size=(candidates, numbers)) * spread
    if exact:
        embeddings[0] = target
    noise = random.normal(size=numbers) * random.exponential()
    distance = np.linalg.norm(embeddings - target, axis=1)
    chosen = distance[np.argmin(np.linalg.norm(embeddings - target - noise, axis=1))]
    best, length = distance.min(), np.linalg.norm(noise)
    assert chosen**2 - best**2 <= (4 * length**2 + 4 * length * best) * (1 + 1e-9) + 1e-9


@pytest.mark.parametrize("numbers", [1, 10, 1000])
def test_the_length_of_the_noise_is_what_the_gauge_says(numbers: int) -> None:
    told = one(numbers=numbers, records=1e6)
    drawn = np.random.default_rng(0).normal(size=(4000, numbers)) * told.noise_std / told.records
    squares = (drawn**2).sum(axis=1)
    # 4 |n|^2 against the largest squared distance, (2 B)^2.
    shares = 4 * squares / (2 * told.norm_bound) ** 2
    assert shares.mean() == pytest.approx(told.bound, rel=0.1)
    assert (shares <= told.bound_95).mean() >= 0.95
    assert replace(told, nonnegative=True).bound == pytest.approx(2 * told.bound)


@pytest.mark.parametrize("nonnegative", [False, True])
def test_mean_embeddings_are_no_further_apart_than_the_bound_assumes(nonnegative: bool) -> None:
    values = np.random.default_rng(0).normal(size=(2000, 2, 2)) ** 3
    values = np.abs(values) if nonnegative else values
    values /= np.maximum(1, np.linalg.norm(values, axis=2, keepdims=True))
    largest = np.linalg.norm(values[:, 0] - values[:, 1], axis=1).max()
    limit = math.sqrt(2) if nonnegative else 2.0
    assert 0.95 * limit < largest <= limit + 1e-12


def test_the_figures_of_one_class() -> None:
    told = one()
    assert (told.signal, told.noise, told.ratio) == (200.0, 60.0, pytest.approx(0.3))
    assert told.bound == pytest.approx(0.09)
    assert told.records_needed == 300
    assert told.records_beyond == 900
    assert not told.favourable
    assert replace(told, records=told.records_needed).favourable
    assert not replace(told, records=told.records_needed - 1).favourable
    # From there on, B^2 / m is no less than (s/m)^2 D.
    assert told.norm_bound**2 / 900 == pytest.approx((told.noise_std / 900) ** 2 * told.numbers)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("prior", [(), PRIOR], ids=["nothing before", "a bought schema"])
@pytest.mark.parametrize("records", [300.0, 20_000.0])
def test_planning_again_with_the_epsilon_needed_is_just_favourable(
    adjacency: str, prior: tuple[Event, ...], records: float
) -> None:
    before = tuple(replace(event, adjacency=Adjacency(adjacency)) for event in prior)
    steps = (COUNTS, EMBEDDING, Step(name="more", size=600, norm_bound=3.0, nonnegative=True, relative_noise=2.0))
    told = gauge(make_plan(steps, budget(2.0, adjacency), prior=before), PEOPLE, [records, records])[0]
    assert told.epsilon_needed is not None
    again = make_plan(steps, budget(told.epsilon_needed, adjacency), prior=before)
    assert gauge(again, PEOPLE, [records, records])[0].ratio == pytest.approx(FAVOURABLE, rel=0.01)
    assert (told.epsilon_needed > 2.0) == (told.ratio > FAVOURABLE)


def test_every_embedding_is_gauged_and_no_count() -> None:
    wide, odd = Step(name="wide", size=4000, norm_bound=2.0), Step(name="odd", size=401)
    plan = make_plan((COUNTS, EMBEDDING, wide, odd), budget())
    first, second = gauge(plan, PEOPLE, [1000.0, 3000.0])
    assert (first.name, first.step, first.numbers, second.name) == ("no", "wide", 2000, "yes")
    std = plan.step("embedding").noise_std
    assert first.others["embedding"] == pytest.approx(std * math.sqrt(1000) / 1000)
    assert first.others["odd"] == second.others["odd"] == pytest.approx(std * math.sqrt(401) / 4000)
    assert set(first.others) == {"embedding", "odd"}
    # Without one that is split by class, all records stand together; with counts alone, these are gauged.
    (together,) = gauge(make_plan((COUNTS, odd), budget()), PEOPLE, [1000.0, 3000.0])
    assert (together.name, together.records, together.numbers) == ("all records", 4000.0, 401)
    assert [(row.step, row.numbers) for row in gauge(make_plan((COUNTS,), budget()), PEOPLE, [9.0, 9.0])] == [
        ("counts", 1)
    ] * 2


def test_sampled_steps_leave_epsilon_open_and_loops_are_not_gauged() -> None:
    loop = Step(name="loop", size=90_000, sample_rate=0.1, count=2, noise=Noise.FAST)
    plan = Plan(
        steps=(*make_plan((EMBEDDING,), budget()).steps, *make_plan_without_privacy((loop,), budget().adjacency).steps),
        budget=budget(),
        adjacency=budget().adjacency,
    )
    told = gauge(plan, PEOPLE, [10.0, 10.0])[0]
    assert (told.step, told.epsilon_needed) == ("embedding", None)
    assert told.words().endswith("records")
    # Counts beside a loop say nothing about what the loop learns, however small their noise.
    for steps in ((loop,), (COUNTS, loop)):
        outlook = forecast(make_plan_without_privacy(steps, budget().adjacency), PEOPLE, [10.0, 10.0])
        assert outlook.to_json()["classes"] == []
        assert "Training loops" in outlook.lines()[-1]


def test_without_noise_nothing_is_needed() -> None:
    plan = make_plan_without_privacy((COUNTS, EMBEDDING), budget().adjacency)
    outlook = forecast(plan, PEOPLE, [1000.0, 1.0])
    for row in outlook.to_json()["classes"]:
        assert [row[key] for key in ("ratio", "bound", "records_needed", "records_beyond")] == [0, 0, 0, 0]
        assert row["epsilon_needed"] is None
    assert outlook.lines()[-2:] == ["  no:  no noise (1,000 records)", "  yes: no noise (1 record)"]


@pytest.mark.parametrize("rows", [1e-320, 0.5, 1.0, 1e6, 1e300, 1.7e308])
@pytest.mark.parametrize("epsilon", [1e-6, 1.0, 1e5])
@pytest.mark.parametrize("bound", [1e-6, 1.0, 1e200])
def test_json_is_finite_however_odd_the_figures(rows: float, epsilon: float, bound: float) -> None:
    plan = make_plan((COUNTS, replace(EMBEDDING, norm_bound=bound, noise=Noise.FAST)), budget(epsilon))
    outlook = forecast(plan, PEOPLE, [rows, rows])
    written = json.loads(json.dumps(outlook.to_json(), allow_nan=False))
    assert {"name", "records", "signal", "noise", "ratio"} <= set(written["classes"][0])
    assert {"bound", "records_needed", "epsilon_needed", "records_beyond"} <= set(written["classes"][0])
    assert not any(word in " ".join(outlook.lines()) for word in ("nan", "inf "))


def test_words_say_what_it_takes() -> None:
    assert one(epsilon_needed=3.0951).words() == (
        "noise is 0.3 of the largest signal (100 records): adds at most 9.0 % of the largest loss; "
        "favourable from 300 records, or at epsilon 3.1"
    )
    assert one(records=10.0, epsilon_needed=math.inf).words() == (
        "noise is 3 of the largest signal (10 records): nothing is assured; "
        "favourable from 300 records; no epsilon below 100 would do"
    )
    close = one(records=500.0, epsilon_needed=0.5).words()
    assert close.endswith("favourable already; sampling error can outweigh it from 900 records")
    assert one(records=900.0).words().endswith("favourable already, and sampling error can outweigh it")
    assert one(epsilon_needed=100.5).words().endswith("no epsilon below 100 would do")
    assert one(others={"pairs": 0.1234}).words().endswith("favourable from 300 records [pairs: 0.123]")
    assert "(0.5 records)" in one(records=0.5).words()


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.0, "0 %"), (1e-9, "0.01 %"), (0.0024, "0.24 %"), (0.01, "1.0 %"), (0.0901, "9.1 %"), (0.1156, "12 %")],
)
def test_a_bound_is_rounded_up(share: float, text: str) -> None:
    assert percent_up(share) == text


def test_lines_are_aligned_and_ten_equal_classes_are_one() -> None:
    plan = make_plan((COUNTS, EMBEDDING), budget())
    no, yes = (line for line in forecast(plan, PEOPLE, [100.0, 50_000.0]).lines() if line.startswith("  "))
    assert no.index("noise is") == yes.index("noise is")
    digits = Schema(image=ImageShape(height=2, width=2, classes=tuple("abcdefghijkl")))
    plan = make_plan((Step(name="embedding", size=1200),), budget())
    told = forecast(plan, digits, [500.0] * 12).lines()
    assert sum(line.startswith("  each of the 12 classes: noise is") for line in told) == 1
    assert not any(line.startswith("  a:") for line in told)
    names = [name for name, _ in fold(gauge(plan, digits, [7.0, *[500.0] * 11]))]
    assert names == ["a", "each of 11 classes (b, c, ...)"]


def test_a_schema_without_a_label_has_one_line() -> None:
    plan = make_plan((replace(COUNTS, size=1), EMBEDDING), budget())
    (told,) = gauge(plan, UNLABELLED, [1.0])
    assert (told.name, told.numbers) == ("all records", 2000)
    assert any(line.startswith("  all records: noise is") for line in forecast(plan, UNLABELLED, [1.0]).lines())
    assert "--rows N" in forecast(plan, UNLABELLED, None).lines()[-1]


def test_the_command_line_shows_it(cli: tiny.Cli, table: Any) -> None:
    words = ("plan", "--schema", "schema.toml", "--epsilon", "1", *tiny.QUICK, "--class-rows", "50,5000")
    shown = cli(*words).out
    assert "nothing is assured; favourable from" in shown or "of the largest loss; favourable from" in shown
    assert "favourable already" in shown
    row = cli(*words, "--json").json["forecast"]["classes"][0]
    assert row["ratio"] * row["records"] / FAVOURABLE == pytest.approx(row["records_needed"], abs=1)
    needed = cli(*words[:4], row["epsilon_needed"], *words[5:], "--json").json["forecast"]["classes"][0]
    assert needed["ratio"] == pytest.approx(FAVOURABLE, rel=0.01)


def test_a_report_says_it_from_the_noisy_counts(trained: Any) -> None:
    from simulacra.synthesis.run import Run

    run = Run.load(trained)
    page = write_report(run).read_text(encoding="utf-8")
    counts = run.releases["class-counts"].value.tolist()
    for name, words in fold(class_signal(Plan.from_json(run.certificate), counts, run.schema)):
        assert f"<strong>{name}</strong>: {words}." in page
    assert 'class="threshold"' in page


def test_what_is_of_all_classes_is_held_against_all_records_whatever_its_size() -> None:
    """2,000 numbers can be split between two classes by chance."""
    plan = make_plan([COUNTS, EMBEDDING], budget())
    apart, together = (gauge(plan, PEOPLE, [100.0, 300.0], of_all=of_all) for of_all in ((), ("embedding",)))
    assert [one.name for one in apart] == list(PEOPLE.class_names)
    assert [(one.name, one.numbers, one.records) for one in together] == [("all records", 2000, 400.0)]


@pytest.mark.parametrize(
    ("method", "settings", "named"),
    [
        ("pairs", {}, {"columns", "pairs"}),
        ("hybrid", {}, {"pairs-columns", "pairs-pairs"}),
        ("hybrid", {"parts": "dp-merf", "shares": "1"}, set()),
        ("dp-merf", {}, set()),
        ("dp-gan", {}, set()),
    ],
)
def test_methods_say_which_of_their_answers_are_of_all_classes(
    method: str, settings: dict[str, Any], named: set[str]
) -> None:
    made = make_method(method, settings, PEOPLE)
    assert made.of_all_classes(PEOPLE) == named
    assert named <= {step.name for step in made.plan(PEOPLE)}

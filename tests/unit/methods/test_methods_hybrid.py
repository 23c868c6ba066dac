"""Hybrid: the parts' own questions, one set of counts, a stated split, and a loss that counts parts by their noise."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import tiny
import torch

import simulacra
from simulacra.errors import SchemaError, SettingError
from simulacra.features.groups import Groups
from simulacra.features.joint import Joint
from simulacra.methods import make_method
from simulacra.methods.base import ReleaseOnce
from simulacra.methods.hybrid import Hybrid
from simulacra.privacy.accountant import Event
from simulacra.privacy.budget import Adjacency, Budget
from simulacra.privacy.plan import make_plan
from simulacra.privacy.release import Release
from simulacra.schema import ImageShape, Schema

TABLE = tiny.schema(tiny.PEOPLE)
IMAGES = Schema(image=ImageShape(height=8, width=8, classes=("a", "b")))


def hybrid(schema: Schema, **settings: Any) -> Hybrid:
    made = make_method("hybrid", settings, schema)
    assert isinstance(made, Hybrid)
    return made


def release(step: str, value: torch.Tensor, noise_std: float = 1.0) -> Release:
    return Release(step=step, value=value, noise_std=noise_std, noise="none", event=Event(noise_multiplier=1.0))


def test_it_asks_what_its_parts_ask_and_counts_once() -> None:
    asked = hybrid(IMAGES, parts=("dp-merf", "dp-ntk"), shares=(1, 1), details=()).questions(IMAGES)
    assert list(asked) == ["class-counts", "dp-merf-embedding", "dp-ntk-embedding"]
    alone = make_method("dp-merf", {}, IMAGES)
    assert isinstance(alone, ReleaseOnce)
    assert asked["dp-merf-embedding"].shape == alone.questions(IMAGES)["embedding"].shape


def test_a_share_is_of_the_cost() -> None:
    """What Gaussian noise costs goes with the inverse square of its multiplier."""
    whole = hybrid(IMAGES, shares=(0.25, 1.0))
    plan = make_plan(whole.plan(IMAGES), Budget(epsilon=1.0, delta=1e-5, adjacency=Adjacency.ADD_REMOVE))
    multiplier = {planned.step.name: planned.event.noise_multiplier for planned in plan.steps}
    cost = {name: 1 / value**2 for name, value in multiplier.items()}
    assert cost["moments-moments"] == pytest.approx(0.25 * cost["dp-merf-embedding"])
    assert cost["class-counts"] == pytest.approx(cost["dp-merf-embedding"] / 25)


def test_parts_keep_their_own_split() -> None:
    """Pairs asks for single columns with three times the noise; a share changes both alike."""
    noise = hybrid(TABLE, shares=(4.0, 1.0)).noise_shares(TABLE)
    assert noise["pairs-pairs"] == pytest.approx(0.5)
    assert noise["pairs-columns"] == pytest.approx(1.5)
    assert noise["dp-merf-embedding"] == 1


def test_details_reach_the_parts_and_the_seed_all_of_them() -> None:
    made = hybrid(IMAGES, details=("dp-merf.pairs=7", "moments.radius=0.4"), feature_seed=3)
    parts = made._methods(IMAGES)
    assert vars(parts["dp-merf"])["pairs"] == 7
    assert vars(parts["dp-merf"])["feature_seed"] == 3
    assert vars(parts["moments"])["radius"] == 0.4


def test_details_that_fit_together_are_taken_together_and_lists_have_colons() -> None:
    weights = ("moments.count_weight=0.95", "moments.mean_weight=0.1")
    assert vars(hybrid(IMAGES, details=weights)._methods(IMAGES)["moments"])["count_weight"] == 0.95
    wide = hybrid(IMAGES, parts=("moments", "dp-ntk"), details=("dp-ntk.network=fc_2l", "dp-ntk.widths=30:20"))
    assert vars(wide._methods(IMAGES)["dp-ntk"])["widths"] == (30, 20)


def test_a_run_has_its_parts_settings_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a release is trained with the maps it was asked with, whatever the defaults become."""
    made = hybrid(IMAGES)
    assert "dp-merf.length_scales=0.5" in made.details
    assert "moments.radius=0.3" in made.details
    assert hybrid(IMAGES, **made.to_mapping()) == made
    genuine = Hybrid._methods

    def changed(self: Hybrid, schema: Schema) -> dict[str, ReleaseOnce]:
        with monkeypatch.context() as later:
            later.setattr("simulacra.methods.hybrid.BESIDE_OTHERS", {"dp-merf": {"length_scales": (9.0,)}})
            return genuine(self, schema)

    monkeypatch.setattr(Hybrid, "_methods", changed)
    assert vars(made._methods(IMAGES)["dp-merf"])["length_scales"] == (0.5,)
    assert "dp-merf.length_scales=9.0" in hybrid(IMAGES).details


def test_a_black_image_has_a_gradient() -> None:
    made = hybrid(IMAGES, parts=("moments",), shares=(1.0,))
    (asked,) = made.questions(IMAGES).values()
    matched = made.matched(
        IMAGES, {"moments-moments": release("moments-moments", torch.ones(asked.shape, dtype=torch.float64))}
    )
    points = torch.zeros(2, 64, requires_grad=True)
    matched.features.class_sums(points, Groups(sizes=(1, 1), weights=torch.ones(2))).sum().backward()
    assert points.grad is not None
    assert points.grad.isfinite().all()


def test_what_a_part_says_counts_by_its_noise() -> None:
    """Squared distances over variances, as in a likelihood: twice the noise is a quarter of the say."""
    made = hybrid(IMAGES, parts=("dp-merf", "dp-ntk"), shares=(1, 1), details=("dp-merf.pairs=5", "dp-ntk.widths=3"))
    shapes = {name: asked.shape for name, asked in made.questions(IMAGES).items()}
    noise = {"class-counts": 9.0, "dp-merf-embedding": 2.0, "dp-ntk-embedding": 1.0}
    values = {name: torch.ones(shape, dtype=torch.float64) for name, shape in shapes.items()}
    matched = made.matched(IMAGES, {name: release(name, values[name], noise[name]) for name in shapes})
    merf = math.prod(shapes["dp-merf-embedding"])
    sums = matched.sums.flatten()
    assert torch.allclose(sums[:merf], torch.full_like(sums[:merf], 0.5))
    assert torch.allclose(sums[merf:], torch.ones_like(sums[merf:]))
    assert matched.counts.tolist() == [1, 1]


def test_its_features_are_its_questions() -> None:
    """What is matched in training is what was asked of records: same numbers, same order, same scales."""
    torch.manual_seed(0)
    made = hybrid(IMAGES, details=("dp-merf.pairs=5", "moments.radius=0.3"))
    inputs = torch.rand(10, 64, dtype=torch.float64) * 2 - 1  # bright images, so that some are shortened
    labels = torch.tensor([0] * 4 + [1] * 6)
    answers = {name: asked.clipped_sum(inputs, labels) for name, asked in made.questions(IMAGES).items()}
    matched = made.matched(IMAGES, {name: release(name, value) for name, value in answers.items()})
    groups = Groups(sizes=(4, 6), weights=torch.ones(2, dtype=torch.float64))
    features = matched.features.class_sums((inputs + 1) / 2, groups)
    assert torch.allclose(features, matched.sums, atol=1e-9)


def test_pairs_of_columns_and_classes_kept_apart_go_together() -> None:
    joint = Joint([(_Fixed((1, 3)), 1.0), (_Fixed((2, 2)), 4.0)])
    sums = joint.class_sums(torch.zeros(2, 1), Groups(sizes=(1, 1), weights=torch.ones(2)))
    assert sums.tolist() == [[1, 1, 1, 2, 2, 2, 2]]


class _Fixed:
    def __init__(self, shape: tuple[int, int]) -> None:
        self.shape = shape

    def class_sums(self, points: torch.Tensor, groups: Groups) -> torch.Tensor:
        return torch.ones(self.shape)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"parts": ("pairs",)}, "as many shares"),
        ({"parts": ("pairs", "pairs")}, "different methods"),
        ({"parts": (), "shares": ()}, "one at least"),
        ({"parts": ("pairs", "ldpdc")}, "parts can be"),
        ({"parts": ("pairs", "hybrid")}, "parts can be"),
        ({"parts": ("pairs", "dp-merv")}, "dp-merf"),
        ({"shares": (1.0, 0.0)}, "positive"),
        ({"details": ("pairs=3",)}, "of pairs one can set column_noise, label_share"),
        ({"details": ("dp-merf.pairs",)}, "PART.SETTING=VALUE"),
        ({"details": ("dp-merf.pairs=3", "dp-merf.pairs=4")}, "set twice"),
        ({"feature_seed": -1}, "feature_seed"),
        ({"details": ("moments.radius=0.3",)}, "PART.SETTING=VALUE"),
        ({"details": ("dp-merf.paris=3",)}, "paris"),
        ({"details": ("dp-merf.pairs=-3",)}, "positive"),
        ({"details": ("dp-merf.training.steps=3",)}, "one can set pairs, length_scales; got"),
        ({"details": ("dp-merf.feature_seed=3",)}, "the same for all parts"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingError, match=words):
        hybrid(TABLE, **settings)


def test_a_part_for_images_does_not_fit_a_table() -> None:
    with pytest.raises(SchemaError, match="moments is for images"):
        hybrid(TABLE, parts=("pairs", "moments")).plan(TABLE)


def test_a_table_is_synthesised_and_its_budget_kept(tmp_path: Any) -> None:
    run = simulacra.fit(
        tiny.people(),
        schema=TABLE,
        method="hybrid",
        epsilon=5.0,
        delta=1e-5,
        adjacency="replace-one",
        out=tmp_path / "run",
        settings={"training.steps": 20, "training.batch": 50, "details": ("dp-merf.pairs=20",)},
        ledger=tmp_path / "own.ledger",
    )
    assert run.certificate["epsilon"] <= 5.0
    assert set(run.releases) == {"pairs-columns", "pairs-pairs", "class-counts", "dp-merf-embedding"}
    assert len(run.sample(30)) == 30


def test_without_classes_there_are_counts_all_the_same() -> None:
    assert IMAGES.image is not None
    plain = Schema(image=replace(IMAGES.image, classes=()))
    made = hybrid(plain, parts=("moments",), shares=(1.0,), details=())
    (asked,) = made.questions(plain).values()
    matched = made.matched(
        plain, {"moments-moments": release("moments-moments", torch.ones(asked.shape, dtype=torch.float64))}
    )
    assert matched.counts.shape == (1,)

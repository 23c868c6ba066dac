"""Choosing among candidates: with the odds that the critic gives, for the label that was asked for."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from torch import nn

from simulacra.data.points import points_for
from simulacra.errors import CertificateError, SettingError
from simulacra.generators import GeneratorOptions, build
from simulacra.generators.choosing import MOST_CANDIDATES, Chooser
from simulacra.generators.sampler import BATCH, Sampler
from simulacra.networks.critics import CriticOptions, build_critic
from simulacra.schema import ImageShape, Schema

SMALL = GeneratorOptions(latent=4, hidden=(8,))
CRITIC = CriticOptions(channels=4, hidden=(8,))
TABLE = tiny.schema(tiny.PEOPLE)
PICTURES = Schema(image=ImageShape(height=8, width=8, channels=1, classes=("a", "b", "c")))
DOT = Schema(image=ImageShape(height=1, width=1, channels=1, classes=("dark", "light")))


def chosen(schema: Schema, candidates: int = 4) -> Sampler:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        generator: Any = build(schema, SMALL)
        width = points_for(schema).width
        critic = build_critic(CRITIC, image=schema.image, width=width, classes=schema.classes)
    shares = torch.ones(schema.classes) / schema.classes
    chooser = Chooser(critic=critic, options=CRITIC, candidates=candidates)
    return Sampler(schema=schema, options=SMALL, generator=generator, class_shares=shares, chooser=chooser)


class Coin(nn.Module):
    """Makes a dark dot or a light one, as often either, whatever the label."""

    latent, classes = 1, 2

    def __init__(self) -> None:
        super().__init__()
        self.nothing = nn.Parameter(torch.zeros(()))

    def forward(self, noise: torch.Tensor, one_hot_labels: torch.Tensor) -> torch.Tensor:
        return (noise > 0).float()

    def to_records(self, points: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        return points * 2 - 1


class Likes(nn.Module):
    """Gives dots that are as their label says this logit, and others none."""

    def __init__(self, logit: float) -> None:
        super().__init__()
        self.logit = logit

    def forward(self, points: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return torch.where(points.squeeze(1).round().long() == labels, self.logit, 0.0)


def dots(critic: nn.Module, candidates: int) -> Sampler:
    chooser = Chooser(critic=critic, options=CriticOptions(kind="dense"), candidates=candidates)
    shares = torch.tensor([0.3, 0.7])
    return Sampler(schema=DOT, options=SMALL, generator=Coin(), class_shares=shares, chooser=chooser)


def share_as_labelled(sampler: Sampler, n: int = 20_000) -> float:
    parts = list(sampler.records(n, seed=1))
    inputs, labels = torch.cat([part.inputs for part in parts]), torch.cat([part.labels for part in parts])
    return float(((inputs.squeeze(1) > 0).long() == labels).float().mean())


@pytest.mark.parametrize(("logit", "candidates"), [(1.0, 2), (1.0, 3), (3.0, 2), (-2.0, 2), (0.0, 5)])
def test_candidates_are_drawn_with_the_odds_that_the_critic_gives(logit: float, candidates: int) -> None:
    odds = math.exp(logit)
    expected = 0.0
    for fitting in range(candidates + 1):  # so many of the candidates are as their label says
        chance = math.comb(candidates, fitting) / 2**candidates
        expected += chance * fitting * odds / (fitting * odds + candidates - fitting)
    spread = math.sqrt(expected * (1 - expected) / 20_000)
    assert share_as_labelled(dots(Likes(logit), candidates)) == pytest.approx(expected, abs=5 * spread)


def test_a_critic_that_is_sure_is_followed_and_the_labels_keep_their_shares() -> None:
    sampler = dots(Likes(50.0), 30)
    assert share_as_labelled(sampler) == 1.0
    (part, *_) = sampler.records(BATCH, seed=3)
    assert part.labels.float().mean() == pytest.approx(0.7, abs=0.15)


def test_a_critic_that_is_no_number_has_no_say() -> None:
    assert share_as_labelled(dots(Likes(math.nan), 4)) == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("schema", [TABLE, PICTURES], ids=["table", "pictures"])
def test_one_candidate_is_what_the_generator_makes(schema: Schema) -> None:
    alone = replace(chosen(schema), chooser=None)
    (one,), (two,) = (list(each.records(50, seed=2)) for each in (chosen(schema, 1), alone))
    assert torch.equal(one.inputs, two.inputs)
    (other,) = chosen(schema, 4).records(50, seed=2)
    assert not torch.equal(other.inputs, one.inputs)


@pytest.mark.parametrize("schema", [TABLE, PICTURES], ids=["table", "pictures"])
def test_a_saved_sampler_chooses_the_same(schema: Schema, tmp_path: Path) -> None:
    ours = chosen(schema)
    ours.save(tmp_path)
    theirs = Sampler.load(tmp_path, schema)
    assert theirs.chooser is not None
    assert (theirs.chooser.candidates, theirs.chooser.options) == (4, CRITIC)
    for one, two in zip(ours.records(40, seed=9), theirs.records(40, seed=9), strict=True):
        assert torch.equal(one.inputs, two.inputs)
        assert torch.equal(one.labels, two.labels)


def test_what_is_held_at_once_is_bounded_however_many_candidates_there_are() -> None:
    sizes = [len(part.inputs) for part in chosen(TABLE, 1000).records(20, seed=0)]
    assert sizes == [BATCH // 1000] * 2 + [20 - 2 * (BATCH // 1000)]


def test_the_number_of_candidates_can_be_chosen_when_sampling() -> None:
    sampler = chosen(PICTURES, 4)
    (as_made,), (again,) = (list(each.records(9, seed=1)) for each in (sampler.choosing(1), chosen(PICTURES, 1)))
    assert torch.equal(as_made.inputs, again.inputs)
    (more,), (also,) = (list(each.records(9, seed=1)) for each in (sampler.choosing(7), chosen(PICTURES, 7)))
    assert torch.equal(more.inputs, also.inputs)


@pytest.mark.parametrize("candidates", [0, -3, MOST_CANDIDATES + 1])
def test_numbers_that_make_no_sense_are_refused(candidates: int) -> None:
    with pytest.raises(SettingError, match="candidates must be from 1"):
        chosen(PICTURES).choosing(candidates)


def test_without_a_critic_there_is_nothing_to_choose_by() -> None:
    alone = replace(chosen(PICTURES), chooser=None)
    assert alone.choosing(1) is alone
    with pytest.raises(SettingError, match="no critic"):
        alone.choosing(2)


@pytest.mark.parametrize("damage", [{}, {"critic": {}, "candidates": 0}, {"critic": {"kind": "?"}, "candidates": 2}, 3])
def test_a_damaged_chooser_is_named(damage: Any, tmp_path: Path) -> None:
    chosen(PICTURES).save(tmp_path)
    said = json.loads((tmp_path / "sampler.json").read_text())
    (tmp_path / "sampler.json").write_text(json.dumps({**said, "chooser": damage}))
    with pytest.raises(CertificateError, match="damaged"):
        Sampler.load(tmp_path, PICTURES)

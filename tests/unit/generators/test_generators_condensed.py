"""Condensed sets: fixed records per class that an optimiser trains, and that are given out as they are."""

from __future__ import annotations

from pathlib import Path

import pytest
import tiny
import torch

from simulacra.data.cells import Cells
from simulacra.data.encode import decode
from simulacra.errors import CertificateError, SettingError
from simulacra.generators import GeneratorOptions, build, try_out
from simulacra.generators import condensed as condensed_module
from simulacra.generators.beginning import begin_with_samples
from simulacra.generators.condensed import Condensed, CondensedImages, CondensedRows, Inside
from simulacra.generators.sampler import BATCH, Sampler
from simulacra.schema import ImageShape, Schema

PEOPLE, UNLABELLED, PICTURES = map(tiny.schema, (tiny.PEOPLE, tiny.UNLABELLED, tiny.PICTURES))
COLOUR = Schema(image=ImageShape(height=5, width=3, channels=3, classes=("a", "b", "c")))
SCHEMAS = pytest.mark.parametrize(
    "schema", [PEOPLE, UNLABELLED, PICTURES, COLOUR], ids=["people", "unlabelled", "pictures", "colour"]
)


def options(per_class: int = 4, **more: object) -> GeneratorOptions:
    return GeneratorOptions.from_mapping({"kind": "condensed", "per_class": per_class, **more})


def made(schema: Schema, per_class: int = 4, **more: object) -> Condensed:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        generator = build(schema, options(per_class, **more))
    assert isinstance(generator, Condensed)
    return generator


def sampler(schema: Schema, per_class: int = 4) -> Sampler:
    shares = torch.linspace(1, 3, schema.classes)
    return Sampler(
        schema=schema, options=options(per_class), generator=made(schema, per_class), class_shares=shares / shares.sum()
    )


def drawn(source: Sampler, n: int, seed: int = 0, labels: list[int] | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    asked = None if labels is None else torch.tensor(labels)
    parts = list(source.records(n, seed=seed, labels=asked))
    return torch.cat([part.inputs for part in parts]), torch.cat([part.labels for part in parts])


def distinct(inputs: torch.Tensor) -> int:
    return len(torch.unique(inputs, dim=0))


def labelled(inputs: torch.Tensor, labels: torch.Tensor) -> set[tuple[tuple[float, ...], int]]:
    return {(tuple(row), label) for row, label in zip(inputs.tolist(), labels.tolist(), strict=True)}


@SCHEMAS
@pytest.mark.parametrize("per_class", [1, 4])
def test_it_holds_the_same_number_of_each_class_and_one_parameter(schema: Schema, per_class: int) -> None:
    generator = made(schema, per_class)
    assert len(generator) == per_class * schema.classes
    assert [name for name, _ in generator.named_parameters()] == ["values"]
    assert generator.labels.bincount().tolist() == [per_class] * schema.classes
    assert generator.labels.tolist() == sorted(generator.labels.tolist())


@SCHEMAS
def test_its_records_are_valid_and_the_same_at_every_call(schema: Schema) -> None:
    generator = made(schema, spread=50.0)
    records = generator.records()
    assert records.shape == (len(generator), schema.inputs)
    assert records.abs().max() <= 1
    torch.rand(3)
    assert torch.equal(records, generator.records())
    if schema.image is None:
        table = decode(records, generator.labels, schema)
        assert table.num_rows == len(generator)


@SCHEMAS
def test_as_a_generator_it_hands_out_the_records_of_a_class_in_turn(schema: Schema) -> None:
    generator = made(schema, 3)
    labels = torch.cat([generator.labels, generator.labels.flip(0)])
    one_hot = torch.nn.functional.one_hot(labels, schema.classes).float()
    points = generator(torch.empty(len(labels), generator.latent), one_hot)
    assert torch.equal(points[: len(generator)], generator.points())
    backwards = points[len(generator) :].view(schema.classes, 3, -1).flip(0).flatten(0, 1)
    assert torch.equal(backwards, generator.points()), "and begins again with the first"


def test_points_are_what_the_records_are() -> None:
    """So that what is matched is what is published."""
    rows, images = made(PEOPLE), made(PICTURES, spread=2.0)
    assert torch.equal(rows.points().detach(), Cells(PEOPLE).one_hot(rows.records()))
    torch.testing.assert_close(images.points().detach(), (images.records() + 1) / 2)
    random = torch.Generator().manual_seed(1)
    torch.testing.assert_close(images.to_records(images.points(), random), images.records())
    assert torch.equal(Cells(PEOPLE).index(rows.to_records(rows.points(), random)), Cells(PEOPLE).index(rows.records()))


@SCHEMAS
def test_an_optimiser_trains_the_records_towards_a_goal(schema: Schema) -> None:
    generator = made(schema, 2)
    goal = made(schema, 2)
    torch.manual_seed(5)
    torch.nn.init.normal_(goal.values)
    wanted = goal.points().detach()
    optimiser = torch.optim.Adam(generator.parameters(), lr=0.1)
    first = (generator.points() - wanted).square().sum().item()
    for _ in range(300):
        optimiser.zero_grad()
        (generator.points() - wanted).square().sum().backward()
        optimiser.step()
    assert (generator.points() - wanted).square().sum().item() < 0.01 * first


def test_a_pixel_that_stepped_over_the_edge_can_come_back_and_goes_no_further() -> None:
    values = torch.tensor([-2.0, -2.0, 0.5, 2.0, 2.0], requires_grad=True)
    (Inside.apply(values) * torch.tensor([1.0, -1.0, 1.0, 1.0, -1.0])).sum().backward()  # type: ignore[no-untyped-call]
    assert values.grad is not None
    assert values.grad.tolist() == [0.0, -1.0, 1.0, 1.0, 0.0]


def test_free_points_of_images_have_no_edge() -> None:
    held = made(PICTURES)
    with torch.no_grad():
        held.values.fill_(3.0)
    torch.testing.assert_close(held.free_points(), torch.full_like(held.values, 2.0))
    (gradient,) = torch.autograd.grad(held.free_points().sum(), [held.values])
    assert (gradient == 0.5).all()  # further out, too


@SCHEMAS
def test_settled_records_are_what_they_were_up_to_contrast(schema: Schema) -> None:
    held = made(schema)
    with torch.no_grad():
        held.values[0] *= 5
        held.values[1] *= 0.01
    before = held.values.detach().clone()
    held.settle()
    after = held.values.detach()
    assert torch.equal(after[1], before[1])
    torch.testing.assert_close(torch.cosine_similarity(after, before), torch.ones(len(held)))
    if schema.image is not None:
        assert after[0].abs().max() == 1
        torch.testing.assert_close(held.records(), after)  # nothing is cut off
    else:
        assert torch.equal(after, before)


@SCHEMAS
def test_it_begins_with_noise_or_without_any_preference(schema: Schema) -> None:
    assert made(schema, 40, spread=0.3).values.std().item() == pytest.approx(0.3, rel=0.1)
    assert made(schema, 40).values.std().item() == pytest.approx(1.0 if schema.image is None else 0.1, rel=0.1)
    assert made(schema, init="grey").values.abs().max() == 0
    assert made(schema, init="samples").values.abs().max() == 0, "until it is given some"


@SCHEMAS
def test_it_can_begin_with_given_records(schema: Schema) -> None:
    generator, other = made(schema, init="grey"), made(schema, spread=2.0)
    generator.set_records(other.records())
    if schema.image is None:
        cells = Cells(schema)
        assert torch.equal(cells.index(generator.records()), cells.index(other.records()))
    else:
        assert torch.equal(generator.records(), other.records())


@SCHEMAS
def test_it_can_begin_with_the_records_of_another_sampler(schema: Schema) -> None:
    generator, other = made(schema, 3, init="samples"), sampler(schema, 5)
    begin_with_samples(generator, other, seed=0)
    ours, theirs = generator.records(), other.generator.records()
    if schema.image is None:
        ours, theirs = (Cells(schema).index(records) for records in (ours, theirs))
    assert labelled(ours, generator.labels) <= labelled(theirs, other.generator.labels)
    assert distinct(ours) == len(generator)


def test_samples_that_come_out_alike_get_noise_of_their_own() -> None:
    """They would see the same slope in every step, and stay alike for ever."""
    still = GeneratorOptions.from_mapping({"kind": "gaussian"})
    gaussian = build(PICTURES, still)  # grey, and without any direction
    with torch.no_grad():
        gaussian.factors[1] = 0.1 * torch.randn(gaussian.factors[1].shape)
    other = Sampler(schema=PICTURES, options=still, generator=gaussian, class_shares=torch.ones(2) / 2)
    generator = made(PICTURES, 6, init="samples")
    begin_with_samples(generator, other, seed=0)
    assert distinct(generator.records()) == 12
    assert 0.05 < float(generator.values[:6].detach().std()) < 0.15
    drawn = torch.cat([each.inputs for each in other.records(12, seed=0, labels=generator.labels)])
    assert torch.equal(generator.values[6:].detach(), drawn[6:]), "what differs is left as it is"


def test_it_does_not_begin_with_records_that_come_twice() -> None:
    with pytest.raises(SettingError, match=r"of 12 records.*15 different ones.*begin with noise"):
        begin_with_samples(made(COLOUR, 5), sampler(COLOUR, 4), seed=0)


def test_it_does_not_begin_with_records_of_another_schema() -> None:
    with pytest.raises(SettingError, match="other records"):
        begin_with_samples(made(PICTURES), sampler(COLOUR), seed=0)


@SCHEMAS
def test_the_whole_set_comes_in_its_order_whatever_the_seed(schema: Schema) -> None:
    source = sampler(schema)
    assert source.size == 4 * schema.classes
    for seed in (0, 1):
        inputs, labels = drawn(source, 4 * schema.classes, seed)
        assert torch.equal(inputs, source.generator.records())
        assert torch.equal(labels, source.generator.labels)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, 11])
def test_fewer_are_drawn_without_replacement_and_balanced(n: int) -> None:
    source = sampler(COLOUR)
    assert not source.repeats(n)
    if n == 0:
        assert list(source.records(0, seed=0)) == []
        return
    inputs, labels = drawn(source, n)
    assert distinct(inputs) == n
    counts = labels.bincount(minlength=3)
    assert counts.max() - counts.min() <= 1
    again, _ = drawn(source, n)
    assert torch.equal(inputs, again)
    places = {tuple(drawn(source, n, seed)[0].flatten().tolist()) for seed in range(20)}
    assert len(places) > 1, "and another seed draws others"


def test_more_are_drawn_with_replacement_in_bounded_pieces() -> None:
    source = sampler(COLOUR)
    assert source.repeats(13)
    inputs, labels = drawn(source, 3000)
    assert distinct(inputs) == 12
    assert labels.bincount().tolist() == [1000] * 3
    assert labelled(inputs, labels) == labelled(source.generator.records(), source.generator.labels)
    assert [len(part.labels) for part in source.records(2 * BATCH + 5, seed=0)] == [BATCH, BATCH, 5]
    assert len(next(source.records(10**12, seed=0)).labels) == BATCH


def test_classes_are_given_in_turn_and_repeated_only_if_they_must_be() -> None:
    source = sampler(COLOUR)
    inputs, labels = drawn(source, 8, labels=[2, 0])
    assert labels.tolist() == [2, 0] * 4
    assert distinct(inputs) == 8
    assert not source.repeats(8, torch.tensor([2, 0]))
    assert source.repeats(9, torch.tensor([2, 0]))
    inputs, labels = drawn(source, 100, labels=[1])
    assert labels.unique().tolist() == [1]
    assert distinct(inputs) == 4


@SCHEMAS
def test_it_is_saved_and_read_back(schema: Schema, tmp_path: Path) -> None:
    before = sampler(schema)
    before.save(tmp_path)
    after = Sampler.load(tmp_path, schema)
    assert after.options == before.options
    assert torch.equal(after.generator.records(), before.generator.records())
    assert after.size == before.size


def test_a_set_of_another_size_is_not_taken_for_this_one(tmp_path: Path) -> None:
    sampler(PICTURES).save(tmp_path)
    text = (tmp_path / "sampler.json").read_text()
    (tmp_path / "sampler.json").write_text(text.replace('"per_class": 4', '"per_class": 5'))
    with pytest.raises(CertificateError, match="damaged"):
        Sampler.load(tmp_path, PICTURES)


def test_other_generators_have_no_end() -> None:
    shares = torch.tensor([0.5, 0.5])
    plain = GeneratorOptions(latent=2, hidden=(4,))
    endless = Sampler(schema=PICTURES, options=plain, generator=build(PICTURES, plain), class_shares=shares)
    assert endless.size is None
    assert not endless.repeats(10**9)


@pytest.mark.parametrize(
    ("setting", "value"), [("per_class", 0), ("per_class", -3), ("spread", 0), ("spread", 1e9), ("init", "zeros")]
)
def test_impossible_settings_are_refused_by_name(setting: str, value: object) -> None:
    with pytest.raises(SettingError, match=setting):
        options(**{setting: value})


def test_a_set_that_the_memory_does_not_hold_is_refused_with_the_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    needed = 2 * 4 * 64 * condensed_module.BYTES_PER_NUMBER
    monkeypatch.setattr(condensed_module, "memory", lambda: needed)
    try_out(PICTURES, options())
    monkeypatch.setattr(condensed_module, "memory", lambda: needed - 1)
    with pytest.raises(SettingError, match=r"4 records per class has 512 numbers.*lower generator\.per_class"):
        try_out(PICTURES, options())
    with pytest.raises(SettingError, match=r"per_class"):
        try_out(PEOPLE, options(10**15))


def test_the_kinds_are_these() -> None:
    assert isinstance(made(PICTURES), CondensedImages)
    assert isinstance(made(PEOPLE), CondensedRows)

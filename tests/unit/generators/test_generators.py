"""Generators and samplers: whatever comes out is a valid record, as often as one likes and in bounded memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tiny
import torch

from simulacra.data.cells import Cells
from simulacra.errors import CertificateError, SettingError
from simulacra.generators import GeneratorOptions, build
from simulacra.generators.image import ConvolutionalGenerator, DenseGenerator
from simulacra.generators.residual import ResidualGenerator
from simulacra.generators.sampler import BATCH, Sampler
from simulacra.generators.table import TableGenerator
from simulacra.schema import ImageShape, Schema

PEOPLE, UNLABELLED = map(tiny.schema, (tiny.PEOPLE, tiny.UNLABELLED))
SMALL = GeneratorOptions(latent=4, hidden=(8,))


def image(height: int, width: int, channels: int = 1, classes: int = 3) -> Schema:
    names = tuple(f"class {number}" for number in range(classes))
    return Schema(image=ImageShape(height=height, width=width, channels=channels, classes=names))


def made(schema: Schema, options: GeneratorOptions = SMALL) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return build(schema, options)


def sampler(schema: Schema, shares: list[float] | None = None) -> Sampler:
    shares = shares or [1 / schema.classes] * schema.classes
    return Sampler(schema=schema, options=SMALL, generator=made(schema), class_shares=torch.tensor(shares))


def points(schema: Schema, rows: int = 50, spread: float = 1.0) -> torch.Tensor:
    generator = made(schema).eval()
    random = torch.Generator().manual_seed(1)
    noise = spread * torch.randn(rows, generator.latent, generator=random)
    labels = torch.nn.functional.one_hot(torch.arange(rows) % schema.classes, schema.classes).float()
    with torch.no_grad():
        result: torch.Tensor = generator(noise, labels)
    return result


@pytest.mark.parametrize("spread", [0.0, 1.0, 1e4])
@pytest.mark.parametrize("schema", [PEOPLE, UNLABELLED], ids=["labelled", "unlabelled"])
def test_a_table_generator_gives_one_probability_vector_per_column(schema: Schema, spread: float) -> None:
    cells = Cells(schema)
    blocks = torch.split(points(schema, spread=spread), list(cells.sizes), dim=1)
    assert len(blocks) == len(schema.features)
    for block in blocks:
        assert (block >= 0).all()
        assert block.sum(dim=1).allclose(torch.ones(50))


def test_table_records_are_valid_and_lie_in_the_cells_that_were_drawn() -> None:
    cells = Cells(PEOPLE)
    generator = made(PEOPLE)
    indices = torch.stack([torch.arange(60) % size for size in cells.sizes], dim=1)
    sure = cells.one_hot_of(indices)
    records = generator.to_records(sure, torch.Generator().manual_seed(0))
    assert records.shape == (60, PEOPLE.inputs)
    assert records.abs().max() <= 1
    assert torch.equal(cells.index(records), indices)


def test_cells_are_drawn_by_their_probabilities() -> None:
    schema = tiny.schema(tiny.UNLABELLED)
    cells = Cells(schema)
    soft = torch.cat([torch.full((20000, size), 1 / size) for size in cells.sizes], dim=1)
    records = made(schema).to_records(soft, torch.Generator().manual_seed(0))
    means = cells.one_hot(records).mean(dim=0)
    assert (means - soft[0]).abs().max() < 0.02


@pytest.mark.parametrize(
    ("shape", "kind"),
    [
        ((28, 28, 1), ConvolutionalGenerator),
        ((32, 32, 3), ResidualGenerator),
        ((32, 32, 1), ConvolutionalGenerator),
        ((32, 36, 3), ConvolutionalGenerator),
        ((8, 8, 1), ConvolutionalGenerator),
        ((4, 12, 3), ConvolutionalGenerator),
        ((7, 9, 1), DenseGenerator),
        ((7, 8, 3), DenseGenerator),
        ((1, 1, 1), DenseGenerator),
    ],
)
def test_an_image_generator_gives_intensities_of_the_right_shape(shape: tuple[int, int, int], kind: type) -> None:
    schema = image(*shape)
    assert isinstance(made(schema), kind)
    intensities = points(schema, rows=6)
    assert intensities.shape == (6, schema.inputs)
    assert intensities.min() >= 0
    assert intensities.max() <= 1
    records = made(schema).to_records(intensities, torch.Generator())
    assert torch.equal((records + 1) / 2, intensities) or (records + 1).div(2).allclose(intensities)
    assert records.abs().max() <= 1


def test_image_samples_become_pixels_of_the_schemas_shape() -> None:
    from simulacra.data.images import to_uint8

    for shape in ((28, 28, 1), (32, 32, 3), (7, 9, 3)):
        schema = image(*shape)
        (drawn,) = sampler(schema).records(5, seed=0)
        expected = (5, *shape[:2]) if shape[2] == 1 else (5, *shape)
        assert to_uint8(drawn.inputs, schema).shape == expected


def test_sizes_are_left_to_the_data_unless_they_are_said() -> None:
    assert isinstance(build(PEOPLE, GeneratorOptions()), TableGenerator)
    assert made(PEOPLE, GeneratorOptions()).latent == 32
    assert made(image(8, 8), GeneratorOptions()).latent == 20
    assert made(PEOPLE, GeneratorOptions(latent=3, hidden=(5, 6, 7))).layers[0].out_features == 5
    assert GeneratorOptions.from_mapping({"latent": "auto", "hidden": "none"}) == GeneratorOptions()


# -- samplers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("schema", [PEOPLE, UNLABELLED, image(8, 8), image(7, 9)], ids=["a", "b", "c", "d"])
def test_a_saved_sampler_gives_the_same_samples(schema: Schema, tmp_path: Path) -> None:
    ours = sampler(schema)
    ours.save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["sampler.json", "sampler.safetensors"]
    theirs = Sampler.load(tmp_path, schema)
    for one, two in zip(ours.records(30, seed=9), theirs.records(30, seed=9), strict=True):
        assert torch.equal(one.inputs, two.inputs)
        assert torch.equal(one.labels, two.labels)


@pytest.mark.parametrize("kind", ["dense", "convolutional", "deconvolutional", "residual", "gaussian", "condensed"])
def test_every_kind_of_generator_is_saved_and_read_back(kind: str, tmp_path: Path) -> None:
    """Whatever the layout of its weights in memory."""
    schema = image(8, 8)
    options = GeneratorOptions.from_mapping({"kind": kind})
    ours = Sampler(schema=schema, options=options, generator=made(schema, options), class_shares=torch.ones(2) / 2)
    ours.save(tmp_path)
    (one,), (two,) = (list(each.records(30, seed=9)) for each in (ours, Sampler.load(tmp_path, schema)))
    assert torch.allclose(one.inputs, two.inputs, atol=1e-5)


def test_the_seed_decides_the_samples_and_the_global_state_does_not() -> None:
    ours = sampler(PEOPLE)
    before = torch.get_rng_state()
    one, two, other = (next(ours.records(30, seed=seed)) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(one.inputs, two.inputs)
    assert not torch.equal(one.inputs, other.inputs)


def test_given_labels_take_turns_across_batches() -> None:
    labels = torch.tensor([1, 0, 1])
    parts = list(sampler(PEOPLE).records(BATCH + 10, seed=0, labels=labels))
    drawn = torch.cat([part.labels for part in parts])
    assert torch.equal(drawn, labels[torch.arange(BATCH + 10) % 3])


def test_labels_that_are_not_given_follow_the_shares() -> None:
    (drawn,) = sampler(PEOPLE, [0.1, 0.9]).records(5000, seed=0)
    assert drawn.labels.float().mean() == pytest.approx(0.9, abs=0.02)


def test_no_records_are_no_batches() -> None:
    assert list(sampler(PEOPLE).records(0, seed=0)) == []


def test_a_negative_number_is_refused() -> None:
    with pytest.raises(SettingError, match="negative"):
        next(sampler(PEOPLE).records(-1, seed=0))


def test_any_number_of_records_comes_in_bounded_pieces() -> None:
    sizes = [len(part.inputs) for part in sampler(PEOPLE).records(2 * BATCH + 5, seed=0)]
    assert sizes == [BATCH, BATCH, 5]
    endless = sampler(PEOPLE).records(10**12, seed=0)
    assert len(next(endless).inputs) == BATCH, "and the first piece does not wait for the last"


@pytest.mark.parametrize("file", ["sampler.json", "sampler.safetensors"])
@pytest.mark.parametrize("damage", [b"", b"{}", b"\xff\xfe", b'{"generator": {"hidden": [9]}}'])
def test_a_damaged_sampler_is_named(file: str, damage: bytes, tmp_path: Path) -> None:
    sampler(PEOPLE).save(tmp_path)
    (tmp_path / file).write_bytes(damage)
    with pytest.raises(CertificateError, match="damaged"):
        Sampler.load(tmp_path, PEOPLE)


def test_a_sampler_that_is_not_there_says_how_to_train_one(tmp_path: Path) -> None:
    with pytest.raises(CertificateError, match="simulacra train"):
        Sampler.load(tmp_path, PEOPLE)


def test_a_sampler_of_another_schema_is_refused(tmp_path: Path) -> None:
    sampler(PEOPLE).save(tmp_path)
    with pytest.raises(CertificateError, match="damaged"):
        Sampler.load(tmp_path, image(8, 8))

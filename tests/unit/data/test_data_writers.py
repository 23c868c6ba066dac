from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from simulacra.data.encode import arrow_schema
from simulacra.data.images import to_uint8
from simulacra.data.reference import Reference, read_table
from simulacra.data.writers import write_npz, write_png_folder, write_samples, write_table
from simulacra.errors import OutputError, SchemaError
from simulacra.schema import Boolean, Categorical, ImageShape, Numeric, Schema

SCHEMA = Schema(
    columns=(
        Numeric(name="n", lower=0, upper=99, integer=True, missing=True),
        Categorical(name="c", values=('quo"te', "com,ma", "line\nbreak", "tab\t"), missing=True),
        Boolean(name="y"),
    ),
    label="y",
)
IMAGES = Schema(image=ImageShape(height=2, width=3, channels=3, classes=("a", "b")))


def batches(schema: Schema, count: int = 3) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(1)
    for _ in range(count):
        yield torch.rand(5, schema.inputs, generator=generator) * 2 - 1, torch.arange(5) % schema.classes


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.tsv", "t.parquet"])
def test_a_written_table_is_read_back_equal(tmp_path: Path, name: str) -> None:
    from simulacra.data.encode import decode

    expected = pa.concat_tables([decode(*batch, SCHEMA) for batch in batches(SCHEMA)])
    write_samples(batches(SCHEMA), tmp_path / name, SCHEMA)
    assert read_table(tmp_path / name, SCHEMA).equals(expected)
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_no_rows_give_a_table_with_columns_and_no_rows(tmp_path: Path) -> None:
    for name in ("t.csv", "t.parquet"):
        write_table([], tmp_path / name, arrow_schema(SCHEMA))
        assert read_table(tmp_path / name, SCHEMA).num_rows == 0
    with pytest.raises(OutputError, match="no columns"):
        write_table([], tmp_path / "u.csv")


def test_images_are_read_back_equal(tmp_path: Path) -> None:
    inputs = torch.cat([batch[0] for batch in batches(IMAGES)])
    labels = torch.cat([batch[1] for batch in batches(IMAGES)])
    write_samples(batches(IMAGES), tmp_path / "t.npz", IMAGES)
    write_samples(batches(IMAGES), tmp_path / "folder", IMAGES)
    order = torch.argsort(labels, stable=True)
    for name, rows in (("t.npz", torch.arange(15)), ("folder", order)):
        reference = Reference.load(tmp_path / name, IMAGES)
        assert torch.equal(reference.labels, labels[rows])
        assert np.array_equal(to_uint8(reference.inputs, IMAGES), to_uint8(inputs[rows], IMAGES))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["folder", "t.npz"]


def test_no_images_give_an_empty_archive_and_no_labels_none(tmp_path: Path) -> None:
    plain = Schema(image=ImageShape(height=2, width=3))
    write_npz([], tmp_path / "t.npz", plain)
    with np.load(tmp_path / "t.npz", allow_pickle=False) as archive:
        assert archive.files == ["x"]
        assert archive["x"].shape == (0, 2, 3)
    write_png_folder(batches(plain, 1), tmp_path / "flat", plain)
    assert len(list((tmp_path / "flat").glob("*.png"))) == 5


def test_an_existing_output_is_refused(tmp_path: Path) -> None:
    for name, schema in (("t.csv", SCHEMA), ("t.npz", IMAGES), ("folder", IMAGES)):
        (tmp_path / name).write_text("precious")
        with pytest.raises(OutputError, match="exists already"):
            write_samples(batches(schema), tmp_path / name, schema)
        assert (tmp_path / name).read_text() == "precious"
    with pytest.raises(OutputError, match="no folder"):
        write_samples(batches(SCHEMA), tmp_path / "absent" / "t.csv", SCHEMA)
    for name, schema in (("t.xlsx", SCHEMA), ("t.gif", IMAGES)):
        with pytest.raises(OutputError, match="unknown kind"):
            write_samples(batches(schema), tmp_path / name, schema)


@pytest.mark.parametrize(
    ("name", "schema"), [("t.csv", SCHEMA), ("t.parquet", SCHEMA), ("t.npz", IMAGES), ("f", IMAGES)]
)
@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_a_full_disk_or_an_interrupt_leaves_nothing_behind(
    tmp_path: Path, name: str, schema: Schema, failure: BaseException
) -> None:
    def full() -> Iterator[Any]:
        yield from batches(schema, 1)
        raise failure

    expected = OutputError if isinstance(failure, OSError) else KeyboardInterrupt
    with pytest.raises(expected):
        write_samples(full(), tmp_path / name, schema)
    assert list(tmp_path.iterdir()) == []


def test_a_class_name_that_is_no_folder_name_is_refused(tmp_path: Path) -> None:
    schema = Schema(image=ImageShape(height=2, width=3, classes=("../a", "b")))
    with pytest.raises(SchemaError, match="cannot name a folder"):
        write_png_folder(batches(schema), tmp_path / "f", schema)

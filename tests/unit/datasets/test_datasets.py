from __future__ import annotations

import gzip
import hashlib
import io
import os
import struct
import subprocess
import sys
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from simulacra import datasets
from simulacra.data import open_source
from simulacra.data.tables import TableSource, describe_problems
from simulacra.datasets.catalogue import CATALOGUE
from simulacra.datasets.images import CifarImages, IdxFamily
from simulacra.errors import DataError

NAMES = (
    "adult",
    "celeba",
    "celeba-64",
    "celeba-gender",
    "census",
    "cervical",
    "cifar10",
    "covtype",
    "credit",
    "digits",
    "fashion-mnist",
    "intrusion",
    "isolet",
    "mnist",
    "svhn",
)
FOLDER = os.environ.get("SIMULACRA_DATA")
needs_data = pytest.mark.skipif(not FOLDER, reason="set SIMULACRA_DATA to the data folder")


@pytest.fixture
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with nothing in it, and a cache beside it."""
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("SIMULACRA_DATA", str(folder))
    monkeypatch.setenv("SIMULACRA_CACHE", str(tmp_path / "cache"))
    return folder


def test_names_are_known_and_each_has_a_schema_a_citation_and_a_licence() -> None:
    assert datasets.names() == NAMES
    assert set(CATALOGUE) == set(NAMES)
    for name in NAMES:
        schema = datasets.schema(name)
        assert schema.labelled or name.startswith("celeba")
        assert CATALOGUE[name].citation
        assert CATALOGUE[name].licence


def test_a_schema_is_read_once_however_often_it_is_asked_for() -> None:
    """The book asks for one per line, over a thousand times for one recommendation: that took most of its seconds."""
    assert datasets.schema("adult") is datasets.schema("adult")


def test_listing_names_is_light() -> None:
    code = "import sys, simulacra.datasets as d; d.names(); print(*(m in sys.modules for m in ('pyarrow', 'torch')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_unknown_names_and_splits_are_refused_with_a_suggestion() -> None:
    with pytest.raises(DataError, match='did you mean "adult"'):
        datasets.load("adlut")
    with pytest.raises(DataError, match='did you mean "test"'):
        datasets.load("adult", "tests")


def test_adult_is_embedded_and_fits_its_schema_in_every_row() -> None:
    train, test, every = (datasets.load("adult", split) for split in ("train", "test", "all"))
    assert (train.data.num_rows, test.data.num_rows, every.data.num_rows) == (32561, 16281, 48842)
    assert describe_problems(every.data, every.schema) == []
    assert train.data.slice(0, 1).to_pylist()[0] == {
        "age": 39,
        "workclass": "State-gov",
        "fnlwgt": 77516,
        "education": "Bachelors",
        "education-num": 13,
        "marital-status": "Never-married",
        "occupation": "Adm-clerical",
        "relationship": "Not-in-family",
        "race": "White",
        "sex": "Male",
        "capital-gain": 2174,
        "capital-loss": 0,
        "hours-per-week": 40,
        "native-country": "United-States",
        "income": "<=50K",
    }
    labels = [batch.labels for batch in open_source(train.data, train.schema).batches()]
    assert sum(int(part.sum()) for part in labels) == 7841  # as adult.names says


def test_the_embedded_file_is_small_and_attributed() -> None:
    files = Path(datasets.__file__).parent / "files"
    assert (files / "adult.parquet").stat().st_size < 500_000
    assert "10.24432/C5XW20" in (files / "NOTICE.md").read_text(encoding="utf-8")


def test_digits_come_with_scikit_learn() -> None:
    train, test = datasets.load("digits"), datasets.load("digits", "test")
    assert (train.data[0].shape, test.data[0].shape) == ((1437, 8, 8), (360, 8, 8))
    assert train.data[0].max() == 255
    batch = next(iter(open_source(train.data, train.schema).batches()))
    assert batch.inputs.shape == (1437, 64)
    assert len(datasets.load("digits", "all").data[1]) == 1797


@pytest.mark.parametrize("name", ["census", "credit", "covtype", "intrusion", "cervical", "isolet"])
@pytest.mark.usefixtures("empty_folder")
def test_a_table_that_is_not_here_says_which_file_to_put_where(name: str) -> None:
    with pytest.raises(DataError, match=r"put tables/.*\.parquet .* set SIMULACRA_DATA"):
        datasets.load(name)


def test_a_data_folder_that_does_not_exist_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SIMULACRA_DATA", str(tmp_path / "absent"))
    with pytest.raises(DataError, match="not a folder"):
        datasets.load("covtype")


def test_a_table_without_a_split_of_its_own_is_split_by_row_number(empty_folder: Path) -> None:
    labels = ["normal", "smurf", "satan.", " spy ", "perl", "unheard-of"]
    (empty_folder / "tables").mkdir()
    pq.write_table(pa.table({"label": labels, "row": range(6)}), empty_folder / "tables" / "intrusion.parquet")
    pq.write_table(pa.table({"row": range(6)}), empty_folder / "tables" / "covtype.parquet")
    assert datasets.load("intrusion", "train").data["row"].to_pylist() == [0, 1, 2, 3, 5]
    assert datasets.load("intrusion", "test").data["label"].to_pylist() == ["u2r"]
    every = datasets.load("intrusion", "all").data["label"].to_pylist()
    assert every == ["normal", "dos", "probe", "r2l", "u2r", None]
    assert isinstance(datasets.load("covtype", "all").data, Path)


def idx(array: np.ndarray[Any, Any]) -> bytes:
    header = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
    return gzip.compress(header + array.astype(np.uint8).tobytes())


def test_idx_files_are_taken_from_the_cache_once_verified(empty_folder: Path) -> None:
    cache = empty_folder.parent / "cache" / "toy"
    cache.mkdir(parents=True)
    images = np.arange(2 * 28 * 28).reshape(2, 28, 28).astype(np.uint8)
    files = {
        "train-images-idx3-ubyte.gz": idx(images),
        "train-labels-idx1-ubyte.gz": idx(np.array([3, 4])),
        "t10k-images-idx3-ubyte.gz": idx(images[:1]),
        "t10k-labels-idx1-ubyte.gz": idx(np.array([5])),
    }
    for name, raw in files.items():
        (cache / name).write_bytes(raw)
    first, second, third, fourth = (hashlib.md5(raw).hexdigest() for raw in files.values())
    family = IdxFamily(name="toy", npz="toy.npz", homes=(), checksums=(first, second, third, fourth))
    assert np.array_equal(family.read("train")[0], images)
    assert family.read("all")[1].tolist() == [3, 4, 5]
    with pytest.raises(DataError, match="published checksum"):
        replace(family, checksums=("0" * 32, second, third, fourth)).read("train")


@pytest.mark.usefixtures("empty_folder")
def test_the_binary_version_of_cifar_is_read_without_unpacking(tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "cifar10"
    folder.mkdir(parents=True)
    image = np.arange(3072).astype(np.uint8).reshape(3, 32, 32)
    with tarfile.open(folder / "c.tar.gz", "w:gz") as tar:
        for number, name in enumerate([*(f"data_batch_{k}.bin" for k in range(1, 6)), "test_batch.bin", "readme.html"]):
            raw = bytes([number]) + image.tobytes()
            entry = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            entry.size = len(raw)
            tar.addfile(entry, io.BytesIO(raw))
    files = CATALOGUE["cifar10"].files
    assert isinstance(files, CifarImages)
    checksum = hashlib.md5((folder / "c.tar.gz").read_bytes()).hexdigest()
    toy = CifarImages(remote=replace(files.remote, name="c.tar.gz", checksum=checksum))
    images, labels = toy.read("train")
    assert labels.tolist() == [0, 1, 2, 3, 4]
    assert np.array_equal(images[0], image.transpose(1, 2, 0))
    assert toy.read("test")[1].tolist() == [5]


@needs_data
@pytest.mark.parametrize(
    ("name", "train_rows", "test_rows"),
    [("census", 199523, 99762), ("covtype", 464810, 116202), ("cervical", 687, 171), ("isolet", 1248, 312)],
)
def test_real_tables_fit_their_schemas(name: str, train_rows: int, test_rows: int) -> None:
    for split, rows in (("train", train_rows), ("test", test_rows)):
        part = datasets.load(name, split)
        if split == "test":
            assert describe_problems(part.data, part.schema) == []
        source = TableSource(part.data, part.schema)
        assert sum(batch.num_rows for batch in source.raw_batches()) == rows
    assert datasets.training_rows(name) == train_rows


@needs_data
def test_real_intrusion_labels_fall_into_five_groups() -> None:
    test = datasets.load("intrusion", "test")
    assert describe_problems(test.data, test.schema) == []
    assert set(test.data["label"].unique().to_pylist()) == set(test.schema.class_names)


@needs_data
def test_the_embedded_adult_is_the_original_in_the_original_order() -> None:
    assert FOLDER is not None
    for split in ("train", "test"):
        original = pq.read_table(Path(FOLDER) / "tables" / f"adult_{split}.parquet")
        ours = datasets.load("adult", split).data
        for name, column in zip(original.column_names, ours.column_names, strict=True):
            assert ours[column].to_pylist() == original[name].to_pylist()


@needs_data
@pytest.mark.parametrize("name", ["mnist", "fashion-mnist", "cifar10"])
def test_real_images_fit_their_schemas(name: str) -> None:
    test = datasets.load(name, "test")
    images, labels = test.data
    assert len(images) == 10000
    assert np.bincount(labels).tolist() == [1000] * 10 or name == "mnist"
    rows = 0
    for batch in open_source(test.data, test.schema).batches():
        assert batch.inputs.shape[1] == test.schema.inputs
        assert batch.inputs.min() >= -1
        assert batch.inputs.max() <= 1
        rows += len(batch.inputs)
    assert rows == 10000


# -- photographs ----------------------------------------------------------------------------------------------------


def photographs(folder: Path) -> None:
    from PIL import Image

    place = folder / "celeba" / "img_align_celeba"
    place.mkdir(parents=True)
    for number in (1, 162_770, 162_771, 182_637, 182_638, 202_599):
        picture = Image.new("RGB", (178, 218), (255, 0, 0))
        picture.paste((0, 0, 255), (0, 10, 178, 208))  # the square in the middle, which is what is kept
        picture.save(place / f"{number:06d}.jpg", quality=95)


def test_photographs_are_brought_to_32_pixels_and_split_by_their_numbers(empty_folder: Path) -> None:
    photographs(empty_folder)
    for split, count in (("train", 2), ("test", 2), ("all", 6)):
        images, labels = datasets.load("celeba", split).data
        assert images.shape == (count, 32, 32, 3)
        assert not labels.any()
        assert images[..., 2].min() > 240, "blue everywhere: the red bars above and below are cropped"
    source = open_source(datasets.load("celeba").data, datasets.schema("celeba"))
    assert next(iter(source.batches())).inputs.shape == (2, 3072)


def test_photographs_with_an_attribute_have_its_labels_by_their_names(empty_folder: Path) -> None:
    photographs(empty_folder)
    listed = ["6", "Bald Male Young"]
    listed += [f"{number:06d}.jpg -1 {'1' if number % 2 else '-1'} 1" for number in (202_599, 182_638, 162_770, 1)]
    (empty_folder / "celeba" / "list_attr_celeba.txt").write_text("\n".join(listed))
    assert datasets.load("celeba-gender", "train").data[1].tolist() == [1, 0]
    assert datasets.load("celeba-gender", "test").data[1].tolist() == [0, 1]
    with pytest.raises(DataError, match="says nothing about"):
        datasets.load("celeba-gender", "all")


@pytest.mark.parametrize(
    ("content", "words"), [(None, "cannot be read"), ("6\nBald Young\n", "no column"), ("", "no column")]
)
def test_a_list_of_attributes_that_does_not_help_is_one_clear_line(
    empty_folder: Path, content: str | None, words: str
) -> None:
    photographs(empty_folder)
    if content is not None:
        (empty_folder / "celeba" / "list_attr_celeba.txt").write_text(content)
    with pytest.raises(DataError, match=words):
        datasets.load("celeba-gender")


def test_larger_photographs_come_from_the_same_files(empty_folder: Path) -> None:
    photographs(empty_folder)
    images, _ = datasets.load("celeba-64", "all").data
    assert images.shape == (6, 64, 64, 3)


def test_house_numbers_are_read_from_matlab_files(empty_folder: Path) -> None:
    from scipy.io import savemat

    (empty_folder / "svhn").mkdir()
    pixels = np.random.default_rng(0).integers(0, 256, (32, 32, 3, 4), dtype=np.uint8)
    labels = np.array([[1], [10], [9], [2]], dtype=np.uint8)
    savemat(empty_folder / "svhn" / "train_32x32.mat", {"X": pixels, "y": labels})
    images, classes = datasets.load("svhn").data
    assert np.array_equal(images[2], pixels[..., 2])
    assert classes.tolist() == [1, 0, 9, 2]
    next(iter(open_source(datasets.load("svhn").data, datasets.schema("svhn")).batches()))
    (empty_folder / "svhn" / "test_32x32.mat").write_bytes(b"nothing of the kind")
    with pytest.raises(DataError, match="damaged"):
        datasets.load("svhn", "test")


def test_missing_or_damaged_photographs_are_one_clear_line(empty_folder: Path) -> None:
    with pytest.raises(DataError, match="SIMULACRA_DATA"):
        datasets.load("celeba")
    photographs(empty_folder)
    place = empty_folder / "celeba" / "img_align_celeba"
    (place / "000001.jpg").write_bytes(b"not a photograph")
    with pytest.raises(DataError, match="damaged"):
        datasets.load("celeba")
    for file in place.iterdir():
        file.unlink()
    with pytest.raises(DataError, match="no photograph"):
        datasets.load("celeba", "test")

from __future__ import annotations

import gzip
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from simulacra.data import open_source
from simulacra.data.images import ImageSource, from_uint8, to_uint8
from simulacra.data.reference import Reference
from simulacra.data.tables import describe_problems
from simulacra.errors import DataError, SchemaError
from simulacra.schema import Boolean, ImageShape, Schema

GREY = Schema(image=ImageShape(height=4, width=3, classes=("cat", "dog")))
COLOUR = Schema(image=ImageShape(height=4, width=3, channels=3))
RANDOM = np.random.default_rng(0)
IMAGES = RANDOM.integers(0, 256, (10, 4, 3), dtype=np.uint8)
LABELS = RANDOM.integers(0, 2, 10)


def write_idx(path: Path, array: np.ndarray[Any, Any]) -> None:
    raw = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.astype(np.uint8).tobytes()
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)


def write_folder(path: Path) -> None:
    for number, (image, label) in enumerate(zip(IMAGES, LABELS, strict=True)):
        folder = path / ("cat", "dog")[label]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(folder / f"{number:03d}.png")


def read(data: object, schema: Schema = GREY) -> tuple[np.ndarray[Any, Any], list[int]]:
    reference = Reference.load(data, schema)
    assert reference.inputs.dtype == torch.float32
    assert bool((reference.inputs.abs() <= 1).all())
    return to_uint8(reference.inputs, schema), reference.labels.tolist()


def test_arrays_archives_and_idx_files_give_the_same_records(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", x=IMAGES, y=LABELS)
    np.savez(tmp_path / "b.npz", images=IMAGES[..., None], labels=LABELS[:, None].astype(np.uint8))
    np.savez(tmp_path / "c.npz", xtr=IMAGES, ytr=LABELS, xte=IMAGES[:1], yte=LABELS[:1])
    for suffix in ("", ".gz"):
        write_idx(tmp_path / f"t-images-idx3-ubyte{suffix}", IMAGES)
        write_idx(tmp_path / f"t-labels-idx1-ubyte{suffix}", LABELS)
    files = [tmp_path / name for name in ("a.npz", "b.npz", "c.npz", "t-images-idx3-ubyte", "t-images-idx3-ubyte.gz")]
    for data in [(IMAGES, LABELS), *files, str(files[0])]:
        images, labels = read(data)
        assert np.array_equal(images, IMAGES)
        assert labels == LABELS.tolist()


def test_a_folder_has_one_subfolder_per_class(tmp_path: Path) -> None:
    write_folder(tmp_path)
    (tmp_path / "cat" / "notes.txt").write_text("not an image")
    images, labels = read(tmp_path)
    order = np.argsort(LABELS, kind="stable")
    assert np.array_equal(images, IMAGES[order])
    assert labels == LABELS[order].tolist()


def test_a_folder_without_classes_is_flat_and_colour_follows_the_schema(tmp_path: Path) -> None:
    colour = RANDOM.integers(0, 256, (3, 4, 3, 3), dtype=np.uint8)
    for number, image in enumerate(colour):
        Image.fromarray(image).save(tmp_path / f"{number}.png")
    images, labels = read(tmp_path, COLOUR)
    assert np.array_equal(images, colour)
    assert labels == [0, 0, 0]


def test_pixels_are_encoded_channels_first() -> None:
    image = np.arange(24, dtype=np.uint8).reshape(1, 2, 4, 3)
    encoded = from_uint8(image)[0]
    assert torch.allclose(encoded[:8], torch.from_numpy(image[0, :, :, 0].reshape(-1) / 127.5 - 1).float())
    every = np.arange(256, dtype=np.uint8).reshape(1, 16, 16)
    schema = Schema(image=ImageShape(height=16, width=16))
    assert np.array_equal(to_uint8(from_uint8(every[..., None]), schema), every)
    assert to_uint8(torch.full((1, 256), float("nan")), schema).max() == 128


def test_a_label_outside_the_classes_counts_as_the_first() -> None:
    data = (IMAGES[:4], np.array([1, 7, -3, 0]))
    assert read(data)[1] == [1, 0, 0, 0]
    assert [(problem.column, problem.unknown) for problem in describe_problems(data, GREY)] == [("label", 2)]
    assert describe_problems((IMAGES, LABELS), GREY) == []


def test_batches_are_bounded() -> None:
    source = ImageSource((IMAGES, LABELS), GREY, batch_images=4)
    assert [len(batch.labels) for batch in source.batches()] == [4, 4, 2]
    assert isinstance(open_source((IMAGES, LABELS), GREY), ImageSource)


def test_what_headers_show_is_refused_at_once(tmp_path: Path) -> None:
    cases: list[tuple[Any, str]] = [
        ((IMAGES[:, :3], LABELS), "3 x 3 x 1 .*the schema says 4 x 3 x 1"),
        ((np.repeat(IMAGES[..., None], 3, axis=3), LABELS), "4 x 3 x 3"),
        ((IMAGES.astype(np.float32), LABELS), "uint8"),
        ((IMAGES, None), "has no labels"),
        (IMAGES, "has no labels"),
        ((IMAGES, LABELS[:5]), "one label per image"),
        ((IMAGES, LABELS.astype(float)), "whole numbers"),
        ([1, 2], "got list"),
        (tmp_path / "absent.npz", "no data file"),
        (tmp_path / "absent", "no data file"),
        (tmp_path / "absent-images-idx3-ubyte", "no data file"),
        (tmp_path, "holds no .png"),
    ]
    for data, message in cases:
        with pytest.raises(DataError, match=message):
            ImageSource(data, GREY)
    with pytest.raises(SchemaError, match="table"):
        ImageSource((IMAGES, LABELS), Schema(columns=(Boolean(name="b"),)))


def test_wrong_archives_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "keys.npz", pictures=IMAGES)
    np.savez(tmp_path / "objects.npz", x=np.array([None, {}], dtype=object), y=LABELS[:2], allow_pickle=True)
    np.savez(tmp_path / "whole.npz", x=IMAGES, y=LABELS)
    raw = (tmp_path / "whole.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(raw[: len(raw) // 2])
    (tmp_path / "empty.npz").write_bytes(b"")
    (tmp_path / "pixels.npz").write_bytes(raw.replace(IMAGES.tobytes(), bytes(IMAGES.nbytes)))
    (tmp_path / "x.txt").write_text("?")
    for name, message in (
        ("keys.npz", "no array of images"),
        ("objects.npz", "uint8"),
        ("cut.npz", "cut short"),
        ("empty.npz", "is empty"),
        ("pixels.npz", "get a fresh copy"),
        ("x.txt", "unknown kind"),
    ):
        with pytest.raises(DataError, match=message):
            ImageSource(tmp_path / name, GREY).check()


def test_damaged_idx_files_are_refused(tmp_path: Path) -> None:
    write_idx(tmp_path / "t-images-idx3-ubyte", IMAGES)
    write_idx(tmp_path / "t-labels-idx1-ubyte", LABELS)
    raw = (tmp_path / "t-images-idx3-ubyte").read_bytes()
    for damaged, message in ((raw[:-7], "cut short"), (raw[:6], "not an idx file"), (b"PK" + raw, "not an idx file")):
        (tmp_path / "t-images-idx3-ubyte").write_bytes(damaged)
        with pytest.raises(DataError, match=message):
            ImageSource(tmp_path / "t-images-idx3-ubyte", GREY).check()


def test_damaged_or_mixed_images_in_a_folder_are_found_by_check(tmp_path: Path) -> None:
    write_folder(tmp_path)
    last = sorted((tmp_path / "dog").iterdir())[-1]
    whole = last.read_bytes()
    last.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="cut short"):
        ImageSource(tmp_path, GREY).check()
    Image.fromarray(np.zeros((5, 5), np.uint8)).save(last)
    with pytest.raises(DataError, match="is 5 x 5, the schema says 4 x 3"):
        ImageSource(tmp_path, GREY).check()
    last.write_bytes(whole)
    ImageSource(tmp_path, GREY).check()


def test_folders_must_match_the_classes(tmp_path: Path) -> None:
    write_folder(tmp_path)
    flat = Schema(image=ImageShape(height=4, width=3))
    with pytest.raises(DataError, match=r"list them in the schema as image\.classes"):
        ImageSource(tmp_path, flat)
    (tmp_path / "dogs").mkdir()
    with pytest.raises(DataError, match='"dogs" is no class of the schema; did you mean "dog"'):
        ImageSource(tmp_path, GREY)
    with pytest.raises(DataError, match="no subfolders"):
        ImageSource(tmp_path / "cat", GREY)

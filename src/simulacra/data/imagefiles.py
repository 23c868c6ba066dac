"""Where images are kept: arrays, .npz archives, idx files, folders with a subfolder per class."""

from __future__ import annotations

import gzip
import struct
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulacra.errors import DataError, suggestion
from simulacra.schema import ImageShape

NPZ_KEYS = (("x", "y"), ("images", "labels"), ("xtr", "ytr"), ("x_train", "y_train"))
IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg")
_DAMAGE = (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile, zlib.error, struct.error)

Pixels = NDArray[np.uint8]
Classes = NDArray[np.int64]


class ImageReader(ABC):
    """Images of one size that can be read again and again."""

    where: str
    """How error messages call it."""
    shape: tuple[int, int, int]
    """Height, width and channels, from the header."""

    @abstractmethod
    def match(self, image: ImageShape) -> None:
        """Raise DataError if headers and names show that this is not what the schema describes."""

    @abstractmethod
    def batches(self, size: int) -> Iterator[tuple[Pixels, Classes]]:
        """A fresh pass: pixels (n, height, width, channels) and class numbers, 0 where there is no label."""


class StoredImages(ImageReader):
    """Images that are one big array of bytes: the shape is known from the header, the pixels are read when needed."""

    labelled: bool

    def __init__(self, where: str, shape: tuple[int, ...], dtype: Any, *, label_shape: tuple[int, ...] | None) -> None:
        self.where = where
        self._loaded: tuple[Pixels, Classes | None] | None = None
        if len(shape) not in (3, 4) or np.dtype(dtype) != np.uint8:
            raise DataError(
                f"{where}: images must be bytes (uint8) of shape (n, height, width[, channels]); convert them"
            )
        self.shape = (shape[1], shape[2], shape[3] if len(shape) == 4 else 1)
        self.labelled = label_shape is not None
        if label_shape is not None and (label_shape[0] != shape[0] or any(size != 1 for size in label_shape[1:])):
            raise DataError(f"{where}: there must be one label per image; the arrays do not fit together")

    def match(self, image: ImageShape) -> None:
        _match_shape(self.where, self.shape, image)
        if image.classes and not self.labelled:
            raise DataError(
                f"{self.where} has no labels, but the schema lists classes; add labels or remove image.classes"
            )

    def batches(self, size: int) -> Iterator[tuple[Pixels, Classes]]:
        if self._loaded is None:
            try:
                self._loaded = self._load()
            except _DAMAGE:
                raise DataError(f"{self.where} is damaged or cut short; get a fresh copy") from None
        pixels, labels = self._loaded
        for start in range(0, len(pixels), size):
            part = pixels[start : start + size].reshape(-1, *self.shape)
            classes = np.zeros(len(part), dtype=np.int64) if labels is None else labels[start : start + size]
            yield part, classes

    @abstractmethod
    def _load(self) -> tuple[Pixels, Classes | None]:
        """All pixels and labels."""


class ArrayImages(StoredImages):
    """A pair of arrays that are in memory already."""

    def __init__(self, images: Any, labels: Any) -> None:
        self._images = np.asarray(images)
        self._labels = None if labels is None else np.asarray(labels)
        where = "the image array"
        shape = None if self._labels is None else _label_shape(where, self._labels.shape, self._labels.dtype)
        super().__init__(where, self._images.shape, self._images.dtype, label_shape=shape)

    def _load(self) -> tuple[Pixels, Classes | None]:
        return self._images, None if self._labels is None else _as_classes(self._labels)


class NpzImages(StoredImages):
    """Two arrays of an .npz file, called x and y, images and labels, or xtr and ytr."""

    def __init__(self, path: Path) -> None:
        self._path = path
        where = f'data file "{path}"'
        headers = _npz_headers(path, where)
        images, labels = self._keys = _npz_keys(where, headers)
        label_shape = None if labels is None else _label_shape(where, *headers[labels])
        super().__init__(where, *headers[images], label_shape=label_shape)

    def _load(self) -> tuple[Pixels, Classes | None]:
        with np.load(self._path, allow_pickle=False) as archive:
            images, key = archive[self._keys[0]], self._keys[1]
            return images, None if key is None else _as_classes(archive[key])


class IdxImages(StoredImages):
    """A pair of idx files, plain or gzipped; labels lie beside the images, `images-idx3` read as `labels-idx1`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._labels = path.with_name(
            path.name.replace("images", "labels").replace("idx3", "idx1").replace("idx4", "idx1")
        )
        if self._labels == path or not self._labels.exists():
            self._labels = path
        where = f'data file "{path}"'
        if not path.exists():
            raise DataError(f'no data file "{path}"; check the path')
        try:
            shape = _idx_header(path)[1]
            label_shape = None if self._labels == path else _idx_header(self._labels)[1]
        except _DAMAGE:
            raise DataError(f"{where} is not an idx file of bytes, or is cut short; get a fresh copy") from None
        super().__init__(where, shape, np.uint8, label_shape=label_shape)

    def _load(self) -> tuple[Pixels, Classes | None]:
        return read_idx(self._path), None if self._labels == self._path else _as_classes(read_idx(self._labels))


class FolderImages(ImageReader):
    """PNG and JPEG files, in one subfolder per class, or all in one folder if there are no classes."""

    def __init__(self, path: Path) -> None:
        self.where = f'image folder "{path}"'
        self._path = path
        self._folders = sorted(
            folder for folder in path.iterdir() if folder.is_dir() and not folder.name.startswith(".")
        )
        self._classes: dict[str, int] = {}
        first = next((file for folder in self._folders or [path] for file in _image_files(folder)), None)
        if first is None:
            raise DataError(f"{self.where} holds no {', '.join(IMAGE_SUFFIXES)} file")
        self.shape = self._open(first, None)[1]

    def match(self, image: ImageShape) -> None:
        _match_shape(self.where, (*self.shape[:2], image.channels), image)
        self.shape = (image.height, image.width, image.channels)
        if image.classes and not self._folders:
            raise DataError(
                f"{self.where} has no subfolders, but the schema lists classes; make one subfolder per class"
            )
        if self._folders and not image.classes:
            raise DataError(
                f"{self.where} has subfolders; list them in the schema as image.classes, or move the images up"
            )
        for folder in self._folders:
            if folder.name not in image.classes:
                raise DataError(
                    f'{self.where}: the subfolder "{folder.name}" is no class of the schema'
                    f"{suggestion(folder.name, image.classes)}"
                )
        self._classes = {name: number for number, name in enumerate(image.classes)}

    def batches(self, size: int) -> Iterator[tuple[Pixels, Classes]]:
        files = [file for folder in self._folders or [self._path] for file in _image_files(folder)]
        for start in range(0, len(files), size):
            part = files[start : start + size]
            pixels = np.stack([self._open(file, self.shape)[0] for file in part])
            yield pixels, np.array([self._classes.get(file.parent.name, 0) for file in part], dtype=np.int64)

    def _open(self, file: Path, shape: tuple[int, int, int] | None) -> tuple[Pixels, tuple[int, int, int]]:
        """The pixels in the wanted shape, and the shape in the file; with no wanted shape only the header is read."""
        from PIL import Image

        where = f'image file "{file}"'
        deep = False
        try:
            with Image.open(file, formats=("PNG", "JPEG")) as image:
                found = (image.height, image.width, 1 if image.mode in ("1", "L") else 3)
                deep = image.mode.startswith(("I", "F"))
                if shape is None and not deep:
                    return np.zeros((0, 0, 0), dtype=np.uint8), found
                if shape is not None and not deep and found[:2] == shape[:2]:
                    pixels = np.asarray(image.convert("L" if shape[2] == 1 else "RGB"), dtype=np.uint8)
                    return pixels.reshape(shape), found
        except Exception as error:
            if isinstance(error, MemoryError):
                raise
            raise DataError(
                f"{where} is not a PNG or JPEG image, or is cut short; get a fresh copy or remove it"
            ) from None
        if deep or shape is None:  # a conversion would cut most values to white
            raise DataError(f"{where} has more than 8 bits per channel; save it with 8 bits per channel")
        raise DataError(
            f"{where} is {found[0]} x {found[1]}, the schema says {shape[0]} x {shape[1]}; bring all images to one size"
        )


def read_npz(path: Path) -> tuple[NDArray[Any], Classes | None]:
    """The arrays of an .npz file as they are, of any type; None if there are no labels."""
    where = f'data file "{path}"'
    images, labels = _npz_keys(where, _npz_headers(path, where))
    try:
        with np.load(path, allow_pickle=False) as archive:
            return archive[images], None if labels is None else _as_classes(archive[labels])
    except _DAMAGE:
        raise DataError(f"{where} is damaged or cut short; get a fresh copy") from None


def read_idx(path: Path) -> Pixels:
    """The whole of an idx file of bytes."""
    start, shape = _idx_header(path)
    with _open_bytes(path) as file:
        file.read(start)
        raw = file.read()
    if len(raw) != int(np.prod(shape)):
        raise ValueError("wrong length")
    return np.frombuffer(raw, dtype=np.uint8).reshape(shape)


def _open_bytes(path: Path) -> Any:
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")


def _idx_header(path: Path) -> tuple[int, tuple[int, ...]]:
    with _open_bytes(path) as file:
        zero, kind, dimensions = struct.unpack(">HBB", file.read(4))
        if zero != 0 or kind != 0x08 or not 1 <= dimensions <= 4:
            raise ValueError("not an idx file of bytes")
        return 4 + 4 * dimensions, struct.unpack(f">{dimensions}I", file.read(4 * dimensions))


def _npz_headers(path: Path, where: str) -> dict[str, tuple[tuple[int, ...], Any]]:
    """Shape and type of each array, without reading the arrays."""
    if not path.exists():
        raise DataError(f'no data file "{path}"; check the path')
    if path.stat().st_size == 0:
        raise DataError(f"{where} is empty")
    headers: dict[str, tuple[tuple[int, ...], Any]] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                if not name.endswith(".npy"):
                    continue
                with archive.open(name) as member:
                    version = np.lib.format.read_magic(member)
                    old = version == (1, 0)
                    read = np.lib.format.read_array_header_1_0 if old else np.lib.format.read_array_header_2_0
                    shape, _, dtype = read(member)
                    headers[name.removesuffix(".npy")] = (shape, dtype)
    except _DAMAGE:
        raise DataError(f"{where} is not an .npz file, or is cut short; get a fresh copy") from None
    return headers


def _npz_keys(where: str, headers: dict[str, Any]) -> tuple[str, str | None]:
    """What the arrays of images and of labels are called."""
    for images, labels in NPZ_KEYS:
        if images in headers:
            return images, labels if labels in headers else None
    keys = ", ".join(images for images, _ in NPZ_KEYS)
    raise DataError(f"{where} has no array of images; call it one of {keys}")


def _label_shape(where: str, shape: tuple[int, ...], dtype: Any) -> tuple[int, ...]:
    if np.dtype(dtype).kind not in "iub" or not shape:
        raise DataError(f"{where}: labels must be whole numbers, the number of the class; convert them")
    return shape


def _as_classes(labels: NDArray[Any]) -> Classes:
    # Numbers too large for int64 wrap to something outside the classes, or are class 0 anyway.
    return labels.reshape(len(labels)).astype(np.int64)


def _image_files(folder: Path) -> list[Path]:
    return sorted(
        file for file in folder.iterdir() if file.suffix.lower() in IMAGE_SUFFIXES and not file.name.startswith(".")
    )


def _match_shape(where: str, shape: tuple[int, int, int], image: ImageShape) -> None:
    wanted = (image.height, image.width, image.channels)
    if shape != wanted:
        found, expected = (" x ".join(map(str, size)) for size in (shape, wanted))
        raise DataError(
            f"{where}: images are {found} (height x width x channels), the schema says {expected}; correct one"
        )

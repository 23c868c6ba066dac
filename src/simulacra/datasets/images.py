"""The image data sets: from the data folder, else from the cache or their official homes."""

from __future__ import annotations

import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulacra.data.imagefiles import read_idx
from simulacra.datasets.download import Remote, fetch
from simulacra.datasets.places import cache_folder, data_folder, find
from simulacra.errors import DataError

Images = tuple[NDArray[np.uint8], NDArray[np.int64]]
DIGITS_TRAIN = 1437
CIFAR_BATCH = 5000  # images per mosaic
MOSAIC_ROWS, MOSAIC_COLUMNS, CIFAR_SIDE = 50, 100, 32


def pick_split(split: str, train: Any, test: Any) -> Images:
    """Call the readers that a split needs, and join what they give."""
    parts = [read() for read, wanted in ((train, "train"), (test, "test")) if split in (wanted, "all")]
    return np.concatenate([images for images, _ in parts]), np.concatenate([labels for _, labels in parts])


@dataclass(frozen=True, kw_only=True)
class DigitImages:
    """The 8 x 8 digits that come with scikit-learn; values 0 to 16 are stretched to bytes."""

    def read(self, split: str) -> Images:
        """The first 1,437 images are for training, the rest for testing."""
        from sklearn.datasets import load_digits

        digits = load_digits()
        images = np.round(digits.images * (255 / 16)).astype(np.uint8)
        labels = digits.target.astype(np.int64)
        cut = DIGITS_TRAIN
        return pick_split(split, lambda: (images[:cut], labels[:cut]), lambda: (images[cut:], labels[cut:]))


@dataclass(frozen=True, kw_only=True)
class IdxFamily:
    """Four gzipped idx files, or one .npz file of the data folder with xtr, ytr, xte and yte."""

    name: str
    npz: str
    homes: tuple[str, ...]
    checksums: tuple[str, str, str, str]
    """MD5 of the training images and labels and the test images and labels."""

    def read(self, split: str) -> Images:
        """Bytes of shape (n, 28, 28) and class numbers."""
        npz = find(self.npz)
        if npz is not None:
            return pick_split(split, lambda: _npz_pair(npz, "tr"), lambda: _npz_pair(npz, "te"))
        return pick_split(split, lambda: self._idx_pair("train", 0), lambda: self._idx_pair("t10k", 2))

    def _idx_pair(self, prefix: str, first: int) -> Images:
        pair = []
        for at, suffix in enumerate(("images-idx3-ubyte.gz", "labels-idx1-ubyte.gz")):
            name = f"{prefix}-{suffix}"
            urls = tuple(home + name for home in self.homes)
            checksum = self.checksums[first + at]
            remote = Remote(name=name, urls=urls, checksum=checksum, algorithm="md5", max_bytes=64 << 20)
            pair.append(read_idx(fetch(remote, cache_folder() / self.name)))
        return pair[0], pair[1].astype(np.int64)


@dataclass(frozen=True, kw_only=True)
class CifarImages:
    """CIFAR-10: lossless mosaics in the data folder, or the binary version (never the pickled one) from its home."""

    remote: Remote

    def read(self, split: str) -> Images:
        """Bytes of shape (n, 32, 32, 3) and class numbers, in the original order."""
        folder = data_folder()
        if folder is not None and (folder / "cifar10" / "train_labels.npy").is_file():
            return pick_split(
                split,
                lambda: _mosaics(folder / "cifar10", "train"),
                lambda: _mosaics(folder / "cifar10", "test"),
            )
        archive = fetch(self.remote, cache_folder() / "cifar10")
        train = [f"data_batch_{number}.bin" for number in range(1, 6)]
        return pick_split(split, lambda: _binary(archive, train), lambda: _binary(archive, ["test_batch.bin"]))


@dataclass(frozen=True, kw_only=True)
class HouseNumbers:
    """Cropped digits in Matlab's format, which only SciPy reads; the digit 0 is class 10 there."""

    remotes: tuple[Remote, Remote]
    """The files for training and testing."""

    def read(self, split: str) -> Images:
        """Bytes of shape (n, 32, 32, 3) and class numbers."""
        return pick_split(split, lambda: self._one(self.remotes[0]), lambda: self._one(self.remotes[1]))

    def _one(self, remote: Remote) -> Images:
        folder = data_folder()
        own = None if folder is None else folder / "svhn" / remote.name
        path = own if own is not None and own.is_file() else fetch(remote, cache_folder() / "svhn")
        try:
            from scipy.io import loadmat

            content = loadmat(path)
            images, labels = content["X"].transpose(3, 0, 1, 2), content["y"].reshape(-1)
        except Exception:
            raise DataError(f'data file "{path}" is damaged, or lacks X and y; get a fresh copy') from None
        return np.ascontiguousarray(images), labels.astype(np.int64) % 10


def _npz_pair(path: Path, suffix: str) -> Images:
    try:
        with np.load(path, allow_pickle=False) as archive:
            return archive[f"x{suffix}"], archive[f"y{suffix}"].astype(np.int64)
    except Exception:
        raise DataError(f'data file "{path}" is damaged, or lacks x{suffix} and y{suffix}; get a fresh copy') from None


def _mosaics(folder: Path, prefix: str) -> Images:
    from PIL import Image

    try:
        labels = np.load(folder / f"{prefix}_labels.npy", allow_pickle=False).astype(np.int64)
        parts = []
        for number in range(len(labels) // CIFAR_BATCH):
            with Image.open(folder / f"{prefix}_{number:02d}.webp") as image:
                mosaic = np.asarray(image.convert("RGB"), dtype=np.uint8)
            grid = mosaic.reshape(MOSAIC_ROWS, CIFAR_SIDE, MOSAIC_COLUMNS, CIFAR_SIDE, 3)
            parts.append(grid.transpose(0, 2, 1, 3, 4).reshape(CIFAR_BATCH, CIFAR_SIDE, CIFAR_SIDE, 3))
        return np.concatenate(parts), labels
    except Exception:
        raise DataError(f'the {prefix} images in "{folder}" are damaged or incomplete; get a fresh copy') from None


def _binary(archive: Path, members: list[str]) -> Images:
    """Records of one class byte and 3 x 32 x 32 pixels; members are read by name, nothing is unpacked to disk."""
    rows = {}
    try:
        with tarfile.open(archive, "r:gz") as tar:
            for member in tar:
                name = Path(member.name).name
                file = tar.extractfile(member) if name in members and member.isfile() else None
                if file is not None:
                    rows[name] = np.frombuffer(file.read(), dtype=np.uint8).reshape(-1, 1 + 3 * CIFAR_SIDE**2)
        table = np.concatenate([rows[name] for name in members])
    except Exception:
        raise DataError(f'"{archive}" is damaged or incomplete; remove it, and it will be downloaded again') from None
    images = table[:, 1:].reshape(-1, 3, CIFAR_SIDE, CIFAR_SIDE).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(images), table[:, 0].astype(np.int64)

"""CelebA from the data folder: aligned photographs, brought to 32 x 32 as the papers do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from simulacra.datasets.places import DATA_VARIABLE, data_folder
from simulacra.errors import DataError

LAST_TRAIN, FIRST_TEST = 162_770, 182_638
"""Numbers of photographs in the official partition; those between are for validation."""


@dataclass(frozen=True, kw_only=True)
class FaceImages:
    """JPEG files named by their number. "all" is everything, which is what DP-MEPF and DP-NTK train on.

    Without an attribute there are no labels; with one, its column of the official list: 1 where the list says 1.
    """

    folder: str
    side: int = 32
    attribute: str | None = None
    list_file: str = "celeba/list_attr_celeba.txt"

    def read(self, split: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Bytes of shape (n, side, side, 3), and labels, which are zeros where there are none."""
        files = [path for path in self._files() if _in_split(int(path.stem), split)]
        if not files:
            raise DataError(f'no photograph of the split "{split}" in the folder {self.folder}; get a fresh copy')
        images = np.empty((len(files), self.side, self.side, 3), dtype=np.uint8)
        for number, path in enumerate(files):
            images[number] = self._small(path)
        return images, self._labels([path.name for path in files])

    def _labels(self, names: list[str]) -> NDArray[np.int64]:
        if self.attribute is None:
            return np.zeros(len(names), dtype=np.int64)
        root = data_folder()
        assert root is not None  # the photographs were there
        try:
            lines = (root / self.list_file).read_text(encoding="ascii").splitlines()
        except (OSError, UnicodeDecodeError):
            raise DataError(f"the list of attributes {self.list_file} cannot be read; put CelebA's there") from None
        header = lines[1].split() if len(lines) > 1 else []
        if self.attribute not in header:
            raise DataError(f'{self.list_file} has no column "{self.attribute}" in its second line; get a fresh copy')
        column = header.index(self.attribute) + 1
        listed = {words[0]: words[column] for words in map(str.split, lines[2:]) if len(words) == len(header) + 1}
        missing = [name for name in names if listed.get(name) not in ("1", "-1")]
        if missing:
            raise DataError(f'{self.list_file} says nothing about "{missing[0]}"; get a fresh copy')
        return np.array([listed[name] == "1" for name in names], dtype=np.int64)

    def _files(self) -> list[Path]:
        root = data_folder()
        place = None if root is None else root / self.folder
        if place is None or not place.is_dir():
            raise DataError(
                f'data set "celeba" is not here and cannot be downloaded with a checksum; put its aligned photographs '
                f"into {self.folder} of a folder and set {DATA_VARIABLE} to that folder"
            )
        return sorted(path for path in place.glob("*.jpg") if path.stem.isdigit())

    def _small(self, path: Path) -> NDArray[np.uint8]:
        """The shorter side becomes `side`, and the middle is kept."""
        from PIL import Image

        try:
            with Image.open(path, formats=("JPEG",)) as image:
                scale = self.side / min(image.size)
                width, height = (max(self.side, round(length * scale)) for length in image.size)
                small = image.convert("RGB").resize((width, height), Image.Resampling.BILINEAR)
        except OSError:
            raise DataError(f'photograph "{path.name}" in {self.folder} is damaged; get a fresh copy') from None
        left, top = (width - self.side) // 2, (height - self.side) // 2
        return np.asarray(small, dtype=np.uint8)[top : top + self.side, left : left + self.side]


def _in_split(number: int, split: str) -> bool:
    return split == "all" or (number <= LAST_TRAIN if split == "train" else number >= FIRST_TEST)

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
    """JPEG files named by their number; no labels. "all" is everything, which is what DP-MEPF and DP-NTK train on."""

    folder: str
    side: int = 32

    def read(self, split: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Bytes of shape (n, side, side, 3), and zeros where labels would be."""
        files = [path for path in self._files() if _in_split(int(path.stem), split)]
        if not files:
            raise DataError(f'no photograph of the split "{split}" in the folder {self.folder}; get a fresh copy')
        images = np.empty((len(files), self.side, self.side, 3), dtype=np.uint8)
        for number, path in enumerate(files):
            images[number] = self._small(path)
        return images, np.zeros(len(files), dtype=np.int64)

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

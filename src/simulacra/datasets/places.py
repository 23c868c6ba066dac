"""Where data files are: the owner's data folder, the cache, and what to say when they are in neither."""

from __future__ import annotations

import os
from pathlib import Path

from simulacra.errors import DataError

DATA_VARIABLE = "SIMULACRA_DATA"
CACHE_VARIABLE = "SIMULACRA_CACHE"


def data_folder() -> Path | None:
    """The folder that SIMULACRA_DATA names, if it is set; naming one that does not exist is an error."""
    value = os.environ.get(DATA_VARIABLE)
    if not value:
        return None
    folder = Path(value)
    if not folder.is_dir():
        raise DataError(f'{DATA_VARIABLE} names "{folder}", which is not a folder; correct or unset it')
    return folder


def cache_folder() -> Path:
    """Where downloads are kept."""
    value = os.environ.get(CACHE_VARIABLE)
    return Path(value) if value else Path.home() / ".cache" / "simulacra"


def find(relative: str) -> Path | None:
    """A file of the data folder, or None."""
    folder = data_folder()
    path = None if folder is None else folder / relative
    return path if path is not None and path.is_file() else None


def require(name: str, relative: str, origin: str) -> Path:
    """A file of the data folder, or an error that says where to put it."""
    path = find(relative)
    if path is None:
        raise DataError(
            f'data set "{name}" is not here and cannot be downloaded with a checksum; '
            f"put {relative} (from {origin}) into a folder and set {DATA_VARIABLE} to that folder"
        )
    return path

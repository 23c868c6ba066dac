"""Files that survive a crash: whole or not there at all, and on the disk before the call returns."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from simulacra.errors import OutputError


def canonical(values: Any) -> str:
    """The one way this project writes JSON that is hashed: sorted keys, no spaces, no NaN."""
    return json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def write_durably(path: Path, content: bytes) -> None:
    """Write beside, flush to disk, rename into place, flush the folder."""
    beside = path.with_name(path.name + ".partial")
    try:
        with open(beside, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
        sync_folder(path.parent)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise OutputError(f'cannot write "{path}": {error.strerror}; free space or choose another folder') from None


def sync_folder(folder: Path) -> None:
    """Make a rename or a new file in a folder durable (a no-op where folders cannot be opened, as on Windows)."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

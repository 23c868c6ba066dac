"""Downloads with a published checksum: into a temporary neighbour, verified, then renamed."""

from __future__ import annotations

import hashlib
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path

from simulacra.errors import DataError

BLOCK_BYTES = 1 << 16
TIMEOUT_SECONDS = 30.0
LEAST_DIGITS = 8
"""Of a checksum whose beginning alone is published."""

Progress = Callable[[int, int | None], None]
"""Called with the bytes read so far and, if known, the total."""


@dataclass(frozen=True, kw_only=True)
class Remote:
    """One file of a data set: where it may be had, its published checksum, and the most it may weigh.

    Where only the beginning of a checksum is published, that much of it is compared.
    """

    name: str
    urls: tuple[str, ...]
    checksum: str
    algorithm: str = "sha256"
    max_bytes: int = 1 << 30

    def __post_init__(self) -> None:
        if len(self.checksum) < LEAST_DIGITS:
            raise ValueError(f"{self.name}: {self.checksum!r} is too short for a checksum; many files begin so")


def fetch(remote: Remote, folder: Path, progress: Progress | None = None) -> Path:
    """The file in `folder`, downloaded if it is not there; it is verified each time it is asked for."""
    target = folder / remote.name
    if target.is_file():
        if _digest(target, remote.algorithm).startswith(remote.checksum):
            return target
        raise DataError(f'"{target}" does not have the published checksum; remove it, and it will be downloaded again')
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f'cannot create the cache folder "{folder}": {error.strerror}') from None
    problems: list[str] = []
    for url in remote.urls:
        problem = _try(url, remote, target, progress)
        if problem is None:
            return target
        problems.append(f"{url}: {problem}")
    raise DataError(_failure(remote, folder, problems))


def _try(url: str, remote: Remote, target: Path, progress: Progress | None) -> str | None:
    """Download from one address; what went wrong, or None."""
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    digest = hashlib.new(remote.algorithm, usedforsecurity=False)
    try:
        request = urllib.request.Request(url, headers={"User-Agent": "simulacra"})
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response, part.open("wb") as file:
            length = response.headers.get("Content-Length")
            total = int(length) if length is not None and length.isdigit() else None
            done = 0
            while block := response.read(BLOCK_BYTES):
                done += len(block)
                if done > remote.max_bytes:
                    return f"larger than {remote.max_bytes} bytes"
                digest.update(block)
                file.write(block)
                if progress is not None:
                    progress(done, total)
        if not digest.hexdigest().startswith(remote.checksum):
            return "wrong checksum"
        os.replace(part, target)
    except (OSError, HTTPException, ValueError) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()
            return f"HTTP status {error.code}"
        return str(getattr(error, "reason", None) or getattr(error, "strerror", None) or "cut short")
    finally:
        part.unlink(missing_ok=True)
    return None


def _digest(path: Path, algorithm: str) -> str:
    digest = hashlib.new(algorithm, usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def _failure(remote: Remote, folder: Path, problems: Sequence[str]) -> str:
    return f'cannot download {remote.name} ({"; ".join(problems)}); get it by hand and put it into "{folder}"'

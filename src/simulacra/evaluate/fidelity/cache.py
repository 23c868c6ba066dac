"""Statistics of reference images, kept by content: the second evaluation against the same images reads them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from simulacra.datasets.places import cache_folder
from simulacra.errors import OutputError
from simulacra.evaluate.fidelity.extraction import Extractor
from simulacra.evaluate.fidelity.statistics import KEEP, Statistics, collect
from simulacra.networks.weights import contents_checksum
from simulacra.privacy.durable import write_durably

FORMAT = 2
CHECKSUM = "contents"


def cached(
    images: NDArray[np.uint8], extractor: Extractor, *, progress: Callable[[int, int], None] | None = None
) -> Statistics:
    """The statistics of these very images, from the cache folder if they were computed before.

    The name of the file is a checksum of the pixels and of all that decides the features. A file that cannot be read
    is computed again, and a folder that cannot be written is not a reason to fail.
    """
    path = folder() / f"{key(images, extractor)}.safetensors"
    found = _read(path)
    if found is not None:
        return found
    computed = collect(images, extractor, progress=progress)
    with suppress(OSError, OutputError):
        # Computed on real images: nobody else on this machine need read it.
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.parent.chmod(0o700)
        _write(path, computed)
    return computed


def folder() -> Path:
    """Where statistics are kept."""
    return cache_folder() / "statistics"


def key(images: NDArray[np.uint8], extractor: Extractor) -> str:
    """One name per content."""
    digest = hashlib.sha256(f"{FORMAT} {KEEP} {extractor.identity} {images.shape}".encode())
    digest.update(np.ascontiguousarray(images).data)
    return digest.hexdigest()


def _write(path: Path, statistics: Statistics) -> None:
    from safetensors.torch import save

    tensors = {
        "count": torch.tensor(statistics.count),
        "mean": statistics.mean,
        "covariance": statistics.covariance,
        "kept": statistics.kept,
    }
    ready = {name: tensor.contiguous() for name, tensor in tensors.items()}
    write_durably(path, save(ready, metadata={CHECKSUM: contents_checksum(ready)}))


def _read(path: Path) -> Statistics | None:
    """What was written, if it is still that: a figure must not depend on what somebody did to a file."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  it is no mapping
            promised = (file.metadata() or {}).get(CHECKSUM)
        if promised != contents_checksum(tensors):
            return None
        return Statistics(
            count=int(tensors["count"]), mean=tensors["mean"], covariance=tensors["covariance"], kept=tensors["kept"]
        )
    except (OSError, KeyError, ValueError, SafetensorError):
        return None

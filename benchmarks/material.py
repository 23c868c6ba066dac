"""What a row is scored with: samples, and real records to hold them against. All of it is public benchmark data."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulacra import datasets
from simulacra.evaluate.progress import Progress, silent
from simulacra.schema import Schema

Images = tuple[NDArray[np.uint8], NDArray[np.int64]]
"""Images (n, height, width[, 3]) and their class numbers."""

Records = Any
"""Images, or a table as a DataFrame."""


@dataclass(frozen=True, kw_only=True)
class Real:
    """The real records of one data set, read once each."""

    name: str
    schema: Schema

    @cached_property
    def train(self) -> Records:
        """What methods may learn from."""
        return self._read("train")

    @cached_property
    def test(self) -> Records:
        """What no method has seen."""
        return self._read("test")

    def _read(self, split: str) -> Records:
        found = datasets.load(self.name, split)
        if self.schema.image is not None:
            return found.data
        from simulacra.data.reference import Reference

        return Reference.load(found.data, self.schema).frame()


@dataclass(frozen=True, kw_only=True)
class Material:
    """One row's samples and all that a scoring may need besides."""

    samples: Records
    real: Real
    seed: int
    device: str = "cpu"
    progress: Progress = field(default=silent)


def digest(records: Records) -> str:
    """SHA-256 of the values, whatever file they came in."""
    total = hashlib.sha256()
    if isinstance(records, tuple):
        for array in records:
            total.update(f"{array.dtype} {array.shape}\n".encode())
            total.update(np.ascontiguousarray(array).data.cast("B"))
    else:
        import pandas as pd

        total.update(" ".join(map(str, records.columns)).encode())
        total.update(pd.util.hash_pandas_object(records, index=False).to_numpy().tobytes())
    return total.hexdigest()

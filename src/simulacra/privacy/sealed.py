"""Sealed: private records behind glass: no length, no index, no contents to print. Only the vault opens it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, final

import torch

from simulacra.privacy.records import Records, Source
from simulacra.schema import Schema


@final
class Sealed:
    """Private records, made valid by the schema on their way in: NaN becomes 0, everything is clamped to [-1, 1].

    Being total matters: an error that depends on the records would itself be a leak.
    """

    __slots__ = ("_schema", "_source")

    def __init__(self, source: Source, schema: Schema) -> None:
        self._source = source
        self._schema = schema

    def __repr__(self) -> str:
        return "Sealed()"

    def __reduce__(self) -> Any:
        raise TypeError("private records are not pickled or copied")

    def _batches(self) -> Iterator[Records]:
        """For `summing` alone."""
        for batch in self._source.batches():
            inputs = torch.nan_to_num(batch.inputs.to(torch.float32), nan=0.0).clamp(-1.0, 1.0)
            yield Records(inputs=inputs, labels=batch.labels.clamp(0, self._schema.classes - 1))


@final
class SealedValues:
    """The private texts of one column, one per record: for `discovery` alone, which lets out only what many share.

    `read` starts a fresh pass and gives Arrow arrays of texts, null where a record has no value.
    """

    __slots__ = ("_read",)

    def __init__(self, read: Callable[[], Iterable[Any]]) -> None:
        self._read = read

    def __repr__(self) -> str:
        return "SealedValues()"

    def __reduce__(self) -> Any:
        raise TypeError("private values are not pickled or copied")

    def _arrays(self) -> Iterator[Any]:
        """For `discovery` alone."""
        yield from self._read()

"""Clipped sums over private records: one pass, in chunks, accumulated in float64."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from simulacra.errors import PlanError
from simulacra.privacy.query import FeatureMap
from simulacra.privacy.records import Records
from simulacra.privacy.sealed import Sealed

CHUNK_NUMBERS = 4_000_000
"""A chunk's features hold about this many numbers, so that memory does not grow with the data."""
MOST_CHUNK_NUMBERS = 32_000_000
"""A release of more numbers than that has larger chunks, up to here: each is added to all of them."""


def sum_over(
    sealed: Sealed, maps: Mapping[str, FeatureMap], progress: Callable[[], None] | None = None
) -> dict[str, torch.Tensor]:
    """The sums of several maps in one pass. `progress` is called per batch and told nothing: counts are private."""
    totals = {name: torch.zeros(each.shape, dtype=torch.float64) for name, each in maps.items()}
    for batch in sealed._batches():
        for together in _sharing(maps):
            add_in_turn(totals, together, batch)
        if progress:
            progress()
    return totals


def rehearse(maps: Mapping[str, FeatureMap], *, inputs: int, classes: int) -> None:
    """A full chunk of zeros through every map, before anything is spent: what cannot work fails here and costs nothing.

    No record is touched. A release that dies after its reserve is paid for, and again whenever it is resumed.
    """
    try:
        for together in _sharing(maps):
            rows = min(chunk_rows(each, inputs) for each in together.values())
            records = Records(inputs=torch.zeros(rows, inputs), labels=torch.arange(rows) % classes)
            totals = {name: torch.zeros(each.shape, dtype=torch.float64) for name, each in together.items()}
            add_in_turn(totals, together, records)
    except (RuntimeError, MemoryError) as error:
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise PlanError(f"these questions cannot be asked here, and nothing was spent: {reason}") from None


def chunk_rows(feature_map: FeatureMap, inputs: int) -> int:
    """How many records make a chunk: so many that computing it is more work than adding it to the total."""
    numbers = min(MOST_CHUNK_NUMBERS, max(CHUNK_NUMBERS, 2 * feature_map.size))
    return max(16, numbers // max(feature_map.working_size, inputs))


def add_chunks(total: torch.Tensor, feature_map: FeatureMap, batch: Records) -> None:
    """Add a batch's clipped sum to a running total, a chunk at a time."""
    rows = chunk_rows(feature_map, batch.inputs.shape[1])
    for start in range(0, len(batch.inputs), rows):
        inputs = batch.inputs[start : start + rows].to(feature_map.dtype)
        # A closed form must not let NaN pass either: it becomes a zero, as in the specification. In place, because a
        # copy of millions of numbers per chunk took as long as the sum.
        total += feature_map.clipped_sum(inputs, batch.labels[start : start + rows]).nan_to_num_(nan=0.0)


def _sharing(maps: Mapping[str, FeatureMap]) -> list[dict[str, FeatureMap]]:
    """The maps that share their work, together; all others alone."""
    found: dict[int, dict[str, FeatureMap]] = {}
    for name, feature_map in maps.items():
        key = feature_map if feature_map.shared is None else feature_map.shared
        found.setdefault(id(key), {})[name] = feature_map
    return list(found.values())


def add_in_turn(totals: Mapping[str, torch.Tensor], together: Mapping[str, FeatureMap], batch: Records) -> None:
    """Add a batch to the totals of maps that share their work: all of them get a chunk before the next is cut.

    What they keep for each other has no noise yet, so it is forgotten with the chunk, and if anything fails.
    """
    rows = min(chunk_rows(each, batch.inputs.shape[1]) for each in together.values())
    for start in range(0, len(batch.inputs), rows):
        part = slice(start, start + rows)
        chunk = Records(inputs=batch.inputs[part], labels=batch.labels[part])
        try:
            for name, feature_map in together.items():
                add_chunks(totals[name], feature_map, chunk)
        finally:
            for feature_map in together.values():
                if feature_map.shared is not None:
                    feature_map.shared.forget()


def in_memory(sealed: Sealed) -> Records:
    """All records at once, for training loops that sample them again and again."""
    batches = list(sealed._batches())
    if not batches:
        return Records(inputs=torch.zeros(0, sealed._schema.inputs), labels=torch.zeros(0, dtype=torch.int64))
    return Records(
        inputs=torch.cat([batch.inputs for batch in batches]), labels=torch.cat([batch.labels for batch in batches])
    )

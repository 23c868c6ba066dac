"""A condensed set that begins with what a sampler draws: already of the right kind, so that few steps are left."""

from __future__ import annotations

import torch

from simulacra.errors import SettingError
from simulacra.generators.condensed import Condensed
from simulacra.generators.sampler import Sampler


def begin_with_samples(held: Condensed, sampler: Sampler, *, seed: int) -> None:
    """Fill a set with samples, so many of each class; the same seed draws the same."""
    if (sampler.schema.classes, sampler.schema.inputs) != (held.classes, held.records().shape[1]):
        raise SettingError("the sampler makes other records than the set holds; take one of the same schema")
    drawn = sampler.records(len(held), seed=seed, labels=held.labels)
    held.set_records(torch.cat([records.inputs for records in drawn]))

"""A condensed set that begins with what a sampler draws: already of the right kind, so that few steps are left."""

from __future__ import annotations

import torch

from simulacra.errors import SettingError
from simulacra.generators.condensed import Condensed
from simulacra.generators.sampler import Sampler

SPREAD = 0.1
"""Standard deviation of the noise on samples that came out alike."""


def begin_with_samples(held: Condensed, sampler: Sampler, *, seed: int) -> None:
    """Fill a set with samples, so many of each class; the same seed draws the same.

    Samples that are alike, of a class of which nothing but noise is known, say, get noise of their own.
    """
    if (sampler.schema.classes, sampler.schema.inputs) != (held.classes, held.records().shape[1]):
        raise SettingError("the sampler makes other records than the set holds; take one of the same schema")
    if sampler.repeats(len(held), held.labels):  # records that begin alike see the same slope, and stay alike
        raise SettingError(
            f"the sampler is itself a set, of {sampler.size:,} records, and cannot give {len(held):,} different ones; "
            "begin with noise, or condense the run that this set came from"
        )
    drawn = sampler.records(len(held), seed=seed, labels=held.labels)
    held.set_records(torch.cat([records.inputs for records in drawn]))
    with torch.no_grad():
        _, which, times = torch.unique(held.values, dim=0, return_inverse=True, return_counts=True)
        alike = (times[which] > 1).unsqueeze(1)
        random = torch.Generator().manual_seed(seed)
        held.values.add_(SPREAD * torch.randn(held.values.shape, generator=random) * alike)

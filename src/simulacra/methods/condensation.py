"""What LDPDC and NDPDC share: one sampling rate for all classes, noisy counts, and a set of records per class.

**Rates.** The paper samples each class with a rate of its own, L / N_c, and takes N_c from the data. Class sizes are
private, so here all classes share one public rate: a setting, or `group` times the classes over the number of records
that the schema declares public. That needs no counts before the plan is made, and is the better bargain as well: the
accounting pays for the largest rate anyway, and at that rate every class sends at least as many records.

**Per class.** One draw gives the sums of all classes side by side. A record fills the row of its class only, so the
sums together move by at most the clipping bound if it is added or removed: this is the paper's parallel composition
over classes, in which every class has the largest rate. If it is replaced, by a record of another class even, two rows
may move; the accounting of Poisson samples under replace-one covers two records of any direction.

**Counts.** How many records of a class to expect in a sample, rate times N_c, comes from noisy counts that the plan
pays for. A sum is compared with that, never with the true number.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from simulacra.errors import SettingError
from simulacra.features.combine import ClassCount
from simulacra.generators import GeneratorOptions, build, try_out
from simulacra.generators.condensed import Condensed
from simulacra.generators.sampler import Sampler
from simulacra.methods.base import check_shares
from simulacra.methods.looping import PrivateLoop
from simulacra.privacy.query import FeatureMap, Step
from simulacra.privacy.release import Release
from simulacra.schema import Schema

LEAST_COUNT = 1.0


@dataclass(frozen=True, kw_only=True)
class Condensation(PrivateLoop):
    """Settings and steps that both algorithms have."""

    per_class: int = 50
    """M: how many synthetic records of each class."""
    group: float = 50.0
    """L: how many records of a class a sample has, on average over the classes."""
    rate: float | None = None
    """The share of the records that is sampled; by default group x classes / the schema's rows."""
    count_noise: float = 25.0
    """Noise multiplier of the counts, relative to that of the loop."""

    def __post_init__(self) -> None:
        check_shares(self.name, count_noise=self.count_noise)
        if self.per_class < 1 or self.group <= 0:
            raise SettingError(f"{self.name}: per_class must be at least 1 and group positive")

    def questions(self, schema: Schema) -> Mapping[str, FeatureMap]:
        return {"class-counts": ClassCount(schema.classes)}

    def noise_shares(self, schema: Schema) -> Mapping[str, float]:
        return {"class-counts": self.count_noise}

    def remarks(self, schema: Schema) -> Sequence[str]:
        return (
            "one sampling rate for all classes, fixed before any data was seen; class sizes come from the noisy counts",
            "a draw has a row of sums for each class and a record fills the row of its class only, so together they "
            "move by at most the norm bound if it is added or removed (parallel composition over classes, each at the "
            "largest rate), and in at most two rows if it is replaced",
        )

    def plan(self, schema: Schema) -> Sequence[Step]:
        try_out(schema, self.set_options())
        return super().plan(schema)

    @abstractmethod
    def set_options(self) -> GeneratorOptions:
        """The settings of the condensed set."""

    def sample_rate(self, schema: Schema) -> float:
        """The rate, as set or from public numbers; refused if it is none."""
        if self.rate is not None:
            if not 0 < self.rate <= 1:
                raise SettingError(f"{self.name}: rate must be above 0 and at most 1, got {self.rate:g}")
            return self.rate
        if schema.rows is None:
            raise SettingError(
                f"{self.name}: how many records there are is private, so it must be told how many to sample; set rate "
                "(about group x classes / records, by a public guess), or declare rows in the schema"
            )
        rate = self.group * self.groups(schema) / schema.rows
        if rate > 1:
            raise SettingError(
                f"{self.name}: {self.groups(schema)} x {self.group:g} records in a sample are more than the "
                f"{schema.rows} that there are; lower group"
            )
        return rate

    def groups(self, schema: Schema) -> int:
        """How many groups a sample is cut into: one for each class."""
        return schema.classes

    def expected(self, schema: Schema, releases: Mapping[str, Release]) -> torch.Tensor:
        """How many records of each class a sample has on average, going by the noisy counts."""
        return self.sample_rate(schema) * releases["class-counts"].value.clamp(min=LEAST_COUNT)

    def sampler(self, schema: Schema, held: Condensed, options: GeneratorOptions, counts: torch.Tensor) -> Sampler:
        """The set, with the noisy class shares beside it."""
        shares = counts.clamp(min=LEAST_COUNT)
        held.requires_grad_(True).cpu().eval()
        return Sampler(schema=schema, options=options, generator=held, class_shares=(shares / shares.sum()).float())


def fresh_set(schema: Schema, options: GeneratorOptions, seed: int) -> Condensed:
    """A set as it begins, from a seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        held = build(schema, options)
    assert isinstance(held, Condensed)
    return held

"""Discovery: which values a column holds, when nobody has listed them. Gaussian counts and a threshold.

Every value that occurs is counted, each count gets exact Gaussian noise, and only values whose noisy count is above
tau = 1 + std * Phi^-1(1 - beta) leave, with that noisy count. How many values there are, or were dropped, never leaves.
A record without a value counts for the value "", so each record adds one to exactly one count.

Why this is private. The noise on the counts is independent, so the answer is a product over all conceivable values, and
a value that does not occur has the fixed answer "absent". Take two neighbouring data sets D and D', and look at the
values whose counts differ: one under add-remove (the record's), at most two under replace-one (the old and the new).

* A value that occurs in both: its noisy counts are an ordinary Gaussian release. Together the counts move by 1 under
  add-remove and by sqrt(2) under replace-one (one goes down by 1, the other up by 1): the sensitivity of a non-negative
  map of norm 1, which `query.sensitivity` charges. Dropping what is below the threshold is post-processing.
* A value that occurs in only one of them: its count there is 1, because the data sets differ in one record. It is
  reported with probability P(1 + noise > tau) <= beta, and otherwise both sides say "absent". So the two answers for
  this value are within beta in total variation.

For an event S let H be the answers on D with the values of the second kind answered as on D'. Then P_D(S) <= P_H(S) +
k beta, with k the number of such values, and H and D' differ only by Gaussian releases, so P_H(S) <= exp(epsilon)
P_D'(S) + delta. The sum is delta + k beta, with no factor exp(epsilon), since the values are swapped on the left; the
relation is symmetric, so the same holds the other way round. Swapping the answers of one step leaves all other steps as
they are, even those chosen afterwards, so the argument holds for any number of steps, and the failures add up. Hence
`failure_delta` is beta under add-remove (k <= 1) and 2 beta under replace-one (k <= 2).

Exactness. Counts are whole numbers and lie on the noise's grid, so nothing is rounded on the way in. The tail of the
discrete Gaussian from m > 0 on is at most that of the continuous one from m minus a grid step on (each term is at most
the integral over the step before it, and the discrete normaliser is the larger one, by Poisson summation), so tau is a
grid step higher than above. The gap between the two on common values is charged for the at most two numbers a record
can move (`TOUCHED`); all others have the very same distribution on both sides.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from simulacra.errors import CertificateError, OutputError, PlanError
from simulacra.privacy.budget import Adjacency
from simulacra.privacy.durable import canonical, write_durably
from simulacra.privacy.query import GRID, Noise, Step
from simulacra.privacy.release import Release
from simulacra.privacy.sealed import SealedValues

if TYPE_CHECKING:
    from simulacra.privacy.noise import NoiseSource
    from simulacra.privacy.plan import PlannedStep

TOUCHED = 2
"""How many counts one record can move, at most: the size of the step, whatever the number of values."""


def discovery_step(name: str, *, failure_delta: float, relative_noise: float = 1.0) -> Step:
    """A step that `Vault.discover` answers."""
    return Step(
        name=name,
        size=TOUCHED,
        norm_bound=1.0,
        nonnegative=True,
        relative_noise=relative_noise,
        failure_delta=failure_delta,
    )


def admit(planned: PlannedStep) -> None:
    """Refuse a step that was not charged for a discovery."""
    step = planned.step
    if planned.event.noise_multiplier == 0:
        raise PlanError(f'step "{step.name}": values are never discovered without noise; list them in the schema')
    if not 0 < step.failure_delta <= 0.5 or planned.event.failure_delta < step.failure_delta:
        raise PlanError(f'step "{step.name}": no delta was planned for its threshold; plan it with discovery_step')
    if step.norm_bound < 1 or step.size < TOUCHED or step.noise is not Noise.EXACT:
        raise PlanError(f'step "{step.name}": the plan did not charge for counts of values; use discovery_step')


def threshold(planned: PlannedStep) -> float:
    """A noisy count must be above this to leave: a value of a single record passes with probability beta at most."""
    from scipy.stats import norm

    values = 2 if planned.event.adjacency is Adjacency.REPLACE_ONE else 1
    beta = planned.step.failure_delta / values
    return math.nextafter((1 + GRID + planned.noise_std * float(norm.isf(beta))) * (1 + 1e-12), math.inf)


def count(values: SealedValues, progress: Callable[[], None] | None = None) -> Counter[str]:
    """How often each trimmed text occurs; null counts as "". Private: only `above_threshold` may see it."""
    import pyarrow.compute as pc

    counts: Counter[str] = Counter()
    for array in values._arrays():
        found = pc.value_counts(pc.fill_null(pc.utf8_trim_whitespace(array), ""))
        for name, times in zip(found.field("values").to_pylist(), found.field("counts").to_pylist(), strict=True):
            counts[name] += times
        if progress:
            progress()
    return counts


def above_threshold(counts: Mapping[str, int], planned: PlannedStep, noise: NoiseSource) -> dict[str, float]:
    """The values whose noisy count is above the threshold, in the order of the alphabet.

    Nobody is told how far the noise has come: a progress bar would show the number of values.
    """
    names = sorted(counts)
    noisy = noise.exact(np.array([counts[name] for name in names], dtype=np.float64), planned.noise_std)
    least = threshold(planned)
    return {name: float(value) for name, value in zip(names, noisy, strict=True) if value > least}


def sha256(found: Mapping[str, float]) -> str:
    """Hash of what was released, for the ledger."""
    return hashlib.sha256(canonical(dict(found)).encode()).hexdigest()


def save(folder: Path, planned: PlannedStep, found: Mapping[str, float], source: str) -> Release:
    """Spool the answer: NAME.values.json, then the noisy counts as a release, whose last file makes it complete."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f'cannot make the folder "{folder}": {error.strerror}; choose another') from None
    write_durably(_values_file(folder, planned.step.name), (canonical(list(found)) + "\n").encode())
    release = Release(
        step=planned.step.name,
        value=torch.tensor(list(found.values()), dtype=torch.float64),
        noise_std=planned.noise_std,
        noise=source,
        event=planned.event,
    )
    release.save(folder)
    return release


def load(folder: Path, release: Release) -> dict[str, float]:
    """Read a spooled answer back."""
    try:
        names = json.loads(_values_file(folder, release.step).read_bytes())
        return dict(zip(names, release.value.tolist(), strict=True))
    except (OSError, ValueError, TypeError):
        raise CertificateError(f'the values of "{release.step}" cannot be read; use an untouched copy') from None


def _values_file(folder: Path, step: str) -> Path:
    return folder / f"{step}.values.json"

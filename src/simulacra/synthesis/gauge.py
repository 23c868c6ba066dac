"""What noise can do to the loss, as a gauge: noise against signal per class, a bound, and what would make it small.

This is Propositions 4.1 to 4.3 of the DP-MEPF paper (Harder et al., TMLR 2023), with constants. A class has m records,
and its sum of D numbers gets noise of standard deviation s; no record is longer than the norm bound B. The mean
embedding mu = sum / m is then known up to n, with independent normal entries of standard deviation s / m:

* E |n|^2 = (s/m)^2 D. The norm moves by at most s/m per unit of standard noise, so that it exceeds its mean, which is
  at most (s/m) sqrt(D), by (s/m) sqrt(2 ln 20) with probability 5 % at most.
* Let L(t) = |mu - nu_t| be how far a generator t is off, t* the best one, and t^ the best one as the noise shows it.
  Going from mu to mu + n and back changes a distance by at most |n| each way, so L(t^) <= L(t*) + 2 |n|, and the loss
  L^2 grows by at most 4 |n|^2 + 4 |n| L(t*). For a generator that could match exactly only 4 |n|^2 is left.
* Two mean embeddings are at most 2 B apart, or sqrt(2) B if no feature is negative. With ratio = s sqrt(D) / (m B),
  noise against the largest possible signal, 4 |n|^2 is on average ratio^2 of the largest loss there is, or twice that
  if no feature is negative. A share of 1 says nothing.
* Sampling error, that is chance in the records themselves, moves mu by up to B^2 / m in the mean square; the noise is
  below that from m = s^2 D / B^2 records on. Records that are much alike have less of it: there it CAN take over.

What is taken for granted: training finds the minimum, classes are matched apart, all numbers weigh the same in the
loss, and m is known. (The noisy count that stands in for m has one number's noise; the embedding has D numbers'.)
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from simulacra.privacy import accountant
from simulacra.privacy.plan import Plan, PlannedStep
from simulacra.schema import Schema

FAVOURABLE = 0.1
"""Such a ratio adds, on average at most, 1 % of the largest loss, or 2 % if no feature is negative."""
LARGEST_EPSILON = 100.0
"""Beyond this an epsilon is not worth naming."""
ENDLESS_NOISE = 1e100
"""More noise than this hides nothing more, and its square would overflow."""
ALL_RECORDS = "all records"
"""The name of what is about all classes together."""
FOLDED = 10
"""So many classes with the same figures share one line."""


@dataclass(frozen=True, kw_only=True)
class Gauge:
    """One answer about one class. `epsilon_needed` is None where it is not known, infinite where there is none.

    `others` has the ratios of the plan's other embeddings for the same class.
    """

    name: str
    step: str
    numbers: int
    norm_bound: float
    nonnegative: bool
    noise_std: float
    records: float
    epsilon_needed: float | None = None
    others: dict[str, float] = field(default_factory=dict)

    @property
    def signal(self) -> float:
        """The longest sum that so many records can have."""
        return self.records * self.norm_bound

    @property
    def noise(self) -> float:
        """The length of the noise on the sum (root mean square)."""
        return self.noise_std * math.sqrt(self.numbers)

    @property
    def ratio(self) -> float:
        """Noise against the largest possible signal."""
        return _over(self.noise, self.signal)

    @property
    def bound(self) -> float:
        """What noise adds to the loss, on average at most, as a share of the largest loss; 1 says nothing."""
        return self._share(self.noise)

    @property
    def bound_95(self) -> float:
        """The same with probability 95 %."""
        return self._share(self.noise_std * (math.sqrt(self.numbers) + math.sqrt(2 * math.log(20))))

    @property
    def records_needed(self) -> float:
        """The least whole number of records at which the ratio is favourable with the noise as it is."""
        return _whole(self._scale / FAVOURABLE)

    @property
    def records_beyond(self) -> float:
        """The least whole number of records from which sampling error can outweigh the noise."""
        return _whole(self._scale * self._scale)

    @property
    def favourable(self) -> bool:
        """Whether the ratio is small enough already; a hair's breadth of rounding is forgiven."""
        return self.ratio <= FAVOURABLE * (1 + 1e-9)

    @property
    def _scale(self) -> float:
        """At so many records the noise is as large as the largest signal."""
        return _over(self.noise, self.norm_bound)

    def _share(self, noise: float) -> float:
        ratio = _over(noise, self.signal)
        return min(1.0, (2 if self.nonnegative else 1) * ratio * ratio)

    def to_json(self) -> dict[str, Any]:
        """Plain values; what is not finite is null."""
        return {
            "name": self.name,
            "step": self.step,
            "records": self.records,
            "signal": _finite(self.signal),
            "noise": _finite(self.noise),
            "ratio": _finite(self.ratio),
            "bound": self.bound,
            "bound_95": self.bound_95,
            "records_needed": _finite(self.records_needed),
            "epsilon_needed": _finite(self.epsilon_needed),
            "records_beyond": _finite(self.records_beyond),
            "others": {name: _finite(ratio) for name, ratio in self.others.items()},
        }

    def words(self) -> str:
        """For a person, without the name of the class."""
        others = "".join(f" [{name}: {_figure(ratio)}]" for name, ratio in self.others.items())
        if self.noise == 0:
            return f"no noise ({_records(self.records)}){others}"
        said = f"noise is {_figure(self.ratio)} of the largest signal ({_records(self.records)})"
        added = f"adds at most {percent_up(self.bound)} of the largest loss"
        if self.bound > 0.99:  # rounded up, this would read 100 %
            added = "nothing is assured"
        return f"{said}: {added}; {self._outlook()}{others}"

    def _outlook(self) -> str:
        if self.favourable:
            if self.records >= self.records_beyond:
                return "favourable already, and sampling error can outweigh it"
            return f"favourable already; sampling error can outweigh it from {_records(self.records_beyond)}"
        wanted = f"favourable from {_records(self.records_needed)}"
        if self.epsilon_needed is None:
            return wanted
        if self.epsilon_needed > LARGEST_EPSILON:
            return f"{wanted}; no epsilon below {LARGEST_EPSILON:g} would do"
        return f"{wanted}, or at epsilon {_rounded_up(self.epsilon_needed)}"


def gauge(
    plan: Plan, schema: Schema, class_rows: Sequence[float], *, of_all: Collection[str] = ()
) -> tuple[Gauge, ...]:
    """One gauge per class, of the embedding in which noise is largest, which the others stand beside.

    An embedding is split by class if its size is a multiple of the number of classes and larger, and it is not named
    among those `of_all`; one that is not is held against all records. Counts are gauged only if there is nothing else,
    and training loops never: what they release is no mean of records, so that of counts and a loop nothing is gauged.
    """
    classes = schema.classes
    lasting = sorted((p for p in plan.steps if not p.transient), key=_drowned, reverse=True)
    apart = [planned for planned in lasting if planned.step.name not in of_all]
    split = [planned for planned in apart if planned.step.size > classes and planned.step.size % classes == 0]
    whole = [planned for planned in lasting if planned.step.size % classes or planned not in apart]
    if not (split or whole) and len(lasting) < len(plan.steps):
        return ()
    main, *others = split or whole or lasting[:1]
    names, rows, parts, total = schema.class_names or (ALL_RECORDS,), list(class_rows), classes, sum(class_rows)
    if main in whole:
        names, rows, parts = (ALL_RECORDS,), [total], 1
    found = []
    for name, records in zip(names, rows, strict=True):
        beside = {other.step.name: _held(other, name, records, parts).ratio for other in others}
        if split:
            beside |= {other.step.name: _held(other, name, total, 1).ratio for other in whole}
        one = _held(main, name, records, parts)
        found.append(replace(one, epsilon_needed=_epsilon_needed(plan, one.ratio), others=beside))
    return tuple(found)


def _drowned(planned: PlannedStep) -> float:
    """Noise over signal, up to what all steps have in common."""
    return planned.noise_std * math.sqrt(planned.step.size) / planned.step.norm_bound


def fold(gauges: Sequence[Gauge]) -> list[tuple[str, str]]:
    """Names and words, where ten or more classes with the same words are one."""
    named: dict[str, list[str]] = {}
    for one in gauges:
        named.setdefault(one.words(), []).append(one.name)
    lines = []
    for words, names in named.items():
        if len(names) < FOLDED:
            lines += [(name, words) for name in names]
        elif len(names) == len(gauges):
            lines.append((f"each of the {len(names)} classes", words))
        else:
            lines.append((f"each of {len(names)} classes ({names[0]}, {names[1]}, ...)", words))
    return lines


def percent_up(share: float) -> str:
    """A share in per cent, rounded up: a bound must not be stated tighter than it is."""
    if share <= 0:
        return "0 %"
    decimals = 0 if share >= 0.1 else 1 if share >= 0.01 else 2
    return f"{max(0.01, math.ceil(100 * share * 10**decimals - 1e-9) / 10**decimals):.{decimals}f} %"


def _held(planned: PlannedStep, name: str, records: float, parts: int) -> Gauge:
    step = planned.step
    return Gauge(
        name=name,
        step=step.name,
        numbers=step.size // parts,
        norm_bound=step.norm_bound,
        nonnegative=step.nonnegative,
        noise_std=planned.noise_std,
        records=records,
    )


def _epsilon_needed(plan: Plan, ratio: float) -> float | None:
    """Epsilon of the plan, and of what was spent before it, were all its noise scaled so that the ratio is favourable.

    What the grid of exact noise costs in delta is left as planned: it would grow, but with bounds near 1 and an epsilon
    of at most 100 it stays below 1e-11, whatever the size.
    """
    if plan.budget is None or ratio == 0 or any(event.sampled for event in (*plan.events, *plan.prior)):
        return None
    factor = FAVOURABLE / ratio
    scaled = [
        replace(event, noise_multiplier=min(event.noise_multiplier * factor, ENDLESS_NOISE)) for event in plan.events
    ]
    return accountant.epsilon((*scaled, *plan.prior), plan.budget.delta)


def _over(part: float, whole: float) -> float:
    """A quotient that is never NaN, however tiny or huge its parts."""
    if part == 0:
        return 0.0
    return part / whole if whole > 0 and part < math.inf else math.inf


def _whole(value: float) -> float:
    """The next whole number; what is one up to rounding stays."""
    return math.ceil(value * (1 - 1e-9)) if math.isfinite(value) else math.inf


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _figure(value: float) -> str:
    if value >= 1e12:
        return f"{value:.3g}" if math.isfinite(value) else "more than 1e+308"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _records(count: float) -> str:
    # Nobody has half a record, but a guess shared out among classes may say so.
    text = f"{count:,.0f}" if 10 <= count < 1e12 else _figure(count)
    return f"{text} record" if text == "1" else f"{text} records"


def _rounded_up(value: float) -> str:
    """Three digits; never less than the figure, so that what is printed is enough."""
    if value <= 0:
        return "0"
    unit = 10.0 ** (math.floor(math.log10(value)) - 2)
    return f"{math.ceil(value / unit * (1 - 1e-12)) * unit:.3g}"

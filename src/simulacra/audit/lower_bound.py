"""What an attack proves: lower bounds on epsilon that hold with a stated confidence.

An attack gives each run a score, high if it believes that the record was there. Half of the trials choose where to cut
the scores; the other half, which the choice has not seen, are counted against that cut with exact binomial intervals
(Clopper and Pearson 1934).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import stats

from simulacra.privacy.gaussian import epsilon_of

Scores = np.ndarray[Any, np.dtype[np.float64]]
CUTS = 200
"""How many cuts the choosing half compares."""


def at_least(successes: int, trials: int, risk: float) -> float:
    """A probability that the true rate is not below, except with probability `risk`."""
    return 0.0 if successes == 0 else float(stats.beta.ppf(risk, successes, trials - successes + 1))


def at_most(successes: int, trials: int, risk: float) -> float:
    """A probability that the true rate is not above, except with probability `risk`."""
    return 1.0 if successes == trials else float(stats.beta.ppf(1 - risk, successes + 1, trials - successes))


def epsilon_lower_bound(without: Scores, present: Scores, *, delta: float, confidence: float) -> float:
    """Epsilon is at least this, for any mechanism: P[S | present] <= e^epsilon P[S | without] + delta, both ways round.

    `without` are the scores of runs on the data without the record, `present` with it. Infinite if nothing was hidden.
    """

    def proven(cut: float, upwards: bool, without: Scores, present: Scores, risk: float) -> float:
        hits, alarms = _above(present, cut), _above(without, cut)
        if not upwards:  # scores at or below the cut speak for "without"
            hits, alarms = len(without) - alarms, len(present) - hits
        likely, rare = at_least(hits, len(present), risk), at_most(alarms, len(without), risk)
        return max(0.0, math.log((likely - delta) / rare)) if likely > delta else 0.0

    return _on_two_halves(proven, without, present, confidence)


def gaussian_lower_bound(without: Scores, present: Scores, *, delta: float, confidence: float) -> float:
    """Epsilon at `delta` is at least this, if the claim is one of Gaussian differential privacy (full-data releases).

    Any test against a mechanism of mu obeys Phi^-1(1 - false alarms) - Phi^-1(misses) <= mu, so one good cut proves a
    mu, and the analytic formula turns it into an epsilon (Nasr et al. 2023): sharper than counting at a tiny delta.
    """

    def proven(cut: float, upwards: bool, without: Scores, present: Scores, risk: float) -> float:
        del upwards  # the measure is symmetric
        alarms = at_most(_above(without, cut), len(without), risk)
        misses = at_most(len(present) - _above(present, cut), len(present), risk)
        return max(0.0, float(stats.norm.isf(alarms) - stats.norm.ppf(misses)))

    return epsilon_of(_on_two_halves(proven, without, present, confidence), delta)


def _on_two_halves(
    proven: Callable[[float, bool, Scores, Scores, float], float], without: Scores, present: Scores, confidence: float
) -> float:
    """Choose cut and direction on the even trials, measure them on the odd ones."""
    risk = (1 - confidence) / 2  # two intervals, each wrong with at most this probability
    first, second = (without[0::2], present[0::2]), (without[1::2], present[1::2])
    cuts = np.unique(np.quantile(np.concatenate(first), np.linspace(0, 1, CUTS)))
    _, cut, upwards = max(
        (proven(float(cut), upwards, *first, risk), float(cut), upwards) for cut in cuts for upwards in (True, False)
    )
    return proven(cut, upwards, *second, risk)


def _above(scores: Scores, cut: float) -> int:
    return int(np.count_nonzero(scores > cut))

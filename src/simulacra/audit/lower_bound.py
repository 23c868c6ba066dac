"""What an attack proves: lower bounds on epsilon that hold with a stated confidence.

An attack gives each run a score, high if it believes that the record was there. Half of the trials choose where to cut
the scores; the other half, which the choice has not seen, are counted against that cut with exact binomial intervals
(Clopper and Pearson 1934).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import stats

from simulacra.privacy.gaussian import epsilon_of

Scores = np.ndarray[Any, np.dtype[np.float64]]
Counts = np.ndarray[Any, np.dtype[np.int64]]
CUTS = 200
"""How many cuts the choosing half compares."""


def at_least(successes: Counts, trials: int, risk: float) -> Scores:
    """Probabilities that the true rates are not below, except with probability `risk` each."""
    found = np.asarray(stats.beta.ppf(risk, np.maximum(successes, 1), trials - successes + 1))
    return np.where(successes == 0, 0.0, found)


def at_most(successes: Counts, trials: int, risk: float) -> Scores:
    """Probabilities that the true rates are not above, except with probability `risk` each."""
    found = np.asarray(stats.beta.isf(risk, successes + 1, np.maximum(trials - successes, 1)))
    return np.where(successes == trials, 1.0, found)


def epsilon_lower_bound(without: Scores, present: Scores, *, delta: float, confidence: float) -> float:
    """Epsilon is at least this, for any mechanism: P[S | present] <= e^epsilon P[S | without] + delta, both ways round.

    `without` are the scores of runs on the data without the record, `present` with it.
    """

    def proven(cuts: Scores, upwards: bool, without: Scores, present: Scores, risk: float) -> Scores:
        hits, alarms = _above(present, cuts), _above(without, cuts)
        if not upwards:  # scores at or below the cut speak for "without"
            hits, alarms = len(without) - alarms, len(present) - hits
        likely, rare = at_least(hits, len(present), risk), at_most(alarms, len(without), risk)
        return np.log(np.maximum((likely - delta) / rare, 1.0))

    return _on_two_halves(proven, without, present, confidence)


def gaussian_lower_bound(without: Scores, present: Scores, *, delta: float, confidence: float) -> float:
    """Epsilon at `delta` is at least this, if the claim is one of Gaussian differential privacy (full-data releases).

    Any test against a mechanism of mu obeys Phi^-1(1 - false alarms) - Phi^-1(misses) <= mu, so one good cut proves a
    mu, and the analytic formula turns it into an epsilon (Nasr et al. 2023): sharper than counting at a tiny delta.
    """

    def proven(cuts: Scores, upwards: bool, without: Scores, present: Scores, risk: float) -> Scores:
        del upwards  # the measure is symmetric
        alarms = at_most(_above(without, cuts), len(without), risk)
        misses = at_most(len(present) - _above(present, cuts), len(present), risk)
        return np.maximum(stats.norm.isf(alarms) - stats.norm.ppf(misses), 0.0)

    return epsilon_of(_on_two_halves(proven, without, present, confidence), delta)


def _on_two_halves(
    proven: Callable[[Scores, bool, Scores, Scores, float], Scores],
    without: Scores,
    present: Scores,
    confidence: float,
) -> float:
    """Choose cut and direction on the even trials, measure them on the odd ones."""
    risk = (1 - confidence) / 2  # two intervals, each wrong with at most this probability
    first, second = (without[0::2], present[0::2]), (without[1::2], present[1::2])
    cuts = np.unique(np.quantile(np.concatenate(first), np.linspace(0, 1, CUTS)))
    promising = [proven(cuts, upwards, *first, risk) for upwards in (True, False)]
    upwards = bool(promising[0].max() >= promising[1].max())
    cut = cuts[[int(promising[0 if upwards else 1].argmax())]]
    return float(proven(cut, upwards, *second, risk)[0])


def _above(scores: Scores, cuts: Scores) -> Counts:
    return len(scores) - np.searchsorted(np.sort(scores), cuts, side="right")

"""The exact privacy of Gaussian noise (Balle and Wang 2018), as functions of mu = sensitivity / noise std.

Gaussian releases compose without loss: mu of several is the square root of the sum of their mu squared.
scipy is imported late: a release can be read, and trained from, without it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

LARGEST_MU = 1e6
"""Above this there is no privacy to speak of, and floating point has nothing left to say."""


def delta_of(mu: float, epsilon: float) -> float:
    """The smallest delta at that epsilon: Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu).

    Written with the scaled complementary error function, because both terms share the factor exp(-z^2/2) and their
    plain difference loses all digits when it is small.
    """
    if mu <= 0:
        return 0.0
    if mu > LARGEST_MU:
        return 1.0
    from scipy.special import erfcx

    low = (epsilon / mu - mu / 2) / math.sqrt(2)
    high = (epsilon / mu + mu / 2) / math.sqrt(2)
    if low < -5:  # erfcx overflows there; the first term is 1 to within 1e-12 and cannot cancel
        first = 0.5 * math.erfc(low)
        second = 0.5 * float(erfcx(high)) * math.exp(-low * low)
        return max(0.0, first - second)
    return max(0.0, 0.5 * math.exp(-low * low) * (float(erfcx(low)) - float(erfcx(high))))


def epsilon_of(mu: float, delta: float) -> float:
    """The smallest epsilon at that delta, rounded up, never down."""
    if mu <= 0 or delta_of(mu, 0.0) <= delta:
        return 0.0
    if mu > LARGEST_MU:
        return math.inf
    upper = 1.0
    while delta_of(mu, upper) > delta:
        upper *= 2
    root = _root(lambda epsilon: _log_ratio(delta_of(mu, epsilon), delta), 0.0, upper)
    while delta_of(mu, root) > delta:
        root += 1e-12 + root * 1e-12
    return root


def mu_for(epsilon: float, delta: float) -> float:
    """The largest mu that keeps the promise, rounded down, never up."""
    lower, upper = 1e-12, 1.0
    while delta_of(upper, epsilon) <= delta:
        upper *= 2
        if upper > LARGEST_MU:
            return LARGEST_MU
    root = _root(lambda mu: _log_ratio(delta_of(mu, epsilon), delta), lower, upper)
    while delta_of(root, epsilon) > delta:
        root *= 1 - 1e-12
    return root


def _root(function: Callable[[float], float], lower: float, upper: float) -> float:
    from scipy.optimize import brentq

    return float(brentq(function, lower, upper, xtol=1e-15, rtol=1e-13))


def _log_ratio(value: float, target: float) -> float:
    return math.log(max(value, 1e-320)) - math.log(target)

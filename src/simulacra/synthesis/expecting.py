"""What a method should reach on data like yours, from a book in which most cells are empty.

Methods were not all run on the same data, and a plain mean would praise those that were only tried where it is easy. So
a figure is taken for the sum of two parts: what its context allows (the data set, the epsilon, the measure) and what
the method adds to that. Both are found together by least squares, in which contexts count by how near they are to the
question. What a method adds is drawn towards nothing, the more so the less is known of it; where it was alone, nothing
is learned about it.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

CAUTION = 0.25
"""Weight of having seen nothing, in figures of a context that is exactly as asked for."""
STEP = math.log(10)
"""A factor of ten in records, columns or epsilon is one step away."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One figure: who reached it, in which context, and how much it counts."""

    method: str
    context: Hashable
    value: float
    weight: float


def nearness(*ratios: float) -> float:
    """How much a context counts that differs from the question by these factors: 1 if it is the same.

    >>> nearness(1.0, 1.0), round(nearness(1.0, 10.0), 3), round(nearness(0.1), 3)
    (1.0, 0.607, 0.607)
    """
    return math.exp(-sum((math.log(ratio) / STEP) ** 2 for ratio in ratios) / 2)


def expected(seen: Sequence[Seen]) -> Mapping[str, float]:
    """By method, the figure to expect in a context like the one that was asked for.

    >>> easy = [Seen(method=name, context="easy", value=value, weight=1.0) for name, value in (("a", 0.9), ("b", 0.8))]
    >>> hard = Seen(method="a", context="hard", value=0.4, weight=1.0)
    >>> found = expected([*easy, hard])
    >>> found["a"] > found["b"]
    True
    """
    methods = list(dict.fromkeys(one.method for one in seen))
    contexts = list(dict.fromkeys(one.context for one in seen))
    if not seen:
        return {}
    design = np.zeros((len(seen), len(methods) + len(contexts)))
    for row, one in enumerate(seen):
        design[row, methods.index(one.method)] = 1.0
        design[row, len(methods) + contexts.index(one.context)] = 1.0
    weights = np.array([one.weight for one in seen])
    values = np.array([one.value for one in seen])
    middle = float(np.average(values, weights=weights))
    caution = np.full(design.shape[1], 1e-9)  # contexts are taken as they are; the hair keeps far ones solvable
    caution[: len(methods)] = CAUTION
    left = design.T @ (weights[:, None] * design) + np.diag(caution)
    found = np.linalg.solve(left, design.T @ (weights * (values - middle)))
    added, allowed = found[: len(methods)], found[len(methods) :]
    # A context counts once, however many methods were run in it.
    near = np.array([max(one.weight for one in seen if one.context == context) for context in contexts])
    usual = middle + float(np.average(allowed, weights=near))
    return {method: usual + float(more) for method, more in zip(methods, added, strict=True)}

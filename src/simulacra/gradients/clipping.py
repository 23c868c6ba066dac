"""From lengths to weights: how much of each record's gradient may enter the sum.

The bound must hold for what is really added, not for an ideal. Four kinds of rounding stand between the two:

* A record's signals and inputs are rounded when they are computed, to bfloat16 even. That does no harm, as long as it
  happens to a record alone in any company (which `padding` tries): whatever they are, the length is measured on them
  and the sum is made of them.
* A signal times a record's weight may be rounded again when the sum is made (to two bfloat16 numbers). Each product is
  off by at most `Precision.rounding` times |a| |s|, so the whole is off by at most that share of the layer's bulk,
  which is added to its length.
* A length found from pairs of positions is a sum in which large terms may cancel: it is off by a share of the bulk,
  not of itself, so `Precision.measuring` times the squared bulk is added to its square. With a thousand numbers in a
  row no length is then below 1/130 of the bulk, which is far more than what rounding makes of terms that cancel in the
  sum of gradients.
* Adding up many records in float32 rounds each partial sum, and leaving one record out rounds all of them anew. No
  useful bound can be proven for that, so it is measured (tests/property/test_gradients_precision.py: 2,000 records
  that all point the same way) and `SLACK`, several times as much, is kept free below the bound. So no more records
  than about these (`summing.MOST_ROWS`) are added up at once; micro-batches are added in float64.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from simulacra.gradients.arithmetic import Precision
from simulacra.gradients.contribution import Lengths

SLACK = 2.0**-9
"""The share of the bound that is left for adding up in float32: gradients are clipped to this much less."""
SLACK_IN_DOUBLE = 2.0**-40
"""The same for float64."""
MEASURING_IN_DOUBLE = 2.0**-53
"""In float64, by how much each addition may be off. Else see `Precision.measuring`."""


def slack(dtype: torch.dtype) -> float:
    """What is kept free below the bound."""
    return SLACK_IN_DOUBLE if dtype == torch.float64 else SLACK


def clipped_to(bound: float, dtype: torch.dtype) -> float:
    """The length that gradients are scaled down to, a little below the bound."""
    return bound * (1 - slack(dtype))


def clip_weights(lengths: Sequence[Lengths], bound: float, precision: Precision | None) -> torch.Tensor:
    """Weights (n,): 0 for a gradient that is not finite, 1 for a short one, else what brings it just below `bound`.

    With no precision lengths are taken as they are found, which is for comparisons alone.
    """
    dtype = lengths[0].squared.dtype
    total = torch.zeros_like(lengths[0].squared, dtype=torch.float64)
    for each in lengths:
        rounding, measuring = (0.0, 0.0) if precision is None else _off(each.added, dtype, precision)
        bulk = each.bulk.double()
        longest = (each.squared.double().clamp(min=0) + measuring * bulk.square()).sqrt() + rounding * bulk
        total = total + longest.square()
    limit = clipped_to(bound, dtype)
    weights = (limit / total.sqrt().clamp(min=limit)).to(dtype)
    # clamp lets NaN through, and a weight of NaN fails every comparison.
    return torch.where((weights > 0) & total.isfinite(), weights, 0.0)


def _off(added: int, dtype: torch.dtype, precision: Precision) -> tuple[float, float]:
    """By which shares of the bulk what is added up, and of the squared bulk what was measured, may be off."""
    if dtype == torch.float64:  # which nothing ever rounds to less
        return 0.0, added * MEASURING_IN_DOUBLE
    return precision.rounding, precision.measuring(added)

"""How precisely a GPU computes, and what that can do to a record's share of a sum."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from enum import StrEnum
from typing import Any

import torch

from simulacra.networks.devices import arithmetic


class Precision(StrEnum):
    """Of a network on its way forward and back; what comes of it is measured and added up in single precision."""

    SINGLE = "single"
    """Every product in float32 (or float64, if that is what the loss computes in)."""
    MIXED = "mixed"
    """A record's numbers are bfloat16 (8 significant bits) on their way through the network, where a GPU multiplies
    such numbers; each record by itself and the same in any company. See `products` for what is done with them."""

    @property
    def rounding(self) -> float:
        """What is added for a factor a and a weighted signal s differs from a * s by at most this share of |a| |s|.

        In mixed precision a weighted signal is the sum of two bfloat16 numbers, each rounded to the nearest: 2^-9 of
        2^-9 is lost, and half of that again is left for the rest. Products of such numbers lose nothing.
        """
        return 2.0**-17 if self is Precision.MIXED else 0.0

    def measuring(self, added: int) -> float:
        """A squared length for which so many numbers were added up may be off by this share of the squared bulk.

        Each addition in float32 is off by at most 2^-24 of what it comes to, and all may be off the same way: where
        numbers are alike they are, so no less will do. Matrix units add up 16 products at a time and may cut off what
        does not fit, 2^-23 each time: an eighth of that. As much as for 8,192 numbers on either side is charged there
        at least.
        """
        return max(2.0**-13 if self is Precision.MIXED else 0.0, added * 2.0**-24)


def precision_on(device: torch.device, asked: Precision) -> Precision:
    """What of it a device has: on processors, and on GPUs without matrix units for bfloat16, all is single."""
    return asked if _multiplies_halves(device) else Precision.SINGLE


def _multiplies_halves(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= (8, 0)


def in_precision(precision: Precision, device: torch.device) -> AbstractContextManager[Any]:
    """Let a network compute in it. Without a cache of weights, which change from step to step."""
    if precision is Precision.SINGLE:
        return nullcontext()
    return torch.autocast(device.type, dtype=torch.bfloat16, cache_enabled=False)


@contextmanager
def on_the_way(precision: Precision, device: torch.device, *, searching: bool) -> Iterator[None]:
    """The arithmetic of passes that private sums are made from: nothing is rounded but what the precision says."""
    with arithmetic(rounded=False, searching=searching), in_precision(precision, device):
        yield

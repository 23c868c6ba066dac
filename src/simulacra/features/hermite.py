"""Hermite features of one number in [0, 1]: the Gaussian kernel, cut off after a few terms of Mehler's formula."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch

NARROWEST, WIDEST = 0.01, 100.0
"""Length scales for which no feature that matters underflows in float32."""


class Hermite:
    """phi_0(x), ..., phi_order(x), whose inner products approach exp(-(x - y)^2 / (2 length_scale^2)).

    With t = unit (x - 1/2) and rho / (1 - rho^2) = 1 / (2 length_scale^2 unit^2), phi_k is the k-th Hermite polynomial
    of t times sqrt(rho^k / (2^k k!)) (1 - rho^2)^(1/4) exp(-rho t^2 / (1 + rho)). All terms together have norm 1, so
    the first few have at most that, whatever x is. The polynomials are never formed: their values would overflow.

    Any unit gives the same kernel; the papers have 1. What is lost by stopping at an order depends on it, though: here
    [0, 1] and the kernel's frequencies fill the range in which low orders oscillate, and no more than this order's.
    """

    def __init__(self, *, order: int, length_scale: float) -> None:
        self.order = order
        self.width = order + 1
        self.unit = min(2 / math.sqrt(length_scale), 1.6 * math.sqrt(2 * order + 1))
        inverse = 2 * (length_scale * self.unit) ** 2
        # The positive root of rho^2 + inverse rho - 1, written so that nothing cancels for wide kernels.
        self.rho = 2 / (inverse + math.sqrt(inverse**2 + 4))
        self.decay = self.rho / (1 + self.rho)

    def scaled(self, x: torch.Tensor) -> torch.Tensor:
        """t, the argument of the polynomials."""
        return (x - 0.5) * self.unit

    def terms(self, t: torch.Tensor) -> Iterator[torch.Tensor]:
        """phi_0, phi_1, ... by the three-term recursion, holding two at a time."""
        previous, current = None, (1 - self.rho**2) ** 0.25 * torch.exp(-self.decay * t.square())
        yield current
        for k in range(self.order):
            following = math.sqrt(2 * self.rho / (k + 1)) * t * current
            if previous is not None:
                following = following - self.rho * math.sqrt(k / (k + 1)) * previous
            previous, current = current, following
            yield current

    def values(self, x: torch.Tensor, dim: int = -1) -> torch.Tensor:
        """All features in a new dimension; differentiable, of the precision and on the device of x."""
        return torch.stack(list(self.terms(self.scaled(x))), dim=dim)


class HermiteSums(torch.autograd.Function):
    """averaging @ phi_k(x) for every order k: (rows, n) and (n, coordinates) to (rows, coordinates, orders).

    Neither pass holds n x coordinates x orders: both run through the orders, and keep sums alone.
    """

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, averaging: torch.Tensor, hermite: Hermite) -> torch.Tensor:
        ctx.save_for_backward(x, averaging)
        ctx.hermite = hermite
        return torch.stack([averaging @ term for term in hermite.terms(hermite.scaled(x))], dim=-1)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        x, averaging = ctx.saved_tensors
        hermite: Hermite = ctx.hermite
        t = hermite.scaled(x)
        # d phi_k / dt = sqrt(2 rho k) phi_{k-1} - 2 decay t phi_k; the two sums are kept apart until the end.
        lowered, kept = torch.zeros_like(t), torch.zeros_like(t)
        previous = None
        for k, (term, gradient) in enumerate(zip(hermite.terms(t), gradients[0].unbind(-1), strict=True)):
            spread = averaging.T @ gradient
            kept.addcmul_(spread, term)
            if previous is not None:
                lowered.addcmul_(spread, previous, value=math.sqrt(2 * hermite.rho * k))
            previous = term
        return lowered.addcmul_(t, kept, value=-2 * hermite.decay).mul_(hermite.unit), None, None

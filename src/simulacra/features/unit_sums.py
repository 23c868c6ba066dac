"""Weighted sums of unit-length features, and their gradient in closed form: for training.

With f an image's features and p the gradient of the loss by its unit vector f / |f|, the gradient by f is
(p - u (u . p)) / |f|, where u = f / |f|. So each layer is read once for its inner product with p and once for the
gradient, which is written once; no normalised copy of the features is ever kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

FLOOR = 1e-3
"""Features shorter than this are divided by it, and not by their length: zeros stay zeros, and rounding of features
that are nearly zero is not blown up. Features of real networks are a thousand times longer and more."""


class UnitSums(torch.autograd.Function):
    """`averaging` (classes, images) times the unit vectors of features, or of their squares, for each of `orders`."""

    @staticmethod
    def forward(
        ctx: Any, averaging: torch.Tensor, orders: tuple[int, ...], *layers: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        powers = {order: [raised(layer, order) for layer in layers] for order in orders}
        lengths = {order: lengths_of(powers[order], order) for order in orders}
        ctx.save_for_backward(averaging, *lengths.values(), *layers)
        ctx.orders = orders
        return tuple(
            torch.cat([(averaging / lengths[order]) @ power for power in powers[order]], dim=1) for order in orders
        )

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        orders = ctx.orders
        averaging, *saved = ctx.saved_tensors
        lengths, layers = saved[: len(orders)], saved[len(orders) :]
        sizes = [layer.shape[1] for layer in layers]
        results = [torch.zeros(())] * len(layers)
        for order, length, gradient in zip(orders, lengths, gradients, strict=True):
            parts = torch.split(gradient, sizes, dim=1)
            along = torch.zeros_like(length)
            for layer, part in zip(layers, parts, strict=True):
                along += ((raised(layer, order) @ part.T) * averaging.T).sum(dim=1)
            # Below the floor the divisor is a constant, and nothing is taken out along the features.
            along = torch.where(length > FLOOR**order, along / length.square(), 0.0).unsqueeze(1)
            weights = (averaging / length).T
            for number, (layer, part) in enumerate(zip(layers, parts, strict=True)):
                power = raised(layer, order)
                towards = torch.addcmul(weights @ part, power, along / length.unsqueeze(1), value=-1)
                if order == 2:
                    towards = towards.mul_(2 * layer.to(towards.dtype))
                results[number] = towards if results[number].dim() == 0 else results[number].add_(towards)
        return None, None, *(result.to(layer.dtype) for result, layer in zip(results, layers, strict=True))


def unit_sums(
    averaging: torch.Tensor, layers: Sequence[torch.Tensor], orders: tuple[int, ...]
) -> tuple[torch.Tensor, ...]:
    """For each order, (classes, features)."""
    found: tuple[torch.Tensor, ...] = UnitSums.apply(averaging, orders, *layers)  # type: ignore[no-untyped-call]
    return found


def raised(layer: torch.Tensor, order: int) -> torch.Tensor:
    """In single precision at least: half of it is not enough to add up squares."""
    wide = layer.float() if layer.dtype in (torch.bfloat16, torch.float16) else layer
    return wide if order == 1 else wide.square()


def lengths_of(powers: Sequence[torch.Tensor], order: int) -> torch.Tensor:
    """(images,): of the features of all layers together, or of their squares; never below the floor."""
    each = torch.stack([torch.linalg.vector_norm(power, dim=1) for power in powers])
    # A norm and not the root of a sum, whose gradient is no number at zero.
    lengths: torch.Tensor = torch.linalg.vector_norm(each, dim=0).clamp(min=FLOOR**order)
    return lengths


def of_length_one(layers: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """All layers together scaled to length 1, image by image; what is nearly zero stays small."""
    lengths = lengths_of([raised(layer, 1) for layer in layers], 1).unsqueeze(1)
    return [layer / lengths.to(layer.dtype) for layer in layers]

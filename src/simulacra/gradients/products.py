"""Matrix products of bfloat16 numbers that lose nothing: what mixed precision measures and adds up with.

Two numbers of 8 significant bits have a product of 16, which float32 holds exactly. So matrix units multiply them
without rounding, as long as they add up in float32, which is asked for here. What is not of 8 bits, a signal times a
record's weight, is written as the sum of two numbers that are.
"""

from __future__ import annotations

import torch


def product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """`left @ right` of two or three dimensions; of bfloat16 factors in float32, with no product rounded."""
    if left.dtype != torch.bfloat16:
        return left @ right
    if not left.is_cuda or not _ADDS_IN_SINGLE:
        return left.float() @ right.float()
    result: torch.Tensor = (torch.mm if left.dim() == 2 else torch.bmm)(left, right, out_dtype=torch.float32)
    return result


def in_two(values: torch.Tensor) -> torch.Tensor:
    """Rows of float32 numbers as bfloat16, twice as long: the numbers, and behind them what rounding left of each.

    The two differ from the number by at most 2^-18 of it.
    """
    halves = values.new_empty(len(values), 2, values.shape[1], dtype=torch.bfloat16)
    halves[:, 0] = values
    torch.sub(values, halves[:, 0], out=halves[:, 1])
    return halves.flatten(1)


def weighing(values: torch.Tensor) -> torch.dtype:
    """In what numbers like these are added up and multiplied with weights: float32 at least."""
    return torch.float32 if values.dtype == torch.bfloat16 else values.dtype


_ADDS_IN_SINGLE = hasattr(torch.ops.aten.mm, "dtype")
"""Older versions of torch round a sum of bfloat16 products to bfloat16 again; there the factors are widened first."""

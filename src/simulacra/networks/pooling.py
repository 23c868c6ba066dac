"""Instance normalisation, ReLU and average pooling in one, with half the passes over memory of three layers.

Where networks are random and images small, a GPU mostly waits for memory. With the mean m and the deviation s of a
channel, ReLU((x - m) / s) = (max(x, m) - m) / s, and pooling is linear. So only max(x, m) is as large as x: all else is
done after pooling, on a quarter of the numbers.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

SIDE = 2
EPSILON = 1e-5
"""As in torch.nn.GroupNorm."""


def halved(values: torch.Tensor) -> torch.Tensor:
    """Average pooling by 2 x 2: (n, channels, height, width) to half of both sides, without what is one too many.

    On a processor torch pools number by number, which took as long as a convolution; here rows are added to rows.
    """
    if values.is_cuda:
        return functional.avg_pool2d(values, SIDE)
    if values.requires_grad:
        half: torch.Tensor = _Halved.apply(values)  # type: ignore[no-untyped-call]
        return half
    return _half(values)


class Halving(nn.Module):
    """`halved` as a layer."""

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return halved(values)


def _half(values: torch.Tensor) -> torch.Tensor:
    rows, columns = (side - side % SIDE for side in values.shape[2:])
    inside = values[:, :, :rows, :columns]
    tall = inside[:, :, 0::SIDE] + inside[:, :, 1::SIDE]
    return (tall[..., 0::SIDE] + tall[..., 1::SIDE]).mul_(1 / SIDE**2)


def _doubled(gradient: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    """Each number at all four places that it came from."""
    count, channels, rows, columns = gradient.shape
    wide = gradient.repeat_interleave(SIDE, dim=3)[:, :, :, None].expand(-1, -1, -1, SIDE, -1)
    return _with_missing(wide.reshape(count, channels, rows * SIDE, columns * SIDE), shape)


class _Halved(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: torch.Tensor) -> torch.Tensor:
        ctx.shape = values.shape
        return _half(values)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        return _doubled(gradients[0] * (1 / SIDE**2), ctx.shape)


def normalised_and_pooled(values: torch.Tensor) -> torch.Tensor:
    """(n, channels, height, width) to (n, channels, height // 2, width // 2), without scale and shift."""
    if values.requires_grad:
        pooled: torch.Tensor = _NormalisedAndPooled.apply(values)  # type: ignore[no-untyped-call]
        return pooled
    return _forward(values)[0]


def _forward(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    variance, mean = torch.var_mean(values, dim=(2, 3), correction=0, keepdim=True)
    inverse = (variance + EPSILON).rsqrt()
    above = halved(torch.maximum(values, mean))
    return (above - mean) * inverse, mean, inverse


class _NormalisedAndPooled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: torch.Tensor) -> torch.Tensor:
        pooled, mean, inverse = _forward(values)
        ctx.save_for_backward(values, mean, inverse)
        return pooled

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        values, mean, inverse = ctx.saved_tensors
        count, channels, height, width = values.shape
        passed = _spread(gradients[0] / SIDE**2, values, mean)
        found: torch.Tensor = torch.ops.aten.native_group_norm_backward(
            passed,
            values.contiguous(),
            mean.reshape(count, channels),
            inverse.reshape(count, channels),
            None,
            count,
            channels,
            height * width,
            channels,
            [True, False, False],
        )[0]
        return found


def _spread(gradient: torch.Tensor, values: torch.Tensor, mean: torch.Tensor) -> torch.Tensor:
    """Each pooled number's gradient at all of its places whose value is above the mean."""
    if not values.is_cuda:
        passed: torch.Tensor = torch.ops.aten.threshold_backward(_doubled(gradient, values.shape), values - mean, 0)
        return passed
    count, channels, rows, columns = gradient.shape
    height, width = rows * SIDE, columns * SIDE
    passing = (values > mean)[:, :, :height, :width].reshape(count, channels, rows, SIDE, columns, SIDE)
    spread = torch.where(passing, gradient[:, :, :, None, :, None], 0.0).reshape(count, channels, height, width)
    return _with_missing(spread, values.shape)


def _with_missing(spread: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    """Zeros in a last row or column that pooling left out."""
    missing = (0, shape[3] - spread.shape[3], 0, shape[2] - spread.shape[2])
    return functional.pad(spread, missing) if any(missing) else spread

"""Sums of unit vectors that are given as outer products: matrix products, never records x parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch


class Layer(NamedTuple):
    """The gradient of one affine layer, for many records: of its weights `signal x inputs`, of its bias `signal`.

    `signal` (records, outputs) is the derivative by what the layer puts out, `inputs` (records, inputs) what it takes
    in. A gradient that is no outer product is stated as a bias alone: a signal with inputs of width 0.
    """

    signal: torch.Tensor
    inputs: torch.Tensor

    @property
    def size(self) -> int:
        """Numbers per record."""
        return self.signal.shape[1] * (self.inputs.shape[1] + 1)

    def room_for(self, records: int) -> Layer:
        """Such a layer for so many records, to be filled."""
        return Layer(*[factor.new_empty(records, factor.shape[1]) for factor in self])

    def explicit(self) -> torch.Tensor:
        """(records, size): the weights row by row, then the bias."""
        weights = self.signal.unsqueeze(2) * self.inputs.unsqueeze(1)
        return torch.cat([weights.flatten(1), self.signal], dim=1)

    def squared_norms(self) -> torch.Tensor:
        """|signal|^2 (|inputs|^2 + 1), per record."""
        return _square(self.signal) * (_square(self.inputs) + 1)


def explicit(layers: Sequence[Layer]) -> torch.Tensor:
    """The unit vectors themselves, (records, size); for few records."""
    norms = torch.stack([layer.squared_norms() for layer in layers]).sum(dim=0).sqrt()
    return torch.cat([layer.explicit() for layer in layers], dim=1) / norms.unsqueeze(1)


def class_sums(layers: Sequence[Layer], weights: torch.Tensor, sizes: Sequence[int]) -> torch.Tensor:
    """Weighted sums of the unit vectors of records sorted by class, `sizes[c]` of class c: (classes, size).

    Differentiable, once, in the layers. `weights` has a number per record.
    """
    flat = [tensor for layer in layers for tensor in layer]
    result: torch.Tensor = _ClassSums.apply(weights, tuple(sizes), *flat)  # type: ignore[no-untyped-call]
    return result


class _ClassSums(torch.autograd.Function):
    """Forward: sum_i s_i f_i with s_i = weight_i / |f_i|, per class; one matrix product per layer and class.

    Backward: with G the gradient of a class's sum, record i gets s_i (G - <G, f_i> f_i / |f_i|^2), and this is again
    made of the same outer products, so only G times the factors is ever computed.
    """

    @staticmethod
    def forward(ctx: Any, weights: torch.Tensor, sizes: tuple[int, ...], *flat: torch.Tensor) -> torch.Tensor:
        layers = _layers(flat)
        squares = [(_square(layer.signal), _square(layer.inputs) + 1) for layer in layers]
        norms = torch.stack([signal * inputs for signal, inputs in squares]).sum(dim=0)
        scales = weights / norms.sqrt()
        result = weights.new_empty(len(sizes), sum(layer.size for layer in layers))
        for rows, row in zip(_slices(sizes), result, strict=True):
            for layer, (matrix, bias) in zip(layers, _blocks(row, layers), strict=True):
                scaled = (layer.signal[rows] * scales[rows].unsqueeze(1)).T
                torch.mm(scaled, layer.inputs[rows], out=matrix)
                torch.sum(scaled, dim=1, out=bias)
        ctx.sizes = sizes
        ctx.save_for_backward(scales, norms, *flat)
        ctx.squares = squares
        return result

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        scales, norms, *flat = ctx.saved_tensors
        layers = _layers(flat)
        towards = [Layer(torch.empty_like(layer.signal), torch.empty_like(layer.inputs)) for layer in layers]
        needed = ctx.needs_input_grad[2:]
        for rows, row in zip(_slices(ctx.sizes), gradient.contiguous(), strict=True):
            for index, (matrix, bias) in enumerate(_blocks(row, layers)):
                layer, toward = layers[index], towards[index]
                torch.addmm(bias, layer.inputs[rows], matrix.T, out=toward.signal[rows])
                if needed[2 * index + 1]:
                    torch.mm(layer.signal[rows], matrix, out=toward.inputs[rows])
        products = [(layer.signal * toward.signal).sum(dim=1) for layer, toward in zip(layers, towards, strict=True)]
        share = torch.stack(products).sum(dim=0) / norms
        result: list[torch.Tensor | None] = []
        for index, (layer, toward, (signal, inputs)) in enumerate(zip(layers, towards, ctx.squares, strict=True)):
            pairs = ((layer.signal, toward.signal, inputs), (layer.inputs, toward.inputs, signal))
            for wanted, (factor, out, other) in zip(needed[2 * index : 2 * index + 2], pairs, strict=True):
                if wanted:
                    out.addcmul_(factor, (share * other).unsqueeze(1), value=-1).mul_(scales.unsqueeze(1))
                result.append(out if wanted else None)
        return None, None, *result


def _layers(flat: Sequence[torch.Tensor]) -> list[Layer]:
    return [Layer(*pair) for pair in zip(flat[::2], flat[1::2], strict=True)]


def _slices(sizes: Sequence[int]) -> list[slice]:
    """The rows of each class."""
    starts = [sum(sizes[:index]) for index in range(len(sizes))]
    return [slice(start, start + size) for start, size in zip(starts, sizes, strict=True)]


def _blocks(row: torch.Tensor, layers: Sequence[Layer]) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Views of one class's sum: the weights and the bias of each layer."""
    views, start = [], 0
    for layer in layers:
        outputs, inputs = layer.signal.shape[1], layer.inputs.shape[1]
        middle, start = start + outputs * inputs, start + layer.size
        views.append((row[middle - outputs * inputs : middle].view(outputs, inputs), row[middle:start]))
    return views


def _square(rows: torch.Tensor) -> torch.Tensor:
    squared: torch.Tensor = torch.linalg.vector_norm(rows, dim=1).square()
    return squared

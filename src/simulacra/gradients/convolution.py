"""Convolutions, and transposed ones: linear layers applied to every patch of an image."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import nn
from torch.nn.functional import pad

from simulacra.gradients.contribution import Contribution, Explicit, Lengths, scaled
from simulacra.gradients.linear import paired
from simulacra.gradients.products import in_two, product, weighing


@dataclass(frozen=True)
class Window:
    """Where the patches of a convolution lie."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]

    @classmethod
    def of(cls, layer: nn.Conv2d | nn.ConvTranspose2d) -> Window:
        """Of a layer that `supported` has admitted."""
        pairs = [tuple(map(int, each)) for each in (layer.kernel_size, layer.stride, layer.padding, layer.dilation)]
        return cls(*((first, second) for first, second in pairs))

    def patches(
        self, images: torch.Tensor, height: int, width: int, *, channels_last: bool = False, rows: int | None = None
    ) -> torch.Tensor:
        """(n, channels, ., .) to (n, rows, channels * kernel): one row per position of the kernel, then rows of zeros.

        In a row the channels come first, as in the weights, or last, which is quick to copy where images lie like that
        in memory. A view and one copy; torch's own `unfold` starts a kernel for every image on a GPU.
        """
        (high, wide), (down, across) = self.padding, self.stride
        layout = torch.channels_last if channels_last else torch.contiguous_format
        padded = pad(images, (wide, wide, high, high)).contiguous(memory_format=layout)
        if channels_last and padded.shape[1] * padded.element_size() % 16 == 0:
            # Copied as what they are not, 16 bytes at a time, several channels go at once.
            padded = padded.permute(0, 2, 3, 1).view(torch.complex128).permute(0, 3, 1, 2)
        n, channels = padded.shape[:2]
        batch, channel, row, column = padded.stride()
        sizes = [channels, *self.kernel]
        strides = [channel, row * self.dilation[0], column * self.dilation[1]]
        if channels_last:
            sizes, strides = [*sizes[1:], sizes[0]], [*strides[1:], strides[0]]
        view = padded.as_strided((n, height, width, *sizes), (batch, row * down, column * across, *strides))
        positions = height * width
        cut = view.new_empty(n, rows or positions, math.prod(sizes))
        cut[:, :positions].view(view.shape).copy_(view)
        cut[:, positions:] = 0
        return cut.view(images.dtype)

    def pixel_products(self, images: torch.Tensor, height: int, width: int) -> torch.Tensor:
        """The products of all pairs of patches, (n, positions, positions), from products of pixels.

        Patches overlap. The product of two is a sum of products of pixels, each of which many pairs share, so with a
        small stride it is less work to multiply pixels first.
        """
        (high, wide), (down, across) = self.padding, self.stride
        padded = pad(images, (wide, wide, high, high))
        pixels = padded.flatten(2)
        gram = product(pixels.transpose(1, 2), pixels).view(len(images), *padded.shape[2:] * 2)
        batch, row, column, other_row, other_column = gram.stride()
        view = gram.as_strided(
            (len(images), *self.kernel, height, width, height, width),
            (
                batch,
                (row + other_row) * self.dilation[0],
                (column + other_column) * self.dilation[1],
                *(row * down, column * across, other_row * down, other_column * across),
            ),
        )
        return view.sum(dim=(1, 2)).view(len(images), height * width, height * width)

    def pixels_first(self, shape: torch.Size, positions: int) -> bool:
        """Whether that is less work than to multiply patches."""
        return self._pixel_work(shape, positions) <= self._patch_work(shape, positions)

    def product_work(self, shape: torch.Size, positions: int) -> int:
        """Multiplications per image for the products of all pairs of patches."""
        return min(self._pixel_work(shape, positions), self._patch_work(shape, positions))

    def _pixel_work(self, shape: torch.Size, positions: int) -> int:
        pixels = (shape[2] + 2 * self.padding[0]) * (shape[3] + 2 * self.padding[1])
        return pixels**2 * shape[1] + positions**2 * self.kernel[0] * self.kernel[1]

    def _patch_work(self, shape: torch.Size, positions: int) -> int:
        return positions**2 * shape[1] * self.kernel[0] * self.kernel[1]


def supported(layer: nn.Conv2d | nn.ConvTranspose2d) -> bool:
    """Whether the rule below knows this kind of convolution: one group, and plain zeros around the image."""
    return layer.groups == 1 and layer.padding_mode == "zeros" and not isinstance(layer.padding, str)


def convolution(layer: nn.Conv2d, inputs: torch.Tensor, signals: torch.Tensor) -> Contribution:
    """What a convolution adds, held explicitly where that is less work than pairs of positions."""
    return _contribution(layer, inputs, signals, signals)


def transposed_convolution(layer: nn.ConvTranspose2d, inputs: torch.Tensor, signals: torch.Tensor) -> Contribution:
    """A transposed convolution is the backward pass of a convolution: inputs and signals change places."""
    return _contribution(layer, signals, inputs, signals)


def _contribution(
    layer: nn.Conv2d | nn.ConvTranspose2d, wide: torch.Tensor, narrow: torch.Tensor, signals: torch.Tensor
) -> Contribution:
    """`wide` are the images that patches are cut from, `narrow` those with one pixel per patch."""
    window, bias = Window.of(layer), layer.bias is not None
    positions, rows = narrow.shape[2] * narrow.shape[3], narrow.shape[1]
    columns = wide.shape[1] * window.kernel[0] * window.kernel[1]
    pairs = window.product_work(wide.shape, positions) + positions**2 * rows
    if positions == 1 or pairs < positions * rows * columns:
        return _Pairwise(window, wide, narrow, signals, layer.weight.shape, bias=bias)
    patches = window.patches(wide, narrow.shape[2], narrow.shape[3])
    gradient = product(_pixels(narrow).transpose(1, 2), patches).view(-1, *layer.weight.shape)
    return Explicit(gradient, signals.sum(dim=(2, 3), dtype=gradient.dtype)) if bias else Explicit(gradient)


class _Pairwise(Contribution):
    """Few positions and many weights: lengths from pairs of positions, the sum from one weighted backward pass."""

    def __init__(
        self,
        window: Window,
        wide: torch.Tensor,
        narrow: torch.Tensor,
        signals: torch.Tensor,
        shape: torch.Size,
        *,
        bias: bool,
    ) -> None:
        self.window, self.narrow, self.signals, self.shape, self.bias = window, narrow, signals, shape, bias
        # Zero times infinity is not zero, so what is not finite goes here, once, and its record is as long as can be.
        self.finite = torch.linalg.vector_norm(wide, ord=math.inf, dim=(1, 2, 3)).isfinite()
        self.wide = wide.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
        self.side_by_side = _channels_last(self.wide)
        positions = narrow.shape[2] * narrow.shape[3]
        self.pixels_first = window.pixels_first(wide.shape, positions)
        # Matrix units are several times as quick at products whose sides are multiples of 8.
        aligned = narrow.dtype == torch.bfloat16 and positions > 1 and not self.pixels_first
        self.rows = -(-positions // 8) * 8 if aligned else positions

    @cached_property
    def patches(self) -> torch.Tensor:
        """Cut once, for the lengths and for the sum."""
        height, width = self.narrow.shape[2:]
        return self.window.patches(self.wide, height, width, channels_last=self.side_by_side, rows=self.rows)

    def lengths(self) -> Lengths:
        values = self._padded(_pixels(self.narrow))
        added = 2 * values.shape[1] + 4
        if values.shape[1] == 1:
            own, own_back = (
                torch.linalg.vector_norm(each, dim=2, dtype=weighing(each)).square() for each in (self.patches, values)
            )
            squared = (own * own_back).squeeze(1)
        else:
            near, back = self._products(), product(values, values.transpose(1, 2))
            squared = paired(near, back)
            added += self.wide.shape[1] * math.prod(self.window.kernel) + values.shape[2]
            own, own_back = (each.diagonal(dim1=1, dim2=2).clamp(min=0) for each in (near, back))
        bulk = (own * own_back).sqrt().sum(dim=1)
        if self.bias:
            squared = squared + self.signals.sum(dim=(2, 3), dtype=squared.dtype).square().sum(dim=1)
            far = torch.linalg.vector_norm(self.signals, dim=1, dtype=squared.dtype)
            bulk = bulk + far.sum(dim=(1, 2))
        return Lengths(torch.where(self.finite, squared, math.inf), bulk, added)

    def weighted(self, weights: torch.Tensor) -> tuple[torch.Tensor, ...]:
        narrow = scaled(self.narrow, weights)
        if self.narrow.dtype == torch.bfloat16:
            both = in_two(self._padded(_pixels(narrow)).flatten(0, 1))
            high, low = product(both.T, self.patches.flatten(0, 1)).chunk(2)
            weight = _as_weight(high + low, self.shape, side_by_side=self.side_by_side)
        elif _on_matrix_units(narrow):
            sums = _pixels(narrow).flatten(0, 1).T @ self.patches.flatten(0, 1)
            weight = _as_weight(sums, self.shape, side_by_side=self.side_by_side)
        else:
            weight = _weight_sum(self.wide, narrow, self.shape, self.window)
        if not self.bias:
            return (weight,)
        signals = narrow if self.signals is self.narrow else scaled(self.signals, weights)
        return weight, signals.sum(dim=(0, 2, 3))

    def _padded(self, values: torch.Tensor) -> torch.Tensor:
        """Zeros below (n, positions, .), as many as there are below the patches."""
        spare = self.rows - values.shape[1]
        return pad(values, (0, 0, 0, spare)) if spare else values

    def _products(self) -> torch.Tensor:
        height, width = self.narrow.shape[2:]
        if self.pixels_first:
            return self.window.pixel_products(self.wide, height, width)
        return product(self.patches, self.patches.transpose(1, 2))


def _as_weight(sums: torch.Tensor, shape: torch.Size, *, side_by_side: bool) -> torch.Tensor:
    """From (rows, entries of a patch)."""
    if not side_by_side:
        return sums.view(shape)
    return sums.view(shape[0], *shape[2:], shape[1]).permute(0, 3, 1, 2)


def _on_matrix_units(values: torch.Tensor) -> bool:
    """Where the sum is quicker as one matrix product."""
    return values.is_cuda


def _weight_sum(wide: torch.Tensor, narrow: torch.Tensor, shape: torch.Size, window: Window) -> torch.Tensor:
    """The gradient by the weights of a convolution, summed over the batch.

    By that part alone of torch's backward pass, which is what a processor is quick at.
    """
    found = torch.ops.aten.convolution_backward(
        narrow,
        wide,
        narrow.new_empty(1).expand(shape),  # only the shape of the weights matters here
        None,
        window.stride,
        window.padding,
        window.dilation,
        False,
        (0, 0),
        1,
        (False, True, False),
    )
    weight: torch.Tensor = found[1]
    return weight


def _pixels(images: torch.Tensor) -> torch.Tensor:
    """(n, channels, ., .) to (n, positions, channels), without a copy however the images lie in memory."""
    if images.is_contiguous():
        return images.flatten(2).transpose(1, 2)
    return images.permute(0, 2, 3, 1).flatten(1, 2)


def _channels_last(images: torch.Tensor) -> bool:
    """How images lie in memory; of a single channel or a single pixel it makes no difference."""
    return images.is_contiguous(memory_format=torch.channels_last) and not images.is_contiguous()

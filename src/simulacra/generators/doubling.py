"""Twice the side and a convolution, for the small image generators: quick on every device."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.functional import conv2d, interpolate

KERNEL = 5
MOST_NUMBERS = 1 << 24
"""In the table behind the one matrix; larger images are upsampled and convolved one after the other."""


class UpConvolution(nn.Module):
    """Bilinear upsampling to twice the side (corners stay corners), then a 5 x 5 convolution.

    As both steps are linear, they are one product with a matrix that is put together from the kernel and a fixed table:
    few channels are too little work for convolutions, on any device. Where images are so large that the table is, too,
    upsampling on a GPU is a matrix from either side: U x V^T, whose backward pass is the same kind of product, where
    the usual one scatters (27 times slower).
    """

    rows: torch.Tensor
    columns: torch.Tensor

    def __init__(self, inputs: int, outputs: int, *, height: int, width: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(inputs, outputs, kernel_size=KERNEL, padding=KERNEL // 2)
        # Not part of what is saved: they follow from the sizes.
        self.register_buffer("rows", doubling(height), persistent=False)
        self.register_buffer("columns", doubling(width), persistent=False)
        self._table: torch.Tensor | None = None

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        if self._numbers() <= MOST_NUMBERS:
            return self.as_one_product(images)
        convolved: torch.Tensor = self.convolution(self.upsampled(images))
        return convolved

    def upsampled(self, images: torch.Tensor) -> torch.Tensor:
        """(n, channels, height, width) to twice the height and width."""
        if images.is_cuda:
            return self.rows @ images @ self.columns.T
        return interpolate(images, scale_factor=2, mode="bilinear", align_corners=True)  # quicker on a processor

    def as_one_product(self, images: torch.Tensor) -> torch.Tensor:
        """(n, inputs, height, width) to (n, outputs, 2 height, 2 width)."""
        if self._table is None or self._table.device != images.device or self._table.dtype != images.dtype:
            self._table = self._make_table(images)
        outputs, inputs = self.convolution.weight.shape[:2]
        high, wide = len(self.rows), len(self.columns)
        pixels = images.shape[2] * images.shape[3]
        matrix = (self.convolution.weight.flatten(2) @ self._table).view(outputs, inputs, pixels, high * wide)
        matrix = matrix.permute(1, 2, 0, 3).reshape(inputs * pixels, outputs * high * wide)
        products = (images.flatten(1) @ matrix).view(-1, outputs, high, wide)
        bias = self.convolution.bias
        return products if bias is None else products + bias[:, None, None]

    @torch.no_grad()
    def _make_table(self, like: torch.Tensor) -> torch.Tensor:
        """(25, pixels * larger pixels): what one pixel of the small image does through one entry of the kernel."""
        height, width = self.rows.shape[1], self.columns.shape[1]
        single = torch.eye(height * width, dtype=like.dtype, device=like.device).view(-1, 1, height, width)
        kernels = torch.eye(KERNEL**2, dtype=like.dtype, device=like.device).view(-1, 1, KERNEL, KERNEL)
        spread = conv2d(self.upsampled(single), kernels, padding=KERNEL // 2)
        return spread.transpose(0, 1).reshape(KERNEL**2, -1).contiguous()

    def _numbers(self) -> int:
        return KERNEL**2 * self.rows.numel() * self.columns.numel()


def doubling(side: int) -> torch.Tensor:
    """(2 side, side): linear interpolation along one axis."""
    if side == 1:
        return torch.ones(2, 1)
    return interpolate(torch.eye(side)[None], size=2 * side, mode="linear", align_corners=True)[0].T.contiguous()

"""A convolution of label planes: pictures that are 1 everywhere in the channel of the label and 0 in all others."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn.functional import conv2d


class LabelConvolution(nn.Module):
    """The same numbers as `Conv2d(classes, outputs, kernel, stride, padding)` on one-hot planes, from a small table.

    The planes have as many different pictures as there are classes, so each is convolved once, not once per record.
    """

    def __init__(
        self,
        classes: int,
        outputs: int,
        *,
        kernel: int | tuple[int, int],
        stride: int,
        padding: int,
        height: int,
        width: int,
    ) -> None:
        super().__init__()
        self.classes, self.height, self.width = classes, height, width
        self.kernel = (kernel, kernel) if isinstance(kernel, int) else kernel
        self.stride, self.padding = (stride, stride), (padding, padding)
        # As torch begins a convolution with that many inputs.
        reach = 1 / math.sqrt(classes * math.prod(self.kernel))
        self.weight = nn.Parameter(torch.empty(outputs, classes, *self.kernel).uniform_(-reach, reach))
        self.bias = nn.Parameter(torch.empty(outputs).uniform_(-reach, reach))

    def forward(self, labels: torch.Tensor) -> torch.Tensor:
        """(n,) whole numbers to (n, outputs, height, width)."""
        ones = self.weight.new_ones(1, 1, self.height, self.width)
        outputs = len(self.bias)
        kernels = self.weight.transpose(0, 1).reshape(self.classes * outputs, 1, *self.kernel)
        table = conv2d(ones, kernels, stride=self.stride, padding=self.padding)[0]
        table = table.view(self.classes, outputs, *table.shape[1:])
        # Of the type that torch convolves in, which under autocast is not that of the weights.
        return (table + self.bias[:, None, None]).to(table.dtype)[labels]

"""Convolutions of bfloat16 numbers on processors that have units for them: less than half the time.

For networks that learn from what was released already, never for private sums. Weights stay in single precision, as do
all layers in between; only what a convolution multiplies is rounded, and what it adds up is not.
"""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

import torch
from torch import nn
from torch.nn.functional import conv2d

LEAST_CHANNELS = 16
"""With fewer, rounding takes longer than it saves."""

Network = TypeVar("Network", bound=nn.Module)


class RoundedConvolution(nn.Conv2d):
    """What `rounded` makes of a convolution: same weights, same name in what is saved."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        bias = None if self.bias is None else self.bias.bfloat16()
        narrow = images.bfloat16(), self.weight.bfloat16(), bias
        return conv2d(*narrow, self.stride, self.padding, self.dilation, self.groups).to(images.dtype)


@cache
def processor_rounds() -> bool:
    """Whether this processor has units for bfloat16, as far as torch can tell."""
    told: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    return bool(told.get("avx512_bf16") or told.get("amx_bf16"))


def rounded(network: Network, device: torch.device) -> Network:
    """The same network, whose convolutions round from now on, if that is quicker on the device; a GPU has other ways.

    What is no plain convolution over enough channels stays as it is.
    """
    if device.type == "cpu" and processor_rounds():
        for layer in network.modules():
            wide = type(layer) is nn.Conv2d and min(layer.in_channels, layer.out_channels) >= LEAST_CHANNELS
            if wide and layer.padding_mode == "zeros":
                layer.__class__ = RoundedConvolution
    return network

"""An average over the course of training: a copy of a network that follows it and does not swing with every step."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn


class Average(nn.Module):
    """Each weight is a moving average of the network's; running statistics are taken as they are."""

    age: torch.Tensor

    def __init__(self, network: Any, decay: float) -> None:
        super().__init__()
        self.network: Any = copy.deepcopy(network).requires_grad_(False)
        self.decay = decay
        self.register_buffer("age", torch.zeros((), device=next(network.parameters()).device))

    @torch.no_grad()
    def follow(self, network: Any) -> None:
        """Move towards the network's present weights, quickly while the average is young."""
        self.age += 1
        share = 1 - torch.clamp((1 + self.age) / (10 + self.age), max=self.decay)
        ours, theirs = list(self.network.parameters()), list(network.parameters())
        ahead = torch._foreach_sub(theirs, ours)
        torch._foreach_mul_(ahead, share)
        torch._foreach_add_(ours, ahead)
        for mine, its in zip(self.network.buffers(), network.buffers(), strict=True):
            mine.copy_(its)

"""Group and layer normalisation: a scale and a shift for each channel, few enough to hold for every record."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.functional import group_norm, layer_norm

from simulacra.gradients.contribution import Contribution, Explicit


def group_normalisation(layer: nn.GroupNorm, inputs: torch.Tensor, signals: torch.Tensor) -> Contribution:
    """Scale and shift of each channel: sums over positions."""
    normal = group_norm(inputs, layer.num_groups, eps=layer.eps)
    shape = (*inputs.shape[:2], -1)
    return _explicit(layer, normal.reshape(shape), signals.reshape(shape))


def layer_normalisation(layer: nn.LayerNorm, inputs: torch.Tensor, signals: torch.Tensor) -> Contribution:
    """Scale and shift of each entry: sums over the positions before the normalised part."""
    shape = tuple(layer.normalized_shape)
    normal = layer_norm(inputs, shape, eps=layer.eps).reshape(len(inputs), -1, *shape)
    values = signals.reshape(normal.shape)
    return _explicit(layer, normal.movedim(1, -1), values.movedim(1, -1))


def _explicit(layer: nn.GroupNorm | nn.LayerNorm, normal: torch.Tensor, signals: torch.Tensor) -> Contribution:
    """From (n, *parameter, positions)."""
    scale = (normal * signals).sum(dim=-1)
    return Explicit(scale) if getattr(layer, "bias", None) is None else Explicit(scale, signals.sum(dim=-1))

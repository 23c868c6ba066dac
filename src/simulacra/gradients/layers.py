"""Which layers have a rule, and which can never be clipped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from simulacra.errors import SettingError
from simulacra.gradients import convolution, embedding
from simulacra.gradients.contribution import Contribution
from simulacra.gradients.convolution import transposed_convolution
from simulacra.gradients.embedding import EmbeddingContribution
from simulacra.gradients.label_convolution import label_convolution
from simulacra.gradients.linear import LinearContribution
from simulacra.gradients.normalisation import group_normalisation, layer_normalisation
from simulacra.networks.label_convolution import LabelConvolution

Rule = Callable[[Any, torch.Tensor, torch.Tensor], Contribution]

RULES: dict[type[nn.Module], Rule] = {
    nn.Linear: LinearContribution,
    nn.Conv2d: convolution.convolution,
    nn.ConvTranspose2d: transposed_convolution,
    nn.GroupNorm: group_normalisation,
    nn.LayerNorm: layer_normalisation,
    nn.Embedding: EmbeddingContribution,
    LabelConvolution: label_convolution,
}
"""By exact type: a subclass may compute anything."""

IN_HALVES = (nn.Conv2d, nn.ConvTranspose2d, LabelConvolution)
"""Those whose rules multiply bfloat16 numbers as they are (see `products`). Others take what they are, in float32."""

MIXING = (nn.modules.batchnorm._NormBase, nn.modules.dropout._DropoutNd, nn.RReLU)
"""Layers whose output for one record depends on other records, on past batches or on chance."""


def refuse_mixing(loss: nn.Module) -> None:
    """Refuse, by name, layers for which a gradient per record does not exist."""
    for name, layer in loss.named_modules():
        if isinstance(layer, MIXING):
            raise SettingError(
                f'layer "{name}" ({type(layer).__name__}) cannot be clipped per record: its output for one record '
                "depends on other records or on chance; use nn.GroupNorm instead of batch or instance normalisation, "
                "and no dropout"
            )


def without_rule(loss: nn.Module) -> list[str]:
    """The names of layers that hold parameters, or change values in place, and have no rule here."""
    found = []
    seen: set[int] = set()
    for name, layer in loss.named_modules():
        own = list(layer.parameters(recurse=False))
        shared = any(id(parameter) in seen for parameter in own)
        seen |= {id(parameter) for parameter in own}
        frozen = any(not parameter.requires_grad for parameter in own)
        if getattr(layer, "inplace", False) or (own and (shared or frozen or not _has_rule(layer))):
            found.append(f'"{name}" ({type(layer).__name__})')
    return found


def _has_rule(layer: nn.Module) -> bool:
    if isinstance(layer, (nn.Conv2d, nn.ConvTranspose2d)) and not convolution.supported(layer):
        return False
    if isinstance(layer, nn.Embedding) and not embedding.supported(layer):
        return False
    return type(layer) in RULES

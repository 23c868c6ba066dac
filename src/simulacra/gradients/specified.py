"""The specification: a gradient for each record by automatic differentiation, one record at a time under vmap."""

from __future__ import annotations

import torch
from torch import nn
from torch.func import functional_call, grad, vmap

from simulacra.gradients.clipping import clipped_to


def gradient(loss: nn.Module, inputs: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    """The gradient of one record's loss by all trained parameters, flat: `inputs` (width,), `label` a scalar."""
    trained = {name: value.detach() for name, value in loss.named_parameters() if value.requires_grad}

    def of(parameters: dict[str, torch.Tensor]) -> torch.Tensor:
        losses: torch.Tensor = functional_call(loss, parameters, (inputs.unsqueeze(0), label.unsqueeze(0)))
        return losses.squeeze(0)

    return torch.cat([part.flatten() for part in grad(of)(trained).values()])


def clipped_sum(
    loss: nn.Module,
    inputs: torch.Tensor,
    labels: torch.Tensor,
    bound: float,
    present: torch.Tensor | None = None,
) -> torch.Tensor:
    """The sum of all gradients, each scaled down to just below the bound; holds all of them."""
    size = sum(value.numel() for value in loss.parameters() if value.requires_grad)
    if len(inputs) == 0:
        return inputs.new_zeros(size)
    gradients = vmap(lambda row, label: gradient(loss, row, label))(inputs, labels)
    limit = clipped_to(bound, gradients.dtype)
    norms = gradients.double().norm(dim=1)
    weights = (limit / norms.clamp(min=limit)).to(gradients.dtype)
    weights = torch.where(norms.isfinite() if present is None else norms.isfinite() & present, weights, 0.0)
    return weights @ torch.where(weights.unsqueeze(1) > 0, gradients, 0.0)

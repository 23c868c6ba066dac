"""Embeddings: a record moves the rows it looked up, and no other."""

from __future__ import annotations

import torch
from torch import nn

from simulacra.gradients.contribution import Contribution, Lengths, scaled
from simulacra.gradients.linear import paired


def supported(layer: nn.Embedding) -> bool:
    """Not with rows that stand still, shrink on use or weigh by how often a batch looks them up."""
    return layer.padding_idx is None and layer.max_norm is None and not layer.scale_grad_by_freq and not layer.sparse


class EmbeddingContribution(Contribution):
    """Looked-up numbers (n, ...) and signals (n, ..., width)."""

    def __init__(self, layer: nn.Embedding, inputs: torch.Tensor, signals: torch.Tensor) -> None:
        self.rows = layer.num_embeddings
        self.inputs = inputs.reshape(len(inputs), -1)
        self.signals = signals.reshape(len(signals), self.inputs.shape[1], -1)

    def lengths(self) -> Lengths:
        bulk = self.signals.norm(dim=2).sum(dim=1)
        if self.inputs.shape[1] == 1:
            return Lengths(bulk.square(), bulk)
        same = self.inputs.unsqueeze(1) == self.inputs.unsqueeze(2)
        products = self.signals @ self.signals.transpose(1, 2)
        added = self.signals.shape[2] + 4
        return Lengths(paired(products, same), bulk, added)

    def weighted(self, weights: torch.Tensor) -> tuple[torch.Tensor, ...]:
        signals = scaled(self.signals, weights).flatten(0, 1)
        total = signals.new_zeros(self.rows, signals.shape[1])
        return (total.index_add(0, self.inputs.flatten(), signals),)

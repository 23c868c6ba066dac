"""The label planes of a critic: a convolution of a picture that is 1 everywhere, in the channel of the label."""

from __future__ import annotations

import torch

from simulacra.gradients.contribution import Contribution, Lengths, kept, scaled
from simulacra.gradients.convolution import Window
from simulacra.gradients.products import product
from simulacra.networks.label_convolution import LabelConvolution


def label_convolution(layer: LabelConvolution, labels: torch.Tensor, signals: torch.Tensor) -> Contribution:
    """All records share the patches of one plane of ones; a record's gradient lies in its label's channel alone."""
    return _LabelContribution(layer, labels, signals)


class _LabelContribution(Contribution):
    def __init__(self, layer: LabelConvolution, labels: torch.Tensor, signals: torch.Tensor) -> None:
        self.layer, self.labels = layer, labels
        ones = signals.new_ones(1, 1, layer.height, layer.width)
        patches = Window(layer.kernel, layer.stride, layer.padding, (1, 1)).patches(ones, *signals.shape[2:])[0]
        # A last column of ones sums the signals, which is the gradient of the bias.
        patches = torch.cat([patches, torch.ones_like(patches[:, :1])], dim=1)
        self.gradient = product(signals.flatten(2).flatten(0, 1), patches).view(*signals.shape[:2], -1)

    def lengths(self) -> Lengths:
        squared = self.gradient.flatten(1).square().sum(dim=1)
        return Lengths(squared, squared.sqrt())

    def weighted(self, weights: torch.Tensor) -> tuple[torch.Tensor, ...]:
        # By comparison: torch's one_hot looks at the labels' values, which would stop a capture.
        one_hot = self.labels.unsqueeze(1) == torch.arange(self.layer.classes, device=self.labels.device)
        chosen = scaled(one_hot.to(self.gradient), weights)
        outputs, entries = self.gradient.shape[1:]
        sums = (chosen.T @ kept(self.gradient, weights).flatten(1)).view(self.layer.classes, outputs, entries)
        weight = sums[:, :, :-1].transpose(0, 1).reshape(self.layer.weight.shape)
        return weight, sums[:, :, -1].sum(dim=0)

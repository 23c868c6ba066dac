"""Neural tangent features: the gradient of an untrained network, scaled to norm 1, summed without ever forming it."""

from __future__ import annotations

import math

import torch

from simulacra.data.points import Points
from simulacra.errors import SettingError
from simulacra.features import tangent_sums
from simulacra.features.combine import refuse_too_many
from simulacra.features.groups import Groups
from simulacra.features.tangent_networks import POINT_BITS, Network, Parameters
from simulacra.features.tangent_sums import Layer
from simulacra.privacy.query import FeatureMap

BLOCK_ROWS = 256
"""Private records pass through the network in blocks that stay in the cache; fresh memory is what costs most there."""


class Tangent(FeatureMap):
    """phi(x) = g / |g| with g the gradient of the sum of f(x) by all parameters of a network f.

    The normalised e-NTK of Yang et al., Differentially Private Neural Tangent Kernels for Privacy-Preserving Data
    Generation, section 3. The norm of g is at least 1, from the output layer's bias. The weights are public: they are
    drawn from a seed, when first needed. `signed` shows the network 2x - 1 in place of points x from 0 to 1: where dark
    is not the absence of something, as in photographs, all points from 0 to 1 look alike to it.
    """

    def __init__(self, points: Points, network: Network, *, seed: int, signed: bool = False) -> None:
        if network.width != points.width:
            raise SettingError(f"the network takes {network.width} numbers, but a point has {points.width}")
        if not 0 <= seed < 2**63:  # now, because the draw comes when the budget is spent already
            raise SettingError(f"the seed of the features must be from 0 to 2^63 - 1, got {seed}")
        refuse_too_many(network.size)
        self.points = points
        self.network = network
        self.seed = seed
        self.signed = signed
        self.shape = (network.size,)
        self._drawn: dict[str, torch.Tensor] = {}

    def features(self, inputs: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        return self.specified(self._private_points(inputs))

    def specified(self, point: torch.Tensor) -> torch.Tensor:
        """The specification, for one point: automatic differentiation, and no closed form."""
        network = self.network

        def total(parameters: Parameters) -> torch.Tensor:
            return network.logits(parameters, self._seen(point)).sum()

        gradients = torch.func.grad(total)(self._as(point))
        weight, bias = list(gradients)[-2:]
        for name in (weight, bias):  # all logits have the same: see `Network`
            gradients[name] = gradients[name][0] * math.sqrt(network.outputs)
        flat = torch.cat([gradient.flatten() for gradient in gradients.values()])
        unit: torch.Tensor = flat / torch.linalg.vector_norm(flat)
        return unit

    def embed(self, points: torch.Tensor) -> torch.Tensor:
        """Features of points, (n, width) to (n, size), for few of them; differentiable."""
        return tangent_sums.explicit(self._layers(points))

    def class_sums(self, points: torch.Tensor, groups: Groups) -> torch.Tensor:
        """Weighted sums per class, for training: (n, width) to (classes, size)."""
        return tangent_sums.class_sums(self._layers(points), groups.point_weights.to(points), groups.sizes)

    @torch.no_grad()
    def sums_by_class(self, inputs: torch.Tensor, labels: torch.Tensor, classes: int) -> torch.Tensor:
        """Sums of records per class, for `PerClass`: all that is held per record is what the network's layers are."""
        order = torch.argsort(labels, stable=True)
        sizes = torch.bincount(labels, minlength=classes).tolist()
        layers: list[Layer] = []
        for start in range(0, max(1, len(order)), BLOCK_ROWS):
            rows = slice(start, start + BLOCK_ROWS)
            block = self._layers(self._private_points(inputs[order[rows]]))
            layers = layers or [layer.room_for(len(order)) for layer in block]
            for layer, part in zip(layers, block, strict=True):
                layer.signal[rows], layer.inputs[rows] = part
        return tangent_sums.class_sums(layers, inputs.new_ones(len(order)), sizes)

    def clipped_sum(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return self.sums_by_class(inputs, torch.zeros_like(labels), 1).squeeze(0)

    @property
    def working_size(self) -> int:
        return self.network.working_size  # the points are among what the layers hold, and are made block by block

    def _private_points(self, inputs: torch.Tensor) -> torch.Tensor:
        """On a grid, so that no record's features depend on its neighbours by rounding: see `tangent_networks`."""
        return self.points.of_records(inputs).mul(2.0**POINT_BITS).round_().mul_(2.0**-POINT_BITS)

    def _layers(self, points: torch.Tensor) -> tuple[Layer, ...]:
        return self.network.layers(self._as(points), self._seen(points))

    def _seen(self, points: torch.Tensor) -> torch.Tensor:
        """What the network takes; exact for points on the grid, and no larger than these."""
        return 2 * points - 1 if self.signed else points

    def _as(self, points: torch.Tensor) -> Parameters:
        """The parameters in the precision and on the device of some points; kept for the next chunk."""
        if not self._drawn:
            self._drawn = self.network.parameters(self.seed)
        one = next(iter(self._drawn.values()))
        if one.dtype != points.dtype or one.device != points.device:
            self._drawn = {name: value.to(points) for name, value in self._drawn.items()}
        return self._drawn

"""Untrained networks whose gradients are the features of DP-NTK, each with its backward pass in closed form.

A ReLU's derivative jumps at zero, so a record on the edge could have other features when its neighbours in the batch
change the order in which a matrix product adds up. Then removing one record would move more than one. So weights are
drawn on a grid, as coarse as it must be for all that decides a ReLU to be added up in float64 without any rounding:
multiples of 2^-k that stay below 2^(53 - k) add up exactly in any order. `Tangent` puts private points on theirs.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import torch
from torch.nn import functional

from simulacra.errors import SettingError, suggestion
from simulacra.features.tangent_sums import Layer

Parameters = Mapping[str, torch.Tensor]

POINT_BITS = 16
"""Points of private records are rounded to multiples of 2^-16: far finer than a pixel's 256 steps."""
FLOAT_BITS = 53
EPSILON = 1e-5
"""Of layer normalisation."""


class Network(ABC):
    """`width` numbers in, `outputs` logits out, hidden layers of the given widths; PyTorch's default initialisation.

    `parameters` draws the weights; `logits` is the network, for the specification; `layers` is the gradient of the sum
    of its logits. All logits have the same gradient in the output layer, so it is kept once, times sqrt(outputs): that
    is the same kernel and the same norm, with fewer numbers to add noise to.
    """

    hidden_layers: ClassVar[int]

    def __init__(self, width: int, hidden: Sequence[int], outputs: int = 1) -> None:
        if len(hidden) != self.hidden_layers:
            raise SettingError(f"this network takes {self.hidden_layers} hidden width(s), got {len(hidden)}")
        if min(width, outputs, *hidden) < 1:
            raise SettingError(f"a network's widths must be 1 or more, got {width}, {list(hidden)} and {outputs}")
        self.width = width
        self.hidden = tuple(hidden)
        self.outputs = outputs
        if any(2.0**bits < math.sqrt(inputs) for (_, inputs), bits in zip(self.fans, self.grid_bits(), strict=True)):
            raise SettingError("this network is too wide for sums without rounding; choose narrower hidden layers")

    @property
    @abstractmethod
    def fans(self) -> tuple[tuple[int, int], ...]:
        """(outputs, inputs) of each affine layer, in order."""

    @abstractmethod
    def logits(self, parameters: Parameters, point: torch.Tensor) -> torch.Tensor:
        """(width,) to (outputs,)."""

    @abstractmethod
    def layers(self, parameters: Parameters, points: torch.Tensor) -> tuple[Layer, ...]:
        """The gradient of the sum of the logits for each of (n, width) points; differentiable in these."""

    @property
    def size(self) -> int:
        """How many numbers the gradient has, the output layer counted once."""
        return sum(outputs * (inputs + 1) for outputs, inputs in self.fans[:-1]) + self.fans[-1][1] + 1

    @property
    def working_size(self) -> int:
        """Numbers per record in what `layers` gives."""
        return sum(outputs + inputs for outputs, inputs in self.fans[:-1]) + self.fans[-1][1] + 1

    def grid_bits(self) -> tuple[int, ...]:
        """Bits after the point of each layer's weights; a layer behind the last ReLU is free to have 24."""
        return (min(24, FLOAT_BITS - POINT_BITS - _bits(self.width)), *[24] * (len(self.fans) - 1))

    def parameters(self, seed: int) -> dict[str, torch.Tensor]:
        """Uniform in +-1/sqrt(inputs), on the grid; drawn as integers in numpy, so the same on every machine."""
        random = np.random.Generator(np.random.PCG64(seed))
        result = {}
        for index, ((outputs, inputs), bits) in enumerate(zip(self.fans, self.grid_bits(), strict=True)):
            reach = max(1, round(2**bits / math.sqrt(inputs)))
            for name, shape in (("weight", (outputs, inputs)), ("bias", (outputs,))):
                drawn = random.integers(-reach, reach, size=shape, dtype=np.int32, endpoint=True)
                result[f"{index}.{name}"] = torch.from_numpy(drawn).to(torch.float32) * 2.0**-bits
        return result

    def _output_layer(self, inputs: torch.Tensor) -> Layer:
        return Layer(inputs.new_full((len(inputs), 1), math.sqrt(self.outputs)), inputs)


class OneHidden(Network):
    """Linear, ReLU, layer normalisation without scale and shift, linear: `fc_1l` of the paper's code."""

    hidden_layers = 1

    @property
    def fans(self) -> tuple[tuple[int, int], ...]:
        return (self.hidden[0], self.width), (self.outputs, self.hidden[0])

    def logits(self, parameters: Parameters, point: torch.Tensor) -> torch.Tensor:
        hidden = functional.relu(_affine(parameters, 0, point))
        return _affine(parameters, 1, functional.layer_norm(hidden, self.hidden, eps=EPSILON))

    def layers(self, parameters: Parameters, points: torch.Tensor) -> tuple[Layer, ...]:
        before = _affine(parameters, 0, points)
        normal, signal = _normalised(functional.relu(before), parameters["1.weight"].sum(dim=0))
        return Layer(_through_relu(signal, before), points), self._output_layer(normal)


class TwoHidden(Network):
    """Linear, ReLU, linear, layer normalisation, linear, and no second ReLU: `fc_2l` of the paper's code."""

    hidden_layers = 2

    @property
    def fans(self) -> tuple[tuple[int, int], ...]:
        first, second = self.hidden
        return (first, self.width), (second, first), (self.outputs, second)

    def logits(self, parameters: Parameters, point: torch.Tensor) -> torch.Tensor:
        second = _affine(parameters, 1, functional.relu(_affine(parameters, 0, point)))
        return _affine(parameters, 2, functional.layer_norm(second, self.hidden[1:], eps=EPSILON))

    def layers(self, parameters: Parameters, points: torch.Tensor) -> tuple[Layer, ...]:
        before = _affine(parameters, 0, points)
        first = functional.relu(before)
        normal, signal = _normalised(_affine(parameters, 1, first), parameters["2.weight"].sum(dim=0))
        below = _through_relu(signal @ parameters["1.weight"], before)
        return Layer(below, points), Layer(signal, first), self._output_layer(normal)


class Entrywise(Network):
    """A convolution of kernel size 1 over the entries of a point, ReLU, linear, ReLU, linear: `cnn_2l` for tables.

    Each entry x_j is mapped to ReLU(a_k x_j + b_k) for each channel k. These weights are shared by all entries, so
    their gradient is a sum over entries and no outer product; it has only two numbers per channel.
    """

    hidden_layers = 2

    @property
    def fans(self) -> tuple[tuple[int, int], ...]:
        channels, hidden = self.hidden
        return (channels, 1), (hidden, channels * self.width), (self.outputs, hidden)

    def grid_bits(self) -> tuple[int, ...]:
        """Two ReLUs in a row: the bits of points, channels and weights add up. Channel values are at most 2."""
        channels = 10
        left = FLOAT_BITS - POINT_BITS - channels - _bits(4 * self.hidden[0] * self.width)
        return channels, min(24, left), 24

    def logits(self, parameters: Parameters, point: torch.Tensor) -> torch.Tensor:
        channels = functional.relu(torch.outer(parameters["0.weight"][:, 0], point) + parameters["0.bias"][:, None])
        return _affine(parameters, 2, functional.relu(_affine(parameters, 1, channels.flatten())))

    def layers(self, parameters: Parameters, points: torch.Tensor) -> tuple[Layer, ...]:
        before = points.unsqueeze(1) * parameters["0.weight"] + parameters["0.bias"][:, None]
        channels = functional.relu(before).flatten(1)
        hidden = _affine(parameters, 1, channels)
        signal = _through_relu(parameters["2.weight"].sum(dim=0).expand_as(hidden), hidden)
        below = _through_relu((signal @ parameters["1.weight"]).view_as(before), before)
        shared = torch.cat([(below @ points.unsqueeze(2)).squeeze(2), below.sum(dim=2)], dim=1)
        first = Layer(shared, points[:, :0])
        return first, Layer(signal, channels), self._output_layer(functional.relu(hidden))


NETWORKS: dict[str, type[Network]] = {"fc_1l": OneHidden, "fc_2l": TwoHidden, "cnn_2l": Entrywise}
"""By their names in the paper's code."""


def network(name: str, *, width: int, hidden: Sequence[int], outputs: int = 1) -> Network:
    """The network of a name, for points of some width."""
    if name not in NETWORKS:
        raise SettingError(f'there is no network "{name}"{suggestion(name, NETWORKS)}')
    return NETWORKS[name](width, hidden, outputs)


def _affine(parameters: Parameters, index: int, inputs: torch.Tensor) -> torch.Tensor:
    return functional.linear(inputs, parameters[f"{index}.weight"], parameters[f"{index}.bias"])


def _normalised(rows: torch.Tensor, weights: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Layer normalisation of rows, and the derivative of its inner product with `weights` by the rows."""
    centred = rows - rows.mean(dim=1, keepdim=True)
    deviation = torch.linalg.vector_norm(centred, dim=1, keepdim=True) / math.sqrt(rows.shape[1])
    inverse = torch.rsqrt(deviation.square() + EPSILON)
    normal = centred * inverse
    # Rows of `normal` have mean zero, so the weights may be centred once instead of with every row.
    level = weights - weights.mean()
    along = inverse * (normal @ level).unsqueeze(1) / rows.shape[1]
    return normal, torch.addcmul(inverse * level, normal, along, value=-1)


def _through_relu(signal: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
    """The signal where what came before the ReLU was positive, else 0: what the ReLU's own backward pass runs."""
    passed: torch.Tensor = torch.ops.aten.threshold_backward(signal, before, 0)
    return passed


def _bits(square: int) -> int:
    """Bits before the point of a sum of `inputs` products with weights up to 1/sqrt(inputs), and of its bias."""
    return math.ceil(math.log2(math.sqrt(square) + 1)) + 1

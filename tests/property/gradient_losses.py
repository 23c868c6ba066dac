"""Losses of all kinds of layers, with the sums of their gradients, and invented records to compute them on."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.nn.functional import softplus

from simulacra.gradients.summing import GradientSums
from simulacra.networks.label_convolution import LabelConvolution

CLASSES = 3


class Loss(nn.Module):
    """Layers between a reshape of the record and a number per record."""

    def __init__(self, *layers: nn.Module, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.layers, self.shape = nn.Sequential(*layers), shape

    @property
    def width(self) -> int:
        return math.prod(self.shape)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        values = self.layers(inputs.view(-1, *self.shape)).flatten(1)
        return softplus(values).sum(dim=1) * (1 + labels)


class Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm, self.convolution = nn.GroupNorm(2, channels), nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images + self.convolution(self.norm(images).relu())


class Words(nn.Module):
    """A few numbers of a record pick rows of a table; several may pick the same one."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.table, self.last = nn.Embedding(rows, 4), nn.Linear(4, 1)
        self.width = 5

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        chosen = ((inputs + 1) * 0.499 * self.table.num_embeddings).long()
        return softplus(self.last(self.table(chosen).tanh()).squeeze(2)).sum(dim=1) + labels


class Conditional(nn.Module):
    """A critic in miniature, with label planes."""

    def __init__(self, planes: bool = True) -> None:
        super().__init__()
        self.image = nn.Conv2d(1, 4, 4, 2, 1)
        self.label = LabelConvolution(CLASSES, 4, kernel=4, stride=2, padding=1, height=8, width=8)
        self.rest = nn.Sequential(nn.LeakyReLU(0.2), nn.Conv2d(8, 16, 3, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(16, 1, 2))
        self.width = 64

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        both = torch.cat([self.image(inputs.view(-1, 1, 8, 8)), self.label(labels)], dim=1)
        return softplus(-self.rest(both).flatten())


def losses() -> dict[str, nn.Module]:
    torch.manual_seed(0)
    return {
        "linear": Loss(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 1), shape=(6,)),
        "linear-without-bias": Loss(nn.Linear(6, 4, bias=False), nn.ReLU(), nn.Linear(4, 2), shape=(6,)),
        "linear-at-few-positions": Loss(nn.Linear(9, 8), shape=(2, 9)),
        "linear-at-many-positions": Loss(nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 2), shape=(7, 3)),
        "convolution-of-many-positions": Loss(nn.Conv2d(1, 3, 3, padding=1), nn.LeakyReLU(0.2), shape=(1, 6, 6)),
        "convolution-of-few-positions": Loss(nn.Conv2d(6, 8, 3, stride=2, padding=1), shape=(6, 4, 4)),
        "convolution-to-one-pixel": Loss(nn.Conv2d(4, 5, 4), shape=(4, 4, 4)),
        "convolution-uneven": Loss(
            nn.Conv2d(2, 9, (3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2), bias=False), shape=(2, 5, 7)
        ),
        "convolution-that-leaves-a-rest": Loss(nn.Conv2d(3, 9, 3, stride=2), nn.SiLU(), shape=(3, 6, 6)),
        "transposed-of-few-positions": Loss(nn.ConvTranspose2d(8, 6, 4), shape=(8, 1, 1)),
        "transposed-of-many-positions": Loss(nn.ConvTranspose2d(2, 1, 4, stride=2, padding=1), shape=(2, 5, 5)),
        "transposed-uneven": Loss(nn.ConvTranspose2d(3, 7, 3, stride=2, padding=1, output_padding=1), shape=(3, 2, 2)),
        "group-norm": Loss(nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.Conv2d(4, 1, 2), shape=(1, 5, 5)),
        "group-norm-of-vectors": Loss(nn.Linear(3, 6), nn.GroupNorm(2, 6), nn.Tanh(), shape=(3,)),
        "layer-norm": Loss(nn.Linear(3, 6), nn.LayerNorm(6), nn.Tanh(), nn.Linear(6, 1), shape=(2, 3)),
        "embedding": Words(4),
        "label-planes": Conditional(),
        "residual-critic": Loss(
            nn.Conv2d(3, 6, 3, padding=1),
            Residual(6),
            nn.AvgPool2d(2),
            nn.Conv2d(6, 8, 3, padding=1),
            Residual(8),
            nn.Flatten(),
            nn.Linear(8 * 16, 1),
            shape=(3, 8, 8),
        ),
    }


every_loss = pytest.mark.parametrize("name", losses())


def summed(name: str, bound: float, dtype: torch.dtype = torch.float32) -> tuple[nn.Module, GradientSums]:
    loss = losses()[name].to(dtype)
    return loss, GradientSums(loss, inputs=loss.width, classes=CLASSES, bound=bound)


def invented(width: int, records: int, dtype: torch.dtype = torch.float32, seed: int = 1) -> tuple[torch.Tensor, ...]:
    random = torch.Generator().manual_seed(seed)
    inputs = torch.rand(records, width, generator=random, dtype=torch.float64) * 2 - 1
    return inputs.to(dtype), torch.randint(0, CLASSES, (records,), generator=random)

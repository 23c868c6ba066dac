"""Networks that name the class of an image, by name."""

from __future__ import annotations

from typing import Protocol

from torch import nn

from simulacra.errors import SettingError, suggestion
from simulacra.networks.alexnet import AlexNet
from simulacra.networks.convnet import ConvNet
from simulacra.networks.digit_cnn import DigitCNN
from simulacra.networks.lenet import LeNet
from simulacra.networks.perceptron import Perceptron
from simulacra.networks.resnet9 import ResNet9
from simulacra.networks.resnet18 import ResNet18
from simulacra.networks.vgg11 import VGG11


class _Network(Protocol):
    @property
    def LEAST_SIDE(self) -> int: ...

    def __call__(self, *, channels: int, height: int, width: int, classes: int) -> nn.Module: ...


NETWORKS: dict[str, _Network] = {
    "cnn": DigitCNN,
    "resnet9": ResNet9,
    "convnet": ConvNet,
    "mlp128": Perceptron,
    "lenet": LeNet,
    "alexnet": AlexNet,
    "vgg11": VGG11,
    "resnet18": ResNet18,
}


def build(name: str, *, channels: int, height: int, width: int, classes: int) -> nn.Module:
    """A new network with random weights from torch's default generator; takes (n, channels, height, width).

    >>> sum(weights.numel() for weights in build("lenet", channels=1, height=28, width=28, classes=10).parameters())
    61706
    """
    if name not in NETWORKS:
        raise SettingError(f'unknown classifier "{name}"{suggestion(name, NETWORKS)}')
    network = NETWORKS[name]
    side = min(height, width)
    if side < network.LEAST_SIDE:
        least = network.LEAST_SIDE
        raise SettingError(f"{name} needs images of at least {least} x {least} pixels, got {height} x {width}")
    return network(channels=channels, height=height, width=width, classes=classes)

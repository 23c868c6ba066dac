"""VGG (Simonyan and Zisserman, 2015) as encoders: torchvision's, and the one with normalised activations."""

from __future__ import annotations

from torch import nn

from simulacra.networks.encoder import IMAGENET_MEAN, IMAGENET_SPREAD, SequentialEncoder

CHANNELS = (64, 128, 256, 512, 512)
DEPTHS = {"vgg11": (1, 1, 2, 2, 2), "vgg13": (2, 2, 2, 2, 2), "vgg16": (2, 2, 3, 3, 3), "vgg19": (2, 2, 4, 4, 4)}
"""Convolutions per stage."""


class VGG(SequentialEncoder):
    """3 x 3 convolutions with ReLU, in five stages of halved side; named as in torchvision."""

    heads = ("classifier.",)

    def __init__(self, depths: tuple[int, ...]) -> None:
        super().__init__(least_side=16, mean=IMAGENET_MEAN, spread=IMAGENET_SPREAD)
        layers: list[nn.Module] = []
        before = 3
        for depth, after in zip(depths, CHANNELS, strict=True):
            for _ in range(depth):
                layers += [nn.Conv2d(before, after, kernel_size=3, padding=1), nn.ReLU()]
                before = after
            layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers[:-2])  # nothing is read behind the last convolution

    @property
    def sequence(self) -> nn.Sequential:
        return self.features


class NormalisedVGG19(SequentialEncoder):
    """VGG19 with every channel scaled to a mean activation of one, as Gatys et al. (2016) began to do.

    The form in which style transfer passes it on: a 1 x 1 convolution turns intensities into what the network was
    trained on, and borders are reflected. Its numbers are those of the published file, which counts layers.
    """

    def __init__(self) -> None:
        # Borders are reflected, which takes two pixels of every map.
        super().__init__(least_side=17, mean=(0.0, 0.0, 0.0), spread=(1.0, 1.0, 1.0))
        layers: list[nn.Module] = [nn.Conv2d(3, 3, kernel_size=1)]
        before = 3
        for depth, after in zip(DEPTHS["vgg19"], CHANNELS, strict=True):
            for _ in range(depth):
                layers += [nn.ReflectionPad2d(1), nn.Conv2d(before, after, kernel_size=3), nn.ReLU()]
                before = after
            layers.append(nn.MaxPool2d(2, ceil_mode=True))
        self.layers = nn.Sequential(*layers[:-2])

    @property
    def sequence(self) -> nn.Sequential:
        return self.layers

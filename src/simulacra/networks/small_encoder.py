"""A small convolutional encoder, to be trained on a public data set by `simulacra pretrain`."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from simulacra.networks.encoder import HALF, SequentialEncoder

WIDTHS = (32, 64, 128)


class SmallEncoder(SequentialEncoder):
    """Stages of two 3 x 3 convolutions with batch normalisation and ReLU, with halved sides between them."""

    def __init__(self, widths: Sequence[int] = WIDTHS) -> None:
        super().__init__(least_side=2 ** (len(widths) - 1), mean=HALF, spread=HALF)
        layers: list[nn.Module] = []
        before = 3
        for number, width in enumerate(widths):
            if number:
                layers.append(nn.MaxPool2d(2))
            for _ in range(2):
                layers += [nn.Conv2d(before, width, kernel_size=3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
                before = width
        self.features = nn.Sequential(*layers)

    @property
    def sequence(self) -> nn.Sequential:
        return self.features

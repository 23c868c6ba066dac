"""What the networks of the condensation papers share: instance normalisation, and 28 pixels seen as 32."""

from __future__ import annotations

from torch import nn

SEEN_SIDE = 32
PADDED_FROM = 28


def extra_padding(side: int) -> int:
    """Pixels to add on both sides so that images of 28 to 31 pixels have at least 32 inside, as in the papers."""
    return (SEEN_SIDE - side + 1) // 2 if PADDED_FROM <= side < SEEN_SIDE else 0


def seen(side: int) -> int:
    """The side of an image after `extra_padding`."""
    return side + 2 * extra_padding(side)


def first_padding(height: int, width: int, *, own: int) -> tuple[int, int]:
    """The padding of the first convolution, which has `own` of its own."""
    return own + extra_padding(height), own + extra_padding(width)


def instance_norm(channels: int) -> nn.GroupNorm:
    """Each channel of each image on its own, so that no image of a batch sees another; with scale and shift."""
    return nn.GroupNorm(channels, channels, affine=True)

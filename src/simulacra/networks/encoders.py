"""The encoders by name, and their weights: fitted exactly, or refused in one line."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import torch

from simulacra.errors import DataError, SettingError, suggestion
from simulacra.networks import convnext, efficient, residual, vgg
from simulacra.networks.small_encoder import WIDTHS, SmallEncoder

if TYPE_CHECKING:
    from simulacra.networks.encoder import Encoder

SMALL = "small"
"""The one encoder whose widths can be chosen."""


def _made() -> dict[str, Callable[[], Encoder]]:
    found: dict[str, Callable[[], Encoder]] = {"vgg19-normalised": vgg.NormalisedVGG19}
    found |= {name: partial(vgg.VGG, depths) for name, depths in vgg.DEPTHS.items()}
    for name, (depths, bottleneck) in residual.DEPTHS.items():
        found[name] = partial(residual.ResNet, depths, bottleneck=bottleneck)
    found["resnet18-small"] = partial(residual.ResNet, residual.DEPTHS["resnet18"][0], bottleneck=False, small=True)
    found |= {name: partial(convnext.ConvNeXt, *sizes) for name, sizes in convnext.SIZES.items()}
    for name, stages in efficient.SIZES.items():
        # The largest was trained on intensities between -1 and 1.
        found[name] = partial(efficient.EfficientNet, stages, halves=name.endswith("-l"))
    return found


ENCODERS: dict[str, Callable[[], Encoder]] = _made()
NAMES = (*ENCODERS, SMALL)


def build(name: str, *, widths: Sequence[int] = WIDTHS) -> Encoder:
    """A new encoder with random weights from torch's default generator, in evaluation mode.

    >>> sum(map_.numel() for map_ in build("resnet18").maps(torch.zeros(1, 3, 32, 32)))
    47104
    """
    if name not in NAMES:
        raise SettingError(f'unknown encoder "{name}"{suggestion(name, NAMES)}')
    return (SmallEncoder(widths) if name == SMALL else ENCODERS[name]()).eval()


def fill(encoder: Encoder, tensors: Mapping[str, torch.Tensor], *, name: str, source: str) -> Encoder:
    """Put weights into an encoder: every one of them must be there, in the right shape, and none besides."""
    needed = encoder.state_dict()
    given = {key: value for key, value in tensors.items() if not key.startswith(encoder.heads or ("\0",))}
    counters = {key for key in needed if key.endswith("num_batches_tracked")}  # old files have none; they do nothing
    missing = sorted(needed.keys() - given.keys() - counters)
    unknown = sorted(given.keys() - needed.keys())
    other = sorted(key for key in needed.keys() & given.keys() if needed[key].shape != given[key].shape)
    for keys, what in ((missing, "lacks"), (unknown, "has besides"), (other, "has in another shape")):
        if keys:
            more = f" and {len(keys) - 1} more" if len(keys) > 1 else ""
            raise DataError(f'the weights in {source} do not fit the encoder "{name}": it {what} {keys[0]}{more}')
    if not all(torch.isfinite(value).all() for value in given.values() if value.is_floating_point()):
        raise DataError(f"the weights in {source} hold numbers that are not finite; get a fresh copy")
    encoder.load_state_dict({**{key: needed[key] for key in counters}, **given})
    return encoder.eval().requires_grad_(False)

"""Where each tensor of our Inception comes from: the names of the 2015 graph, in its two PyTorch translations."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from simulacra.errors import DataError

EPSILON = 1e-3
"""Added to the variance of every batch norm in the 2015 graph, which has no scale."""

A = {
    "entry": ("conv", "tower.conv", "tower_1.conv", "tower_2.conv"),
    "five": ("tower.conv_1",),
    "threes.0": ("tower_1.conv_1",),
    "threes.1": ("tower_1.conv_2",),
}
B = {"three": ("conv",), "threes.0": ("tower.conv",), "threes.1": ("tower.conv_1",), "threes.2": ("tower.conv_2",)}
C = {
    "entry": ("conv", "tower.conv", "tower_1.conv", "tower_2.conv"),
    "pair.0": ("tower.conv_1",),
    "pair.1": ("tower.conv_2",),
    "pairs.0": ("tower_1.conv_1",),
    "pairs.1": ("tower_1.conv_2",),
    "pairs.2": ("tower_1.conv_3",),
    "pairs.3": ("tower_1.conv_4",),
}
D = {
    "entry": ("tower.conv", "tower_1.conv"),
    "three": ("tower.conv_1",),
    "pair.0": ("tower_1.conv_1",),
    "pair.1": ("tower_1.conv_2",),
    "pair.2": ("tower_1.conv_3",),
}
SPLITS = {
    "three": ("tower_1_conv_1",),
    "splits.0": ("tower_mixed_conv",),
    "splits.1": ("tower_mixed_conv_1",),
    "splits.2": ("tower_1_mixed_conv",),
    "splits.3": ("tower_1_mixed_conv_1",),
}
E = {"entry": ("conv", "tower_conv", "tower_1_conv", "tower_2_conv"), **SPLITS}
LAST = {"entry": ("conv", "tower_conv", "tower_1_conv"), "after_maximum": ("tower_2_conv",), **SPLITS}

STEM = {
    "first": ("conv",),
    "stem.0": ("conv_1",),
    "stem.1": ("conv_2",),
    "middle.0": ("conv_3",),
    "middle.1": ("conv_4",),
}
BLOCKS: tuple[Mapping[str, tuple[str, ...]], ...] = (A, A, A, B, C, C, C, C, D, E, LAST)

OTHER_BLOCKS = ("5b", "5c", "5d", "6a", "6b", "6c", "6d", "6e", "7a", "7b", "7c")
OTHER_STEM = ("1a_3x3", "2a_3x3", "2b_3x3", "3b_1x1", "4a_3x3")
OTHER_A = ("1x1", "5x5_1", "3x3dbl_1", "_pool", "5x5_2", "3x3dbl_2", "3x3dbl_3")
OTHER_B = ("3x3", "3x3dbl_1", "3x3dbl_2", "3x3dbl_3")
OTHER_C = ("1x1", "7x7_1", "7x7dbl_1", "_pool", "7x7_2", "7x7_3", "7x7dbl_2", "7x7dbl_3", "7x7dbl_4", "7x7dbl_5")
OTHER_D = ("3x3_1", "7x7x3_1", "3x3_2", "7x7x3_2", "7x7x3_3", "7x7x3_4")
OTHER_SPLITS = ("3x3dbl_2", "3x3_2a", "3x3_2b", "3x3dbl_3a", "3x3dbl_3b")
OTHER_E = ("1x1", "3x3_1", "3x3dbl_1", "_pool", *OTHER_SPLITS)
"""The same branches, in the same order as above, as torchvision and pytorch-fid call them."""


def fold(published: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The tensors of `Inception`, from a file in either translation; batch norms are folded in double precision."""
    names = _graph_names(published)
    folded: dict[str, torch.Tensor] = {}
    for ours, sources in places().items():
        try:
            parts = [_fold_one(published, names[source]) for source in sources]
        except KeyError as missing:
            raise DataError(f"these are not the weights of the 2015 Inception: no tensor {missing}") from None
        folded[f"{ours}.weight"] = torch.cat([weight for weight, _ in parts]).contiguous()
        folded[f"{ours}.bias"] = torch.cat([bias for _, bias in parts]).contiguous()
    return folded


def places() -> dict[str, tuple[str, ...]]:
    """Each convolution of `Inception` and the convolutions of the 2015 graph that it is made of."""
    found: dict[str, tuple[str, ...]] = dict(STEM)
    for number, block in enumerate(BLOCKS):
        mixed = f"mixed_{number}" if number else "mixed"
        for ours, sources in block.items():
            found[f"blocks.{number}.{ours}"] = tuple(f"{mixed}.{source}" for source in sources)
    return found


def _graph_names(published: Mapping[str, torch.Tensor]) -> dict[str, str]:
    """From a name of the 2015 graph to what the file calls it."""
    ours = [source for sources in places().values() for source in sources]
    prefix = next((key.removesuffix("conv.weight") for key in published if key.endswith("layers.conv.weight")), None)
    if prefix is not None:
        return {name: f"{prefix}{name}" for name in ours}
    return dict(zip(ours, other_names(), strict=True))


def other_names() -> list[str]:
    """torchvision's names of all convolutions, in the order of `places`."""
    kinds = {id(A): OTHER_A, id(B): OTHER_B, id(C): OTHER_C, id(D): OTHER_D, id(E): OTHER_E, id(LAST): OTHER_E}
    names = [f"Conv2d_{name}" for name in OTHER_STEM]
    for place, block in zip(OTHER_BLOCKS, BLOCKS, strict=True):
        names += [f"Mixed_{place}.branch{name}" for name in kinds[id(block)]]
    return names


def _fold_one(published: Mapping[str, torch.Tensor], name: str) -> tuple[torch.Tensor, torch.Tensor]:
    if f"{name}.beta" in published:
        weight, shift, mean, variance = (published[f"{name}.{part}"] for part in ("weight", "beta", "mean", "var"))
    else:
        weight, shift = published[f"{name}.conv.weight"], published[f"{name}.bn.bias"]
        mean, variance = published[f"{name}.bn.running_mean"], published[f"{name}.bn.running_var"]
    # Roots and quotients are rounded alike on every machine, so the folded tensors have one checksum.
    scale = (variance.double() + EPSILON).sqrt()
    return (weight.double() / scale[:, None, None, None]).float(), (shift.double() - mean.double() / scale).float()

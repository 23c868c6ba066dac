"""Sums of unit-length features for a release: in double precision, and in blocks that stay in a processor's cache.

A network says hundreds of thousands of numbers of each image. Raised to double precision all at once they would take
longer to copy about than the network took to say them, so that a few columns at a time are raised, twice: once for the
lengths, and once for the sums.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch

from simulacra.features.unit_sums import FLOOR

COLUMNS = 4096
"""Of a block: with 64 images two megabytes."""


def add_unit_sums(totals: Mapping[int, torch.Tensor], layers: Sequence[torch.Tensor], chosen: torch.Tensor) -> None:
    """Add the unit vectors of features, or of their squares, to `totals` (classes, features) by order.

    `chosen` (classes, images) says how often an image counts. A feature that is no number counts as zero; an image
    whose length cannot be told adds nothing.
    """
    lengths = _lengths(totals, layers)
    if not all(torch.isfinite(length).all() for length in lengths.values()):
        layers = [torch.nan_to_num(layer, nan=0.0, posinf=0.0, neginf=0.0) for layer in layers]
        lengths = _lengths(totals, layers)
    weights, lost = {}, {}
    for order, length in lengths.items():
        measured = torch.isfinite(length)
        weights[order] = torch.where(measured, chosen / length.clamp(min=FLOOR**order), 0.0)
        # Only absurd weights make features that overflow. Zero times infinity is NaN, and would take all other
        # images along, so such features are taken out and not just weighed with nothing.
        if not measured.all():
            lost[order] = ~measured.unsqueeze(1)
    for columns, block in _blocks(layers):
        for order, total in totals.items():
            power = block if order == 1 else block.square()
            if order in lost:
                power = power.masked_fill(lost[order], 0.0)
            total[:, columns].addmm_(weights[order], power)


def _lengths(orders: Mapping[int, torch.Tensor], layers: Sequence[torch.Tensor]) -> dict[int, torch.Tensor]:
    """(images,) by order: of the features of all layers together, or of their squares."""
    found = {order: torch.zeros(len(layers[0]), dtype=torch.float64, device=layers[0].device) for order in orders}
    for _, block in _blocks(layers):
        squares = block.square()
        for order in sorted(orders):
            found[order] += (squares if order == 1 else squares.square_()).sum(dim=1)
    return {order: total.sqrt() for order, total in found.items()}


def _blocks(layers: Sequence[torch.Tensor]) -> Iterator[tuple[slice, torch.Tensor]]:
    """A few columns of a layer in double precision, and where they are among the columns of all layers."""
    begin = 0
    for layer in layers:
        for part in layer.split(COLUMNS, dim=1):  # type: ignore[no-untyped-call]
            yield slice(begin, begin + part.shape[1]), part.to(torch.float64)
            begin += part.shape[1]

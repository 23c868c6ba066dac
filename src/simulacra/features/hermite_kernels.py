"""The sum kernel and the product kernels of DP-HP (Vinaroz et al., ICML 2022), each with a joint bound of at most 1."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import torch

from simulacra.features.groups import Groups
from simulacra.features.hermite_blocks import Blocks
from simulacra.privacy.query import FeatureMap

CPU = torch.device("cpu")


class SumKernel(FeatureMap):
    """The blocks of all coordinates side by side, over the root of their number."""

    def __init__(self, blocks: Blocks) -> None:
        self.blocks = blocks
        self.shape = (sum(blocks.widths),)
        self.nonnegative = blocks.nonnegative
        self.root = math.sqrt(len(blocks.widths))
        self.norm_bound = math.sqrt(sum(bound**2 for bound in blocks.bounds)) / self.root

    def features(self, inputs: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        return self.embed(self.blocks.of_records(inputs))

    def embed(self, points: torch.Tensor) -> torch.Tensor:
        """(..., points' width) to (..., features); differentiable."""
        return self.blocks.rows(points) / self.root

    def class_sums(self, points: torch.Tensor, groups: Groups) -> torch.Tensor:
        """Weighted sums per class, for training."""
        return self.blocks.class_sums(points, groups) / self.root

    def sums_by_class(self, inputs: torch.Tensor, labels: torch.Tensor, classes: int) -> torch.Tensor:
        """Sums of records, for `PerClass`: from a histogram."""
        return self.blocks.record_sums(inputs, labels, classes) / self.root

    def clipped_sum(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return self.sums_by_class(inputs, torch.zeros_like(labels), 1)[0]

    @property
    def working_size(self) -> int:
        return len(self.blocks.widths)


class ProductKernel(FeatureMap):
    """Outer products of the blocks of a few coordinates, for several subsets of them, over the root of their number.

    The norm of an outer product is the product of the norms, so the bounds of the blocks give that of all subsets
    together: at most 1, and often less, which is noise that is not added. For sums, the
    subsets are batched by the shape of their blocks, and each product is one matrix product of its two halves.
    """

    def __init__(self, blocks: Blocks, subsets: Sequence[tuple[int, ...]]) -> None:
        self.blocks = blocks
        self.nonnegative = blocks.nonnegative
        self.root = math.sqrt(len(subsets))
        longest = (math.prod(blocks.bounds[at] for at in subset) for subset in subsets)
        self.norm_bound = math.sqrt(sum(length**2 for length in longest)) / self.root
        self.used = sorted(set(itertools.chain.from_iterable(subsets)))
        batches: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
        for subset in subsets:
            batches.setdefault(tuple(blocks.widths[at] for at in subset), []).append(subset)
        self.subsets = tuple(itertools.chain.from_iterable(batches.values()))
        """In the order of the released numbers."""
        self.shape = (sum(len(batch) * math.prod(widths) for widths, batch in batches.items()),)
        ends = itertools.accumulate((blocks.widths[at] for at in self.used), initial=0)
        starts = dict(zip(self.used, ends, strict=False))
        # Per batch and number of the coordinate in its subset: (subsets, width) places among the used columns.
        self._places = {
            CPU: [
                [
                    torch.tensor([starts[subset[number]] for subset in batch]).unsqueeze(1) + torch.arange(width)
                    for number, width in enumerate(widths)
                ]
                for widths, batch in batches.items()
            ]
        }
        halves = ((len(batch), w[: (len(w) + 1) // 2], w[(len(w) + 1) // 2 :]) for w, batch in batches.items())
        self._working = sum(number * (math.prod(left) + math.prod(right)) for number, left, right in halves)

    def features(self, inputs: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        return self.embed(self.blocks.of_records(inputs))

    def embed(self, points: torch.Tensor) -> torch.Tensor:
        """(..., points' width) to (..., features); differentiable. The definition: block times block times block."""
        rows = torch.split(self.blocks.rows(points), list(self.blocks.widths), dim=-1)
        products = []
        for subset in self.subsets:
            product = rows[subset[0]]
            for at in subset[1:]:
                product = (product.unsqueeze(-1) * rows[at].unsqueeze(-2)).flatten(-2)
            products.append(product)
        return torch.cat(products, dim=-1) / self.root

    def class_sums(self, points: torch.Tensor, groups: Groups) -> torch.Tensor:
        """Weighted sums per class, for training and for records."""
        columns = self.blocks.columns(points, self.used)
        parts = []
        for places in self._on(points.device):
            half = (len(places) + 1) // 2
            left = _outer(columns, places[:half])
            right = _outer(columns, places[half:]) if len(places) > 1 else torch.ones_like(left[:, :1])
            sizes = list(groups.sizes)
            each = zip(torch.split(left, sizes, dim=2), torch.split(right, sizes, dim=2), strict=True)
            sums = torch.stack([torch.bmm(one, other.transpose(1, 2)).flatten() for one, other in each])
            parts.append(sums * groups.weights.unsqueeze(1))
        return torch.cat(parts, dim=1) / self.root

    def sums_by_class(self, inputs: torch.Tensor, labels: torch.Tensor, classes: int) -> torch.Tensor:
        """Sums of records, for `PerClass`: sorted by class, they are summed as in training."""
        order = torch.argsort(labels, stable=True)
        sizes = torch.bincount(labels, minlength=classes).tolist()
        groups = Groups(sizes=tuple(sizes), weights=torch.ones(classes, dtype=torch.float64))
        return self.class_sums(self.blocks.of_records(inputs[order]), groups)

    def clipped_sum(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return self.sums_by_class(inputs, torch.zeros_like(labels), 1)[0]

    @property
    def working_size(self) -> int:
        return self._working + sum(self.blocks.widths[at] for at in self.used) + 2 * self.blocks.points_width

    def _on(self, device: torch.device) -> list[list[torch.Tensor]]:
        if device not in self._places:
            self._places[device] = [[place.to(device) for place in batch] for batch in self._places[CPU]]
        return self._places[device]


def draw_subsets(coordinates: int, size: int, number: int, seed: int) -> list[tuple[int, ...]]:
    """Distinct subsets of a size; all of them if there are no more than `number`. The same on every machine."""
    if math.comb(coordinates, size) <= number:
        return list(itertools.combinations(range(coordinates), size))
    random = np.random.Generator(np.random.PCG64(seed))
    found: dict[tuple[int, ...], None] = {}
    while len(found) < number:
        chosen: set[int] = set()
        for last in range(coordinates - size, coordinates):  # Floyd's algorithm: every subset is equally likely
            drawn = int(random.random() * (last + 1))
            chosen.add(last if drawn in chosen else drawn)
        found[tuple(sorted(chosen))] = None
    return list(found)


def _outer(columns: torch.Tensor, places: Sequence[torch.Tensor]) -> torch.Tensor:
    """Outer products of blocks, (subsets, product of the widths, n). A lookup's gradient adds up in a fixed order."""
    first, *others = (torch.nn.functional.embedding(place, columns) for place in places)
    for block in others:
        first = (first.unsqueeze(2) * block.unsqueeze(1)).flatten(1, 2)
    return first

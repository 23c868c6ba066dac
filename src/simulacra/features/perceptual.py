"""Perceptual features: what a public network sees in an image, scaled to length 1 (Harder et al. 2023, section 3.1).

phi_1(x) = f / |f| with f all the features of a view, and phi_2(x) = f^2 / |f^2|, entry by entry. Both have norm at most
1 whatever the network computes, and phi_2 has no negative entry. Features are summed block by block and never kept.
"""

from __future__ import annotations

import torch

from simulacra.data.points import PixelPoints
from simulacra.features.exact_sums import add_unit_sums
from simulacra.features.groups import Groups
from simulacra.features.unit_sums import FLOOR, unit_sums
from simulacra.features.views import View
from simulacra.features.waiting import Waiting, checksum
from simulacra.networks.devices import full_precision
from simulacra.privacy.query import FeatureMap

MOST_ROWS, MOST_NUMBERS = 64, 20_000_000
"""Images that pass the network at once, always as many: fewer where each has many features. See `OnePass`."""


class OnePass:
    """The sums of several moments from one pass through the network.

    A record's features must not depend on which records share its batch, or removing one would move the others. In the
    mathematics they never do; in floating point a convolution may add up in another order in a batch of another shape.
    So all batches have one shape, filled up with zeros, and before the first private record an invented one must have
    the same bits in every place and beside any others. Where it has not, the network runs in double precision, whose
    differences are far below the rounding margin that every sensitivity is charged with.

    The vault asks one map after the other about the same chunk: what was summed for one moment is summed for the others
    in the same pass, and is `waiting` for the next question about those records. `also` is a second view of the same
    network, whose moments over all classes together are summed on the way, for the maps of `beside`.
    """

    def __init__(
        self,
        view: View,
        orders: tuple[int, ...] = (1, 2),
        *,
        rows: int | None = None,
        also: View | None = None,
        waiting: Waiting | None = None,
    ) -> None:
        self.view, self.orders = view, orders
        self.rows = rows or max(8, min(MOST_ROWS, MOST_NUMBERS // view.width))
        self.waiting = Waiting() if waiting is None else waiting
        self.beside = None if also is None else OnePass(also, rows=self.rows, waiting=self.waiting)
        self._steady: bool | None = None

    @torch.no_grad()
    def sums(self, order: int, inputs: torch.Tensor, labels: torch.Tensor, classes: int) -> torch.Tensor:
        """(classes, features) in float64."""
        records = checksum(inputs)
        known = self.waiting.take(records, self.view, order, classes, checksum(labels))
        if known is not None:
            return known
        wanted = self.orders if order in self.orders else (order,)
        found, beside = self._summed(wanted, inputs, labels, classes)
        for other in wanted:
            if other != order:
                self.waiting.keep(found[other], records, self.view, other, classes, checksum(labels))
        if self.beside is not None:
            together = checksum(torch.zeros_like(labels))
            for other, total in beside.items():
                self.waiting.keep(total, records, self.beside.view, other, 1, together)
        return found[order]

    def _summed(
        self, orders: tuple[int, ...], inputs: torch.Tensor, labels: torch.Tensor, classes: int
    ) -> tuple[dict[int, torch.Tensor], dict[int, torch.Tensor]]:
        """By order, for this view and for the one beside it."""
        totals = self._nothing(orders, classes, inputs.device)
        beside = {} if self.beside is None else self.beside._nothing(self.beside.orders, 1, inputs.device)
        numbers = torch.arange(classes, device=labels.device).unsqueeze(1)
        for start in range(0, len(inputs), self.rows):
            rows = slice(start, start + self.rows)
            looked = self._looked(inputs[rows])
            self._add(totals, looked, (labels[rows] == numbers).to(torch.float64))
            if self.beside is not None:
                self.beside._add(
                    beside, looked, torch.ones(1, len(labels[rows]), dtype=torch.float64).to(inputs.device)
                )
        return totals, beside

    def _nothing(self, orders: tuple[int, ...], classes: int, device: torch.device) -> dict[int, torch.Tensor]:
        shape = (classes, self.view.width)
        return {order: torch.zeros(shape, dtype=torch.float64, device=device) for order in orders}

    def _add(self, totals: dict[int, torch.Tensor], looked: list[torch.Tensor], chosen: torch.Tensor) -> None:
        """Add unit features of a batch to the rows that are `chosen` for each record.

        In double precision from here on: a batch may be short now, so that projections could add up in another order.
        A view that only rearranges what the network says leaves that to the sums, which are quicker at it.
        """
        if not self.view.rearranges:
            looked = [_clean(each) for each in looked]
        add_unit_sums(totals, self.view.read(looked), chosen)

    def _looked(self, inputs: torch.Tensor) -> list[torch.Tensor]:
        """What the network says of at most `rows` records, from a batch of the one shape."""
        if self._steady is None:
            self._steady = inputs.dtype == torch.float64 or self._same_everywhere(inputs)
        given = inputs if self._steady else inputs.double()
        padded = given.new_zeros(self.rows, given.shape[1])
        padded[: len(given)] = given
        with full_precision(inputs.device):
            return [layer[: len(given)] for layer in self.view.look(_points(padded))]

    def _same_everywhere(self, like: torch.Tensor) -> bool:
        """Whether invented images are seen the same, bit by bit, in other places of a batch and all alone."""
        self._steady = True
        random = torch.Generator().manual_seed(0)
        invented = (torch.rand(self.rows, like.shape[1], generator=random) * 2 - 1).to(like)
        invented[::3] *= 1e-3  # nearly flat images as well
        order = torch.randperm(self.rows, generator=random).to(like.device)
        straight, shuffled = self._looked(invented), self._looked(invented[order])
        alone = self._looked(invented[-1:])
        return all(
            torch.equal(a[order], b) and torch.equal(a[-1:], c)
            for a, b, c in zip(straight, shuffled, alone, strict=True)
        )


class Perceptual(FeatureMap):
    """One moment of the features of a view; maps that share a `OnePass` share the network's work."""

    def __init__(self, passing: OnePass, *, order: int, dtype: torch.dtype = torch.float32) -> None:
        self.passing, self.view, self.order = passing, passing.view, order
        self.shape = (self.view.width,)
        self.nonnegative = order == 2 or self.view.nonnegative
        self.dtype = dtype
        self.shared = passing.waiting

    def features(self, inputs: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        layers = self.view.layers(_points(inputs.unsqueeze(0)))
        flat = torch.cat([layer[0] for layer in layers]).to(torch.float64)
        value = flat if self.order == 1 else flat.square()
        unit: torch.Tensor = value / torch.linalg.vector_norm(value).clamp(min=FLOOR**self.order)
        return unit

    def sums_by_class(self, inputs: torch.Tensor, labels: torch.Tensor, classes: int) -> torch.Tensor:
        """Sums of records per class, for `PerClass`."""
        return self.passing.sums(self.order, inputs, labels, classes)

    def clipped_sum(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return self.sums_by_class(inputs, torch.zeros_like(labels), 1).squeeze(0)

    def class_sums(self, points: torch.Tensor, groups: Groups) -> torch.Tensor:
        """Weighted sums per class, for training; `unit_sums` gives all moments at once."""
        return unit_sums(groups.averaging.to(points), self.view.layers(points), (self.order,))[0]

    @property
    def working_size(self) -> int:
        # A chunk is cut into small batches here and holds no more than its records, so that this does not count
        # memory: it says how much work a chunk may be, as a whole one is rehearsed before anything is spent.
        return self.view.work


def _points(inputs: torch.Tensor) -> torch.Tensor:
    return PixelPoints(inputs.shape[-1]).of_records(inputs)


def _clean(layer: torch.Tensor) -> torch.Tensor:
    """In double precision and without NaN: what a record adds must be a number, whatever the network says."""
    return torch.nan_to_num(layer, nan=0.0, posinf=0.0, neginf=0.0).to(torch.float64)

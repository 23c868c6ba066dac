"""Clipped embeddings, summed per class: what condensation asks of the records in every round."""

from __future__ import annotations

import torch

from simulacra.errors import PlanError
from simulacra.features.combine import refuse_too_many
from simulacra.features.embedding_slots import EmbeddingSlots, clipped_rows, finite_rows
from simulacra.features.extractors import Extractor
from simulacra.networks.devices import full_precision
from simulacra.privacy.query import FeatureMap

CLOSE = 1e-3
"""How far apart, in bounds, sums of invented images may be that are computed in two ways: rounding, and no more."""


class ClippedEmbedding(FeatureMap):
    """The embedding of a record, clipped to the bound, in the row of its class (Zheng and Li, Algorithm 2, line 9).

    A record's embedding must not depend on what shares its batch, or removing one record would move the others too.
    Each record passes the network by itself in the mathematics; in floating point a convolution may add up in another
    order when the batch has another shape. So all batches have one shape, `rows`, filled up with zeros, and one more
    runs where a sample overflows: tests find the same bits in every place of a batch and beside any others. What is
    clipped is what is summed, in float64, so the bound holds whatever the network computes. On a GPU the batch lies in
    slots that a captured graph reads: see `features/embedding_slots.py`.
    """

    dtype = torch.float32

    def __init__(
        self, extractor: Extractor, classes: int, *, clip: float | None, rows: int = 256, searching: bool = False
    ) -> None:
        self.extractor, self.inputs, self.searching = extractor, extractor.inputs, searching
        self.classes, self.rows = classes, rows
        self.shape = (classes, extractor.width)
        self.norm_bound = extractor.longest if clip is None else clip
        self._slots: EmbeddingSlots | None = None
        refuse_too_many(self.size)

    def features(self, inputs: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        chosen = (torch.arange(self.classes, device=label.device) == label).to(inputs.dtype)
        return torch.outer(chosen, self.extractor.of_records(inputs.unsqueeze(0), label.unsqueeze(0))[0])

    def clipped_sum(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        if inputs.device.type != "cuda" or not self.extractor.in_place:
            return self._plain_sum(inputs, labels)
        if self._slots is None or self._slots.inputs.device != inputs.device:
            self._slots = EmbeddingSlots(
                self.extractor,
                self.classes,
                bound=self.norm_bound,
                rows=self.rows,
                device=inputs.device,
                dtype=self.dtype,
                searching=self.searching,
            )
        return self._slots(inputs, labels)

    @torch.no_grad()
    def _plain_sum(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        total = torch.zeros(self.shape, dtype=torch.float64, device=inputs.device)
        numbers = torch.arange(self.classes, device=labels.device).unsqueeze(1)
        with full_precision(inputs.device, searching=self.searching):
            for start in range(0, len(inputs), self.rows):
                records, classes = inputs[start : start + self.rows], labels[start : start + self.rows]
                clipped = clipped_rows(self._embed(records, classes), self.norm_bound)
                total += (classes == numbers).to(torch.float64) @ clipped
        return total

    def _embed(self, records: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        """In float64 and without NaN, from a batch of the one shape."""
        padded = records.new_zeros(self.rows, records.shape[1])
        padded[: len(records)] = records
        labels = classes.new_zeros(self.rows)
        labels[: len(classes)] = classes
        return finite_rows(self.extractor.of_records(padded, labels)[: len(records)])

    @torch.no_grad()
    def require_same_everywhere(self, device: str | torch.device) -> None:
        """Refuse a device on which an embedding depends on its place in the batch or on its neighbours, by a bit.

        Tried with invented images, before anything is drawn: whether a GPU's convolutions keep this cannot be known
        from here. And refuse one where a replayed sum is not what its steps add up to.
        """
        random = torch.Generator().manual_seed(0)
        inputs = (torch.rand(self.rows, self.inputs, generator=random) * 2 - 1).to(device)
        inputs[::3] *= 1e-6  # nearly flat images, where normalisation magnifies every rounding
        labels = (torch.arange(self.rows) % self.classes).to(device)
        order = torch.randperm(self.rows, generator=random).to(device)
        steady = self._steady(inputs, labels, order)
        if not steady and self.searching:
            self.searching, self._slots = False, None  # the quickest kernels may not be the steadiest
            steady = self._steady(inputs, labels, order)
        if not steady:
            raise PlanError(
                f'on the device "{device}" an image is seen differently in another place of a batch, so that one '
                "record could move the others; nothing was drawn; use another device, cpu for one"
            )
        apart = self.clipped_sum(inputs, labels) - self._plain_sum(inputs, labels)
        if not apart.norm() <= CLOSE * self.norm_bound:
            raise PlanError(
                f'on the device "{device}" a captured sum differs from the sum itself; nothing was drawn; use another '
                "device, cpu for one"
            )

    def _steady(self, inputs: torch.Tensor, labels: torch.Tensor, order: torch.Tensor) -> bool:
        with full_precision(inputs.device, searching=self.searching):
            straight, shuffled = self._embed(inputs, labels), self._embed(inputs[order], labels[order])
            alone = self._embed(inputs[-1:], labels[-1:])
        return torch.equal(straight[order], shuffled) and torch.equal(straight[-1:], alone)

    @property
    def working_size(self) -> int:
        return 1  # a chunk is cut into batches of `rows` here, and holds no more than its records

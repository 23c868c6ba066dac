"""Clipped sums of embeddings in slots that stay where they are, so that on a GPU a batch is one launch.

A Poisson sample lies in some of the slots, and the others add exactly nothing: whatever the network makes of an empty
slot is multiplied by zero. A sample with more records than slots runs again for the rest; nothing is ever cut off.
"""

from __future__ import annotations

import torch

from simulacra.features.extractors import Extractor
from simulacra.networks.devices import full_precision
from simulacra.networks.graphs import Graphs


def finite_rows(embedded: torch.Tensor) -> torch.Tensor:
    """In float64 and without NaN."""
    return torch.nan_to_num(embedded.to(torch.float64), nan=0.0, posinf=0.0, neginf=0.0)


def clipped_rows(embedded: torch.Tensor, bound: float) -> torch.Tensor:
    """No row longer than the bound."""
    norms: torch.Tensor = embedded.norm(dim=1, keepdim=True)
    return embedded * (bound / norms.clamp(min=bound))


class EmbeddingSlots:
    """The clipped sum per class over any number of records, `rows` of them at a time."""

    def __init__(
        self,
        extractor: Extractor,
        classes: int,
        *,
        bound: float,
        rows: int,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
        searching: bool = False,
    ) -> None:
        self.extractor, self.bound, self.rows, self.searching = extractor, bound, rows, searching
        self.inputs = torch.zeros(rows, extractor.inputs, dtype=dtype, device=device)
        self.labels = torch.zeros(rows, dtype=torch.int64, device=device)
        self.present = torch.zeros(rows, dtype=torch.bool, device=device)
        self.total = torch.zeros(classes, extractor.width, dtype=torch.float64, device=device)
        self.graphs = Graphs(device)
        self._numbers = torch.arange(classes, device=device).unsqueeze(1)

    @torch.no_grad()
    def __call__(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        if self.extractor.variant not in self.graphs:
            # Tried out while all slots are empty, and so without any effect.
            self.graphs.add(self.extractor.variant, self._add)
        try:
            for start in range(0, len(inputs), self.rows):
                part = inputs[start : start + self.rows]
                self.inputs[: len(part)] = part
                self.labels[: len(part)] = labels[start : start + self.rows]
                self.present[: len(part)] = True
                self.graphs(self.extractor.variant)
            return self.total.clone()
        except BaseException:
            self._empty()
            raise
        finally:
            self.total.zero_()  # without noise, it is as private as records are

    def _add(self) -> None:
        """Add what is in the slots, and empty them. Nothing in here waits for the device."""
        with full_precision(self.inputs.device, searching=self.searching):
            clipped = clipped_rows(finite_rows(self.extractor.of_records(self.inputs, self.labels)), self.bound)
            chosen = (self.labels == self._numbers) & self.present
            self.total += chosen.to(torch.float64) @ clipped
        self._empty()

    def _empty(self) -> None:
        """What was private does not stay behind."""
        self.inputs.zero_()
        self.labels.zero_()
        self.present.zero_()

"""How a set of records is moved in a round of NDPDC, once the noisy sums are there."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from simulacra.features.extractors import Extractor
from simulacra.generators.condensed import Condensed
from simulacra.methods.replaying import matrix_units
from simulacra.networks.devices import searched
from simulacra.networks.graphs import Graphs


class Condensing:
    """The set and its momentum: SGD on the records themselves."""

    def __init__(self, held: Condensed, device: str) -> None:
        self.held = held.to(device)
        self.velocity = torch.zeros_like(held.values)
        self.labels = held.labels.to(device)

    def state(self) -> dict[str, torch.Tensor]:
        return {"values": self.held.values, "velocity": self.velocity}

    @torch.no_grad()
    def load(self, state: Mapping[str, torch.Tensor]) -> None:
        self.held.values.copy_(state["values"])
        self.velocity.copy_(state["velocity"])

    def means(self, extractor: Extractor, clip: float) -> torch.Tensor:
        """Clipped embeddings of the set, averaged per class; gradients pass by the clipping as by a constant."""
        embedded = extractor.of_points(self.held.free_points(), self.labels)
        norms = embedded.detach().norm(dim=1, keepdim=True)
        clipped = embedded * (clip / norms.clamp(min=clip))
        means: torch.Tensor = clipped.reshape(self.held.classes, self.held.per_class, -1).mean(dim=1)
        return means

    @torch.no_grad()
    def step(self, gradient: torch.Tensor, *, rate: float, momentum: float) -> None:
        self.velocity.mul_(momentum).add_(gradient)
        self.held.values.sub_(self.velocity, alpha=rate)


class Matching:
    """A step of the set towards noisy sums through the network of the round; on a GPU it is one launch.

    `weights` (classes, 1) says how many records of each class the sums have, about.
    """

    def __init__(
        self,
        learned: Condensing,
        extractor: Extractor,
        *,
        weights: torch.Tensor,
        clip: float,
        momentum: float,
        searching: bool = False,
    ) -> None:
        self.learned, self.extractor, self.searching = learned, extractor, searching
        self.weights, self.clip, self.momentum = weights, clip, momentum
        device = weights.device
        self.noisy = torch.zeros(len(weights), extractor.width, device=device)
        self.rate, self.loss = torch.zeros((), device=device), torch.zeros((), device=device)
        self.graphs = Graphs(device)

    def __call__(self, noisy: torch.Tensor, *, rate: float) -> torch.Tensor:
        """The loss before the step; the next one overwrites it."""
        if self.weights.device.type != "cuda" or not self.extractor.in_place:
            loss, gradient = self._descent(noisy.float())
            self.learned.step(gradient, rate=rate, momentum=self.momentum)
            return loss
        return self.in_slots(noisy, rate=rate)

    def in_slots(self, noisy: torch.Tensor, *, rate: float) -> torch.Tensor:
        """The same, with all that changes from round to round in tensors that stay where they are."""
        self.noisy.copy_(noisy)
        self.rate.fill_(rate)
        variant = self.extractor.variant
        if variant not in self.graphs:
            self.graphs.add(variant, self._step, changed=[self.learned.held.values, self.learned.velocity])
        self.graphs(variant)
        return self.loss

    def _descent(self, noisy: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with matrix_units(noisy.device), searched(self.searching):
            loss = (noisy - self.weights * self.learned.means(self.extractor, self.clip)).square().sum()
            (gradient,) = torch.autograd.grad(loss, [self.learned.held.values])
        return loss, gradient

    def _step(self) -> None:
        """Nothing in here waits for the device."""
        loss, gradient = self._descent(self.noisy)
        with torch.no_grad():
            self.loss.copy_(loss)
            self.learned.velocity.mul_(self.momentum).add_(gradient)
            self.learned.held.values.addcmul_(self.learned.velocity, self.rate, value=-1)

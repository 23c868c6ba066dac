"""One network that learns: its weights, its optimiser and its own order of the images."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from simulacra.evaluate.image_classifiers.material import Material
from simulacra.evaluate.image_classifiers.recipes import Recipe
from simulacra.evaluate.image_classifiers.timetable import Timetable, held_out_images
from simulacra.networks.augmentation import apply, draw
from simulacra.networks.classifiers import build
from simulacra.networks.rounding import rounded

TEST_BATCH = 1000


class Learner:
    """Its weights come from torch's default generator, its split and order of the images from its seed."""

    def __init__(self, recipe: Recipe, material: Material, table: Timetable, *, seed: int) -> None:
        count, channels, height, width = material.images.shape
        device = material.device
        self.recipe, self.material = recipe, material
        self.low_precision = recipe.arithmetic == "bfloat16" and device.type == "cuda"
        network = build(recipe.network, channels=channels, height=height, width=width, classes=material.classes)
        if recipe.arithmetic != "float32":
            network = rounded(network, device)
        layout = torch.channels_last if self.low_precision else torch.contiguous_format
        self.network: nn.Module = network.to(device).to(memory_format=layout)  # type: ignore[call-overload]
        self.weights = list(self.network.parameters())
        self.rate = torch.zeros((), device=device)
        self.optimiser = _optimiser(recipe, self.weights, self.rate)
        self.generator = torch.Generator().manual_seed(seed)
        shuffled = torch.randperm(count, generator=self.generator)
        held_out = held_out_images(recipe, count)
        self.held_out, self.trained_on = shuffled[:held_out].to(device), shuffled[held_out:]
        # What a step reads and moves on is kept on the device, so that a captured step can be replayed as it is.
        self.order = self.trained_on.to(device, copy=True)
        self.places = torch.arange(max(table.sizes), device=device)
        self.rates = torch.tensor(table.rates, dtype=torch.float32, device=device)
        self.position = torch.zeros(1, dtype=torch.int64, device=device)
        self.steps = torch.zeros(1, dtype=torch.int64, device=device)
        self.diverged = torch.zeros((), dtype=torch.bool, device=device)
        self.best: tuple[float, int, dict[str, torch.Tensor]] | None = None

    def shuffle(self) -> None:
        """A new order of the images, to be read from its beginning."""
        turn = torch.randperm(len(self.trained_on), generator=self.generator)
        self.order.copy_(self.trained_on[turn])
        self.position.zero_()

    def step(self, size: int, operation: str) -> None:
        """Learn from the next `size` images of the order. Nothing in here waits for the device."""
        chosen = self.order.index_select(0, self.position + self.places[:size])
        inputs = self.material.inputs(self.material.images.index_select(0, chosen))
        if operation:
            height, width = inputs.shape[2:]
            drawn = draw(operation, size, height=height, width=width, device=inputs.device)
            inputs = apply(operation, inputs, drawn)
        labels = self.material.labels.index_select(0, chosen)
        loss = functional.cross_entropy(self._scores(inputs), labels, label_smoothing=self.recipe.label_smoothing)
        # Not loss.backward(): that adds gradients up on the stream where a weight was first used, outside any capture.
        for weight, gradient in zip(self.weights, torch.autograd.grad(loss, self.weights), strict=True):
            same_layout = gradient.stride() == weight.stride()  # which the fused optimisers insist on
            weight.grad = gradient if same_layout else torch.empty_like(weight).copy_(gradient)
        self.rate.copy_(self.rates.index_select(0, self.steps).squeeze(0))
        self.optimiser.step()
        self.diverged.logical_or_(~torch.isfinite(loss.detach()))
        self.position.add_(size)
        self.steps.add_(1)

    def end_epoch(self, number: int) -> None:
        """Keep the weights if the held-out synthetic images are answered better than ever before."""
        if len(self.held_out) == 0:
            return
        right = self.answers(self.material.images[self.held_out]) == self.material.labels[self.held_out]
        accuracy = right.double().mean().item()
        if self.best is None or accuracy > self.best[0]:
            self.best = (accuracy, number, self.saved())

    def finish(self) -> dict[str, Any]:
        """Go back to the weights that count; says which."""
        if self.best is None:
            return {}
        accuracy, number, weights = self.best
        self.network.load_state_dict(weights)
        return {"held_out_images": len(self.held_out), "held_out_accuracy": accuracy, "chosen_epoch": number + 1}

    def answers(self, images: torch.Tensor) -> torch.Tensor:
        """The class of each image (m, channels, height, width) of bytes."""
        self.network.eval()
        found = []
        with torch.no_grad():
            for part in torch.split(images, TEST_BATCH):
                inputs = self.material.inputs(part.to(self.material.device))
                scores = self._scores(inputs)
                if self.recipe.mirrored_test and self.recipe.mirrors(images.shape[1]):
                    scores = scores + self._scores(inputs.flip(3))
                found.append(scores.argmax(dim=1))
        self.network.train()
        return torch.cat(found)

    def saved(self) -> dict[str, torch.Tensor]:
        """A copy of the weights and running averages."""
        return {name: value.clone() for name, value in self.network.state_dict().items()}

    def restart(self, saved: dict[str, torch.Tensor]) -> None:
        """As if no step had been taken, in place: both optimisers begin from moments of 0."""
        self.network.load_state_dict(saved)
        for state in self.optimiser.state.values():
            for value in state.values():
                if isinstance(value, torch.Tensor):
                    value.zero_()
        for counter in (self.position, self.steps, self.diverged):
            counter.zero_()

    def _scores(self, inputs: torch.Tensor) -> torch.Tensor:
        if not self.low_precision:
            scores: torch.Tensor = self.network(inputs)
            return scores
        with torch.autocast("cuda", dtype=torch.bfloat16, cache_enabled=False):
            scores = self.network(inputs.contiguous(memory_format=torch.channels_last))
        return scores.float()


def _optimiser(recipe: Recipe, weights: list[nn.Parameter], rate: torch.Tensor) -> torch.optim.Optimizer:
    """Fused, so that the rate can be a number on the device and a step can be captured."""
    if recipe.optimiser == "adam":
        on_gpu = rate.device.type == "cuda"
        return torch.optim.Adam(weights, lr=rate, weight_decay=recipe.weight_decay, fused=True, capturable=on_gpu)
    return torch.optim.SGD(weights, lr=rate, momentum=recipe.momentum, weight_decay=recipe.weight_decay, fused=True)

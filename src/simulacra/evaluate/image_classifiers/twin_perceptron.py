"""scikit-learn's default perceptron on a GPU: the networks of all seeds as one batched model.

The same layers, first weights, loss, optimiser, batches and stopping rule as `MLPClassifier()`; only the random numbers
differ. The backward pass is written out: with one hidden layer it is four products.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from simulacra.evaluate.image_classifiers.answer import Answer

HIDDEN = 100
BATCH = 200
MOST_EPOCHS = 200
RATE, FIRST_DECAY, SECOND_DECAY, EPSILON = 1e-3, 0.9, 0.999, 1e-8
PENALTY = 1e-4
"""scikit-learn's alpha: half of it times the squared weights is added to the loss summed over a batch."""
TOLERANCE = 1e-4
PATIENCE = 10
"""Epochs without an improvement of the loss by the tolerance; one more ends the training."""


class Perceptrons:
    """One perceptron for each seed. Parameters, gradients and moments are flat, (seeds, parameters), with views."""

    def __init__(
        self, inputs: torch.Tensor, labels: torch.Tensor, *, classes: int, seeds: Sequence[int], batch: int = BATCH
    ) -> None:
        device = inputs.device
        self.inputs, self.labels = inputs, labels
        self.batch = min(batch, len(inputs))
        self.outputs = 1 if classes == 2 else classes
        self.targets = (labels[:, None] if self.outputs == 1 else functional.one_hot(labels, classes)).to(inputs.dtype)
        self.generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        shapes = [(inputs.shape[1], HIDDEN), (1, HIDDEN), (HIDDEN, self.outputs), (1, self.outputs)]
        bounds = [math.sqrt(6 / (inputs.shape[1] + HIDDEN))] * 2 + [math.sqrt(6 / (HIDDEN + self.outputs))] * 2
        first = [
            torch.cat(
                [
                    (torch.rand(math.prod(shape), generator=generator, dtype=torch.float64) * 2 - 1) * bound
                    for shape, bound in zip(shapes, bounds, strict=True)
                ]
            )
            for generator in self.generators
        ]
        self.parameters = torch.stack(first).to(device=device, dtype=inputs.dtype)
        self.gradients, self.mean, self.square = (torch.zeros_like(self.parameters) for _ in range(3))
        self.layers = _views(self.parameters, shapes)
        self.slopes = _views(self.gradients, shapes)
        self.steps = torch.zeros((), dtype=torch.float64, device=device)
        self.learning = torch.ones(len(seeds), 1, dtype=inputs.dtype, device=device)
        self.loss = torch.zeros(len(seeds), dtype=torch.float64, device=device)
        self.order = torch.zeros(len(seeds), len(inputs), dtype=torch.int64, device=device)

    def shuffle(self) -> None:
        """A new order for each network."""
        turns = [torch.randperm(self.order.shape[1], generator=generator) for generator in self.generators]
        self.order.copy_(torch.stack(turns))

    def epoch(self) -> None:
        """All batches once; `loss` is the mean over the images. Nothing in here waits for the device."""
        self.loss.zero_()
        for chosen in torch.split(self.order, self.batch, dim=1):
            self.loss.add_(self.differentiate(chosen), alpha=chosen.shape[1] / self.order.shape[1])
            self.update()

    def differentiate(self, chosen: torch.Tensor) -> torch.Tensor:
        """The loss of each network on its own images, (seeds, batch); fills `gradients`."""
        seeds, size = chosen.shape
        first, first_bias, second, second_bias = self.layers
        inputs = self.inputs.index_select(0, chosen.reshape(-1)).view(seeds, size, -1)
        targets = self.targets.index_select(0, chosen.reshape(-1)).view(seeds, size, -1)
        hidden = torch.baddbmm(first_bias, inputs, first).relu_()
        scores = torch.baddbmm(second_bias, hidden, second)
        probabilities = scores.sigmoid() if self.outputs == 1 else scores.softmax(dim=2)
        error = probabilities - targets
        back = torch.bmm(error, second.transpose(1, 2)).mul_(hidden > 0)
        for slope, weight, below, above in (
            (self.slopes[0], first, inputs, back),
            (self.slopes[2], second, hidden, error),
        ):
            torch.baddbmm(weight, below.transpose(1, 2), above, beta=PENALTY / size, alpha=1 / size, out=slope)
        torch.mean(back, dim=1, keepdim=True, out=self.slopes[1])
        torch.mean(error, dim=1, keepdim=True, out=self.slopes[3])
        squares = first.square().sum(dim=(1, 2)) + second.square().sum(dim=(1, 2))
        return self._cross_entropy(probabilities, targets).double() + squares.double() * (0.5 * PENALTY / size)

    def update(self) -> None:
        """Adam as scikit-learn writes it, with epsilon beside the uncorrected moment; stopped networks stay."""
        self.steps.add_(1)
        self.mean.lerp_(self.gradients, 1 - FIRST_DECAY)
        self.square.mul_(SECOND_DECAY).addcmul_(self.gradients, self.gradients, value=1 - SECOND_DECAY)
        first, second = (-torch.expm1(self.steps * math.log(decay)) for decay in (FIRST_DECAY, SECOND_DECAY))
        change = self.mean / self.square.sqrt().add_(EPSILON)
        self.parameters.sub_(change.mul_(self.learning * (RATE * second.sqrt() / first).to(change.dtype)))

    def answers(self, inputs: torch.Tensor) -> torch.Tensor:
        """The class of each row, (seeds, rows)."""
        first, first_bias, second, second_bias = self.layers
        scores = torch.matmul(torch.matmul(inputs, first).add_(first_bias).relu_(), second).add_(second_bias)
        return (scores[..., 0] > 0).long() if self.outputs == 1 else scores.argmax(dim=2)

    def _cross_entropy(self, probabilities: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        least = torch.finfo(probabilities.dtype).eps
        kept = probabilities.clamp(least, 1 - least)
        logarithms = targets * kept.log()
        if self.outputs == 1:
            logarithms = logarithms + (1 - targets) * (-kept).log1p()
        return -logarithms.sum(dim=(1, 2)) / targets.shape[1]


def perceptron(
    inputs: NDArray[np.float32],
    labels: NDArray[np.int64],
    asked: NDArray[np.float32],
    *,
    seeds: Sequence[int],
    device: str = "cpu",
) -> list[Answer]:
    """Labels count from 0, and each class occurs."""
    started = time.perf_counter()
    matrix, codes = torch.from_numpy(inputs).to(device), torch.from_numpy(labels).to(device)
    networks = Perceptrons(matrix, codes, classes=int(labels.max()) + 1, seeds=seeds)
    epochs, losses = _train(networks)
    predicted = torch.cat(
        [networks.answers(torch.from_numpy(part).to(device)) for part in np.array_split(asked, len(asked) // 2000 + 1)],
        dim=1,
    )
    finite = torch.isfinite(networks.parameters).all(dim=1).cpu().numpy() & np.isfinite(losses)
    steps = -(-len(inputs) // networks.batch)
    return [
        Answer(
            seed=seed,
            predicted=predicted[number].cpu().numpy() if finite[number] else None,
            seconds=(time.perf_counter() - started) / len(seeds),
            steps=epochs[number] * steps,
            details={"iterations": epochs[number]} | ({"loss": losses[number]} if finite[number] else {}),
        )
        for number, seed in enumerate(seeds)
    ]


def _train(networks: Perceptrons) -> tuple[list[int], list[float]]:
    """Epochs and last loss of each network, each stopped by its own rule."""
    seeds = len(networks.generators)
    best, waited, epochs, losses = [math.inf] * seeds, [0] * seeds, [0] * seeds, [math.inf] * seeds
    learning = [True] * seeds
    graph = _captured(networks) if networks.inputs.device.type == "cuda" else None
    for number in range(MOST_EPOCHS):
        networks.shuffle()
        if graph is None:
            networks.epoch()
        else:
            graph.replay()
        for place, loss in enumerate(networks.loss.tolist()):
            if not learning[place]:
                continue
            epochs[place], losses[place] = number + 1, loss
            waited[place] = waited[place] + 1 if not loss <= best[place] - TOLERANCE else 0
            best[place] = min(best[place], loss)
            learning[place] = waited[place] <= PATIENCE and math.isfinite(loss)
        if not any(learning):
            break
        networks.learning.copy_(torch.tensor(learning).view(-1, 1))
    return epochs, losses


def _captured(networks: Perceptrons) -> torch.cuda.CUDAGraph | None:
    """A whole epoch as one graph, or None if it cannot be captured; no weight is changed."""
    state = (networks.parameters, networks.gradients, networks.mean, networks.square, networks.steps)
    saved = [tensor.clone() for tensor in state]

    def restore() -> None:
        for tensor, before in zip(state, saved, strict=True):
            tensor.copy_(before)

    try:
        with torch.cuda.device(networks.inputs.device):
            stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                networks.epoch()
            torch.cuda.current_stream().wait_stream(stream)
            restore()
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=stream):
                networks.epoch()
            return graph
    except RuntimeError:
        torch.cuda.synchronize()
        restore()
        return None


def _views(flat: torch.Tensor, shapes: Sequence[tuple[int, int]]) -> list[torch.Tensor]:
    """The layers of each network, as (seeds, rows, columns) that share the flat tensor's numbers."""
    parts = torch.split(flat, [math.prod(shape) for shape in shapes], dim=1)
    return [part.view(len(flat), *shape) for part, shape in zip(parts, shapes, strict=True)]

"""Speed of what comes after a release on a processor: a step of training, and of scoring, against the plain version.

The plain version is torch as it comes: new memory for each tensor, upsampling and then a convolution, products of its
usual library, features written down before they are averaged, and torch's own average pooling.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch

from simulacra import datasets
from simulacra.features.fourier import RandomFourier
from simulacra.generators.doubling import UpConvolution
from simulacra.methods import make_method
from simulacra.methods.base import Context, ReleaseOnce
from simulacra.networks.allocation import freed_memory_kept
from simulacra.networks.convnet import ConvNet
from simulacra.networks.devices import plain_torch
from simulacra.networks.rounding import rounded

METHODS = ("dp-merf", "dp-ntk", "dp-hp")
STEPS, WARM_UP = 12, 4
BATCH = 250


def training() -> dict[str, Any]:
    """Methods that match a generator to MNIST, at their defaults, and the condensation papers' ConvNet."""
    ratios: dict[str, dict[str, float]] = {}
    for name in METHODS:
        with _as_torch_comes():
            plain = _step_of(name)
        with plain_torch():
            ours = _step_of(name)
        ratios[name] = {"seconds": ours, "plain_seconds": plain, "times_faster": plain / ours}
    plain = _step_of_scoring(plainly=True)
    with freed_memory_kept():
        ours = _step_of_scoring(plainly=False)
    ratios["convnet"] = {"seconds": ours, "plain_seconds": plain, "times_faster": plain / ours}
    return {"device": "cpu", "threads": torch.get_num_threads(), "ratios": ratios}


@contextmanager
def _as_torch_comes() -> Iterator[None]:
    def embedded(self: RandomFourier, points: torch.Tensor, groups: Any) -> torch.Tensor:
        return groups.averaging @ self.embed(points)

    def one_after_the_other(self: UpConvolution, images: torch.Tensor) -> torch.Tensor:
        convolved: torch.Tensor = self.convolution(self.upsampled(images))
        return convolved

    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(RandomFourier, "class_sums", embedded))
        stack.enter_context(mock.patch.object(UpConvolution, "forward", one_after_the_other))
        stack.enter_context(mock.patch("simulacra.methods.matching.matrix_units", return_value=nullcontext()))
        yield


def _step_of(name: str) -> float:
    """Seconds of one step, by two trainings of different length on invented releases."""
    schema = datasets.schema("mnist")
    long, short = (make_method(name, {"training.steps": WARM_UP + more}, schema) for more in (STEPS, 0))
    assert isinstance(long, ReleaseOnce)
    assert isinstance(short, ReleaseOnce)
    random = torch.Generator().manual_seed(0)
    releases: Any = {
        question: SimpleNamespace(value=torch.rand(map_.shape, generator=random) * 10, noise_std=1.0)
        for question, map_ in long.questions(schema).items()
    }
    return (
        _seconds(lambda: long.train(schema, releases, Context()))
        - _seconds(lambda: short.train(schema, releases, Context()))
    ) / STEPS


def _step_of_scoring(*, plainly: bool) -> float:
    network = ConvNet(channels=1, height=28, width=28, classes=10)
    if plainly:
        for at, layer in enumerate(network.features):
            if type(layer).__name__ == "Halving":
                network.features[at] = torch.nn.AvgPool2d(2)
    else:
        rounded(network, torch.device("cpu"))
    images, weights = torch.rand(BATCH, 1, 28, 28), list(network.parameters())

    def step() -> None:
        torch.autograd.grad(network(images).logsumexp(dim=1).sum(), weights)

    for _ in range(WARM_UP):
        step()
    return min(_seconds(step) for _ in range(STEPS // 2))


def _seconds(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started

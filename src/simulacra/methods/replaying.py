"""A training step as one CUDA graph: hundreds of launches become one, and small operations are fused before that.

On a CPU a step is just a step.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch

from simulacra.networks.devices import rounded_products

WARM_UPS = 3
_log = logging.getLogger(__name__)

Step = Callable[[], tuple[torch.Tensor, ...]]


def fused(function: Step, generator: torch.nn.Module, optimiser: torch.optim.Optimizer, device: torch.device) -> Step:
    """`function`, differentiable by the generator's weights, with its many small operations made one on a GPU.

    What lies between convolutions is bound by memory, and is most of a step. Compiling takes about a minute. Where it
    does not work (it needs a compiler for C, too), the function is given back as it is.
    """
    if device.type != "cuda":
        return function
    saved = _Snapshot(generator, optimiser)
    compiled: Step = torch.compile(function, dynamic=False)
    try:
        results = compiled()
        weights = [weight for weight in generator.parameters() if weight.requires_grad]
        total = torch.stack([result.square().sum() for result in results]).sum()
        torch.autograd.grad(total, weights, allow_unused=True)
    except Exception as error:  # whatever compilers fail with
        _log.warning("training goes on without fused operations: %s", str(error).split("\n", 1)[0])
        compiled = function
    saved.restore()
    return compiled


def replayable(step: Step, generator: torch.nn.Module, optimiser: torch.optim.Optimizer, device: torch.device) -> Step:
    """`step`, or its captured form on a GPU; weights and moments are the same afterwards as before.

    A step that cannot be captured (something in it waits for the device) is given back as it is.
    """
    if device.type != "cuda":
        return step
    saved = _Snapshot(generator, optimiser)
    try:
        side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(side):
            for _ in range(WARM_UPS):
                step()
        torch.cuda.current_stream(device).wait_stream(side)
        saved.restore()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            results = step()
    except RuntimeError:
        torch.cuda.synchronize(device)
        saved.restore()
        return step

    def replay() -> tuple[torch.Tensor, ...]:
        graph.replay()
        return results

    return replay


@contextmanager
def matrix_units(device: torch.device, *, beside_records: bool = False) -> Iterator[None]:
    """Let products be rounded while a generator trains, if that is quicker: what it matches is noisy far beyond that.

    A GPU rounds to TF32. A processor may round to bfloat16, which those do that have units for such matrices; on others
    torch goes to another library for the same products in single precision, and some need half the time there.
    `beside_records` is for loops that sum private gradients in between: sums on a GPU see to their precision
    themselves, and a processor is left alone.
    """
    if device.type == "cuda":
        products = torch.backends.cuda.matmul
        before = products.allow_tf32
        products.allow_tf32 = True
        try:
            yield
        finally:
            products.allow_tf32 = before
    else:
        with nullcontext() if beside_records else rounded_products():
            yield


def laid_out_as(parameter: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    """The gradient in the layout of the weights, which a fused step wants."""
    alike = gradient.stride() == parameter.stride() and gradient.dtype == parameter.dtype
    return gradient if alike else torch.empty_like(parameter).copy_(gradient)


class _Snapshot:
    """Weights, running statistics and the optimiser's moments, put back in place."""

    def __init__(self, generator: torch.nn.Module, optimiser: torch.optim.Optimizer) -> None:
        self.generator, self.optimiser = generator, optimiser
        self.weights = {name: value.clone() for name, value in generator.state_dict().items()}
        self.moments: dict[Any, dict[str, torch.Tensor]] = {
            weight: {name: value.clone() for name, value in state.items()} for weight, state in optimiser.state.items()
        }

    @torch.no_grad()
    def restore(self) -> None:
        self.generator.load_state_dict(self.weights)
        for weight, state in self.optimiser.state.items():
            for name, value in state.items():
                # Moments that did not exist before begin from zero.
                before = self.moments.get(weight, {}).get(name)
                value.zero_() if before is None else value.copy_(before)

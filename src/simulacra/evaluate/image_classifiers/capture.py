"""Training steps as CUDA graphs: all networks at once, a launch per step instead of hundreds."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from simulacra.evaluate.image_classifiers.learner import Learner

WARM_UPS = 2
"""Before a capture: the first lets libraries set themselves up and try algorithms, the second runs what they chose."""


def capture(
    learners: Sequence[Learner], kinds: Sequence[tuple[int, str]]
) -> dict[tuple[int, str], torch.cuda.CUDAGraph] | None:
    """A graph for each kind of step (batch size and operation) that moves every network on; None if it cannot be had.

    Each network has a stream of its own, which forks from the capturing one and joins it again, so that the graph's
    branches run side by side. Weights are the same afterwards as before.
    """
    saved = [learner.saved() for learner in learners]
    device = learners[0].material.device
    try:
        with torch.cuda.device(device):
            streams = [torch.cuda.Stream() for _ in learners]  # type: ignore[no-untyped-call]
            for kind in kinds:
                for _ in range(WARM_UPS):
                    _step_all(learners, streams, kind)
                    for learner in learners:
                        learner.position.zero_()  # the order is long enough for any one step, not for all of these
                        learner.steps.zero_()
            _restart(learners, saved)
            torch.cuda.synchronize()
            graphs: dict[tuple[int, str], torch.cuda.CUDAGraph] = {}
            pool = torch.cuda.graph_pool_handle()  # shared: one graph runs at a time, and leaves nothing behind
            for kind in kinds:
                graphs[kind] = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graphs[kind], pool=pool):
                    _step_all(learners, streams, kind)
            torch.cuda.synchronize()
            return graphs
    except RuntimeError:
        torch.cuda.synchronize()
        _restart(learners, saved)
        return None


def _step_all(learners: Sequence[Learner], streams: Sequence[torch.cuda.Stream], kind: tuple[int, str]) -> None:
    here = torch.cuda.current_stream()
    for learner, stream in zip(learners, streams, strict=True):
        stream.wait_stream(here)
        with torch.cuda.stream(stream):
            learner.step(*kind)
    for stream in streams:
        here.wait_stream(stream)


def _restart(learners: Sequence[Learner], saved: Sequence[dict[str, torch.Tensor]]) -> None:
    for learner, weights in zip(learners, saved, strict=True):
        learner.restart(weights)

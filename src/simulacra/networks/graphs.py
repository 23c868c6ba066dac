"""Work as CUDA graphs: hundreds of launches become one. On other devices work is just done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

WARM_UPS = 3

Work = Callable[[], None]


class Graphs:
    """Captured works by name, in one pool of memory.

    A work takes nothing and gives nothing back: all that it reads and changes are tensors that exist before it and stay
    where they are. So no work needs what another left in the pool, and they can be replayed in any order.
    """

    def __init__(self, device: torch.device | str) -> None:
        self.device = torch.device(device)
        self.captured: set[str] = set()
        """The works that are graphs; all others are done as they are."""
        self._works: dict[str, Work] = {}
        self._held: list[object] = []
        self._pool: Any = None
        self._failed = False

    def __contains__(self, name: str) -> bool:
        return name in self._works

    def __call__(self, name: str) -> None:
        self._works[name]()

    def add(self, name: str, work: Work, *, changed: Sequence[torch.Tensor] = ()) -> None:
        """Capture a work. It is done a few times, after which the tensors `changed` are what they were before.

        What cannot be captured, because something in it waits for the device, is kept as it is.
        """
        replay = None if self.device.type != "cuda" or self._failed else self._capture(work, changed)
        self._works[name] = work if replay is None else replay
        if replay is not None:
            self.captured.add(name)

    def _capture(self, work: Work, changed: Sequence[torch.Tensor]) -> Work | None:
        before = [tensor.detach().clone() for tensor in changed]
        # On the device of the tensors, which may not be the current one: a graph of nothing would raise nothing.
        side = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        graph = torch.cuda.CUDAGraph()
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
        try:
            side.wait_stream(torch.cuda.current_stream(self.device))
            with torch.cuda.stream(side):
                for _ in range(WARM_UPS):
                    work()
            torch.cuda.current_stream(self.device).wait_stream(side)
            with torch.cuda.graph(graph, pool=self._pool, stream=side):
                work()
        except RuntimeError:
            torch.cuda.synchronize(self.device)
            # The allocator goes on asking a capture that broke off; so it is held, and no other is tried in its pool.
            self._failed = True
            self._held.append(graph)
            return None
        finally:
            with torch.no_grad():
                for tensor, value in zip(changed, before, strict=True):
                    tensor.copy_(value)

        # A graph knows addresses only: the work is held as well, and with it the tensors that it reads.
        self._held.append(work)
        return graph.replay

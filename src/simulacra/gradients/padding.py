"""Clipped sums at one fixed size: a Poisson batch lies in some of the slots, and the others add exactly nothing.

Fixed shapes have two uses. The derivative of a ReLU jumps, and where rounding decides a jump, a record's gradient would
depend on how many others share its batch. At one shape the same kernels compute the same numbers for a record in any
slot and any company. Nearly: a processor multiplies by very narrow matrices (2 to 8 columns) in pairs of rows, and
which kernels a GPU takes cannot be known in advance. So each loss is tried with invented records before it meets a
private one, and where slots differ in a single bit, records go one by one; so they do on the slow way, where vmap hides
what goes into a layer. And on a GPU the whole computation is captured once as a CUDA graph: a step is one launch
instead of hundreds.

A batch with more records than slots runs again for the rest; nothing is ever cut off.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from simulacra.errors import SettingError
from simulacra.gradients.arithmetic import Precision
from simulacra.gradients.summing import GradientSums

WARM_UPS = 3
FEW_SLOTS = 32
"""For processors and large networks: only the last micro-batch may have many empty slots. In whole
vectors, as a processor computes functions such as tanh otherwise at the end of a row that does not fill one."""
QUICK_NUMBERS = 1 << 22
"""A micro-batch of less than this many numbers takes a processor longer to begin than to compute."""


def room_for(expected: int) -> int:
    """Slots for a Poisson batch of that expected size in all but one batch of a thousand, in whole warps."""
    return _whole_warps(int(expected + 3 * expected**0.5 + 1))


def slots_for(expected: int | None, sums: GradientSums) -> int:
    """Slots for batches of that expected size, where one is known: room for nearly all of them on a GPU.

    A processor gets no more than make its work worth beginning: there an empty slot takes as long as a record.
    """
    if expected is None:
        return FEW_SLOTS
    room = room_for(expected)
    if sums.device.type != "cpu":
        return room
    return min(room, max(FEW_SLOTS, QUICK_NUMBERS // max(1, sums.numbers) // 32 * 32))


def _whole_warps(slots: int) -> int:
    return -(-slots // 32) * 32


class PaddedSums:
    """`sums` in batches of `slots` records of the given width."""

    def __init__(self, sums: GradientSums, *, slots: int, inputs: int) -> None:
        first = sums.parameters[0]
        # A batch that does not fit into memory at once goes in equal parts, none of them nearly empty.
        parts = -(-slots // sums.rows)
        self.sums = sums
        self.slots = slots if parts == 1 else min(sums.rows, _whole_warps(-(-slots // parts)))
        self.inputs = torch.zeros(self.slots, inputs, dtype=first.dtype, device=first.device)
        self.labels = torch.zeros(self.slots, dtype=torch.int64, device=first.device)
        self.present = torch.zeros(self.slots, dtype=torch.bool, device=first.device)
        self._sum: Callable[[], torch.Tensor] | None = None
        self._try_out()

    def __call__(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """The clipped sum in float64 over any number of records, none included."""
        total = torch.zeros(self.sums.size, dtype=torch.float64, device=inputs.device)
        if self._sum is None:
            self._sum = captured(lambda: self.sums.batch(self.inputs, self.labels, self.present), self.inputs.device)
        for start in range(0, len(inputs), self.slots):
            part = inputs[start : start + self.slots]
            self.inputs[: len(part)] = part
            self.labels[: len(part)] = labels[start : start + self.slots]
            self.present[: len(part)] = True
            total += self._sum()
            # What was private does not stay behind.
            self.inputs.zero_()
            self.labels.zero_()
            self.present.zero_()
        return total

    def _try_out(self) -> None:
        """See that what the network makes of a record depends neither on its slot nor on its company."""
        if self.sums.slow:
            self._shrink(1)
            return
        if self.slots == 1 or self._steady():
            return
        self.sums.searching = False  # the quickest kernels may not be the steadiest
        if self._steady():
            return
        if self.sums.precision is not Precision.SINGLE:  # nor those for bfloat16
            self.sums.precision = Precision.SINGLE
            if self._steady():
                return
        if self.inputs.device.type != "cpu":
            raise SettingError(
                f'on device "{self.inputs.device}" what this network makes of a record depends on its place in the '
                "batch, which would void the bound on what one record can do; use the device cpu"
            )
        self._shrink(FEW_SLOTS)
        if not self._steady():
            self._shrink(1)

    def _shrink(self, slots: int) -> None:
        self.slots = min(self.slots, slots)
        self.inputs, self.labels, self.present = (
            each[: self.slots] for each in (self.inputs, self.labels, self.present)
        )

    def _steady(self) -> bool:
        """Whether one invented record gives the same bits in every slot, and as many as there are slots in some slots.

        One would not do: a small network gives many records the same bits by chance, where others differ.
        """
        random = torch.Generator().manual_seed(0)
        company = (torch.rand(self.inputs.shape, generator=random) * 2 - 1).to(self.inputs)
        alike = self.sums.passing(company[:1].expand_as(company).contiguous(), self.labels)
        if not all(torch.equal(values, values[:1].expand_as(values)) for values in alike):
            return False
        first = self.sums.passing(company, self.labels)
        if not all(torch.equal(a[0], b[0]) for a, b in zip(alike, first, strict=True)):
            return False
        for shift in {1, self.slots // 3, self.slots // 2, self.slots - 1}:
            moved = self.sums.passing(company.roll(shift, dims=0), self.labels)
            if not all(torch.equal(a.roll(shift, dims=0), b) for a, b in zip(first, moved, strict=True)):
                return False
        return True


def captured(work: Callable[[], torch.Tensor], device: torch.device) -> Callable[[], torch.Tensor]:
    """`work` as a CUDA graph; as it is on other devices, or where something in it waits for the device.

    The tensor given back is overwritten by the next call.
    """
    if device.type != "cuda":
        return work
    try:
        side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(side):
            for _ in range(WARM_UPS):
                work()
        torch.cuda.current_stream(device).wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = work()
    except RuntimeError:
        torch.cuda.synchronize(device)
        return work

    return Replayed(work, graph, result)


class Replayed:
    """A captured computation. It holds on to what was captured: a graph reads memory that it does not own."""

    def __init__(self, work: Callable[[], torch.Tensor], graph: torch.cuda.CUDAGraph, result: torch.Tensor) -> None:
        self.work, self.graph, self.result = work, graph, result

    def __call__(self) -> torch.Tensor:
        self.graph.replay()
        return self.result

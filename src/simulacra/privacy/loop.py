"""Loop: noisy sums over fresh Poisson samples, again and again. What a training loop gets instead of records.

Why the accounts always cover the draws, whatever is killed and whenever:

1. A draw is made only out of a block, and a block exists only in the memory of the process that reserved it, after the
   reservation is on the disk (`Book.reserve` returns afterwards). So at every moment
   draws ever made <= draws ever reserved. A fork would copy the block and the noise: it is refused a draw.
2. Reservations are never taken back and never exceed the plan's count: `at_most` is checked under the book's lock,
   against the file, so that two processes cannot share out the same draws twice.
3. Nothing on the disk says "this block is half used". A process that dies takes the rest of its block with it: those
   draws are paid for and will never be made. One that starts again reserves afresh, so no draw is made twice for one
   payment, not even if an old checkpoint is put back: a checkpoint holds what was learned, and no right to draw.

So draws made + draws lost <= the plan's count, and the plan's event, which is what the certificate states, bounds both.
The price of a crash is at most one block; it is never more budget.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import final

import torch

from simulacra.errors import PlanError
from simulacra.privacy.book import Book
from simulacra.privacy.noise import NoiseSource
from simulacra.privacy.plan import PlannedStep
from simulacra.privacy.query import FeatureMap
from simulacra.privacy.records import Records
from simulacra.privacy.summing import add_in_turn


@final
class Loop:
    """Call it with a map to get the noisy clipped sum over a fresh Poisson sample; the records stay inside.

    `left` says how many draws there still are, `left_in_block` how many of them are reserved already; `drawn` how many
    this object has made.
    """

    __slots__ = (
        "_block",
        "_book",
        "_noise",
        "_planned",
        "_private",
        "_process",
        "_records",
        "_run",
        "drawn",
        "left_in_block",
    )

    def __init__(
        self,
        *,
        records: Records,
        planned: PlannedStep,
        private: bool,
        book: Book,
        run: str,
        noise: NoiseSource,
        block: int,
    ) -> None:
        self._records, self._planned, self._private = records, planned, private
        self._book, self._run, self._noise, self._block = book, run, noise, max(1, block)
        self._process = os.getpid()
        self.left_in_block = self.drawn = 0

    def __repr__(self) -> str:
        return f"Loop({self._planned.step.name!r})"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a training loop holds private records: it is not pickled or copied")

    @property
    def left(self) -> int:
        """Draws that can still be made: what nobody has reserved yet, and the rest of the block in hand."""
        step = self._planned.step
        return self.left_in_block + max(0, step.count - self._book.reserved(self._run, step.name))

    def __call__(self, feature_map: FeatureMap) -> torch.Tensor:
        """One draw, in float64 on the loop's device."""
        step = self._planned.step
        step.admits(feature_map)
        if os.getpid() != self._process:
            raise PlanError(
                "a training loop stays in the process that opened it: a fork would draw the same noise twice"
            )
        if self.left_in_block <= 0:
            self._reserve()
        self.left_in_block -= 1  # spent from here on, whatever happens
        self.drawn += 1
        inputs, labels = self._records.inputs, self._records.labels
        chosen = self._noise.poisson(len(inputs), step.sample_rate, inputs.device)
        total = torch.zeros(feature_map.shape, dtype=torch.float64, device=inputs.device)
        sampled = Records(inputs=inputs[chosen], labels=labels[chosen])
        add_in_turn({step.name: total}, {step.name: feature_map}, sampled)
        return total + self._noise.fast(total, self._planned.noise_std) if self._private else total

    def _reserve(self) -> None:
        step = self._planned.step
        block = min(self._block, step.count - self._book.reserved(self._run, step.name))
        if block <= 0:
            raise PlanError(f'step "{step.name}": all {step.count} draws of the plan are used')
        event = replace(self._planned.event, count=block)
        self._book.reserve(self._run, [step.name], [event], at_most=step.count)
        self.left_in_block = block

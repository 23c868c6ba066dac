"""Rounds: the turns of a private training loop, and the checkpoints between its blocks of draws.

A checkpoint is written whenever a block of draws is used up, before the next one is reserved. So whatever kills a run,
and whenever, loses at most the block in hand: its draws are paid for, and are not made again (see `privacy/loop.py`).
A checkpoint holds what was learned and how many turns it took. It holds no noise and no right to draw: putting an old
one back costs turns, never budget.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, final

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from simulacra.errors import CertificateError, LedgerError, PlanError
from simulacra.privacy.durable import write_durably
from simulacra.privacy.query import FeatureMap

if TYPE_CHECKING:
    from simulacra.methods.looping import Learned
    from simulacra.privacy.loop import Loop

BLOCKS = 100
"""A loop is reserved in about this many blocks: a crash costs at most a hundredth of its turns."""
TURNS = "turns"


def block_for(count: int) -> int:
    """How many draws are reserved at once."""
    return -(-count // BLOCKS)


@final
class LoopRounds:
    """`Rounds` for `methods/looping.py`, over an open loop of the vault."""

    def __init__(self, loop: Loop, *, count: int, checkpoint: Path, stopping: Callable[[], bool]) -> None:
        self._loop, self._file, self._stopping = loop, checkpoint, stopping
        self.done = self._saved = self._turns_done()
        self.stopped_early = False
        self.total = self.done + loop.left
        if self.total > count:  # a turn draws at least once, and every draw was reserved before
            raise LedgerError(
                f'"{checkpoint}" knows of {self.done} turns, more than the accounts do: '
                "an old ledger or permit was put back; use the newest"
            )

    def turns(self, learned: Learned) -> Iterator[int]:
        """Restore `learned` from the last checkpoint, then give the number of each turn; checkpoints in between."""
        if self.done:
            self._restore(learned)
        while not self._stopping():
            if self._loop.left_in_block == 0:
                self._save(learned)
                if self._loop.left == 0:
                    return
            before = self._loop.drawn
            yield self.done
            if self._loop.drawn == before:
                raise PlanError("a turn of a training loop must draw; this one drew nothing")
            self.done += 1
        self._save(learned)
        self.stopped_early = True

    def draw(self, feature_map: FeatureMap) -> torch.Tensor:
        """The noisy clipped sum over a fresh Poisson sample."""
        return self._loop(feature_map)

    def _save(self, learned: Learned) -> None:
        if self.done == self._saved:
            return
        tensors = {name: value.detach().cpu().contiguous() for name, value in learned.state().items()}
        if TURNS in tensors:
            raise PlanError(f'a state must not hold a tensor called "{TURNS}"; rename it')
        self._file.parent.mkdir(parents=True, exist_ok=True)
        write_durably(self._file, save({**tensors, TURNS: torch.tensor(self.done)}))
        self._saved = self.done

    def _read(self) -> dict[str, torch.Tensor]:
        try:
            return load(self._file.read_bytes())
        except (OSError, ValueError, SafetensorError):
            raise self._damaged() from None

    def _turns_done(self) -> int:
        if not self._file.exists():
            return 0
        try:
            turns = int(self._read()[TURNS])
        except (KeyError, ValueError, RuntimeError):
            raise self._damaged() from None
        if turns < 0:
            raise self._damaged()
        return turns

    def _restore(self, learned: Learned) -> None:
        tensors = self._read()
        del tensors[TURNS]
        try:
            learned.load(tensors)
        except (KeyError, ValueError, RuntimeError):
            raise self._damaged() from None

    def _damaged(self) -> CertificateError:
        return CertificateError(
            f'the checkpoint "{self._file}" is damaged; remove it to begin anew with the draws that are left'
        )

"""Sums of a chunk of records that were found on the way to another sum, and wait to be asked for."""

from __future__ import annotations

import hashlib

import torch


class Waiting:
    """Of one chunk at a time: a sum belongs to its records by their checksum, and goes when other records come.

    There is no noise on these sums yet. So each is given away once, and the vault has what is left forgotten after
    every chunk and whenever something fails; none of it lives as long as a release takes.
    """

    def __init__(self) -> None:
        self._records = b""
        self._sums: dict[tuple[object, ...], torch.Tensor] = {}

    def __len__(self) -> int:
        return len(self._sums)

    def keep(self, total: torch.Tensor, records: bytes, *question: object) -> None:
        """The sum of these records that answers a question."""
        if records != self._records:
            self.forget()
            self._records = records
        self._sums[question] = total

    def take(self, records: bytes, *question: object) -> torch.Tensor | None:
        """The answer, if it waits here."""
        return self._sums.pop(question, None) if records == self._records else None

    def forget(self) -> None:
        """Keep nothing."""
        self._records = b""
        self._sums.clear()


def checksum(tensor: torch.Tensor) -> bytes:
    """Of shape, type and values."""
    digest = hashlib.blake2b(str((tuple(tensor.shape), tensor.dtype)).encode(), digest_size=16)
    digest.update(tensor.detach().cpu().contiguous().numpy().data)
    return digest.digest()

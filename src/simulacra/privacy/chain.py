"""Chain: an append-only file of JSON lines, each holding the hash of the one before; the paper of the ledger.

`FILE.head` holds the number and the hash of the last entry, so that truncation shows too. A line without an end is a
write that never finished: it is dropped. Every write is on the disk before the next thing happens.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from simulacra.errors import LedgerBroken, LedgerError, LedgerLocked, OutputError
from simulacra.privacy.durable import canonical, sync_folder, write_durably

GENESIS = "0" * 64

Entries = list[dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Chain:
    """The file. `read` and `append` want the lock held, so that what was read is still true when it is added to."""

    path: Path
    wait_seconds: float

    @property
    def head_path(self) -> Path:
        """Where the last entry's number and hash are kept."""
        return Path(f"{self.path}.head")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the file's lock: nobody else reads or writes meanwhile."""
        lock = FileLock(f"{self.path}.lock", timeout=self.wait_seconds)
        try:
            lock.acquire()
        except Timeout:
            raise LedgerLocked(f'ledger "{self.path}" is in use by another process; wait for it to finish') from None
        except OSError as error:
            raise LedgerError(f'cannot lock ledger "{self.path}": {error.strerror}') from None
        try:
            yield
        finally:
            lock.release()

    def read(self) -> Entries:
        """All complete entries, after checking every hash and the head."""
        try:
            content = self.path.read_bytes()
            head = _parse_head(self.head_path.read_bytes()) if self.head_path.exists() else None
        except ValueError:
            raise LedgerBroken(f'ledger "{self.path}": its .head file was changed; restore both from backup') from None
        except OSError as error:
            raise LedgerError(f'cannot read ledger "{self.path}": {error.strerror}') from None
        lines = content.split(b"\n")[:-1]  # what follows the last line end is a write that never finished
        entries: Entries = []
        previous = GENESIS
        for number, line in enumerate(lines):
            entry = _parse(line, number, previous)
            if entry is None:
                raise LedgerBroken(
                    f'ledger "{self.path}": line {number + 1} was changed; restore the ledger from a backup'
                )
            entries.append(entry)
            previous = entry["hash"]
        if head is None and len(entries) > 1:
            raise LedgerBroken(f'ledger "{self.path}": its .head file is missing; restore both from a backup')
        if head is not None and (head[0] >= len(entries) or entries[head[0]]["hash"] != head[1]):
            raise LedgerBroken(f'ledger "{self.path}": entries at its end are missing; restore it from a backup')
        if not entries:
            raise LedgerBroken(f'ledger "{self.path}" is empty; delete it if it was never used, else restore a backup')
        return entries

    def append(self, entries: Entries, **values: Any) -> str:
        """Write one entry and the new head, each on the disk before the next thing happens."""
        entry = {
            **values,
            "sequence": len(entries),
            "previous": entries[-1]["hash"] if entries else GENESIS,
            "time": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        }
        entry["hash"] = _hash(entry)
        line = (canonical(entry) + "\n").encode()
        try:
            with open(self.path, "ab") as file:
                whole = sum(len(canonical(e)) + 1 for e in entries)
                file.truncate(whole)  # drop an unfinished line, if a crash left one
                try:
                    file.write(line)
                    file.flush()
                    os.fsync(file.fileno())
                except OSError:
                    file.truncate(whole)
                    raise
            sync_folder(self.path.parent)
        except OSError as error:
            raise OutputError(
                f'cannot write ledger "{self.path}": {error.strerror}; nothing was spent; free some space'
            ) from None
        write_durably(self.head_path, _head(entry["sequence"], entry["hash"]))
        return str(entry["hash"])


def _hash(entry: dict[str, Any]) -> str:
    return hashlib.sha256(canonical({k: v for k, v in entry.items() if k != "hash"}).encode()).hexdigest()


def _parse(line: bytes, number: int, previous: str) -> dict[str, Any] | None:
    """An entry, or None if the line is not exactly what was written there."""
    try:
        entry = json.loads(line)
        genuine = (
            canonical(entry).encode() == line
            and entry["sequence"] == number
            and entry["previous"] == previous
            and entry["hash"] == _hash(entry)
            and (entry["kind"] == "open") == (number == 0)
        )
    except (ValueError, KeyError, TypeError):
        return None
    return entry if genuine else None


def _head(sequence: int, digest: str) -> bytes:
    return (canonical({"sequence": sequence, "hash": digest}) + "\n").encode()


def _parse_head(content: bytes) -> tuple[int, str]:
    """Number and hash of the last entry; ValueError if this is not exactly what was written."""
    head = json.loads(content)
    if not isinstance(head, dict) or set(head) != {"sequence", "hash"} or not isinstance(head["sequence"], int):
        raise ValueError
    if content != _head(head["sequence"], head["hash"]) or head["sequence"] < 0:
        raise ValueError
    return head["sequence"], head["hash"]

"""Memory that is freed is kept for what comes next, for as long as something large is computed.

The allocator of most Linux systems hands tensors of more than 32 MiB back to the operating system at once, and gets the
next one page by page, each wiped first. A step of training makes dozens of them: up to half of its time went into that.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

# The numbers that glibc's malloc.h gives its settings.
TRIM_THRESHOLD, MMAP_MAX = -1, -4
NEVER = -1
USUAL_TRIM, USUAL_MMAPS = 64 << 20, 65536
"""What glibc comes to by itself in a process that has freed large blocks."""

BEFORE_TORCH = {
    "OMP_WAIT_POLICY": "PASSIVE",
    "THP_MEM_ALLOC_ENABLE": "1",
}
"""Threads that wait for each other by spinning make training twenty times slower on cores that are shared. And tensors
in large pages fit into what others of their size left, where those in small pages often miss by a few bytes."""


def set_before_torch() -> None:
    """For programs of our own: what torch reads when it is loaded and never again. A user's own choice stands."""
    for name, value in BEFORE_TORCH.items():
        os.environ.setdefault(name, value)


_inside = 0
_counting = threading.Lock()


@contextmanager
def freed_memory_kept() -> Iterator[None]:
    """Inside, freed memory stays with the process; afterwards it goes back. Elsewhere than on Linux, nothing happens.

    It holds for all threads of the process, until the last of those that are inside is out.
    """
    _enter_or_leave(1)
    try:
        yield
    finally:
        _enter_or_leave(-1)


def _enter_or_leave(change: int) -> None:
    global _inside
    found = _allocator()
    if found is None:
        return
    set_option, trim = found
    with _counting:
        before, _inside = _inside, _inside + change
        if before == 0:
            set_option(TRIM_THRESHOLD, NEVER)
            set_option(MMAP_MAX, 0)
        elif _inside == 0:
            set_option(MMAP_MAX, USUAL_MMAPS)
            set_option(TRIM_THRESHOLD, USUAL_TRIM)
            trim(0)


@cache
def _allocator() -> tuple[Callable[[int, int], int], Callable[[int], int]] | None:
    """glibc's mallopt and malloc_trim, or nothing where there is another C library."""
    if sys.platform != "linux":
        return None
    try:
        library = ctypes.CDLL(None)
        return library.mallopt, library.malloc_trim
    except (OSError, AttributeError):
        return None

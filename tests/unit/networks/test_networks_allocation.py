"""Freed memory is kept while something large is computed, and goes back afterwards."""

from __future__ import annotations

import os
import resource
import subprocess
import sys

import pytest
import torch

from simulacra.networks import allocation
from simulacra.networks.allocation import BEFORE_TORCH, freed_memory_kept
from simulacra.networks.devices import plain_torch

with_glibc = pytest.mark.skipif(allocation._allocator() is None, reason="another C library has other settings")
MEGABYTES = 64
PAGES = MEGABYTES * (1 << 20) // resource.getpagesize()
WARM = 20
"""The first few of a size miss each other's places by a few bytes."""


def new_pages(times: int) -> int:
    """How many pages the operating system had to hand out for tensors of a size that was freed just before."""

    def make() -> None:
        torch.ones(MEGABYTES << 18)

    for _ in range(WARM):
        make()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(times):
        make()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def resident_megabytes() -> float:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / (1 << 20)


@with_glibc
@pytest.mark.parametrize("inside", [freed_memory_kept, plain_torch])
def test_what_is_freed_is_used_again(inside):
    assert new_pages(4) > 3 * PAGES, "without it, each tensor is made of new pages"
    with inside():
        assert new_pages(4) < PAGES


@with_glibc
def test_it_goes_back_afterwards():
    before = resident_megabytes()
    with freed_memory_kept():
        new_pages(1)
        assert resident_megabytes() > before + MEGABYTES / 2
    assert resident_megabytes() < before + MEGABYTES / 4


@with_glibc
def test_the_outermost_of_several_decides():
    with freed_memory_kept():
        with freed_memory_kept():
            pass
        assert new_pages(4) < PAGES
    assert allocation._inside == 0


def test_elsewhere_than_on_linux_nothing_happens(monkeypatch):
    monkeypatch.setattr(allocation.sys, "platform", "darwin")
    allocation._allocator.cache_clear()
    try:
        with freed_memory_kept():
            assert torch.ones(3).sum() == 3
    finally:
        monkeypatch.undo()
        allocation._allocator.cache_clear()


def test_a_user_s_own_choice_of_what_torch_reads_stands():
    program = (
        "import os; from simulacra.networks.allocation import set_before_torch; set_before_torch(); "
        "print(*[os.environ[name] for name in {}])"
    )
    kept = {name: value for name, value in os.environ.items() if name not in BEFORE_TORCH}
    chosen = {**kept, "OMP_WAIT_POLICY": "ACTIVE"}
    words = [sys.executable, "-c", program.format(list(BEFORE_TORCH))]
    told = subprocess.run(words, env=chosen, capture_output=True, text=True, check=True).stdout.split()
    assert told == ["ACTIVE", "1"]

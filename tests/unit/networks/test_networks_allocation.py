"""Freed memory is kept while something large is computed, and goes back afterwards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
import torch

from simulacra.networks import allocation
from simulacra.networks.allocation import BEFORE_TORCH, freed_memory_kept

with_glibc = pytest.mark.skipif(allocation._allocator() is None, reason="another C library has other settings")

MEASURED = """
import json, resource, torch
from simulacra.networks.allocation import freed_memory_kept
from simulacra.networks.devices import plain_torch

megabytes = 64
pages = megabytes * (1 << 20) // resource.getpagesize()

def renewed():
    "The share of pages that are new in tensors of a size that was freed just before; the first few miss each other."
    for _ in range(20):
        torch.ones(megabytes << 18)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(4):
        torch.ones(megabytes << 18)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / (4 * pages)

def resident():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) / pages

found = {"outside": renewed(), "at first": resident()}
with freed_memory_kept():
    found |= {"inside": renewed(), "meanwhile": resident()}
    with plain_torch():
        pass
    found["after one of two"] = renewed()
found["in the end"] = resident()
with plain_torch():
    found["in plain torch"] = renewed()
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """Measured in a process of its own: one that has computed before has holes where large tensors fit."""
    kept = {name: value for name, value in os.environ.items() if name not in BEFORE_TORCH}
    done = subprocess.run([sys.executable, "-c", MEASURED], env=kept, capture_output=True, text=True, check=True)
    measured: dict[str, Any] = json.loads(done.stdout)
    return measured


@with_glibc
def test_what_is_freed_is_used_again(found):
    assert found["outside"] > 0.75, "without it, each tensor is made of new pages"
    assert found["inside"] < 0.25
    assert found["in plain torch"] < 0.25


@with_glibc
def test_it_goes_back_afterwards(found):
    assert found["meanwhile"] > found["at first"] + 0.5, "in tensors"
    assert found["in the end"] < found["at first"] + 0.25


@with_glibc
def test_the_outermost_of_several_decides(found):
    assert found["after one of two"] < 0.25
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

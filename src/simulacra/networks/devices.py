"""Where and how to compute: checked at once rather than after an hour."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from simulacra.errors import SettingError
from simulacra.networks.allocation import freed_memory_kept


@contextmanager
def plain_torch() -> Iterator[None]:
    """Torch as it comes: new tensors on the CPU, in single precision that is not rounded to less, with gradients.

    And quick: memory that is freed is kept for the next tensor. A program may have told torch otherwise for work of its
    own, which must not make a release fail after it was paid for, nor round what is summed inside the vault: a
    sensitivity's margin for rounding is far below half precision.
    """
    import torch

    precision = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        with freed_memory_kept(), _on_the_processor(), torch.inference_mode(False), torch.enable_grad(), _unrounded():
            yield
    finally:
        torch.set_default_dtype(precision)


def _on_the_processor() -> AbstractContextManager[Any]:
    """Where new tensors go. Only if they would go elsewhere, since torch then asks Python at every single operation."""
    import torch

    return nullcontext() if torch.get_default_device().type == "cpu" else torch.device("cpu")


PRECISIONS = {
    "": "none",
    "cudnn": "none",
    "cuda.matmul": "none",
    "cudnn.conv": "tf32",
    "cudnn.rnn": "tf32",
    "mkldnn": "none",
    "mkldnn.matmul": "none",
    "mkldnn.conv": "none",
}
"""What torch.backends rounds single precision to, as it comes, from all of it down to parts; older versions lack some.

A GPU is in here too: private sums forbid it to round by the older switches, which cannot be read while
the newer say otherwise."""


@contextmanager
def _unrounded() -> Iterator[None]:
    """No autocasting anywhere, and none of a processor's shortcuts through half precision, where torch offers any."""
    import torch

    parts = {name: _part(name) for name in PRECISIONS}
    told = {name: part.fp32_precision for name, part in parts.items() if hasattr(part, "fp32_precision")}

    def switch(precisions: Mapping[str, str]) -> None:
        for name, precision in precisions.items():
            for value in ("none", precision):  # with none a part follows what is above it, which may be enough
                if name in told and parts[name].fp32_precision != precision:
                    parts[name].fp32_precision = value

    try:
        switch(PRECISIONS)
        with torch.autocast("cpu", enabled=False), torch.autocast("cuda", enabled=False):
            yield
    finally:
        switch(told)


@contextmanager
def rounded_products() -> Iterator[None]:
    """Let a processor round matrix products to bfloat16, where torch offers it; never around private sums."""
    products = _part("mkldnn.matmul")
    if not hasattr(products, "fp32_precision"):
        yield
        return
    before = products.fp32_precision
    products.fp32_precision = "bf16"
    try:
        yield
    finally:
        products.fp32_precision = before


def _part(name: str) -> Any:
    """Of torch.backends: a part of a part, or all of it."""
    import torch

    part: Any = torch.backends
    for word in name.split(".") if name else ():
        part = getattr(part, word, None)
    return part


def pick_device(name: str) -> str:
    """`auto` is a GPU if there is one; anything else must be there."""
    import torch

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.zeros(1, device=name).item()  # item, because the "meta" device makes tensors and cannot compute
    except (RuntimeError, AssertionError):
        raise SettingError(f'device "{name}" is not available here; use cpu or auto') from None
    return name


def memory() -> int:
    """Bytes of this machine, if it tells; else more than there can be."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return sys.maxsize


@contextmanager
def full_precision(device: Any, *, searching: bool = False) -> Iterator[None]:
    """No TF32 on a GPU: private sums are computed in plain single precision at least. See `searched` for searching."""
    import torch

    if torch.device(device).type != "cuda":
        yield
        return
    products, convolutions = torch.backends.cuda.matmul, torch.backends.cudnn
    before = products.allow_tf32, convolutions.allow_tf32
    products.allow_tf32 = convolutions.allow_tf32 = False
    try:
        with searched(searching):
            yield
    finally:
        products.allow_tf32, convolutions.allow_tf32 = before


@contextmanager
def searched(searching: bool) -> Iterator[None]:
    """Let a GPU time its convolutions for a shape when it first meets it, and take the quickest that repeats its bits.

    Which one that is may differ from process to process, and so may the last bits.
    """
    import torch

    convolutions = torch.backends.cudnn
    before = convolutions.benchmark, convolutions.deterministic
    if searching:
        convolutions.benchmark = convolutions.deterministic = True
    try:
        yield
    finally:
        convolutions.benchmark, convolutions.deterministic = before


@contextmanager
def arithmetic(*, rounded: bool, searching: bool = True) -> Iterator[None]:
    """Let GPUs round to TF32, or forbid it, and search for the quickest convolutions or not; as before afterwards.

    Searching is worth its while where all batches have one size.
    """
    import torch

    def switch(convolutions: bool, products: bool, benchmark: bool) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # newer versions recommend other names for these; older lack those
            torch.backends.cudnn.allow_tf32 = convolutions
            torch.backends.cuda.matmul.allow_tf32 = products
            torch.backends.cudnn.benchmark = benchmark

    before = torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.benchmark
    switch(rounded, rounded, searching)
    try:
        yield
    finally:
        switch(*before)

"""Which records of a condensed set are given out: all of them in their order, some of them, or some of them twice."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from simulacra.generators.condensed import Condensed, turns


def picks(held: Condensed, n: int, *, seed: int, labels: torch.Tensor | None, piece: int) -> Iterator[torch.Tensor]:
    """The places in the set of `n` records, in pieces of bounded size.

    All of them, in their order, if that is their number and no classes are asked for. Fewer are drawn without
    replacement, as many of each class as can be; more are drawn with replacement, see `repeats`. `labels` asks for
    these classes in turn.
    """
    if labels is None and n == len(held):
        yield from torch.split(torch.arange(n), piece)
        return
    random = torch.Generator().manual_seed(seed)
    repeated = repeats(held, n, labels)
    if labels is None:
        labels = torch.randperm(held.classes, generator=random)  # so that it is chance which classes come up short
    orders = torch.stack([torch.randperm(held.per_class, generator=random) for _ in range(held.classes)])
    # Without replacement there are at most as many as the set holds, so that they need not come in pieces.
    step = piece if repeated else max(1, n)
    for start in range(0, n, step):
        size = min(step, n - start)
        asked = labels[torch.arange(start, start + size) % len(labels)]
        if repeated:
            within = torch.randint(held.per_class, (size,), generator=random)
        else:
            within = orders[asked, turns(torch.nn.functional.one_hot(asked, held.classes), asked)]
        yield from torch.split(asked * held.per_class + within, piece)


def repeats(held: Condensed, n: int, labels: torch.Tensor | None = None) -> bool:
    """Whether `n` records can be had only by giving some of them out twice."""
    if labels is None:
        return n > len(held)
    rounds, rest = divmod(n, len(labels))
    whole = torch.bincount(labels, minlength=held.classes)
    return bool((rounds * whole + torch.bincount(labels[:rest], minlength=held.classes)).max() > held.per_class)

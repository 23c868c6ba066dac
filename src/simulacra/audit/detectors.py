"""Faults that no single score shows: noise of another scale than stated, missing, repeated, or tied to a seed.

The auditor invented the data, so the true sums are known, and released value minus true sum is the noise alone. Each
detector raises a false alarm less than once in ten million audits.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats

Noise = np.ndarray[Any, np.dtype[np.float64]]
FALSE_ALARM = 1e-8


def scale_findings(noise: Noise, std: float, where: str) -> list[str]:
    """Compare draws (trials x numbers) with the standard deviation the release states: each number, mean and spread."""
    findings = []
    trials = len(noise)
    risk = FALSE_ALARM / (2 * noise.shape[1])
    low, high = float(stats.chi2.ppf(risk, df=trials)), float(stats.chi2.isf(risk, df=trials))
    for number, column in enumerate(noise.T):
        if not np.any(column):
            findings.append(f"{where}: number {number} has no noise")
        elif not low <= float(np.sum((column / std) ** 2)) <= high:
            findings.append(f"{where}: number {number} has noise of another scale than stated")
        elif abs(float(column.mean())) > float(stats.norm.isf(risk)) * std / np.sqrt(trials):
            findings.append(f"{where}: number {number} has noise that is not centred")
    return findings


def repeat_findings(draws: Sequence[Noise], where: str) -> list[str]:
    """Compare noise vectors that must have nothing to do with each other, scaled to a standard deviation of 1."""
    findings = [f"{where}: draw {i} has a number without noise" for i, one in enumerate(draws) if not one.all()]
    for (first, one), (second, other) in itertools.combinations(enumerate(draws), 2):
        size = min(one.size, other.size)
        one, other = one.ravel()[:size], other.ravel()[:size]
        alike = int(np.isclose(one, other, rtol=0, atol=1e-10).sum())
        if alike:  # one number is a chance of some 1e-10, all of them are one draw
            findings.append(
                f"{where}: the noise of draws {first} and {second} is the same in {alike} of {size} numbers"
            )
    return findings


def correlation_findings(left: Noise, right: Noise, where: str) -> list[str]:
    """Compare the noise of two releases over many trials (trials x numbers), scaled to a standard deviation of 1."""
    size = min(left.shape[1], right.shape[1])
    products = left[:, :size] * right[:, :size]
    bound = float(stats.norm.isf(FALSE_ALARM)) * 1.2 / np.sqrt(products.size)
    return [f"{where}: the noise of two releases is related"] if abs(float(products.mean())) > bound else []


def sample_findings(rounds: Sequence[Sequence[frozenset[int]]], where: str) -> list[str]:
    """Compare which records fresh runs sampled, round by round: alike means predictable."""
    for one, other in itertools.combinations(rounds, 2):
        if list(one) == list(other):
            return [f"{where}: two fresh runs sampled the same records"]
    if any(len(set(run)) == 1 for run in rounds):
        return [f"{where}: every round sampled the same records"]
    return []

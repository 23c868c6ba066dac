"""Tilts: how much more or less of each cell a class has than all records do, told from noise.

A rare class has few records in a cell, often fewer than the noise. What saves it is that neighbouring cells of an
ordered column tend to be tilted alike, so that many cells say together what none says alone. Where a class has many
records in a cell, each cell speaks for itself (`methods/markov.py`).
"""

from __future__ import annotations

from dataclasses import replace

import torch

from simulacra.methods.markov import MarkovFitting, Target
from simulacra.schema import Column, Schema

ROUGHNESS = 0.3
"""Standard deviation of what a cell's tilt does not share with its neighbours'."""
ENOUGH = 3.0
"""A class with so many times the noise's standard deviation of records in a cell, on average, needs no neighbours."""
NEWTON_STEPS = 40
CLOSE = 1e-4
"""Tilts that move less in a step have been found."""
PARTS_OF_A_STEP = (1.0, 0.5, 0.25, 0.1, 0.03, 0.01, 0.0)
FITTING_ROUNDS = 30
LARGEST_TILT = 30.0


def with_tilts(target: Target, schema: Schema, fitting: MarkovFitting) -> Target:
    """The target with what it says of rare classes replaced by the likeliest tables, given what was released.

    Their noise has done its work then: it is set to zero, so that the field follows them.
    """
    classes = schema.classes
    cells = target.cells.double().clamp(min=0.1 / target.rows)
    features, label = slice(0, len(cells) - classes), slice(len(cells) - classes, None)
    shares = cells[label] / cells[label].sum()
    pairs, variance = target.pairs.clone(), target.variance.clone()
    start = 0
    for column in schema.features:
        place = slice(start, start + column.cells)
        start += column.cells
        seen, noise = target.pairs[place, label].T.double(), target.variance[place, label].T.double()
        rare = shares / column.cells < ENOUGH * noise[:, 0].sqrt()
        if not rare.any():
            continue
        expected = torch.outer(shares, cells[place] / cells[place].sum())
        # A released share scatters by its noise, and around the population's by being that of a sample.
        scatter = noise + expected / target.rows
        covariance = prior(column, width=fitting.tilt_spread, reach=fitting.tilt_reach)
        tilts = likeliest(seen, expected, scatter, covariance)
        table = torch.where(rare.unsqueeze(1), _with_margins(expected, tilts), seen)
        pairs[place, label] = table.T.to(pairs)
        variance[place, label] = (noise * ~rare.unsqueeze(1)).T.to(variance)
    pairs[label, features], variance[label, features] = pairs[features, label].T, variance[features, label].T
    return replace(target, pairs=pairs, variance=variance)


def prior(column: Column, *, width: float, reach: float) -> torch.Tensor:
    """(cells, cells): the covariance of tilts before anything is seen.

    Of ordered cells it falls by e over `reach` of them. A missing value has no neighbours, nor has an unordered one.
    """
    steps = column.cells - column.missing if column.ordered else 0
    shared = torch.eye(column.cells, dtype=torch.float64)
    if reach > 0:
        place = torch.arange(steps, dtype=torch.float64)
        shared[:steps, :steps] = torch.exp(-(place.unsqueeze(1) - place).abs() / reach)
    return width**2 * shared + ROUGHNESS**2 * torch.eye(column.cells, dtype=torch.float64)


def likeliest(
    seen: torch.Tensor, expected: torch.Tensor, scatter: torch.Tensor, covariance: torch.Tensor
) -> torch.Tensor:
    """(classes, cells): the tilts t with the highest posterior density, if `seen` is expected * exp(t) plus Gaussian
    scatter, and t Gaussian around zero. By Gauss and Newton, all classes at once, each going no further than it gains.
    """
    eye = torch.eye(len(covariance), dtype=torch.float64)
    parts = torch.tensor(PARTS_OF_A_STEP, dtype=torch.float64).view(-1, 1, 1)
    every = torch.arange(len(seen))
    tilts, dual = torch.zeros_like(seen), torch.zeros_like(seen)  # tilts = dual @ covariance, which is never inverted
    for _ in range(NEWTON_STEPS):
        shown = expected * tilts.exp()
        slope = shown / scatter
        pulled = slope * shown * tilts + slope * (seen - shown)
        wanted = torch.linalg.solve(eye + (slope * shown).unsqueeze(2) * covariance, pulled)
        trial = tilts + parts * (wanted @ covariance - tilts)
        trial_dual = dual + parts * (wanted - dual)
        misfit = ((seen - expected * trial.exp()).square() / scatter).sum(dim=2) + (trial * trial_dual).sum(dim=2)
        best = torch.nan_to_num(misfit, nan=torch.inf).argmin(dim=0)
        moved = (trial[best, every] - tilts).abs().max()
        tilts, dual = trial[best, every], trial_dual[best, every]
        if moved < CLOSE:
            break
    return tilts


def _with_margins(expected: torch.Tensor, tilts: torch.Tensor) -> torch.Tensor:
    """The tilted table with the shares of classes and of cells that the expected one has, by proportional fitting."""
    table = expected * tilts.clamp(-LARGEST_TILT, LARGEST_TILT).exp()
    for _ in range(FITTING_ROUNDS):
        table = table * (expected.sum(dim=0) / table.sum(dim=0))
        table = table * (expected.sum(dim=1) / table.sum(dim=1)).unsqueeze(1)
    return table

"""Fitting a Markov random field to noisy cross tables: chains of rows are swept while the couplings learn."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from simulacra.errors import SettingError
from simulacra.features.groups import Groups
from simulacra.generators.markov import MarkovGenerator
from simulacra.methods.base import Context
from simulacra.options import Options

CURVE_POINTS = 200
AVERAGED = 0.25
"""The last part of the steps, whose mean couplings are kept."""
REACH = 0.15
"""The part of the way to the top along a step that is gone at most: chains follow the couplings some sweeps behind."""
STRONG = 0.2
"""Of the couplings with the label, the share that is expected to be strong before anything is seen."""
LIFE = 20
"""Sweeps after which a chain begins anew; it counts in its second half, around `generators.markov.SWEEPS`."""


@dataclass(frozen=True, kw_only=True)
class MarkovFitting(Options):
    """How long and with how many rows. `spread` is how far couplings are expected to lie from zero.

    Of those with the label, some are expected to be strong, with `label_spread`: a rare class has cells that others
    hardly have. Which ones, their tables say as far as the noise lets them. Where a class has too few records for that,
    what it has more of is expected within `tilt_spread`, and alike for ordered cells within `tilt_reach` of each other
    (`methods/tilts.py`).
    """

    steps: int = 300
    rows: int = 4000
    learning_rate: float = 0.03
    spread: float = 0.5
    label_spread: float = 4.0
    tilt_spread: float = 2.0
    tilt_reach: float = 4.0

    def __post_init__(self) -> None:
        if self.steps < 1 or self.rows < LIFE:
            raise SettingError(f"fitting needs steps >= 1 and rows >= {LIFE}, got {self.steps} and {self.rows}")
        if not 0 < self.learning_rate <= 1:
            raise SettingError(f"fitting.learning_rate must be in (0, 1], got {self.learning_rate:g}")
        for name in ("spread", "label_spread", "tilt_spread"):
            if not 0.001 <= getattr(self, name) <= 1000:
                raise SettingError(f"fitting.{name} must be from 0.001 to 1000, got {getattr(self, name):g}")
        if not 0 <= self.tilt_reach <= 1000:
            raise SettingError(f"fitting.tilt_reach must be from 0 to 1000 cells, got {self.tilt_reach:g}")


@dataclass(frozen=True, kw_only=True)
class Target:
    """What the field should show: shares of cells, and of pairs of cells with the variance of their noise.

    `pairs` and `variance` are (total, total) and symmetric; a column's own block is not looked at. `rows` is how many
    records the shares are of.
    """

    cells: torch.Tensor
    pairs: torch.Tensor
    variance: torch.Tensor
    rows: float

    def to(self, device: torch.device) -> Target:
        """The same elsewhere, in single precision."""
        cells, pairs, variance = (one.to(device, torch.float32) for one in (self.cells, self.pairs, self.variance))
        return Target(cells=cells, pairs=pairs, variance=variance, rows=self.rows)


@torch.no_grad()
def fit_field(
    field: MarkovGenerator, target: Target, shares: torch.Tensor, fitting: MarkovFitting, context: Context
) -> None:
    """Maximise the posterior of the couplings, given the noisy tables and a Gaussian prior around zero.

    The gradient by a coupling is the difference of the target's and the field's own share of that pair of cells; the
    field's comes from chains (below). Steps are divided by the curvature that independent columns would have, and go no
    further than the curvature along them allows. The prior pulls couplings to zero where a table is mostly noise, and
    hardly where it is not: a table that says nothing leaves its columns independent. Ctrl-C stops early and keeps what
    was learned.
    """
    device = torch.device(context.device)
    field.to(device)
    target = target.to(device)
    other = _other_columns(field.sizes, device)
    cells = target.cells.clamp(min=0.1 / target.rows)
    product = torch.outer(cells, cells)
    pull = _pull(field, target, product, fitting)
    random = torch.Generator(device=device).manual_seed(context.seed)
    field.couplings.zero_()
    field.fields.copy_(cells.log())
    chains = Chains(field, shares.to(device, torch.float32), fitting.rows, random)
    scale = 1 / float(((target.pairs - product) * other).square().sum().clamp(min=1e-12))
    couplings, fields, kept = torch.zeros_like(field.couplings), torch.zeros_like(field.fields), 0
    try:
        for step in range(fitting.steps):
            single, shown = chains.step()
            difference = (target.pairs - shown) * other
            uphill, uphill_fields = (difference - pull * field.couplings) * other, cells - single
            move, move_fields = uphill / (product + pull), uphill_fields / (cells + 1 / target.rows)
            # Where many columns say the same, all their couplings move the same shares: not too far along.
            gain = 0.5 * (uphill * move).sum() + (uphill_fields * move_fields).sum()
            bend = chains.bend(move, move_fields) + 0.5 * (pull * move.square()).sum()
            progress = step / fitting.steps
            most = (REACH * gain / bend.clamp(min=1e-12)).clamp(max=fitting.learning_rate)
            rate = most * min(1.0, 2 * (1 - progress))
            field.couplings.add_(rate * move)
            field.fields.add_(rate * move_fields)
            if progress >= 1 - AVERAGED:
                couplings += field.couplings
                fields += field.fields
                kept += 1
            if step % max(1, fitting.steps // CURVE_POINTS) == 0 or step + 1 == fitting.steps:
                loss = float(difference.square().sum()) * scale
                context.curve.append((step + 1, loss))
                if context.on_step:
                    context.on_step(step + 1, fitting.steps, loss)
    except KeyboardInterrupt:
        context.stopped_early = True
    if kept:
        field.couplings.copy_(couplings / kept)
        field.fields.copy_(fields / kept)
    field.eval()


class Chains:
    """Rows that are swept once per step, and begin anew at different times.

    Chains that never begin anew (Tieleman, 2008) get stuck where two columns say the same: their mean then looks right,
    and rows that are drawn later are not. So each lives as long as a drawn row does, and its youth is not counted.
    Every class gets chains, rare ones too, which count by its share.
    """

    def __init__(self, field: MarkovGenerator, shares: torch.Tensor, rows: int, random: torch.Generator) -> None:
        self.field, self.shares, self.random = field, shares, random
        per_class = torch.clamp((shares * rows).round().long(), min=max(2 * LIFE, rows // (8 * len(shares))))
        self.labels = Groups(sizes=tuple(per_class.tolist()), weights=shares).one_hot
        self.state = self._begin(self.labels)
        self.weights = self.state[:, :1]
        self.age = torch.arange(len(self.state), device=shares.device) % LIFE
        self.steps = 0

    def step(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Sweep once; the shares of cells (total), and of pairs of cells (total, total) among chains of age.

        Probabilities stand in for drawn cells where they are known: the same mean, and less scatter. A column's were
        computed given the new cells of the columns before it and the old ones of those after it.
        """
        oldest = slice(-self.steps % LIFE, None, LIFE)
        self.state[oldest] = self._begin(self.labels[oldest])
        before = self.state.clone()
        chances = self.field.sweep(self.state, self.random)
        self.steps += 1
        self.age = (self.age + 1) % LIFE
        counted = self.labels * (self.age >= LIFE // 2).unsqueeze(1)
        self.weights = counted @ (self.shares / counted.sum(dim=0)).unsqueeze(1)
        weighted = chances * self.weights
        shown = (self.state.T @ weighted).triu() + (before.T @ weighted).tril(diagonal=-1)
        return weighted.sum(dim=0), (shown + shown.T) / 2

    def bend(self, move: torch.Tensor, move_fields: torch.Tensor) -> torch.Tensor:
        """The curvature of the log-likelihood along a move: how much the move's energy varies within a class.

        A third of the chains is enough to know it.
        """
        some = slice(None, None, 3)
        state, labels, weights = self.state[some], self.labels[some], self.weights[some] / self.weights[some].sum()
        energy = (state @ move_fields + 0.5 * ((state @ move) * state).sum(dim=1)).unsqueeze(1)
        mean = (labels.T @ (weights * energy)) / (labels.T @ weights).clamp(min=1e-12)
        return (weights * (energy - labels @ mean).square()).sum()

    def _begin(self, labels: torch.Tensor) -> torch.Tensor:
        return self.field.begin(self.field(labels, labels), self.random)


def _pull(field: MarkovGenerator, target: Target, product: torch.Tensor, fitting: MarkovFitting) -> torch.Tensor:
    """(total, total): how strongly the prior holds each coupling at zero.

    Where columns are nearly independent a table departs from their product by the coupling, so the released table is a
    first look at it, with known scatter. That says how likely it is one of the strong ones; a coupling that may be of
    either kind has the mean precision of both. What a class has less of is never taken for strong: with a wide prior, a
    count that noise made negative would remove those cells from the class altogether.
    """
    # A released share scatters by its noise, and around the population's by being that of a sample.
    scatter = (target.variance + product / target.rows) / product
    usual, strong = fitting.spread**2, fitting.label_spread**2
    precision = torch.full_like(product, 1 / usual)
    if field.labelled:
        look, variance = (target.pairs / product - 1).square(), scatter / product
        evidence = look / (variance + usual) - look / (variance + strong)
        evidence += ((variance + usual) / (variance + strong)).log()
        likely = torch.sigmoid(evidence / 2 + math.log(STRONG / (1 - STRONG)))
        likely *= target.pairs > product
        mixed = likely / strong + (1 - likely) / usual
        label = slice(-field.classes, None)  # its cells come last
        precision[label], precision[:, label] = mixed[label], mixed[:, label]
    return scatter * precision


def _other_columns(sizes: tuple[int, ...], device: torch.device) -> torch.Tensor:
    """(total, total): 1 where two cells are of different columns."""
    column = torch.repeat_interleave(torch.arange(len(sizes), device=device), torch.tensor(sizes, device=device))
    return (column.unsqueeze(1) != column).float()

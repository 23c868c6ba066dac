"""The Markov generator: Gibbs sweeps have the right stationary distribution, and fitting finds the couplings."""

from __future__ import annotations

import itertools

import pytest
import torch

from simulacra.data.cells import Cells
from simulacra.errors import SettingError
from simulacra.generators import GeneratorOptions, build
from simulacra.generators.markov import MarkovGenerator, draw_cells
from simulacra.methods.base import Context
from simulacra.methods.markov import LIFE, Chains, MarkovFitting, Target, fit_field
from simulacra.schema import Categorical, ImageShape, Schema

SCHEMA = Schema(
    columns=(
        Categorical(name="p", values=("a", "b")),
        Categorical(name="q", values=("a", "b", "c")),
        Categorical(name="y", values=("no", "yes")),
    ),
    label="y",
)
SIZES = (2, 3, 2)
ENDS = (2, 5, 7)


def field(seed: int = 0, strength: float = 1.0) -> MarkovGenerator:
    """With random fields and couplings."""
    made: MarkovGenerator = build(SCHEMA, GeneratorOptions(kind="markov"))
    random = torch.Generator().manual_seed(seed)
    couplings = strength * torch.randn(7, 7, generator=random)
    with torch.no_grad():
        made.fields.copy_(torch.randn(7, generator=random))
        made.couplings.copy_(couplings + couplings.T)
        for size, end in zip(SIZES, ENDS, strict=True):
            made.couplings[end - size : end, end - size : end] = 0
    return made


def joint(made: MarkovGenerator) -> torch.Tensor:
    """The probability of every row, by enumeration: (2, 3, 2)."""
    values = torch.zeros(SIZES)
    for row in itertools.product(*map(range, SIZES)):
        one_hot = torch.zeros(7)
        for cell, size, end in zip(row, SIZES, ENDS, strict=True):
            one_hot[end - size + cell] = 1
        values[row] = (made.fields @ one_hot + one_hot @ made.couplings @ one_hot / 2).exp().detach()
    return values / values.sum()


def test_many_sweeps_draw_from_the_distribution_given_the_label() -> None:
    made = field()
    labels = torch.nn.functional.one_hot(torch.arange(40_000) % 2, 2).float()
    random = torch.Generator().manual_seed(1)
    index = Cells(SCHEMA).index(made.to_records(made(labels, labels), random))
    expected = joint(made)
    for label in (0, 1):
        rows = index[label::2]
        shares = torch.bincount(rows[:, 0] * 3 + rows[:, 1], minlength=6).view(2, 3) / len(rows)
        given = expected[..., label] / expected[..., label].sum()
        torch.testing.assert_close(shares, given, rtol=0, atol=0.015)


def test_a_drawn_cell_follows_its_probabilities_and_empty_ones_are_never_drawn() -> None:
    chances = torch.tensor([0.0, 0.5, 0.0, 0.2, 0.3]).expand(50_000, -1)
    drawn = torch.empty(50_000, 5)
    draw_cells(chances, drawn, torch.Generator().manual_seed(0))
    torch.testing.assert_close(drawn.mean(dim=0), chances[0], rtol=0, atol=0.01)
    assert drawn[:, [0, 2]].sum() == 0
    assert torch.equal(drawn.sum(dim=1), torch.ones(50_000))


def targets(shares: torch.Tensor, variance: float) -> Target:
    rows = torch.cartesian_prod(*(torch.arange(size) for size in SIZES))
    one_hot = torch.cat([torch.nn.functional.one_hot(rows[:, k], size) for k, size in enumerate(SIZES)], dim=1).double()
    weights = shares.flatten().double().unsqueeze(1)
    pairs = one_hot.T @ (one_hot * weights)
    return Target(cells=pairs.diagonal(), pairs=pairs, variance=torch.full((7, 7), variance).double(), rows=1e6)


def test_fitting_without_noise_gives_the_pairs_that_were_asked_for() -> None:
    wanted = joint(field(strength=0.7))
    made: MarkovGenerator = build(SCHEMA, GeneratorOptions(kind="markov"))
    target = targets(wanted, 0.0)
    shares = wanted.sum(dim=(0, 1))
    fit_field(made, target, shares, MarkovFitting(steps=300, rows=8000, learning_rate=0.2, spread=10), Context())
    # The three-way table too: it has no more structure than pairs. Labels are given, so their own field is not used.
    found = joint(made)
    torch.testing.assert_close(found / found.sum(dim=(0, 1)) * shares, wanted, rtol=0, atol=0.01)


def fitted_to_a_class(table: list[list[float]], noise: float, **spreads: float) -> torch.Tensor:
    """The couplings of q (rows) with the label (columns), given their table; p is independent of both."""
    cells = torch.cat([torch.full((2,), 0.5), torch.tensor(table).sum(dim=1), torch.tensor(table).sum(dim=0)])
    pairs = torch.outer(cells, cells)
    pairs[2:5, 5:] = torch.tensor(table)
    pairs[5:, 2:5] = torch.tensor(table).T
    target = Target(cells=cells, pairs=pairs, variance=torch.full((7, 7), noise**2), rows=1e6)
    made: MarkovGenerator = build(SCHEMA, GeneratorOptions(kind="markov"))
    fit_field(made, target, cells[5:], MarkovFitting(rows=4000, learning_rate=0.2, **spreads), Context())
    return made.couplings.detach()[2:5, 5:]


def test_noise_pulls_couplings_to_zero_but_not_what_a_class_clearly_has_more_of() -> None:
    """The rare class has most of the last cell: a log odds ratio of 6.4 that noise must not hide before it has to."""
    table = [[0.4875, 0.0025], [0.4875, 0.0025], [0.005, 0.015]]

    def odds(noise: float, **spreads: float) -> float:
        found = fitted_to_a_class(table, noise, **spreads)
        return float(found[2, 1] - found[2, 0] - found[0, 1] + found[0, 0])

    assert odds(0.002, label_spread=0.5) < 5.2
    assert odds(0.002) > 5.4
    assert odds(0.02) < 0.8


def test_a_count_that_noise_made_negative_does_not_empty_a_cell() -> None:
    table = [[0.3, 0.5], [0.05, 0.05], [0.15, -0.05]]
    assert -1 < fitted_to_a_class(table, 0.03)[2, 1] < -0.4


@pytest.mark.parametrize("correlation", [0.2, 0.4, 0.7])
def test_two_columns_are_drawn_as_dependent_as_they_were_asked_to_be(correlation: float) -> None:
    """Each half of a sweep's pairs must be counted with the cells it was drawn given, or couplings grow too strong."""
    schema = Schema(columns=(*SCHEMA.columns[:1], Categorical(name="r", values=("a", "b"))))
    made: MarkovGenerator = build(schema, GeneratorOptions(kind="markov"))
    table = torch.full((2, 2), (1 - correlation) / 4) + torch.eye(2) * correlation / 2
    pairs = torch.zeros(4, 4)
    pairs[:2, 2:], pairs[2:, :2] = table, table.T
    target = Target(cells=torch.full((4,), 0.5), pairs=pairs, variance=torch.zeros(4, 4), rows=1e6)
    fit_field(made, target, torch.ones(1), MarkovFitting(rows=8000), Context())
    labels = torch.ones(50_000, 1)
    index = Cells(schema).index(made.to_records(made(labels, labels), torch.Generator().manual_seed(3)))
    assert abs(float(torch.corrcoef(index.T.float())[0, 1]) - correlation) < 0.025


@pytest.mark.parametrize("flips", [0.0, 0.05])
def test_many_columns_that_say_the_same_do_not_make_it_swing(flips: float) -> None:
    columns = 30
    schema = Schema(columns=tuple(Categorical(name=f"c{k}", values=("a", "b")) for k in range(columns)))
    random = torch.Generator().manual_seed(0)
    rows = (torch.rand(20_000, 1, generator=random) < 0.3).long().expand(-1, columns)
    rows = (rows + (torch.rand(rows.shape, generator=random) < flips)) % 2
    one_hot = torch.nn.functional.one_hot(rows, 2).flatten(1).double()
    pairs = one_hot.T @ one_hot / len(rows)
    made: MarkovGenerator = build(schema, GeneratorOptions(kind="markov"))
    target = Target(cells=pairs.diagonal(), pairs=pairs, variance=torch.zeros(60, 60), rows=20_000)
    context = Context()
    fit_field(made, target, torch.ones(1), MarkovFitting(rows=1000), context)
    assert max(loss for _, loss in context.curve[100:]) < 0.5
    labels = torch.ones(5_000, 1)
    index = Cells(schema).index(made.to_records(made(labels, labels), torch.Generator().manual_seed(1)))
    assert (index.float().mean(dim=0) - rows.float().mean(dim=0)).abs().max() < 0.05


def test_tables_that_are_all_noise_leave_columns_independent() -> None:
    made: MarkovGenerator = build(SCHEMA, GeneratorOptions(kind="markov"))
    wanted = joint(field())
    fit_field(made, targets(wanted, 1e4), wanted.sum(dim=(0, 1)), MarkovFitting(steps=50, rows=200), Context())
    assert made.couplings.abs().max() < 1e-3


def test_a_rare_class_has_chains_and_counts_by_its_share() -> None:
    shares = torch.tensor([0.999, 0.001])
    chains = Chains(field(), shares, 1000, torch.Generator().manual_seed(0))
    assert (chains.labels.sum(dim=0) >= 2 * LIFE).all()
    single, shown = chains.step()
    torch.testing.assert_close(single[5:], shares)
    torch.testing.assert_close(single.sum(), torch.tensor(3.0))
    torch.testing.assert_close(shown, shown.T)


def test_chains_begin_anew_one_cohort_per_step() -> None:
    chains = Chains(field(), torch.tensor([0.5, 0.5]), 100, torch.Generator().manual_seed(0))
    begun: list[int] = []
    begin = chains._begin

    def counting(labels: torch.Tensor) -> torch.Tensor:
        begun.append(len(labels))
        return begin(labels)

    chains._begin = counting  # type: ignore[method-assign]
    for _ in range(LIFE):
        chains.step()
        assert (chains.age[-chains.steps % LIFE :: LIFE] == 0).all()
    assert sum(begun) == len(chains.state)


def test_it_is_for_tables_alone() -> None:
    picture = Schema(columns=(), image=ImageShape(height=8, width=8, channels=1))
    with pytest.raises(SettingError, match=r"generator\.kind"):
        build(picture, GeneratorOptions(kind="markov"))

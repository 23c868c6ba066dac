"""DP-MEPF's matching: each loss is what it should be, and training repeats, resumes and takes the best checkpoint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from mepf_runs import SIZE, WIDTHS, release

import simulacra
from simulacra.errors import SettingError
from simulacra.features.unit_sums import unit_sums
from simulacra.features.views import LastLayer, Perceived
from simulacra.generators import GeneratorOptions, build
from simulacra.methods.base import Context
from simulacra.methods.perceptual_matching import PerceptualTraining, match_moments
from simulacra.methods.stopping import CURVE, Judge
from simulacra.networks.small_encoder import SmallEncoder
from simulacra.schema import ImageShape, Schema
from simulacra.synthesis.watching import Watcher

IMAGE = ImageShape(height=8, width=8, classes=("a", "b"))


def view() -> Perceived:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        return Perceived(IMAGE, SmallEncoder(WIDTHS), name="small")


def generator(seed: int = 0) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build(Schema(image=IMAGE), GeneratorOptions(latent=4, hidden=(16,)))


def targets(looking: Perceived, orders: tuple[int, ...] = (1, 2)) -> dict[int, torch.Tensor]:
    points = torch.rand(40, 64, generator=torch.Generator().manual_seed(2)).square()
    averaging = torch.zeros(2, 40)
    averaging[0, :20] = averaging[1, 20:] = 1 / 20
    return dict(zip(orders, unit_sums(averaging, looking.layers(points), orders), strict=True))


def trained(training: PerceptualTraining, context: Context | None = None, judge: Judge | None = None) -> Any:
    looking = view()
    return match_moments(
        generator(),
        looking,
        targets=targets(looking),
        shares=torch.tensor([0.5, 0.5]),
        training=training,
        context=context or Context(),
        judge=judge,
        checks=4,
    )


@pytest.mark.parametrize("loss", ["plain", "averaged", "tracked"])
@pytest.mark.parametrize("precision", ["single", "bf16"])
def test_training_comes_nearer_to_the_target(loss: Any, precision: Any) -> None:
    context = Context()
    rate = 5e-3 if loss == "tracked" else 1e-3
    trained(
        PerceptualTraining(
            steps=60, batch=32, learning_rate=0.01, loss=loss, tracking_rate=rate, precision=precision, average=0.0
        ),
        context,
    )
    values = [loss for _, loss in context.curve]
    assert np.mean(values[-5:]) < 0.5 * values[0]


def test_the_plain_loss_is_unbiased() -> None:
    """Small batches have the same expectation as the squared distance of the means; the naive loss has not."""
    from simulacra.methods.matching import groups_for
    from simulacra.methods.perceptual_matching import Learning, _optimiser, _Step, _weighted

    looking, training = view(), PerceptualTraining(batch=4, average=0.0)
    wanted = targets(looking)
    made = generator().eval()
    groups = _weighted(groups_for(made, torch.tensor([0.5, 0.5]), 4), 2)
    assert groups.sizes == (2, 2)
    learning = Learning(made, wanted, training)
    step = _Step(
        learning, looking, wanted, (1, 2), groups, _optimiser(learning, training, torch.device("cpu")), training,
        torch.device("cpu"),
    )  # fmt: skip
    with torch.no_grad():
        many = 4000
        noise = torch.randn(2, many, 4, generator=torch.Generator().manual_seed(0))
        features = []
        for label in range(2):
            one_hot = torch.nn.functional.one_hot(torch.full((many,), label), 2).float()
            features.append(looking.layers(made(noise[label], one_hot)))
        found, naive = [], []
        for start in range(0, many, 2):
            layers = [torch.cat([a[start : start + 2], b[start : start + 2]]) for a, b in zip(*features, strict=True)]
            means = dict(zip((1, 2), unit_sums(groups.averaging, layers, (1, 2)), strict=True))
            found.append(step._distance(means).item())
            naive.append(sum(float((wanted[o] - m).square().sum()) for o, m in means.items()) * step.scale)
        averaging = torch.zeros(2, 2 * many)
        averaging[0, :many] = averaging[1, many:] = 1 / many
        whole = unit_sums(averaging, [torch.cat(pair) for pair in zip(*features, strict=True)], (1, 2))
        right = sum(float((wanted[o] - m).square().sum()) for o, m in zip((1, 2), whole, strict=True)) * step.scale
    assert np.mean(found) == pytest.approx(right, rel=0.01)
    assert abs(np.mean(naive) - right) > 5 * abs(np.mean(found) - right)


def test_the_tracked_difference_is_adam_on_the_mean_squared_error() -> None:
    from simulacra.methods.matching import groups_for
    from simulacra.methods.perceptual_matching import Learning, _optimiser, _Step, _weighted

    looking = view()
    training = PerceptualTraining(batch=8, loss="tracked", tracking_rate=1e-3, average=0.0)
    wanted = targets(looking)
    learning = Learning(generator(), wanted, training).train()
    groups = _weighted(groups_for(learning.generator, torch.tensor([0.5, 0.5]), 8), 2)
    optimiser = _optimiser(learning, training, torch.device("cpu"))
    step = _Step(learning, looking, wanted, (1, 2), groups, optimiser, training, torch.device("cpu"))
    theirs = {o: torch.nn.Parameter(learning.tracked[str(o)].detach().clone()) for o in (1, 2)}
    reference = torch.optim.Adam(theirs.values(), lr=1e-3, betas=(0.5, 0.999))
    for turn in range(3):
        step.noise.normal_(generator=torch.Generator().manual_seed(turn))
        before = {k: v.detach().clone() for k, v in learning.generator.state_dict().items()}
        with torch.no_grad():
            layers = looking.layers(learning.generator(step.noise, groups.one_hot))
            means = unit_sums(groups.averaging, layers, (1, 2))
        learning.generator.load_state_dict(before)
        step()
        reference.zero_grad()
        loss = sum(
            torch.nn.functional.mse_loss(theirs[order], wanted[order] - mean)
            for order, mean in zip((1, 2), means, strict=True)
        )
        loss.backward()  # type: ignore[union-attr]
        reference.step()
        for order in (1, 2):
            torch.testing.assert_close(learning.tracked[str(order)].detach(), theirs[order].detach())


def test_an_average_of_the_newest_batch_alone_has_the_gradient_of_its_squared_distance() -> None:
    from simulacra.methods.matching import groups_for
    from simulacra.methods.perceptual_matching import Learning, _optimiser, _Step, _weighted

    looking = view()
    training = PerceptualTraining(batch=8, loss="averaged", newest=1.0, average=0.0)
    wanted = targets(looking)
    learning = Learning(generator(), wanted, training).train()
    groups = _weighted(groups_for(learning.generator, torch.tensor([0.5, 0.5]), 8), 2)
    optimiser = _optimiser(learning, training, torch.device("cpu"))
    step = _Step(learning, looking, wanted, (1, 2), groups, optimiser, training, torch.device("cpu"))
    step.noise.normal_(generator=torch.Generator().manual_seed(0))
    layers = looking.layers(learning.generator(step.noise, groups.one_hot))
    means = dict(zip((1, 2), unit_sums(groups.averaging, layers, (1, 2)), strict=True))
    naive = torch.stack([(wanted[order] - mean).square().sum() for order, mean in means.items()]).sum() * step.scale
    weights_of = list(learning.generator.parameters())
    right = torch.autograd.grad(naive, weights_of, retain_graph=True)
    found = torch.autograd.grad(step._averaged(means), weights_of)
    for one, other in zip(found, right, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-7)


def test_an_average_reaches_back_over_a_tenth_of_the_batches_and_never_further_than_it_should() -> None:
    from simulacra.methods.matching import groups_for
    from simulacra.methods.perceptual_matching import Learning, _optimiser, _Step, _weighted

    looking = view()
    training = PerceptualTraining(batch=8, loss="averaged", newest=0.2, average=0.0)
    wanted = targets(looking, (1,))
    learning = Learning(generator(), wanted, training).train()
    groups = _weighted(groups_for(learning.generator, torch.tensor([0.5, 0.5]), 8), 2)
    optimiser = _optimiser(learning, training, torch.device("cpu"))
    step = _Step(learning, looking, wanted, (1,), groups, optimiser, training, torch.device("cpu"))
    right = torch.zeros_like(wanted[1])
    for number in range(1, 100):
        mean = torch.full_like(wanted[1], float(number))
        step._averaged({1: mean})
        share = max(0.2, 10 / (9 + number))
        right = (1 - share) * right + share * (wanted[1] - mean)
        torch.testing.assert_close(learning.moving1, right)
    assert -99 < float(right.mean()) < -90  # of the last few batches, not of all


def test_a_run_that_diverges_says_so() -> None:
    with pytest.raises(SettingError, match="training diverged"):
        match_moments(
            generator(),
            view(),
            targets={1: torch.full((2, SIZE), torch.nan)},
            shares=torch.tensor([0.5, 0.5]),
            training=PerceptualTraining(steps=3, batch=8),
            context=Context(),
        )


def judge() -> Judge:
    last = LastLayer(view())
    first, second = unit_sums(torch.full((1, 30), 1 / 30), last.layers(torch.rand(30, 64)), (1, 2))
    shares = torch.tensor([0.5, 0.5])
    return Judge(last, (first[0].double(), second[0].double()), shares=shares, samples=60, seed=0)


class Interrupt:
    def __init__(self, at: int) -> None:
        self.at = at

    def __call__(self, step: int, steps: int, loss: float) -> None:
        if step == self.at:
            raise KeyboardInterrupt


@pytest.mark.parametrize("loss", ["plain", "averaged", "tracked"])
def test_training_that_was_interrupted_goes_on_as_if_it_had_not(loss: Any, tmp_path: Path) -> None:
    training = PerceptualTraining(steps=40, batch=16, loss=loss, average=0.9)
    torch.manual_seed(0)
    whole_judge, first_judge, second_judge = judge(), judge(), judge()
    targets_of = whole_judge._targets
    first_judge._targets = second_judge._targets = targets_of
    whole = trained(training, Context(), whole_judge)
    cut = Context(checkpoint=tmp_path, on_step=Interrupt(23))
    trained(training, cut, first_judge)
    assert cut.stopped_early
    at_once = Context(checkpoint=tmp_path, on_step=Interrupt(23))
    again_judge = judge()
    again_judge._targets = targets_of
    trained(training, at_once, again_judge)
    assert [step for step, _ in at_once.curves[CURVE]] == [10, 20]  # looks before the interruption are not forgotten
    again = Context(checkpoint=tmp_path)
    resumed = trained(training, again, second_judge)
    for name, value in whole.state_dict().items():
        torch.testing.assert_close(resumed.state_dict()[name], value)
    assert whole_judge._least == pytest.approx(second_judge._least)
    assert [step for step, _ in again.curves[CURVE]] == [10, 20, 30, 40]


def test_the_best_checkpoint_is_kept_and_taken() -> None:
    torch.manual_seed(1)
    judging = judge()
    made = [generator(seed) for seed in range(3)]
    distances = [judging.judge(each, 1) for each in made]
    assert distances == [judging.judge(each, 1) for each in made]  # the same codes each time
    judging.take(made[0])
    best = made[int(np.argmin(distances))] if int(np.argmin(distances)) else generator(0)
    for name, value in best.state_dict().items():
        assert torch.equal(made[0].state_dict()[name], value)


def test_the_choice_of_the_checkpoint_is_free_and_its_curve_is_kept(folder: Path) -> None:
    run = release(folder, stopping__proxy="encoder", stopping__checks=3, stopping__samples=20)
    best = simulacra.train(run.folder, device="cpu", settings={"training.learning_rate": 0.05})
    training = json.loads((run.folder / "training.json").read_text())
    assert len(training["curves"][CURVE]) == 3
    assert best.sampler is not None
    simulacra.train(run.folder, device="cpu", settings={"stopping.choice": "last"})


def test_what_is_drawn_along_the_way_changes_nothing_and_is_what_training_would_give(folder: Path) -> None:
    run = release(folder, stopping__proxy="encoder", stopping__checks=3, stopping__samples=20, stopping__choice="last")
    alone = simulacra.train(run.folder, device="cpu").sample(5, seed=0)
    seen: list[int] = []
    last: list[Any] = []

    class Drawing(Watcher):
        def on_look(self, step: int, sampler: Any) -> None:
            seen.append(step)
            last[:] = [torch.cat([records.inputs for records in sampler.records(5, seed=0)])]

    watched = simulacra.train(run.folder, device="cpu", watcher=Drawing())
    assert seen == [2, 4, 6]
    np.testing.assert_array_equal(watched.sample(5, seed=0)[0], alone[0])
    drawn = torch.cat([records.inputs for records in watched.sampler.records(5, seed=0)])
    assert torch.equal(last[0], drawn)

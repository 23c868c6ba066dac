"""Matching perceptual moments: the squared distance of many batches, of one, or the tracked difference.

`averaged` takes the difference between target and mean from a moving average over batches, of which the newest counts
for a share of `newest`, and goes up along it: the gradient of the squared distance with little of one batch's chance in
it. A few images of a class differ from the mean by more than a generator does that has learned for a while, so that
the difference of one batch alone mostly says which codes it drew.

`plain` minimises || target - mean of the batch ||^2, from which the part that a batch's own spread adds is taken out:
features have length 1, so that part is known, and the estimate is unbiased at any batch size.

`tracked` is what Harder et al. (2023) and dos Santos et al. (2019) do: a vector v follows the difference between target
and batch mean by Adam on their mean squared error, and the generator goes up along v. Since the error is a mean over
all numbers of an embedding, its gradients are about as small as Adam's epsilon, and v is nearly an average over steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn

from simulacra.errors import SettingError
from simulacra.features.groups import Groups
from simulacra.features.unit_sums import unit_sums
from simulacra.features.views import View
from simulacra.methods.averaging import Average
from simulacra.methods.base import Context
from simulacra.methods.checkpoints import CHECKPOINTS, restore, save
from simulacra.methods.matching import cosine, groups_for, set_rate
from simulacra.methods.replaying import Step, fused, laid_out_as, matrix_units, replayable
from simulacra.methods.stopping import CURVE, Judge
from simulacra.networks.devices import plain_torch
from simulacra.options import Options

YOUNG = 10
"""An average of differences reaches back over a tenth of the batches so far, and never over more than `newest` says."""


@dataclass(frozen=True, kw_only=True)
class PerceptualTraining(Options):
    """How long and how fast, by which loss, and in which precision the features of generated images are computed."""

    steps: int = 10_000
    batch: int = 256
    learning_rate: float = 1e-3
    final_rate: float = 0.05
    """The learning rate falls along a half cosine to this share of it; 1 leaves it as it is."""
    momentum: float = 0.5
    """Adam's first moment; the second is 0.999."""
    loss: Literal["plain", "averaged", "tracked"] = "averaged"
    newest: float = 0.01
    """Share of the newest batch in the averaged difference; 1 is the distance of each batch by itself."""
    tracking_rate: float = 1e-3
    """LR_mavg of the paper: the rate at which the tracked difference learns."""
    average: float = 0.999
    """The sampler is an average of the weights with this decay; 0 takes the last ones."""
    precision: Literal["single", "bf16"] = "single"
    """Of the networks while training; a release is always computed in single precision at least."""
    fused: bool = False
    """Whether a compiler first makes one of the many small operations of a step, on a GPU; it takes about a minute."""

    def __post_init__(self) -> None:
        if self.steps < 1 or self.batch < 2:
            raise SettingError(f"training needs steps >= 1 and batch >= 2, got {self.steps} and {self.batch}")
        if not 0 < self.learning_rate <= 1 or not 0 < self.final_rate <= 1 or not 0 < self.tracking_rate <= 1:
            raise SettingError("training.learning_rate, final_rate and tracking_rate must be above 0 and at most 1")
        if not 0 < self.newest <= 1:
            raise SettingError(f"training.newest must be above 0 and at most 1, got {self.newest:g}")
        if not 0 <= self.momentum < 1 or not 0 <= self.average < 1:
            raise SettingError("training.momentum and training.average must be at least 0 and below 1")


class Learning(nn.Module):
    """All that changes: the generator, its average, and the tracked differences."""

    batches: torch.Tensor

    def __init__(self, generator: Any, targets: Mapping[int, torch.Tensor], training: PerceptualTraining) -> None:
        super().__init__()
        self.generator = generator
        self.average = Average(generator, training.average) if training.average else None
        self.tracked = nn.ParameterDict()
        self.register_buffer("batches", torch.zeros(()))
        if training.loss == "averaged":
            for order, target in targets.items():
                self.register_buffer(f"moving{order}", torch.zeros_like(target))
        if training.loss == "tracked":
            for order, target in targets.items():
                reach = 1 / math.sqrt(target.shape[1])
                self.tracked[str(order)] = nn.Parameter(torch.empty_like(target).uniform_(-reach, reach))

    @property
    def result(self) -> Any:
        """What becomes the sampler."""
        return self.generator if self.average is None else self.average.network


def match_moments(
    generator: Any,
    view: View,
    *,
    targets: Mapping[int, torch.Tensor],
    shares: torch.Tensor,
    training: PerceptualTraining,
    context: Context,
    judge: Judge | None = None,
    checks: int = 1,
    look: Callable[[int, Any], None] | None = None,
) -> Any:
    """Train a generator until the moments of its images meet the targets; gives the generator to sample from.

    `targets` has, by order, (classes, features): per-class sums over the noisy total, times the number of classes, so
    that balanced classes have their means. As often as `checks` says the judge and `look` see the generator of that
    moment. Ctrl-C stops early and keeps what was learned.
    """
    device = torch.device(context.device)
    orders = tuple(sorted(targets))
    wanted = {order: target.to(device, torch.float32) for order, target in targets.items()}
    shares = shares.to(device, torch.float32)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(context.seed)
        learning = Learning(generator, {order: target.cpu() for order, target in wanted.items()}, training)
    learning.to(device).train()
    groups = _weighted(groups_for(generator, shares, training.batch), len(shares))
    random = torch.Generator(device=device).manual_seed(context.seed)
    optimiser = _optimiser(learning, training, device)
    start = restore(context, learning, optimiser, random, None, judge)
    if judge:
        context.curves[CURVE] = judge.curve  # the list that every look is added to
    step_of = _Step(learning, view, wanted, orders, groups, optimiser, training, device)
    every, looks = max(1, training.steps // CHECKPOINTS), max(1, training.steps // 200)
    checked = max(1, training.steps // checks)
    try:
        with matrix_units(device):
            if training.fused:
                step_of.means = fused(step_of.means, learning, optimiser, device)
            one_step = replayable(step_of, learning, optimiser, device)
            for step in range(start, training.steps):
                rate = training.learning_rate * cosine(step / training.steps, training.final_rate)
                set_rate(optimiser.param_groups[0], rate)  # of the generator; the tracked differences keep theirs
                step_of.noise.normal_(generator=random)
                (loss,) = one_step()
                last = step + 1 == training.steps
                if step % looks == 0 or last:
                    _tell(context, step + 1, training.steps, loss.item())
                if (step + 1) % checked == 0 or last:
                    with plain_torch():  # as whoever draws from the result will compute
                        if judge:
                            judge.judge(learning.result, step + 1)
                        if look:
                            look(step + 1, learning.result)
                            learning.result.train()  # whoever draws from it has it evaluate
                if context.checkpoint and (step + 1) % every == 0 and not last:
                    save(context.checkpoint, learning, optimiser, random, step + 1, context.curve, None, judge)
    except KeyboardInterrupt:
        context.stopped_early = True
    return learning.result.eval()


class _Step:
    """One step of learning, on buffers that stay where they are, so that a GPU can record it."""

    def __init__(
        self,
        learning: Learning,
        view: View,
        targets: Mapping[int, torch.Tensor],
        orders: tuple[int, ...],
        groups: Groups,
        optimiser: torch.optim.Adam,
        training: PerceptualTraining,
        device: torch.device,
    ) -> None:
        self.learning, self.view, self.targets, self.orders = learning, view, targets, orders
        self.groups, self.optimiser, self.training, self.device = groups, optimiser, training, device
        self.noise = torch.zeros(sum(groups.sizes), learning.generator.latent, device=device)
        self.scale = 1 / float(sum(target.square().sum() for target in targets.values()).clamp(min=1e-12))  # type: ignore[union-attr]
        sizes = torch.tensor(groups.sizes, device=device, dtype=torch.float32)
        # Of || mean ||^2 the products of an image with itself are no part: they do not tell of the distribution.
        self.unbiased = (sizes / (sizes - 1)).unsqueeze(1)
        self.own = (groups.weights.square() * sizes).unsqueeze(1)
        self.parameters = list(learning.generator.parameters())
        self.means: Step = self._means
        """By order, per class, of a new batch."""

    def __call__(self) -> tuple[torch.Tensor]:
        means = dict(zip(self.orders, self.means(), strict=True))
        loss = {"plain": self._distance, "averaged": self._averaged, "tracked": self._tracked}[self.training.loss](
            means
        )
        for parameter, gradient in zip(self.parameters, torch.autograd.grad(loss, self.parameters), strict=True):
            parameter.grad = laid_out_as(parameter, gradient)
        self.optimiser.step()
        if self.learning.average is not None:
            self.learning.average.follow(self.learning.generator)
        return (self._distance({order: mean.detach() for order, mean in means.items()}),)

    def _means(self) -> tuple[torch.Tensor, ...]:
        with self._arithmetic():
            points = self.learning.generator(self.noise, self.groups.one_hot).float()
            layers = self.view.layers(points)
        return unit_sums(self.groups.averaging, layers, self.orders)

    def _distance(self, means: Mapping[int, torch.Tensor]) -> torch.Tensor:
        """The squared distance to the targets, unbiased, as a share of their squared length."""
        parts = []
        for order, mean in means.items():
            target = self.targets[order]
            lengths = (mean.square().sum(dim=1, keepdim=True) - self.own) * self.unbiased
            parts.append(target.square().sum() - 2 * (target * mean).sum() + lengths.sum())
        return torch.stack(parts).sum() * self.scale

    def _averaged(self, means: Mapping[int, torch.Tensor]) -> torch.Tensor:
        self.learning.batches += 1
        # At first the generator changes quickly, and what it did long ago is to be forgotten.
        newest = (YOUNG / (YOUNG - 1 + self.learning.batches)).clamp(min=self.training.newest)
        parts = []
        for order, mean in means.items():
            moving: torch.Tensor = getattr(self.learning, f"moving{order}")
            moving += (self.targets[order] - mean.detach() - moving) * newest
            parts.append((moving * mean).sum())
        return -2 * self.scale * torch.stack(parts).sum()

    def _tracked(self, means: Mapping[int, torch.Tensor]) -> torch.Tensor:
        tracked = {int(order): vector for order, vector in self.learning.tracked.items()}
        for parameter in self.parameters:
            parameter.grad = None  # Adam passes by those without a gradient: only the differences move now
        for order, vector in tracked.items():
            ahead = self.targets[order] - means[order].detach()
            vector.grad = (vector.detach() - ahead) * (2 / vector.numel())
        self.optimiser.step()
        for vector in tracked.values():
            vector.grad = None
        return -torch.stack([(tracked[order].detach() * mean).sum() for order, mean in means.items()]).sum()

    def _arithmetic(self) -> AbstractContextManager[Any]:
        if self.training.precision == "single":
            return nullcontext()
        # Not remembered between steps: a recorded step must convert the weights as they are then.
        return torch.autocast(self.device.type, dtype=torch.bfloat16, cache_enabled=False)


def _weighted(groups: Groups, classes: int) -> Groups:
    return Groups(sizes=groups.sizes, weights=groups.weights * classes)


def _optimiser(learning: Learning, training: PerceptualTraining, device: torch.device) -> torch.optim.Adam:
    rates: list[Any] = [training.learning_rate, training.tracking_rate]
    more: dict[str, Any] = {}
    if device.type == "cuda":  # with the rate on the device, so that a recorded step follows it
        rates = [torch.tensor(rate, device=device) for rate in rates]
        more = {"capturable": True, "fused": True}
    parts = [list(learning.generator.parameters()), list(learning.tracked.parameters())]
    groups = [{"params": part, "lr": rate} for part, rate in zip(parts, rates, strict=True) if part]
    return torch.optim.Adam(groups, betas=(training.momentum, 0.999), **more)


def _tell(context: Context, step: int, steps: int, loss: float) -> None:
    if not math.isfinite(loss):
        raise SettingError("training diverged: the loss is not a number; lower training.learning_rate")
    context.curve.append((step, loss))
    if context.on_step:
        context.on_step(step, steps, loss)

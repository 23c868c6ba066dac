"""Adversaries: a critic that learns from noisy gradients, and a generator that learns from the critic alone.

Algorithm 1 of Bie, Kamath and Zhang, "Private GANs, revisited" (2023). All that is known of the records comes through
`draw`, which is the vault's: the noisy sum of clipped gradients over a fresh Poisson sample.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

import torch
from torch.nn.functional import softplus

from simulacra.data.points import points_for
from simulacra.errors import SettingError
from simulacra.features.critic_losses import FakeLoss, RealLoss
from simulacra.features.gradient import LossGradient
from simulacra.generators import build
from simulacra.gradients.arithmetic import Precision, in_precision
from simulacra.gradients.padding import captured, slots_for
from simulacra.gradients.summing import GradientSums
from simulacra.methods.averaging import Average
from simulacra.methods.gan_fakes import Fakes
from simulacra.methods.gan_schedule import Pace, curve_from_state, curves_to_state
from simulacra.methods.matching import cosine, set_rate
from simulacra.methods.replaying import laid_out_as, matrix_units, replayable
from simulacra.networks.critics import build_critic
from simulacra.privacy.query import FeatureMap
from simulacra.schema import Schema

if TYPE_CHECKING:
    from simulacra.methods.dp_gan import DPGAN

Draw = Callable[[FeatureMap], torch.Tensor]
SECOND_MOMENT = 0.999
LOSS, ACCURACY, PACE = "generator loss", "critic accuracy on fakes", "critic steps per generator step"
SPREAD = "spread of fakes within a class"
"""Falls to nothing when all fakes of a class become alike: mode collapse."""
SHOWN = 10
"""Fakes in a picture of how the generator does."""


class Diverged(SettingError):
    """Weights or losses are no longer numbers."""


def critic_map(settings: DPGAN, schema: Schema, *, seed: int, device: torch.device, batch: int | None) -> LossGradient:
    """The map that the records are asked with: the gradient of a fresh critic's loss, on real records."""
    points = points_for(schema)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        critic = build_critic(settings.critic, image=schema.image, width=points.width, classes=schema.classes)
    sums = GradientSums(
        RealLoss(critic.to(device), points),
        inputs=schema.inputs,
        classes=schema.classes,
        bound=settings.clip,
        precision=Precision(settings.precision),
    )
    return LossGradient(sums, inputs=schema.inputs, slots=slots_for(batch, sums))


class Adversaries:
    """Critic and generator, their optimisers, the pace, and the training's own random stream."""

    def __init__(
        self,
        settings: DPGAN,
        schema: Schema,
        *,
        shares: torch.Tensor,
        batch: int,
        seed: int,
        device: torch.device,
        curves: dict[str, list[tuple[int, float]]] | None = None,
        pictures: dict[int, torch.Tensor] | None = None,
    ) -> None:
        self.settings, self.batch, self.device = settings, batch, device
        self.curves = {} if curves is None else curves
        self.pictures = {} if pictures is None else pictures
        self.image = schema.image
        self.real = critic_map(settings, schema, seed=seed + 1, device=device, batch=batch)
        self.critic = cast(Any, self.real.sums.loss).critic
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.generator: Any = build(schema, settings.generator).to(device).train()
        self.average = Average(self.generator, settings.average) if settings.average else None
        self.pace = Pace(settings.schedule)
        self.random = torch.Generator(device=device).manual_seed(seed)
        self.fakes = Fakes(schema, self.generator, batch, shares, device, Precision(settings.precision))
        self._critic_weights = list(self.real.sums.parameters)
        self._generator_weights = list(self.generator.parameters())
        self._of_critic = self._adam(self._critic_weights)
        self._of_generator = self._adam(self._generator_weights)
        # Each weight's gradient is a view of one flat buffer, which is filled at once.
        self._gradient = torch.zeros(self.real.size, device=device)
        places = torch.split(self._gradient, [weight.numel() for weight in self._critic_weights])
        for weight, place in zip(self._critic_weights, places, strict=True):
            weight.grad = place.view_as(weight)
        fake_sums = GradientSums(
            FakeLoss(self.critic),
            inputs=points_for(schema).width,
            classes=schema.classes,
            bound=settings.clip,
            precision=Precision(settings.precision),
        )

        def sum_over_fakes() -> torch.Tensor:
            with torch.no_grad():
                points = self.fakes.points()
            return fake_sums(points, self.fakes.labels)

        self._sum_over_fakes = captured(sum_over_fakes, device)
        self._teach = replayable(self._teach_plainly, self.generator, self._of_generator, device)
        self._good = self._copied()

    def slow_down(self, progress: float) -> None:
        """The learning rate of both, after that share of the critic's steps."""
        if self.settings.final_rate == 1:
            return
        rate = self.settings.learning_rate * cosine(progress, self.settings.final_rate)
        for _, _, optimiser in self._parts():
            for group in optimiser.param_groups:
                set_rate(group, rate)

    def critic_step(self, draw: Draw) -> bool:
        """One step of the critic (lines 4 to 8); whether the generator's turn has come.

        Fakes are clipped as records are, so that neither side outweighs the other; noise covers the records' part.
        """
        total = draw(self.real)
        self.fakes.fresh(self.random)
        total = total + self._sum_over_fakes()
        self._gradient.copy_(total / (2 * self.batch))
        self._of_critic.step()
        return self.pace.critic_stepped()

    def generator_step(self) -> None:
        """One step of the generator (lines 10 to 12), and what the critic's accuracy on fakes says about the pace."""
        self.fakes.fresh(self.random)
        loss, accuracy = torch.stack(self._teach()).tolist()
        if not math.isfinite(loss):
            raise Diverged("the generator's loss is not a number")
        if self.average is not None:
            self.average.follow(self.generator)
        self.pace.generator_stepped(accuracy)

    @torch.no_grad()
    def look(self, step: int) -> float:
        """Note the generator's loss and the critic's accuracy on fresh fakes. No record is looked at."""
        if not self._finite():
            raise Diverged("weights are not numbers")
        self.fakes.fresh(self.random)
        points, labels = self.fakes.points(), self.fakes.labels
        logits = self.critic(points, labels)
        seen = [softplus(-logits).mean(), (logits < 0).float().mean(), _spread(points, labels, self.generator.classes)]
        loss, accuracy, spread = torch.stack(seen).tolist()
        if not math.isfinite(loss):
            raise Diverged("the generator's loss is not a number")
        for name, value in (
            (LOSS, loss),
            (ACCURACY, accuracy),
            (PACE, float(self.pace.critic_steps)),
            (SPREAD, spread),
        ):
            self.curves.setdefault(name, []).append((step, value))
        self._good = self._copied()
        return float(loss)

    @torch.no_grad()
    def show(self, step: int) -> None:
        """Keep a picture of what the generator makes of the same few codes and labels each time."""
        if self.image is None:
            return
        count, classes = SHOWN, self.generator.classes
        codes = torch.randn(count, self.generator.latent, generator=torch.Generator().manual_seed(0))
        labels = torch.eye(classes)[torch.arange(count) % classes]
        self.result.eval()
        points = self.result(codes.to(self.device), labels.to(self.device))
        self.result.train()
        pixels = (points * 255).round().clamp(0, 255).to(torch.uint8).cpu()
        shape = (count, self.image.channels, self.image.height, self.image.width)
        self.pictures[step] = pixels.view(shape).permute(0, 2, 3, 1).contiguous()

    @property
    def result(self) -> Any:
        """What becomes the sampler: the generator, or the average of its weights."""
        return self.generator if self.average is None else self.average.network

    def begin_again(self) -> None:
        """Forget moments, pace and what was noted, and keep the weights: the start of another game."""
        for _, _, optimiser in self._parts():
            for moments in optimiser.state.values():
                for value in moments.values():
                    value.zero_()
        if self.average is not None:
            self.average = Average(self.generator, self.settings.average)
        self.pace = Pace(self.settings.schedule)
        self.curves.clear()
        self.pictures.clear()
        self._good = self._copied()

    def back_to_good(self) -> None:
        """Return to what was there when all was last seen to be finite."""
        self.load(self._good)

    def state(self) -> dict[str, torch.Tensor]:
        """For a checkpoint: the last finite state there was."""
        return self._copied() if self._finite() else self._good

    def load(self, state: Mapping[str, torch.Tensor]) -> None:
        """Go on from a state."""
        for prefix, module, optimiser in self._parts():
            module.load_state_dict(_below(state, f"{prefix}."))
            moments: dict[int, dict[str, torch.Tensor]] = {}
            for name, value in _below(state, f"{prefix}-moments.").items():
                number, key = name.split(".", 1)
                moments.setdefault(int(number), {})[key] = value
            if optimiser.state:
                # In place, because a captured step holds on to these tensors.
                for index, weight in enumerate(optimiser.param_groups[0]["params"]):
                    for key, value in optimiser.state[weight].items():
                        value.copy_(moments[index][key]) if index in moments else value.zero_()
            else:
                optimiser.load_state_dict({**optimiser.state_dict(), "state": moments})
        if self.average is not None:
            self.average.load_state_dict(_below(state, "average."))
        self.random.set_state(state["random"].cpu())
        self.pace.load(state["pace"].cpu())
        self.curves.update({name: curve_from_state(value) for name, value in _below(state, "curve.").items()})
        self.pictures.update({int(step): value.cpu() for step, value in _below(state, "picture.").items()})
        self._good = dict(state)

    def _teach_plainly(self) -> tuple[torch.Tensor, ...]:
        with matrix_units(self.device):
            with in_precision(self.fakes.precision, self.device):
                logits = self.critic(self.fakes.points(), self.fakes.labels).float()
            loss = softplus(-logits).mean()
            gradients = torch.autograd.grad(loss, self._generator_weights)
        for weight, gradient in zip(self._generator_weights, gradients, strict=True):
            weight.grad = laid_out_as(weight, gradient)
        self._of_generator.step()
        return loss.detach(), (logits < 0).float().mean()

    def _adam(self, weights: list[torch.nn.Parameter]) -> torch.optim.Adam:
        betas = (self.settings.momentum, SECOND_MOMENT)
        if self.device.type != "cuda":
            return torch.optim.Adam(weights, lr=self.settings.learning_rate, betas=betas)
        rate = torch.tensor(self.settings.learning_rate, device=self.device)
        return torch.optim.Adam(weights, lr=rate, betas=betas, capturable=True, fused=True)

    def _parts(self) -> tuple[tuple[str, torch.nn.Module, torch.optim.Adam], ...]:
        return ("critic", self.critic, self._of_critic), ("generator", self.generator, self._of_generator)

    def _finite(self) -> bool:
        weights = [*self._critic_weights, *self._generator_weights]
        return bool(torch.stack([weight.detach().isfinite().all() for weight in weights]).all())

    def _copied(self) -> dict[str, torch.Tensor]:
        state = {"random": self.random.get_state(), "pace": self.pace.state(), **curves_to_state(self.curves)}
        state |= {f"picture.{step}": value for step, value in self.pictures.items()}
        if self.average is not None:
            state |= {f"average.{name}": value.clone() for name, value in self.average.state_dict().items()}
        for prefix, module, optimiser in self._parts():
            state |= {f"{prefix}.{name}": value.detach().clone() for name, value in module.state_dict().items()}
            for index, moments in optimiser.state_dict()["state"].items():
                state |= {f"{prefix}-moments.{index}.{key}": value.clone() for key, value in moments.items()}
        return state


def _spread(points: torch.Tensor, labels: torch.Tensor, classes: int) -> torch.Tensor:
    """The root of the mean squared distance of points to the mean of their class, per number of a point."""
    one_hot = (labels.unsqueeze(1) == torch.arange(classes, device=labels.device)).to(points.dtype)
    means = (one_hot.T @ points) / one_hot.sum(dim=0).clamp(min=1).unsqueeze(1)
    return (points - means[labels]).square().mean().sqrt()


def _below(state: Mapping[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}

"""What cannot be clipped is refused by name or found out on invented records; what has no rule takes the slow way."""

from __future__ import annotations

import pytest
import torch
from gradient_losses import CLASSES, Loss, invented, losses
from torch import nn
from torch.nn.functional import softplus

from simulacra.errors import SettingError
from simulacra.features.gradient import LossGradient
from simulacra.gradients.clipping import clipped_to
from simulacra.gradients.summing import GradientSums


@pytest.mark.parametrize(
    ("layer", "named"),
    [
        (nn.BatchNorm1d(4), "BatchNorm1d"),
        (nn.Dropout(0.5), "Dropout"),
        (nn.InstanceNorm1d(4), "InstanceNorm1d"),
        (nn.RReLU(), "RReLU"),
    ],
)
def test_layers_that_mix_records_or_draw_at_random_are_refused_by_name(layer: nn.Module, named: str) -> None:
    loss = Loss(nn.Linear(4, 4), layer, shape=(4,))
    with pytest.raises(SettingError, match=rf'"layers.1" \({named}\).*GroupNorm'):
        GradientSums(loss, inputs=4, classes=1, bound=1.0)


class Mixing(Loss):
    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        values = self.layers(inputs)
        return (values - values.mean(dim=0)).square().sum(dim=1) + values.sum(dim=1)


class Sorted(Loss):
    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return self.layers(inputs).flatten().roll(1) * torch.arange(1, len(inputs) + 1)


class Chancy(Loss):
    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return nn.functional.dropout(self.layers(inputs), 0.5, training=True).sum(dim=1)


class Total(Loss):
    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return self.layers(inputs).sum()


@pytest.mark.parametrize("kind", [Mixing, Sorted, Chancy, Total])
def test_a_loss_that_mixes_records_is_found_out_on_invented_ones(kind: type[Loss]) -> None:
    with pytest.raises(SettingError, match=r"mixes records|different gradients|one number per record"):
        GradientSums(kind(nn.Linear(4, 1), shape=(4,)), inputs=4, classes=1, bound=1.0)


class Own(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return values * self.scale


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self.layer(self.layer(values).tanh())


class Spoiling(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        inner = self.first(values).tanh() * 1.0
        outer = self.second(inner)
        inner.mul_(2.0)  # what the second layer was given is gone
        return outer


class Scaled(nn.Linear):
    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return super().forward(values) * self.weight.sum()


def frozen() -> nn.Module:
    layer = nn.Linear(4, 4)
    layer.weight.requires_grad_(False)
    return layer


@pytest.mark.parametrize(
    "layer",
    [
        Own(),
        Twice(),
        Scaled(4, 4),
        nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True)),
        frozen(),
        nn.Bilinear(2, 2, 1),
    ],
    ids=["own-parameter", "used-twice", "subclass", "in-place", "partly-frozen", "unknown-unused"],
)
def test_what_has_no_rule_is_summed_by_the_specification(layer: nn.Module) -> None:
    loss = Loss(
        nn.Linear(4, 4), nn.Identity() if isinstance(layer, nn.Bilinear) else layer, nn.Linear(4, 1), shape=(4,)
    )
    if isinstance(layer, nn.Bilinear):
        loss.unused = layer
    sums = GradientSums(loss, inputs=4, classes=1, bound=0.2)
    assert sums.slow
    inputs, labels = invented(4, 7)
    labels.zero_()
    found = LossGradient(sums, inputs=4, slots=32).clipped_sum(inputs, labels)
    slowly = torch.stack([_one(loss, row, 0.2) for row in inputs]).sum(dim=0)
    torch.testing.assert_close(found, slowly, rtol=1e-5, atol=1e-7)


def test_on_the_slow_way_a_gradient_does_not_depend_on_its_slot() -> None:
    """Where a ReLU is decided by the last bit, which may differ from slot to slot, all of a gradient would."""
    torch.manual_seed(0)
    first = nn.Linear(6, 5)
    loss = Loss(first, Own(), nn.ReLU(), nn.Linear(5, 1), shape=(6,))
    inputs, labels = invented(6, 32)
    with torch.no_grad():
        first.bias.zero_()
        alike = torch.func.vmap(lambda row: first(row[None])[0])(inputs[:1].expand(32, 6).contiguous())
        first.bias.copy_(-alike.min(dim=0).values)
    feature_map = LossGradient(GradientSums(loss, inputs=6, classes=CLASSES, bound=1.0), inputs=6)
    assert feature_map.sums.slow
    rest = feature_map.clipped_sum(inputs[1:], labels[1:])
    for slot in range(32):
        order = [*range(1, slot + 1), 0, *range(slot + 1, 32)]
        share = feature_map.clipped_sum(inputs[order], labels[order]) - rest
        alone = feature_map.clipped_sum(inputs[:1], labels[:1])
        torch.testing.assert_close(share, alone, rtol=0, atol=1e-6)


def _one(loss: nn.Module, row: torch.Tensor, bound: float) -> torch.Tensor:
    """No engine and no vmap: plain autograd for a single record."""
    trained = [parameter for parameter in loss.parameters() if parameter.requires_grad]
    value = loss(row[None].clone(), torch.zeros(1, dtype=torch.int64)).sum()
    parts = torch.autograd.grad(value, trained, allow_unused=True)
    flat = torch.cat(
        [(torch.zeros_like(p) if g is None else g).flatten() for p, g in zip(trained, parts, strict=True)]
    ).double()
    limit = clipped_to(bound, torch.float32)
    return flat * (limit / flat.norm().clamp(min=limit))


def test_a_loss_that_spoils_what_a_layer_was_given_is_refused() -> None:
    with pytest.raises(SettingError, match=r"in-?place"):
        GradientSums(Loss(Spoiling(), nn.Linear(4, 1), shape=(4,)), inputs=4, classes=1, bound=1.0)


def test_a_layer_the_loss_does_not_reach_has_no_gradient() -> None:
    loss = Loss(nn.Linear(4, 1), shape=(4,))
    loss.unused = nn.Linear(2, 2)
    sums = GradientSums(loss, inputs=4, classes=1, bound=1.0)
    found = sums(*invented(4, 3))
    assert found[:5].any()
    assert not found[5:].any()


def test_a_bound_must_be_positive() -> None:
    with pytest.raises(SettingError, match="positive"):
        GradientSums(losses()["linear"], inputs=6, classes=1, bound=0.0)


class Folded(nn.Module):
    """Sees every record as several rows: 16 positions of 4 numbers, through one layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 8)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return softplus(self.layer(inputs.reshape(-1, 4)).sum(dim=1)).view(len(inputs), -1).sum(dim=1)


def test_a_record_that_is_folded_into_many_rows_is_still_clipped_as_one() -> None:
    """Followed row by row it would add 16 times the bound."""
    torch.manual_seed(0)
    loss = Folded()
    sums = GradientSums(loss, inputs=64, classes=2, bound=0.01)
    assert "first dimension" in sums.slow[0]
    assert sums(*invented(64, 1)).norm() <= 0.01


class Counting(Loss):
    """As spectral norm does: every forward pass leaves a trace."""

    def __init__(self, width: int) -> None:
        super().__init__(nn.Linear(width, 1), shape=(width,))
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            self.calls += 1
        return super().forward(inputs, labels)


def settled() -> Loss:
    """A power iteration that has come to rest, until the weights change."""
    layer = nn.utils.parametrizations.spectral_norm(nn.Linear(5, 3))
    for _ in range(1000):
        layer.weight  # noqa: B018
    return Loss(layer, shape=(5,))


@pytest.mark.parametrize(
    "loss",
    [Counting(5), Loss(nn.utils.parametrizations.spectral_norm(nn.Linear(5, 3)), shape=(5,)), settled()],
    ids=["counting", "spectral norm", "settled spectral norm"],
)
def test_a_loss_that_changes_when_it_is_computed_is_refused(loss: nn.Module) -> None:
    """Its state would tell how many micro-batches, and so how many records, there were."""
    with pytest.raises(SettingError, match=r"changes its own state|mixes records"):
        GradientSums(loss, inputs=5, classes=2, bound=1.0)

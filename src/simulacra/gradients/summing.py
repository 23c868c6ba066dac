"""Clipped sums over a batch: trace, measure, weigh, add."""

from __future__ import annotations

import torch
from torch import nn

from simulacra.errors import SettingError
from simulacra.gradients import specified
from simulacra.gradients.arithmetic import Precision, on_the_way, precision_on
from simulacra.gradients.clipping import clip_weights
from simulacra.gradients.layers import refuse_mixing, without_rule
from simulacra.gradients.tracing import NotFollowed, layers_of, passing, trace
from simulacra.networks.devices import arithmetic

MOST_NUMBERS = {"cpu": 1 << 25, "cuda": 1 << 30}
"""A micro-batch holds about this many numbers at once; on a processor few, which stay near it."""
MOST_ROWS = 2048
"""And no more records than these: what float32 loses in adding up grows, and `clipping.SLACK` covers these."""
TRIED = 3
"""Invented records on which a loss is compared with the specification before it is trusted."""
CLOSE, UNCLIPPED, SURELY_CLIPS = 1e-3, 1e30, 1e-3


class GradientSums:
    """The sum over records of the gradient of `loss`, each record's clipped to `bound`, for records of a given width.

    A loss with layers that have no rule is summed by the specification, slowly; `slow` names those layers. A loss that
    mixes records is refused. Either is found out here, on invented records, and never on private ones.
    """

    def __init__(
        self,
        loss: nn.Module,
        *,
        inputs: int,
        classes: int,
        bound: float,
        precision: Precision = Precision.SINGLE,
    ) -> None:
        if not bound > 0:
            raise SettingError(f"the clipping bound must be positive, got {bound}")
        refuse_mixing(loss)
        self.loss, self.bound, self.searching = loss, bound, True
        # While it is tried out nothing is rounded, nor charged for rounding: then any difference is a mistake.
        self.precision, self.charging = Precision.SINGLE, False
        self.parameters = [parameter for parameter in loss.parameters() if parameter.requires_grad]
        if not self.parameters:
            raise SettingError("the loss has no parameters to train")
        self.size = sum(parameter.numel() for parameter in self.parameters)
        self.slow = without_rule(loss)
        self.numbers = self._tried(inputs, classes)
        self.precision, self.charging = precision_on(self.device, precision), True

    @property
    def device(self) -> torch.device:
        """Where the loss and its records are."""
        return self.parameters[0].device

    def batch(
        self,
        inputs: torch.Tensor,
        labels: torch.Tensor,
        present: torch.Tensor | None = None,
        *,
        bound: float | None = None,
    ) -> torch.Tensor:
        """The clipped sum, flat, of all records at once; those not `present` (n,) add exactly nothing.

        Nothing in here waits for the device, so that it can be captured.
        """
        if self.slow:
            return self._specified(inputs, labels, bound or self.bound, present)
        with on_the_way(self.precision, self.device, searching=self.searching):
            passed = trace(self.loss, inputs, labels)
        with torch.no_grad(), arithmetic(rounded=False, searching=self.searching):
            layers = [None if each is None else each.contribution() for each in passed]
            followed = [layer for layer in layers if layer is not None]
            lengths = [layer.lengths() for layer in followed]
            weights = clip_weights(lengths, bound or self.bound, self.precision if self.charging else None)
            if present is not None:
                weights = torch.where(present, weights, 0.0)
            parts: list[torch.Tensor] = []
            for layer, module in zip(layers, layers_of(self.loss).values(), strict=True):
                own = list(module.parameters(recurse=False))
                found = [torch.zeros_like(each) for each in own] if layer is None else layer.weighted(weights)
                parts += [part.reshape(-1) for part in found]
            return torch.cat(parts)

    def passing(self, inputs: torch.Tensor, labels: torch.Tensor) -> list[torch.Tensor]:
        """What goes into each layer on the way forward, which decides all jumps in activations.

        Where factors are rounded to few bits, that is a jump too, so there the signals on the way back are among them.
        """
        with on_the_way(self.precision, self.device, searching=self.searching):
            return passing(self.loss, inputs, labels, and_back=self.precision is Precision.MIXED)

    def __call__(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """The clipped sum in float64 over any number of records, none included, in micro-batches."""
        total = torch.zeros(self.size, dtype=torch.float64, device=inputs.device)
        for start in range(0, len(inputs), self.rows):
            part = inputs[start : start + self.rows], labels[start : start + self.rows]
            total += self.batch(*part)
        return total

    @property
    def rows(self) -> int:
        """Records per micro-batch, by what fits into memory; nothing about the data decides it."""
        most = MOST_NUMBERS.get(self.device.type, MOST_NUMBERS["cpu"])
        return min(MOST_ROWS, max(1, most // max(self.numbers, self.size if self.slow else 1)))

    def _specified(
        self, inputs: torch.Tensor, labels: torch.Tensor, bound: float, present: torch.Tensor | None = None
    ) -> torch.Tensor:
        with arithmetic(rounded=False):
            return specified.clipped_sum(self.loss, inputs, labels, bound, present)

    def _tried(self, inputs: int, classes: int) -> int:
        """Compare with the specification on invented records; how many numbers a record takes."""
        first = self.parameters[0]
        random = torch.Generator().manual_seed(0)
        invented = (torch.rand(TRIED, inputs, generator=random) * 2 - 1).to(first)
        labels = (torch.arange(TRIED) % classes).to(first.device)
        before = {name: (value, value._version, value.clone()) for name, value in _held(self.loss).items()}
        try:
            whole = self._specified(invented, labels, UNCLIPPED)
            # A bound that surely clips shows whether lengths are those of records.
            bounds = (self.bound, UNCLIPPED, max(SURELY_CLIPS * float(whole.norm()), 1e-30))
            right = [self._specified(invented, labels, bound) for bound in bounds]
        except (RuntimeError, ValueError, NotImplementedError) as error:
            reason = str(error).strip().splitlines()
            raise SettingError(
                "this loss has no gradient per record, as it mixes records, draws at random or branches on them: "
                f"{reason[0][:200] if reason else type(error).__name__}"
            ) from None
        if not self.slow:
            try:
                found = [self.batch(invented, labels, bound=bound) for bound in bounds]
            except NotFollowed as error:
                self.slow = [str(error)]
            else:
                if any((a - b).norm() > CLOSE * b.norm() for a, b in zip(found, right, strict=True)):
                    raise SettingError(
                        "the layers' rules and the specification give different gradients for this loss; it uses "
                        "parameters outside their layers, or mixes records"
                    )
        numbers = self._measured(invented, labels)
        # What is written may be what was there, as long as the weights stand still: a power iteration comes to rest.
        if any(
            value is not before[name][0] or value._version != before[name][1] or not torch.equal(value, before[name][2])
            for name, value in _held(self.loss).items()
        ):
            # It would change once per micro-batch, and so tell how many records there were.
            raise SettingError(
                "this loss changes its own state when it is computed (spectral norm?), which is not private"
            )
        return numbers

    def _measured(self, inputs: torch.Tensor, labels: torch.Tensor) -> int:
        """Numbers per record that pass through all layers, several times over: inputs, signals, patches, products."""
        counted = 0

        def count(_: nn.Module, __: object, output: object) -> None:
            nonlocal counted
            counted += output.numel() if isinstance(output, torch.Tensor) else 0

        handles = [layer.register_forward_hook(count) for layer in self.loss.modules()]
        try:
            with torch.no_grad():
                self.loss(inputs, labels)
        finally:
            for handle in handles:
                handle.remove()
        return max(1, 5 * counted // TRIED)


def _held(loss: nn.Module) -> dict[str, torch.Tensor]:
    """All tensors that a loss keeps from one batch to the next, themselves and not copies."""
    return {**dict(loss.named_parameters()), **dict(loss.named_buffers())}

"""One forward and one backward pass that keep what went into every layer, and the loss's gradient by what came out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import nn

from simulacra.errors import SettingError
from simulacra.gradients.contribution import Contribution
from simulacra.gradients.layers import IN_HALVES, RULES


class NotFollowed(SettingError):
    """The network does something with a layer that the rules do not follow."""


@dataclass(frozen=True)
class _Passage:
    layer: nn.Module
    inputs: torch.Tensor
    output: torch.Tensor
    versions: tuple[int, int]

    @property
    def changed(self) -> bool:
        """Whether what went in or came out was changed in place afterwards."""
        return (self.inputs._version, self.output._version) != self.versions


@dataclass(frozen=True)
class Passed:
    """What went into a layer, and the loss's gradient by what came out."""

    layer: nn.Module
    inputs: torch.Tensor
    signal: torch.Tensor

    def contribution(self) -> Contribution:
        """What the layer adds to each record's gradient. Not to be asked for where torch is told to round."""
        inputs, signal = self.inputs, self.signal
        if signal.dtype == torch.bfloat16 and type(self.layer) in IN_HALVES:
            inputs = inputs.to(signal.dtype) if inputs.is_floating_point() else inputs
        else:
            inputs, signal = (each.float() if each.dtype == torch.bfloat16 else each for each in (inputs, signal))
        return RULES[type(self.layer)](self.layer, inputs, signal)


def trace(loss: nn.Module, inputs: torch.Tensor, labels: torch.Tensor) -> list[Passed | None]:
    """What passed through each layer with parameters, in the order of `layers_of`.

    None for a layer the loss does not depend on. The backward pass stops at the layers' outputs: gradients by weights,
    a third of the work, are not computed here, and the first layer's inputs get none.
    """
    layers = layers_of(loss)
    with torch.enable_grad(), _recording(layers) as passages:
        losses = loss(inputs, labels)
        if losses.shape != inputs.shape[:1]:
            raise SettingError(f"the loss must give one number per record, got shape {tuple(losses.shape)}")
    for name, passage in passages.items():
        if passage.changed:
            raise NotFollowed(f'what goes into or comes out of layer "{name}" is changed in place')
        if {len(passage.inputs), len(passage.output)} != {len(inputs)}:
            # Its positions would be clipped one by one, and a record that has many add many times the bound.
            raise NotFollowed(f'layer "{name}" takes something else than records as its first dimension')
    followed = list(passages)
    signals = torch.autograd.grad(losses.sum(), [passages[name].output for name in followed], allow_unused=True)
    by_name = dict(zip(followed, signals, strict=True))
    result: list[Passed | None] = []
    for name in layers:
        signal = by_name.get(name)
        if signal is None:
            result.append(None)
        else:
            passed = passages[name]
            result.append(Passed(passed.layer, passed.inputs.detach(), signal.detach()))
    return result


def passing(
    loss: nn.Module, inputs: torch.Tensor, labels: torch.Tensor, *, and_back: bool = False
) -> list[torch.Tensor]:
    """What goes into each layer with parameters, for a batch; and the signals that come back to it."""
    with torch.set_grad_enabled(and_back), _recording(layers_of(loss)) as passages:
        losses = loss(inputs, labels)
    found = [passage.inputs.detach() for passage in passages.values()]
    if and_back:
        outputs = [passage.output for passage in passages.values()]
        signals = torch.autograd.grad(losses.sum(), outputs, allow_unused=True)
        found += [signal for signal in signals if signal is not None]
    return found


def layers_of(loss: nn.Module) -> dict[str, nn.Module]:
    """All layers with parameters of their own, in the order in which `parameters()` has them."""
    return {name: layer for name, layer in loss.named_modules() if list(layer.parameters(recurse=False))}


@contextmanager
def _recording(layers: dict[str, nn.Module]) -> Iterator[dict[str, _Passage]]:
    passages: dict[str, _Passage] = {}

    def watch(name: str, layer: nn.Module) -> torch.utils.hooks.RemovableHandle:
        def keep(_: nn.Module, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
            if name in passages:
                raise NotFollowed(f'layer "{name}" is used twice for one record')
            passages[name] = _Passage(layer, inputs[0], output, (inputs[0]._version, output._version))

        return layer.register_forward_hook(keep)

    handles = [watch(name, layer) for name, layer in layers.items()]
    try:
        yield passages
    finally:
        for handle in handles:
            handle.remove()

"""Captured and fused steps: warm-ups leave no trace, and on a CPU a step is given back as it is."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
import torch

from simulacra.features.views import Perceived
from simulacra.generators import GeneratorOptions, build
from simulacra.methods.base import Context
from simulacra.methods.perceptual_matching import PerceptualTraining, match_moments
from simulacra.methods.replaying import Step, _Snapshot, fused, matrix_units, replayable
from simulacra.networks.encoders import build as build_encoder
from simulacra.schema import ImageShape, Schema

GPU = torch.device("cuda")


def network() -> torch.nn.Sequential:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1))


def train(module: torch.nn.Module, optimiser: torch.optim.Optimizer, steps: int) -> None:
    for _ in range(steps):
        optimiser.zero_grad()
        torch.autograd.backward(module(torch.randn(8, 3)).square().sum())
        optimiser.step()


@pytest.mark.parametrize("before", [0, 3])
def test_a_snapshot_undoes_steps_in_place(before: int) -> None:
    module = network()
    optimiser = torch.optim.Adam(module.parameters())
    train(module, optimiser, before)
    weights = {name: value.clone() for name, value in module.state_dict().items()}
    moments = [{name: value.clone() for name, value in state.items()} for state in optimiser.state.values()]
    snapshot = _Snapshot(module, optimiser)
    held = next(module.parameters())
    train(module, optimiser, 4)
    snapshot.restore()
    assert next(module.parameters()) is held
    assert all(torch.equal(value, weights[name]) for name, value in module.state_dict().items())
    for index, state in enumerate(optimiser.state.values()):
        for name, value in state.items():
            assert torch.equal(value, moments[index][name] if before else torch.zeros_like(value))


def test_a_step_on_a_processor_is_given_back() -> None:
    module = network()

    def step() -> tuple[torch.Tensor, ...]:
        return ()

    for wrapped in (replayable, fused):
        assert wrapped(step, module, torch.optim.Adam(module.parameters()), torch.device("cpu")) is step


def test_where_nothing_can_be_compiled_a_step_goes_on_as_it_is(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    module = network()
    before = {name: value.clone() for name, value in module.state_dict().items()}

    def step() -> tuple[torch.Tensor, ...]:
        return (module(torch.ones(2, 3)),)

    def compile(function: Step, **_: object) -> Step:
        def failing() -> tuple[torch.Tensor, ...]:
            function()  # which moves the running statistics
            raise RuntimeError("no C compiler was found\nand much more")

        return failing

    monkeypatch.setattr(torch, "compile", compile)
    with caplog.at_level(logging.WARNING):
        assert fused(step, module, torch.optim.Adam(module.parameters()), GPU) is step
    assert caplog.messages == ["training goes on without fused operations: no C compiler was found"]
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())


@pytest.mark.parametrize("encoder", ["small", "resnet18-small"])
def test_what_a_compiler_makes_of_a_step_learns_the_same(encoder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a processor, and by the compiler's plainest back end: what is tested is that it sees all of the step."""
    image = ImageShape(height=16, width=16, channels=1, classes=("a", "b"))
    torch.manual_seed(0)
    view = Perceived(ImageShape(height=16, width=16, channels=1, classes=()), build_encoder(encoder), name=encoder)
    targets = {order: torch.rand(2, view.width) / view.width**0.5 for order in (1, 2)}
    genuine, compiled = torch.compile, []

    def compile(function: Callable[..., object], **words: object) -> object:
        compiled.append(genuine(function, backend="aot_eager", fullgraph=True, **words))  # type: ignore[call-overload]
        return compiled[-1]

    monkeypatch.setattr(torch, "compile", compile)
    monkeypatch.setattr(
        "simulacra.methods.perceptual_matching.fused",
        lambda step, module, optimiser, _: fused(step, module, optimiser, GPU),
    )
    learned = []
    for wanted in (False, True):
        torch.manual_seed(1)
        generator = build(Schema(image=image), GeneratorOptions(kind="dense", latent=4, hidden=(16,)))
        training = PerceptualTraining(steps=3, batch=8, fused=wanted)
        learned.append(
            match_moments(
                generator, view, targets=targets, shares=torch.tensor([0.5, 0.5]), training=training, context=Context()
            )
        )
    assert len(compiled) == 1
    for name, value in learned[0].state_dict().items():
        torch.testing.assert_close(learned[1].state_dict()[name], value, rtol=1e-4, atol=1e-5)


def test_the_precision_of_products_is_put_back() -> None:
    before = torch.backends.cuda.matmul.allow_tf32
    with matrix_units(torch.device("cuda")):
        assert torch.backends.cuda.matmul.allow_tf32
    assert torch.backends.cuda.matmul.allow_tf32 == before


@pytest.mark.skipif(not hasattr(torch.backends, "fp32_precision"), reason="this torch has older switches only")
def test_a_processor_may_round_products_but_not_beside_records() -> None:
    def told() -> str:
        return torch.backends.mkldnn.matmul.fp32_precision

    before, cpu = told(), torch.device("cpu")
    with matrix_units(cpu):
        assert told() == "bf16"
        with matrix_units(cpu):
            pass
        assert told() == "bf16"
    assert told() == before != "bf16"
    with matrix_units(cpu, beside_records=True):
        assert told() == before
    with pytest.raises(KeyError), matrix_units(cpu):
        raise KeyError
    assert told() == before


@pytest.mark.skipif(not torch.cuda.is_available(), reason="captured CUDA graphs exist on a GPU only; run there")
def test_a_captured_step_is_the_same_as_the_step() -> None:
    results = []
    for captured in (False, True):
        device = torch.device("cuda")
        module = network().to(device)
        optimiser = torch.optim.Adam(
            module.parameters(), lr=torch.tensor(0.01, device=device), capturable=True, fused=True
        )
        points = torch.linspace(-1, 1, 24, device=device).view(8, 3)
        parameters = list(module.parameters())

        def step(module=module, optimiser=optimiser, points=points, parameters=parameters):  # type: ignore[no-untyped-def]
            loss = module(points).square().sum()
            for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
                parameter.grad = gradient
            optimiser.step()
            return (loss.detach(),)

        run = replayable(step, module, optimiser, device) if captured else step
        results.append([run()[0].item() for _ in range(5)])
    assert results[0] == pytest.approx(results[1], rel=1e-4)

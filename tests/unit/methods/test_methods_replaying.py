"""Captured steps: warm-ups leave no trace, and on a CPU a step is given back as it is."""

from __future__ import annotations

import pytest
import torch

from simulacra.methods.replaying import _Snapshot, matrix_units, replayable


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

    assert replayable(step, module, torch.optim.Adam(module.parameters()), torch.device("cpu")) is step


def test_the_precision_of_products_is_put_back() -> None:
    before = torch.backends.cuda.matmul.allow_tf32
    with matrix_units(torch.device("cuda")):
        assert torch.backends.cuda.matmul.allow_tf32
    assert torch.backends.cuda.matmul.allow_tf32 == before


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

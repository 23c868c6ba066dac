"""Checkpoints of a generator that is being matched to a release: nothing private is in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from safetensors.torch import save as packed

from simulacra.errors import CertificateError
from simulacra.methods.base import Context
from simulacra.methods.replaying import laid_out_as
from simulacra.privacy.durable import write_durably

CHECKPOINT = "training.safetensors"
CHECKPOINTS = 20
"""A run is checkpointed this many times."""


class Weighing(Protocol):
    """Weights that learn while the generator does."""

    @property
    def state(self) -> torch.Tensor:
        """All that changes in training."""
        ...

    def restore(self, state: torch.Tensor) -> None:
        """Continue from a state."""
        ...


class Keeping(Protocol):
    """The best so far."""

    @property
    def state(self) -> dict[str, torch.Tensor]:
        """All that changes in training."""
        ...

    def restore(self, state: dict[str, torch.Tensor]) -> None:
        """Continue from a state."""
        ...


def save(
    folder: Path,
    generator: Any,
    optimiser: torch.optim.Adam,
    random: torch.Generator,
    step: int,
    curve: list[tuple[int, float]],
    weights: Weighing | None,
    best: Keeping | None,
) -> None:
    """Write down all that training needs to go on."""
    tensors = {f"generator.{name}": value.cpu() for name, value in generator.state_dict().items()}
    for index, state in optimiser.state_dict()["state"].items():
        tensors |= {f"optimiser.{index}.{name}": value.cpu() for name, value in state.items()}
    tensors |= {"random": random.get_state(), "step": torch.tensor(step)}
    tensors["curve"] = torch.tensor(curve, dtype=torch.float64)
    if weights:
        tensors["weights"] = weights.state.cpu()
    if best:
        tensors |= {f"best.{name}": value.cpu() for name, value in best.state.items()}
    folder.mkdir(parents=True, exist_ok=True)
    write_durably(folder / CHECKPOINT, packed({name: value.contiguous() for name, value in tensors.items()}))


def restore(
    context: Context,
    generator: Any,
    optimiser: torch.optim.Adam,
    random: torch.Generator,
    weights: Weighing | None,
    best: Keeping | None,
) -> int:
    """Continue from a checkpoint if there is one: the same numbers as if training had never stopped."""
    folder = context.checkpoint
    if folder is None or not (folder / CHECKPOINT).exists():
        return 0
    try:
        tensors = load_file(folder / CHECKPOINT)
        learned = {k.removeprefix("generator."): v for k, v in tensors.items() if k.startswith("generator.")}
        state: dict[int, dict[str, torch.Tensor]] = {}
        for name, value in tensors.items():
            if name.startswith("optimiser."):
                _, index, key = name.split(".", 2)
                state.setdefault(int(index), {})[key] = value
        generator.load_state_dict(learned)
        optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})
        for parameter, moments in optimiser.state.items():
            moments |= {k: laid_out_as(parameter, v) for k, v in moments.items() if v.shape == parameter.shape}
        random.set_state(tensors["random"])
        if weights:
            weights.restore(tensors["weights"])
        if best:
            best.restore({k.removeprefix("best."): v for k, v in tensors.items() if k.startswith("best.")})
        context.curve[:] = [(int(at), loss) for at, loss in tensors["curve"].tolist()]
        return int(tensors["step"])
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError):
        raise CertificateError(f'the checkpoint in "{folder}" is damaged; remove that folder and train again') from None

"""A small public encoder, and releases of DP-MEPF that look at invented pictures through it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tiny
import torch

import simulacra
from simulacra.networks import encoder_files
from simulacra.networks.small_encoder import SmallEncoder

WIDTHS = (4, 6)
SCHEMA = tiny.schema(tiny.PICTURES)
QUICK = {"training.steps": 6, "training.batch": 16, "generator.hidden": (16,), "generator.latent": 4}
SIZE = 2 * 4 * 64 + 2 * 6 * 16


def encoder_file(folder: Path, seed: int = 1, name: str = "encoder") -> Path:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = SmallEncoder(WIDTHS)
    file = folder / f"{name}.safetensors"
    encoder_files.save(file, network.state_dict(), {"data": "some public pictures"})
    return file


def settings(file: Path | str, **more: Any) -> dict[str, Any]:
    chosen = {"encoder.network": "small", "encoder.widths": WIDTHS, "encoder.weights": str(file)}
    return {**chosen, **QUICK, **{name.replace("__", "."): value for name, value in more.items()}}


def release(folder: Path, out: str = "run", **more: Any) -> simulacra.Run:
    return simulacra.release(
        tiny.pictures(),
        schema=SCHEMA,
        method="dp-mepf",
        epsilon=5.0,
        delta=1e-5,
        adjacency="replace-one",
        out=folder / out,
        ledger=folder / "pictures.ledger",
        settings=settings(folder / "encoder.safetensors", **more),
    )

"""An encoder with its weights and where they come from: a published network, or a file that `simulacra pretrain` wrote.

What a network learned from is part of what is public about a release, so a file of ours says it in its header, and a
run states it together with the checksum of the weights.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from simulacra.errors import DataError, OutputError, SettingError
from simulacra.networks import encoders, weights
from simulacra.networks.small_encoder import WIDTHS

if TYPE_CHECKING:
    import torch

    from simulacra.networks.encoder import Encoder

UNSAID = "a data set that its file does not name"


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """A filled encoder, the checksum of its weights, and the public data that they were learned from."""

    encoder: Encoder
    checksum: str
    public_data: str


def load(name: str, *, file: str | Path | None = None, widths: Sequence[int] = WIDTHS) -> Loaded:
    """The encoder called `name` with its published weights, or with those in a file."""
    empty = encoders.build(name, widths=widths)
    if file is None:
        if name not in weights.CATALOGUE:
            raise SettingError(
                f'the encoder "{name}" has no published weights; train it on public images with: '
                f"simulacra pretrain {name} --data NAME --out FILE, and set encoder.weights to that file"
            )
        tensors, learned_from = weights.load(name), weights.find(name).public_data
        source = f"the published file of {name}"
    else:
        tensors, learned_from = _read(name, Path(file))
        source = f'"{file}"'
    filled = encoders.fill(empty, tensors, name=name, source=source)
    return Loaded(encoder=filled, checksum=weights.contents_checksum(tensors), public_data=learned_from)


def new_file(out: str | Path) -> Path:
    """Where weights or a projection can be written in the end; refused at once, and not after an hour of work."""
    path = Path(out)
    if path.suffix != ".safetensors":
        raise OutputError(f'"{path}" must end in .safetensors')
    if path.exists():
        raise OutputError(f'"{path}" exists already; choose a new file')
    folder = path.parent
    if folder.exists() and not (folder.is_dir() and os.access(folder, os.W_OK)):
        raise OutputError(f'cannot write into "{folder}"; choose another folder')
    return path


def save(path: Path, tensors: Mapping[str, torch.Tensor], facts: Mapping[str, str]) -> str:
    """Write weights with facts about them, in the header and beside it as JSON; gives the checksum of the weights."""
    from safetensors.torch import save as packed

    from simulacra.privacy.durable import write_durably

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f'cannot make the folder "{path.parent}": {error.strerror}; choose another') from None
    kept = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    stated = {**facts, "contents": weights.contents_checksum(kept)}
    write_durably(path, packed(kept, metadata=stated))
    write_durably(path.with_suffix(".json"), (json.dumps(stated, indent=2) + "\n").encode())
    return stated["contents"]


def read_safetensors(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """Tensors and header of a file of ours, which must be as it was written."""
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise DataError(f'no file "{path}"; check the path')
    try:
        with safe_open(path, framework="pt") as file:
            facts = dict(file.metadata() or {})
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError):
        raise DataError(f'"{path}" is damaged, or no safetensors file; get a fresh copy') from None
    if "contents" in facts and weights.contents_checksum(tensors) != facts["contents"]:
        raise DataError(f'"{path}" does not have the checksum in its header: it was changed or cut short')
    return tensors, facts


def _read(name: str, path: Path) -> tuple[dict[str, torch.Tensor], str]:
    if path.suffix == ".safetensors" or name not in weights.CATALOGUE:
        tensors, facts = read_safetensors(path)
        return tensors, facts.get("data", UNSAID)
    return weights.read_file(name, path), weights.find(name).public_data

"""Release: the only thing that leaves the boundary. A noisy sum, its noise scale and its event; never the noise."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

from simulacra.errors import CertificateError, OutputError
from simulacra.privacy.accountant import Event
from simulacra.privacy.durable import canonical, write_durably


@dataclass(frozen=True, kw_only=True)
class Release:
    """`value` is the noisy sum in float64; `noise` names the sampler (exact, fast, none or seeded)."""

    step: str
    value: torch.Tensor
    noise_std: float
    noise: str
    event: Event

    def sha256(self) -> str:
        """Hash of the value as it is stored."""
        return hashlib.sha256(save_tensors({"value": self.value.contiguous()})).hexdigest()

    def save(self, folder: Path) -> None:
        """Write NAME.safetensors and NAME.json, durably; the JSON, which holds the hash, comes last."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f'cannot make the folder "{folder}": {error.strerror}; choose another') from None
        content = save_tensors({"value": self.value.contiguous()})
        write_durably(folder / f"{self.step}.safetensors", content)
        statement = {
            "step": self.step,
            "noise_std": self.noise_std,
            "noise": self.noise,
            "event": self.event.to_json(),
            "sha256": hashlib.sha256(content).hexdigest(),
        }
        write_durably(folder / f"{self.step}.json", (canonical(statement) + "\n").encode())

    @classmethod
    def load(cls, folder: Path, step: str) -> Release:
        """Read a release back, checking its hash."""
        try:
            statement: dict[str, Any] = json.loads((folder / f"{step}.json").read_bytes())
            content = (folder / f"{step}.safetensors").read_bytes()
            if hashlib.sha256(content).hexdigest() != statement["sha256"]:
                raise CertificateError(f'release "{step}" was changed: its hash does not match; use an untouched copy')
            return cls(
                step=statement["step"],
                value=load_tensors(content)["value"],
                noise_std=statement["noise_std"],
                noise=statement["noise"],
                event=Event.from_json(statement["event"]),
            )
        except FileNotFoundError:
            raise CertificateError(f'no release "{step}" in "{folder}"; run simulacra release first') from None
        except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
            raise CertificateError(
                f'release "{step}" cannot be read ({type(error).__name__}); use an untouched copy'
            ) from None

    @classmethod
    def exists(cls, folder: Path, step: str) -> bool:
        """Whether a complete release of that step is in the folder."""
        return (folder / f"{step}.json").exists()

"""Sampler: a trained generator, or a condensed set, with class shares, and perhaps a critic to choose by.

It holds nothing private: publish it as is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save

from simulacra.errors import CertificateError, SettingError
from simulacra.generators import GeneratorOptions, build
from simulacra.generators.choosing import Chooser, blank
from simulacra.generators.condensed import Condensed
from simulacra.generators.picking import picks, repeats
from simulacra.privacy.durable import write_durably
from simulacra.privacy.records import Records
from simulacra.schema import Schema

BATCH = 8192


@dataclass(frozen=True, kw_only=True)
class Sampler:
    """Draws encoded records: a label from `class_shares` (or as told), noise, generator, record.

    With a `chooser` several records are made for each that is drawn, and its critic chooses one of them. From a
    condensed set records are taken as they are, the same number of each class whatever the shares.
    """

    schema: Schema
    options: GeneratorOptions
    generator: Any
    class_shares: torch.Tensor
    chooser: Chooser | None = None

    @property
    def size(self) -> int | None:
        """How many records a condensed set holds; None if there is no end to them."""
        return len(self.generator) if isinstance(self.generator, Condensed) else None

    def choosing(self, candidates: int) -> Sampler:
        """The same with so many candidates for each record; 1 takes records as the generator makes them."""
        if self.chooser is None:
            if candidates == 1:
                return self
            raise SettingError("this run has no critic to choose among candidates; leave candidates out")
        return replace(self, chooser=replace(self.chooser, candidates=candidates))

    def repeats(self, n: int, labels: torch.Tensor | None = None) -> bool:
        """Whether `n` records are more than a condensed set holds, so that some come twice."""
        return isinstance(self.generator, Condensed) and repeats(self.generator, n, labels)

    def records(self, n: int, *, seed: int, labels: torch.Tensor | None = None) -> Iterator[Records]:
        """`n` records in bounded batches; the same seed gives the same records. Labels cycle if fewer than n.

        Of a condensed set all records in their order, if `n` is their number; see `generators/picking.py`.
        """
        if n < 0:
            raise SettingError(f"the number of samples must not be negative, got {n}")
        if isinstance(self.generator, Condensed):
            inputs, classes = self.generator.records(), self.generator.labels
            for places in picks(self.generator, n, seed=seed, labels=labels, piece=BATCH):
                yield Records(inputs=inputs[places], labels=classes[places])
            return
        device = next(self.generator.parameters()).device
        random = torch.Generator(device=device).manual_seed(seed)
        self.generator.eval()
        chooser = self.chooser if self.chooser is not None and self.chooser.candidates > 1 else None
        each = 1 if chooser is None else chooser.candidates
        piece = BATCH // each
        for start in range(0, n, piece):
            size = min(piece, n - start)
            if labels is None:
                shares = self.class_shares.to(device)
                chosen = torch.multinomial(shares, size, replacement=True, generator=random)
            else:
                chosen = labels[torch.arange(start, start + size) % len(labels)].to(device)
            with torch.no_grad():
                noise = torch.randn(size * each, self.generator.latent, generator=random, device=device)
                one_hot = torch.nn.functional.one_hot(chosen.repeat_interleave(each), self.schema.classes).to(noise)
                inputs = self.generator.to_records(self.generator(noise, one_hot), random).clamp(-1, 1)
                if chooser is not None:
                    inputs = chooser.choose(self.schema, inputs, chosen, random)
            yield Records(inputs=inputs.cpu(), labels=chosen.cpu())

    def save(self, folder: Path) -> None:
        """Write sampler.safetensors and sampler.json."""
        tensors = {"class_shares": self.class_shares.cpu()} | _tensors("generator", self.generator)
        said = {"generator": self.options.to_mapping()}
        if self.chooser is not None:
            tensors |= _tensors("critic", self.chooser.critic)
            said["chooser"] = self.chooser.to_mapping()
        write_durably(folder / "sampler.safetensors", save(tensors))
        write_durably(folder / "sampler.json", (json.dumps(said) + "\n").encode())

    @classmethod
    def load(cls, folder: Path, schema: Schema) -> Sampler:
        """Read a sampler back."""
        try:
            said = json.loads((folder / "sampler.json").read_bytes())
            options = GeneratorOptions.from_mapping(said["generator"])
            tensors = load_file(folder / "sampler.safetensors")
            generator, shares = build(schema, options), tensors["class_shares"]
            generator.load_state_dict(_below(tensors, "generator"))
            chooser = blank(schema, said["chooser"]) if "chooser" in said else None
            if chooser is not None:
                chooser.critic.load_state_dict(_below(tensors, "critic"))
        except FileNotFoundError:
            raise CertificateError(f'no sampler in "{folder}"; train one with: simulacra train {folder}') from None
        except (ValueError, KeyError, TypeError, RuntimeError, SafetensorError, SettingError):
            raise CertificateError(f'the sampler in "{folder}" is damaged; train it again, at no cost') from None
        return cls(schema=schema, options=options, generator=generator, class_shares=shares, chooser=chooser)


def _tensors(prefix: str, network: Any) -> dict[str, torch.Tensor]:
    return {f"{prefix}.{name}": value.cpu().contiguous() for name, value in network.state_dict().items()}


def _below(tensors: Mapping[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    return {name.removeprefix(f"{prefix}."): value for name, value in tensors.items() if name.startswith(f"{prefix}.")}

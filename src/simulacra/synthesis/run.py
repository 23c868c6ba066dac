"""Run: a folder with everything that came out. All of it may be published, save what says it was computed on real data.

run.json  schema.toml  plan.json  certificate.json  releases/  sampler.safetensors  sampler.json  training.json
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simulacra.errors import CertificateError, SettingError, suggestion
from simulacra.methods import make_method
from simulacra.networks.devices import plain_torch
from simulacra.privacy.certificate import Verification, load_certificate, verify
from simulacra.privacy.durable import write_durably
from simulacra.schema import Schema

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import torch
    from torch.utils.data import TensorDataset

    from simulacra.generators.sampler import Sampler
    from simulacra.methods.base import Method
    from simulacra.privacy.release import Release

FORMAT = 1
ROWS = 1000
"""Samples, if nobody says how many."""


@dataclass(frozen=True)
class Run:
    """A run folder. `Run.load(path)` opens one; `simulacra.fit` makes one."""

    folder: Path

    @classmethod
    def load(cls, path: str | Path) -> Run:
        """Open a run folder."""
        run = cls(Path(path))
        if not (run.folder / "run.json").is_file():
            raise CertificateError(f'"{path}" is not a run folder; give the folder that release or fit wrote')
        run.facts  # noqa: B018  read it now, so that a damaged folder is reported here
        return run

    @cached_property
    def facts(self) -> dict[str, Any]:
        """What run.json says: run, method, settings, ledger."""
        return self._json("run.json")

    @cached_property
    def schema(self) -> Schema:
        """The schema this run was made with."""
        return Schema.load(self.folder / "schema.toml")

    @cached_property
    def method(self) -> Method:
        """The method with the settings it was released with."""
        return make_method(self.facts["method"], self.facts["settings"], self.schema)

    @property
    def certificate(self) -> dict[str, Any]:
        """The certificate, unjudged; see `verify`."""
        return load_certificate(self.folder)

    @property
    def releases(self) -> dict[str, Release]:
        """Everything that was asked once and left the boundary, by step; draws of training loops are not kept."""
        from simulacra.privacy.release import Release

        once = [step["name"] for step in self.certificate["steps"] if step["count"] == 1 and step["sample_rate"] == 1]
        return {name: Release.load(self.folder / "releases", name) for name in once}

    @cached_property
    def sampler(self) -> Sampler:
        """The trained generator."""
        from simulacra.generators.sampler import Sampler

        return Sampler.load(self.folder, self.schema)

    @property
    def training(self) -> dict[str, Any] | None:
        """How the sampler was trained (settings, seed, curve), or None if it was not yet."""
        return self._json("training.json") if (self.folder / "training.json").exists() else None

    def verify(self) -> Verification:
        """Recompute the promise from nothing but this folder."""
        return verify(self.folder)

    def sample(
        self,
        n: int | None = None,
        *,
        labels: Sequence[str] | None = None,
        seed: int | None = None,
        candidates: int | None = None,
    ) -> pd.DataFrame | tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """`n` synthetic rows as a DataFrame, or images (n, height, width[, 3]) and their class numbers.

        `n` is 1000 if not told, and of a condensed set all records, in their order. `labels` asks for these classes in
        turn; `seed` repeats a draw, and without one every call is a fresh draw. Where the run has a critic (DP-GAN), it
        chooses each record among so many `candidates`.
        """
        import torch

        with plain_torch():
            parts = list(self.encoded(n, labels=labels, seed=seed, candidates=candidates))
            inputs = torch.cat([part for part, _ in parts]) if parts else torch.zeros(0, self.schema.inputs)
            classes = torch.cat([part for _, part in parts]) if parts else torch.zeros(0, dtype=torch.int64)
            if self.schema.image is not None:
                from simulacra.data.images import to_uint8

                return to_uint8(inputs, self.schema), classes.numpy()
            from simulacra.data.encode import decode  # Arrow, which a machine that only makes images may not have
            from simulacra.data.reference import to_frame

            return to_frame(decode(inputs, classes, self.schema))

    def encoded(
        self,
        n: int | None = None,
        *,
        labels: Sequence[str] | None = None,
        seed: int | None = None,
        candidates: int | None = None,
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """The same as encoded records and class numbers, in bounded pieces, for any number of rows."""
        chosen = None if labels is None else self._classes(labels)
        drawn = secrets.randbits(48) if seed is None else check_seed(seed)
        sampler = self.sampler if candidates is None else self.sampler.choosing(candidates)
        for records in sampler.records(self.rows(n, labels), seed=drawn, labels=chosen):
            yield records.inputs, records.labels

    def as_dataset(
        self,
        n: int | None = None,
        *,
        labels: Sequence[str] | None = None,
        seed: int | None = None,
        candidates: int | None = None,
    ) -> TensorDataset:
        """The same as a torch data set: numbers in [-1, 1], images as (channels, height, width), and class numbers.

        DataLoader(run.as_dataset(), batch_size=256, shuffle=True)
        """
        import torch
        from torch.utils.data import TensorDataset

        image = self.schema.image
        shape = (image.channels, image.height, image.width) if image else (self.schema.inputs,)
        with plain_torch():
            nothing = (torch.zeros(0, self.schema.inputs), torch.zeros(0, dtype=torch.int64))
            parts = list(self.encoded(n, labels=labels, seed=seed, candidates=candidates)) or [nothing]
            inputs, classes = (torch.cat(each) for each in zip(*parts, strict=True))
            return TensorDataset(inputs.reshape(len(classes), *shape), classes)

    def rows(self, n: int | None = None, labels: Sequence[str] | None = None) -> int:
        """How many records `sample(n, labels=labels)` gives: `n`, or else all of a condensed set, or else 1000."""
        if n is not None:
            return n
        held = self.sampler.size
        if held is None:
            return ROWS
        return held if labels is None else held // self.schema.classes * len(set(self._classes(labels).tolist()))

    def repeats(self, n: int | None = None, labels: Sequence[str] | None = None) -> bool:
        """Whether `sample(n, labels=labels)` gives more than a condensed set holds, so that some records come twice."""
        chosen = None if labels is None else self._classes(labels)
        return self.sampler.repeats(self.rows(n, labels), chosen)

    def _classes(self, labels: Sequence[str]) -> torch.Tensor:
        import torch

        names = self.schema.class_names
        if not names:
            raise SettingError("this run has no label; sample without choosing classes")
        if not labels:
            raise SettingError("an empty list of classes; name at least one, or none at all for the noisy shares")
        for label in labels:
            if str(label) not in names:
                raise SettingError(f'unknown class "{label}"{suggestion(str(label), names)}')
        return torch.tensor([names.index(str(label)) for label in labels])

    def write_json(self, name: str, values: dict[str, Any]) -> None:
        """Write a small JSON file into the folder, whole or not at all."""
        write_durably(self.folder / name, (json.dumps(values, indent=2) + "\n").encode())

    def _json(self, name: str) -> dict[str, Any]:
        try:
            values = json.loads((self.folder / name).read_bytes())
        except (OSError, ValueError):
            raise CertificateError(f'"{self.folder / name}" cannot be read; use an untouched copy of the run') from None
        if not isinstance(values, dict):
            raise CertificateError(f'"{self.folder / name}" is not what a run holds; use an untouched copy of the run')
        return values


def check_seed(seed: int) -> int:
    """Refuse a seed that torch would not take, before anything is spent."""
    if not 0 <= seed < 2**63:
        raise SettingError(f"a seed is a whole number from 0 to 2^63 - 1, got {seed}")
    return seed

"""Generators: latent noise and a label in, points out; and the settings that rebuild one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from simulacra.errors import SettingError
from simulacra.options import Options
from simulacra.schema import Schema

if TYPE_CHECKING:
    import torch


class Generator(Protocol):
    """What matching and sampling need of a generator; all of ours are `torch.nn.Module`s too."""

    latent: int
    classes: int

    def __call__(self, noise: torch.Tensor, one_hot_labels: torch.Tensor) -> torch.Tensor:
        """(n, latent) and (n, classes) to points (n, width)."""
        ...

    def to_records(self, points: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Points to encoded records in [-1, 1]."""
        ...


@dataclass(frozen=True, kw_only=True)
class GeneratorOptions(Options):
    """Sizes of a generator; `auto` (None) leaves them to `build`."""

    latent: int | None = None
    hidden: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.latent is not None and self.latent < 1:
            raise SettingError(f"generator.latent must be at least 1, got {self.latent}")
        if self.hidden is not None and (not self.hidden or min(self.hidden) < 1):
            raise SettingError(f"generator.hidden must be a list of positive sizes, got {self.hidden}")


def build(schema: Schema, options: GeneratorOptions) -> Any:
    """A fresh generator for a schema: convolutional for images whose sides are multiples of 4, dense for others."""
    from simulacra.data.cells import Cells
    from simulacra.generators.image import ConvolutionalGenerator, DenseGenerator
    from simulacra.generators.table import TableGenerator

    if schema.image is None:
        latent = options.latent or 32
        return TableGenerator(Cells(schema), schema.classes, latent=latent, hidden=options.hidden or (256, 256))
    convolutional = schema.image.height % 4 == 0 and schema.image.width % 4 == 0
    kind = ConvolutionalGenerator if convolutional else DenseGenerator
    hidden = options.hidden[0] if options.hidden else 500
    return kind(schema.image, schema.classes, latent=options.latent or 20, hidden=hidden)

"""Generators: latent noise and a label in, points out; and the settings that rebuild one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from simulacra.errors import SettingError
from simulacra.options import Options
from simulacra.schema import ImageShape, Schema

if TYPE_CHECKING:
    import torch

SPREAD_OF_PIXELS = 0.1
"""Of the noise that a condensed set begins with: little, as what a release says nothing about stays as it began."""
SPREAD_OF_LOGITS = 1.0
"""For tables: more, so that rows do not all change their cells in the same step."""
LARGEST_SPREAD = 100.0
"""Records are within 1 of grey."""


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
    """Kind and sizes of a generator; `auto` leaves them to `build`. Any data can be `condensed`.

    A condensed set has `per_class` records of each class, which begin as noise of standard deviation `spread`, all grey
    (or without any preference), or as samples of the sampler that a run has.
    """

    kind: Literal[
        "auto", "convolutional", "dense", "residual", "gaussian", "markov", "condensed", "deconvolutional"
    ] = "auto"
    latent: int | None = None
    hidden: tuple[int, ...] | None = None
    per_class: int = 50
    init: Literal["noise", "grey", "samples"] = "noise"
    spread: float | None = None

    def __post_init__(self) -> None:
        if self.latent is not None and self.latent < 1:
            raise SettingError(f"generator.latent must be at least 1, got {self.latent}")
        if self.hidden is not None and (not self.hidden or min(self.hidden) < 1):
            raise SettingError(f"generator.hidden must be a list of positive sizes, got {self.hidden}")
        if self.per_class < 1:
            raise SettingError(f"generator.per_class must be at least 1, got {self.per_class}")
        if self.spread is not None and not 0 < self.spread <= LARGEST_SPREAD:
            raise SettingError(f"generator.spread must be above 0 and at most {LARGEST_SPREAD:g}, got {self.spread:g}")

    @property
    def condensed(self) -> bool:
        """Whether this is a set of records and not a network."""
        return self.kind == "condensed"


def build(schema: Schema, options: GeneratorOptions) -> Any:
    """A fresh generator for a schema, from torch's default random numbers.

    Images: residual for square colour images of side 32, 64, ...; else convolutional if sides are multiples of 4; else
    dense.
    """
    from simulacra.data.cells import Cells
    from simulacra.generators.condensed import CondensedImages, CondensedRows
    from simulacra.generators.deconvolutional import DeconvolutionalGenerator
    from simulacra.generators.gaussian import GaussianGenerator
    from simulacra.generators.image import ConvolutionalGenerator, DenseGenerator
    from simulacra.generators.markov import MarkovGenerator
    from simulacra.generators.residual import ResidualGenerator
    from simulacra.generators.table import TableGenerator

    if options.condensed:
        usual = SPREAD_OF_LOGITS if schema.image is None else SPREAD_OF_PIXELS
        spread = (options.spread or usual) if options.init == "noise" else 0.0
        if schema.image is None:
            return CondensedRows(Cells(schema), schema.classes, per_class=options.per_class, spread=spread)
        return CondensedImages(schema.image, schema.classes, per_class=options.per_class, spread=spread)
    if schema.image is None:
        if options.kind == "markov":
            return MarkovGenerator(Cells(schema), schema.classes, labelled=schema.labelled)
        latent = options.latent or 32
        return TableGenerator(Cells(schema), schema.classes, latent=latent, hidden=options.hidden or (256, 256))
    kind = _kind_for(schema.image) if options.kind == "auto" else options.kind
    if kind == "markov":
        raise SettingError('the markov generator is for tables; set generator.kind="auto"')
    if kind == "residual":
        return ResidualGenerator(schema.image, schema.classes, latent=options.latent or 100)
    if kind == "deconvolutional":
        return DeconvolutionalGenerator(schema.image, schema.classes, latent=options.latent or 128)
    if kind == "gaussian":
        return GaussianGenerator(schema.image, schema.classes, latent=options.latent or 100)
    hidden, latent = options.hidden[0] if options.hidden else 500, options.latent or 20
    if kind == "dense":
        return DenseGenerator(schema.image, schema.classes, latent=latent, hidden=hidden)
    if schema.image.height % 4 or schema.image.width % 4:
        raise SettingError(
            'the convolutional generator needs sides that are multiples of 4; set generator.kind="dense"'
        )
    return ConvolutionalGenerator(schema.image, schema.classes, latent=latent, hidden=hidden)


def try_out(schema: Schema, options: GeneratorOptions, *, own_kinds: Sequence[str] = ()) -> None:
    """Build a generator and throw it away: a SettingError if it does not fit the schema or the memory.

    A random field is fitted in a way of its own, so it is for the methods that have it among their `own_kinds`.
    """
    if options.kind == "markov" and "markov" not in own_kinds:
        raise SettingError('only pairs has the markov generator; set generator.kind="auto"')
    import torch

    try:
        with torch.random.fork_rng(devices=[]):
            build(schema, options)
    except (RuntimeError, MemoryError):
        sizes = "generator.per_class" if options.condensed else "generator.hidden or generator.latent"
        raise SettingError(f"the generator does not fit into memory; lower {sizes}") from None


def _kind_for(image: ImageShape) -> str:
    from simulacra.generators.residual import fits

    if image.channels == 3 and fits(image) and image.height >= 32:
        return "residual"
    return "dense" if image.height % 4 or image.width % 4 else "convolutional"

"""Which public network looks at the images, and through which projection: settings, and the view they name.

Weights and projections may lie in files. A release is bound to what is in them and not to where they lie, so their
checksums become settings as soon as the files are first named, and training elsewhere may name another path. A file
that is not at its path is looked for by that name in the folder encoders of the cache.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from simulacra.datasets.places import cache_folder
from simulacra.errors import DataError, SettingError, suggestion
from simulacra.features.leaves import dead_leaves
from simulacra.features.projections import public_mean, random_matrices, read
from simulacra.features.refined_views import Centred, Deepest, Even, Projected
from simulacra.features.unit_sums import lengths_of, raised
from simulacra.features.views import LARGEST_SIDE, InceptionView, LastLayer, Perceived, View
from simulacra.networks import encoder_files, encoders, weights
from simulacra.networks.inception import Inception
from simulacra.networks.small_encoder import WIDTHS
from simulacra.options import Options
from simulacra.schema import ImageShape

MOST_DIRECTIONS = 4096
INVENTED = 128
"""Pictures that a mean is taken of."""


@dataclass(frozen=True, kw_only=True)
class EncoderOptions(Options):
    """A network by name, its weights (published, or in a file), and the size at which it sees images."""

    network: str = "vgg19-normalised"
    weights: str | None = None
    """A file; by default the published weights, from the cache."""
    checksum: str | None = None
    """Of the weights in the file; found out when it is first named."""
    widths: tuple[int, ...] = WIDTHS
    """Channels of the stages of the network "small"."""
    resize: int | None = None

    def __post_init__(self) -> None:
        if self.network not in encoders.NAMES:
            raise SettingError(
                f'encoder.network: no encoder "{self.network}"{suggestion(self.network, encoders.NAMES)}'
            )
        if not self.widths or not 1 <= min(self.widths) <= max(self.widths) <= 4096 or len(self.widths) > 8:
            raise SettingError("encoder.widths must be from 1 to 8 numbers from 1 to 4096")
        if self.resize is not None and not 1 <= self.resize <= LARGEST_SIDE:
            raise SettingError(f"encoder.resize must be from 1 to {LARGEST_SIDE}, got {self.resize}")
        if self.weights is not None and self.checksum is None and _place(self.weights).is_file():
            object.__setattr__(self, "checksum", _loaded(self).checksum)

    def asking(self) -> Mapping[str, Any]:
        """What decides a release; the path of the weights does not."""
        return {
            "encoder.network": self.network,
            "encoder.checksum": self.checksum,
            "encoder.widths": self.widths,
            "encoder.resize": self.resize,
        }

    def load(self) -> encoder_files.Loaded:
        """The network with its weights, which must be those of the checksum."""
        loaded = _loaded(self)
        if self.checksum is not None and loaded.checksum != self.checksum:
            source = f"the published file of {self.network}" if self.weights is None else f'"{self.weights}"'
            raise DataError(
                f"the weights in {source} are others than those of this run ({self.checksum[:12]}...); "
                "set encoder.weights to the file it was released with"
            )
        return loaded

    def file(self) -> Path:
        """Where the weights lie."""
        return weights.find(self.network).path if self.weights is None else _place(self.weights)

    def view(self, image: ImageShape) -> Perceived:
        """All outputs of the network's convolutions."""
        return _perceived(self.load(), self.network, self.resize, image)


@dataclass(frozen=True, kw_only=True)
class ProjectionOptions(Options):
    """What maps the features to fewer numbers: none, random matrices, or a file that `simulacra directions` wrote."""

    source: str = "none"
    """`none`, `random`, or the path of a file."""
    checksum: str | None = None
    """Of the projection in the file; found out when it is first named."""
    directions: int = 64
    """Numbers per layer of a random projection; a file has its own."""
    seed: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.directions <= MOST_DIRECTIONS or not 0 <= self.seed < 2**63:
            raise SettingError(
                f"projection.directions must be from 1 to {MOST_DIRECTIONS}, and projection.seed from 0 to 2^63 - 1"
            )
        if self.kind == "file" and self.checksum is None and _place(self.source).is_file():
            object.__setattr__(self, "checksum", _matrices(*_stamp(_place(self.source)))[1])

    @property
    def kind(self) -> str:
        """none, random or file."""
        return self.source if self.source in ("none", "random") else "file"

    def file(self) -> Path | None:
        """Where it lies, if it is in a file."""
        return _place(self.source) if self.kind == "file" else None

    def asking(self) -> Mapping[str, Any]:
        """What decides a release; the path of a file does not."""
        return {
            "projection.source": self.kind,
            "projection.checksum": self.checksum,
            "projection.directions": self.directions,
            "projection.seed": self.seed,
        }

    def of(self, view: Perceived, *, weights: str) -> View:
        """The view through the projection, which must have been found with the same `weights`, by their checksum."""
        if self.kind == "none":
            return view
        if self.kind == "random":
            return Projected(view, random_matrices(view.sizes, self.directions, seed=self.seed))
        matrices, checksum, facts = _matrices(*_stamp(_place(self.source)))
        if self.checksum is not None and checksum != self.checksum:
            raise DataError(
                f'"{self.source}" is another projection than that of this run ({self.checksum[:12]}...); '
                "set projection.source to the one it was released with"
            )
        if facts.get("network_checksum", weights) != weights:
            raise DataError(
                f'"{self.source}" was found with other weights of the network, and its directions mean nothing here; '
                "find them again with: simulacra directions"
            )
        return Projected(view, list(matrices))

    def public_data(self) -> str | None:
        """What it was found on, if on anything."""
        if self.kind != "file":
            return None
        return _matrices(*_stamp(_place(self.source)))[2].get("data", encoder_files.UNSAID)

    def remark(self) -> str | None:
        """What a certificate says of it."""
        if self.kind == "none":
            return None
        if self.kind == "random":
            return f"the features are projected by random matrices of seed {self.seed}, which depend on no data"
        return (
            f"the features are projected onto directions found on public images of {self.public_data()} "
            f"(sha256 {self.checksum})"
        )


@dataclass(frozen=True, kw_only=True)
class LayerOptions(Options):
    """Which of the network's layers count, and how much."""

    last: int | None = None
    """Only so many of the last ones."""
    even: bool = False
    """Whether each is scaled to length 1 before all of them together are."""
    centred: bool = False
    """Whether the mean over invented pictures is taken off, so that what images share has none of the length."""

    def asking(self) -> Mapping[str, Any]:
        """What decides a release."""
        return {"layers.last": self.last, "layers.even": self.even, "layers.centred": self.centred}

    def of(self, view: View) -> View:
        """The view with these layers, about the origin."""
        view = view if self.last is None else Deepest(view, self.last)
        return Even(view) if self.even else view

    def remark(self) -> str | None:
        """What a certificate says of it."""
        if not self.centred:
            return None
        return f"the mean of {INVENTED} invented pictures, which depend on no data, is taken off the features"


def view_of(encoder: EncoderOptions, projection: ProjectionOptions, layers: LayerOptions, image: ImageShape) -> View:
    """The features that are released."""
    seen = _about_the_origin(encoder, projection, layers, image)
    return Centred(seen, _invented_mean(encoder, projection, layers, image)) if layers.centred else seen


def _about_the_origin(
    encoder: EncoderOptions, projection: ProjectionOptions, layers: LayerOptions, image: ImageShape
) -> View:
    return layers.of(projection.of(encoder.view(image), weights=encoder.load().checksum))


def inception_view(image: ImageShape) -> InceptionView:
    """What FID sees, for choosing when to stop."""
    network = Inception()
    network.load_state_dict(weights.load("inception"))
    return InceptionView(image, network)


def inception_is_here() -> bool:
    """Whether its weights are in the cache."""
    return weights.find("inception").path.is_file()


def last_layer_view(perceived: Perceived) -> LastLayer:
    """The last layer of the same encoder, for choosing when to stop."""
    return LastLayer(perceived)


def _loaded(options: EncoderOptions) -> encoder_files.Loaded:
    if options.weights is None:
        published = options.network in weights.CATALOGUE
        stamp = _stamp(weights.find(options.network).path)[1:] if published else (0, 0)
        return _read_encoder(options.network, None, options.widths, *stamp)
    place, size, changed = _stamp(_place(options.weights))
    return _read_encoder(options.network, place, options.widths, size, changed)


@lru_cache(maxsize=4)
def _read_encoder(
    name: str, file: str | None, widths: tuple[int, ...], size: int, changed: int
) -> encoder_files.Loaded:
    """Remembered as long as the file stays the same: planning and releasing ask for it several times."""
    return encoder_files.load(name, file=file, widths=widths)


@lru_cache(maxsize=4)
def _perceived(loaded: encoder_files.Loaded, name: str, resize: int | None, image: ImageShape) -> Perceived:
    view = Perceived(image, loaded.encoder, name=name, resize=resize)
    # A release takes what overflows for zero, but training cannot: told here, before anything is spent.
    squares = [raised(layer, 2) for layer in view.layers(torch.zeros(1, image.pixels))]
    if not torch.isfinite(lengths_of(squares, 2)).all():
        raise DataError(
            f'the encoder "{name}" makes numbers of a black image that single precision cannot hold; '
            "its weights are damaged or of no use: set encoder.weights to others"
        )
    return view


@lru_cache(maxsize=2)
def _invented_mean(
    encoder: EncoderOptions, projection: ProjectionOptions, layers: LayerOptions, image: ImageShape
) -> list[torch.Tensor]:
    """Remembered: planning, releasing and training ask for it several times."""
    return public_mean(_about_the_origin(encoder, projection, layers, image), dead_leaves(INVENTED, image, seed=0))


@lru_cache(maxsize=2)
def _matrices(path: str, size: int, changed: int) -> tuple[tuple[Any, ...], str, dict[str, str]]:
    matrices, facts = read(Path(path))
    checksum = facts.get("contents") or weights.contents_checksum(
        {f"layer.{number}": matrix for number, matrix in enumerate(matrices)}
    )
    return tuple(matrices), checksum, facts


def _place(path: str) -> Path:
    kept = cache_folder() / "encoders" / path
    return kept if not Path(path).is_file() and kept.is_file() else Path(path)


def _stamp(path: str | Path) -> tuple[str, int, int]:
    """A path, and what changes when its file does."""
    try:
        found = Path(path).stat()
    except OSError:
        return str(path), 0, 0
    return str(path), found.st_size, found.st_mtime_ns

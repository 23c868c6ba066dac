"""Directions: the projection of an encoder's features that public images suggest, written to a file."""

from __future__ import annotations

from pathlib import Path

from simulacra.errors import SettingError
from simulacra.features.projections import leading_directions, write
from simulacra.features.views import LARGEST_SIDE, Perceived
from simulacra.networks import encoder_files, public_images
from simulacra.networks.devices import memory
from simulacra.networks.encoder_files import Loaded
from simulacra.schema import ImageShape

MOST_IMAGES = 20_000


def find_directions(
    loaded: Loaded,
    network: str,
    *,
    image: ImageShape,
    data: str,
    out: str | Path,
    directions: int = 64,
    images: int = 2000,
    resize: int | None = None,
) -> dict[str, str]:
    """Look at public images as at private ones of the form `image`; writes OUT and facts beside it, and gives these."""
    path = encoder_files.new_file(out)
    if not 1 <= directions <= images <= MOST_IMAGES:
        raise SettingError(f"directions must be from 1 to the number of images, and these at most {MOST_IMAGES:,}")
    if resize is not None and not 1 <= resize <= LARGEST_SIDE:  # no run could use them
        raise SettingError(f"resize must be from 1 to {LARGEST_SIDE}, got {resize}")
    view = Perceived(image, loaded.encoder, name=network, resize=resize)
    # All features of all images are held at once, and once more while they are put together.
    needed = 2 * images * view.width * 4
    if needed > memory():
        raise SettingError(
            f"the features of {images:,} images take {needed / 2**30:.0f} GB of memory, more than there is here; "
            "look at fewer images"
        )
    found = public_images.load(data, most=images)
    side = image.height if image.height == image.width else None
    pictures = found.batch(slice(None), side=side, device="cpu")
    if tuple(pictures.shape[2:]) != (image.height, image.width):
        raise SettingError(f'images of "{data}" cannot be brought to {image.height} x {image.width}; squares can')
    if image.channels == 1:
        pictures = pictures.mean(dim=1, keepdim=True)
    matrices = leading_directions(view, pictures.flatten(1), directions)
    facts = {
        "network": network,
        "network_checksum": loaded.checksum,
        "data": data,
        "data_checksum": found.checksum,
        "images": str(len(found.labels)),
        "directions": str(directions),
        "form": f"{image.height} x {image.width} x {image.channels}",
    }
    return {**facts, "contents": write(path, matrices, facts)}

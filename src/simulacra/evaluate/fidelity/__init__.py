"""How close two sets of images are, seen through the Inception network: FID, KID, precision, recall, density, coverage.

All of them come from one pass over each set. Images are bytes, as files hold them; see `evaluate/pixels.py` for others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from simulacra.errors import DataError
from simulacra.evaluate.fidelity.protocols import PROTOCOLS, Protocol
from simulacra.evaluate.progress import Progress, silent
from simulacra.evaluate.scores import Scores
from simulacra.networks.allocation import freed_memory_kept

if TYPE_CHECKING:
    from simulacra.evaluate.fidelity.extraction import Extractor
    from simulacra.evaluate.fidelity.statistics import Statistics

__all__ = ["PROTOCOLS", "Protocol", "compare"]


@freed_memory_kept()
def compare(
    synthetic: NDArray[np.uint8],
    reference: NDArray[np.uint8],
    *,
    device: str = "cpu",
    cache: bool = True,
    extractor: Extractor | None = None,
    progress: Progress = silent,
) -> Scores:
    """Scores of `synthetic` images against `reference` ones, both uint8 (n, height, width[, channels]).

    `fid`, `kid` (with `kid_error`, its standard error), `precision`, `recall`, `density` and `coverage`. `cache` keeps
    the statistics of the reference in the cache folder: they were computed on real images and are as private.
    """
    from simulacra.evaluate.fidelity.cache import cached
    from simulacra.evaluate.fidelity.extraction import Extractor
    from simulacra.evaluate.fidelity.frechet import frechet_distance
    from simulacra.evaluate.fidelity.kernel import kernel_distance
    from simulacra.evaluate.fidelity.neighbours import NEAREST, neighbour_scores
    from simulacra.evaluate.fidelity.statistics import collect

    extractor = extractor or Extractor(device=device)
    sets = {"synthetic images": _checked(synthetic, "synthetic"), "reference images": _checked(reference, "reference")}
    theirs = (cached if cache else collect)(sets["reference images"], extractor, progress=_counter(progress, "real"))
    ours = collect(sets["synthetic images"], extractor, progress=_counter(progress, "synthetic"))
    progress("distances between features")
    kernel = kernel_distance(ours.kept, theirs.kept, device=device)
    scores = {"fid": frechet_distance(ours, theirs, device=device), "kid": kernel.value}
    notes = _few_images(ours, theirs)
    if kernel.error is not None:
        scores["kid_error"] = kernel.error
    if min(len(ours.kept), len(theirs.kept)) > NEAREST:
        scores |= neighbour_scores(ours.kept, theirs.kept, device=device)
    else:
        notes.append(f"precision, recall, density and coverage need more than {NEAREST} images on both sides")
    for what, images in sets.items():
        if len(images) > 1 and (images == images[:1]).all():
            notes.append(f"the {what} are all the same picture")
    details: dict[str, Any] = {
        "synthetic_images": ours.count,
        "reference_images": theirs.count,
        "kept_features": [len(ours.kept), len(theirs.kept)],
        "features": "Inception 2015-12-05, 2048 features",
        "precision_of_arithmetic": extractor.precision,
    }
    return Scores(scores=scores, details={"fidelity": details}, notes=notes)


def _checked(images: NDArray[np.uint8], what: str) -> NDArray[np.uint8]:
    if images.dtype != np.uint8 or images.ndim not in (3, 4):
        raise DataError(
            f"{what} images must be uint8 (n, height, width[, channels]), got {images.dtype} {images.shape}"
        )
    channels = images.reshape(*images.shape[:3], -1)
    if channels.shape[3] not in (1, 3):
        raise DataError(f"{what} images must have 1 or 3 channels, got {channels.shape[3]}")
    if len(channels) < 2:
        raise DataError(f"a spread needs at least 2 {what} images, got {len(channels)}")
    return channels


def _few_images(ours: Statistics, theirs: Statistics) -> list[str]:
    least, features = min(ours.count, theirs.count), len(ours.mean)
    if least > features:
        return []
    return [
        f"FID is biased upwards: {least:,} images are not more than the {features:,} features, so a covariance is "
        "singular; compare it only with figures from as many images, or read KID, which is unbiased"
    ]


def _counter(progress: Progress, what: str) -> Callable[[int, int], None]:
    return lambda done, total: progress(f"features of the {what} images", done, total)

"""One set of synthetic images against real ones: classifiers, and FID with its kin by one protocol or several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulacra.data.images import read_images
from simulacra.errors import DataError, SchemaError, SettingError, suggestion
from simulacra.evaluate.fidelity import PROTOCOLS, Protocol, compare
from simulacra.evaluate.image_classifiers import CLASSIFIERS
from simulacra.evaluate.progress import Progress, silent
from simulacra.evaluate.scores import NO_CLASSIFIER, Scores, merged
from simulacra.evaluate.seeds import check_seeds
from simulacra.networks.devices import pick_device
from simulacra.schema import Schema

Labelled = tuple[NDArray[np.uint8], NDArray[np.int64]]
Draw = Callable[[int | None], Labelled]
"""So many synthetic images and their class numbers, or, for None, as many as there should be."""


@dataclass(frozen=True, kw_only=True)
class ImageOptions:
    """What to compute on images, and where.

    `fid` names protocols ("dp-gan", "dp-mepf"); those that compare with training images need `train`. `cache` keeps the
    statistics of real images in the cache folder.
    """

    seed: int = 0
    seeds: int = 1
    classifiers: tuple[str, ...] | None = None
    engine: str = "auto"
    device: str = "auto"
    fid: Sequence[str] = ()
    train: Any = None
    cache: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "fid", (self.fid,) if isinstance(self.fid, str) else tuple(self.fid))
        check_seeds(self.seed, self.seeds)
        for name in self.classifiers or ():
            if name not in CLASSIFIERS and name != NO_CLASSIFIER:
                raise SettingError(f'unknown classifier "{name}"{suggestion(name, CLASSIFIERS)}')
        for name in self.fid:
            if name not in PROTOCOLS:
                raise SettingError(f'unknown protocol "{name}" for FID{suggestion(name, PROTOCOLS)}')
            if PROTOCOLS[name].reference == "train" and self.train is None:
                raise SettingError(f'protocol "{name}" compares with training images; say which: --train DATA')
        if self.classifiers is not None and NO_CLASSIFIER in self.classifiers and len(self.classifiers) > 1:
            raise SettingError(f'"{NO_CLASSIFIER}" and other classifiers at once; drop one or the other')

    @property
    def classifies(self) -> bool:
        """Whether any classifier is wanted."""
        return self.classifiers != (NO_CLASSIFIER,)


def score_images(
    draw: Draw,
    real: Any,
    schema: Schema,
    options: ImageOptions,
    *,
    rows: int | None = None,
    progress: Progress = silent,
) -> Scores:
    """Classifiers trained on `rows` drawn images, and the distances of each protocol, as one set of scores."""
    from simulacra.evaluate import evaluate_images

    device = pick_device(options.device)
    if not schema.labelled and (not options.fid or options.classifiers not in (None, (NO_CLASSIFIER,))):
        raise SchemaError("images without a label cannot be scored by classifiers; ask for FID (--fid dp-gan) instead")
    if not options.classifies and not options.fid:
        raise SettingError("no classifier and no --fid leaves nothing to compute; ask for one of them")
    images, labels, unknown = real_images(real, schema)
    reference = (images, labels)
    parts = [_by_protocol(PROTOCOLS[name], draw, images, schema, options, device, progress) for name in options.fid]
    if schema.labelled and options.classifies:
        parts.append(
            evaluate_images(
                *draw(rows),
                *reference,
                seed=options.seed,
                seeds=options.seeds,
                classifiers=options.classifiers,
                engine=options.engine,
                device=device,
                progress=progress,
            )
        )
    found = merged(parts)
    if options.fid and options.seeds > 1:
        found.notes.append("FID and its kin are of one draw, and have no spread over seeds")
    if unknown:
        note = f"{unknown:,} labels of the test images are outside the schema's classes and count as the first"
        found.notes.append(note)
    return found


def real_images(data: Any, schema: Schema) -> tuple[NDArray[np.uint8], NDArray[np.int64], int]:
    """Real images as bytes, their class numbers, and how many of those were outside the schema's classes."""
    images, labels = read_images(data, schema)
    if not schema.labelled:
        return images, np.zeros(len(images), dtype=np.int64), 0
    known = (labels >= 0) & (labels < schema.classes)
    return images, np.where(known, labels, 0), int((~known).sum())


def synthetic_images(data: Any, schema: Schema) -> Labelled:
    """Synthetic images as bytes, and their class numbers, which must be the schema's."""
    images, labels, unknown = real_images(data, schema)
    if unknown:
        raise DataError(
            f"{unknown:,} labels of the synthetic images are outside the schema's {schema.classes} classes; "
            "number classes as in the schema, from 0"
        )
    return images, labels


def _by_protocol(
    protocol: Protocol,
    draw: Draw,
    test: NDArray[np.uint8],
    schema: Schema,
    options: ImageOptions,
    device: str,
    progress: Progress,
) -> Scores:
    against = real_images(options.train, schema)[0] if protocol.reference == "train" else test
    images = draw(protocol.generated)[0]
    found = compare(images, against, device=device, cache=options.cache, progress=progress)
    suffix = protocol.name.replace("-", "_")
    notes = [f"{protocol.name} protocol: {note}" for note in found.notes]
    notes += _departures(protocol, len(images), len(against))
    return Scores(
        scores={f"{name}_{suffix}": value for name, value in found.scores.items()},
        details={f"fidelity_{suffix}": {**found.details["fidelity"], "protocol": protocol.citation}},
        notes=notes,
    )


def _departures(protocol: Protocol, generated: int, real: int) -> Sequence[str]:
    if generated == protocol.generated:
        return []
    return [
        f"{protocol.name} protocol: {generated:,} synthetic images instead of {protocol.generated:,}, against {real:,} "
        "real ones; FID depends on both numbers"
    ]

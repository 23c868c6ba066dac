"""Scores of a run folder, or of synthetic data in files, against real records that were not trained on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack

from simulacra.data.reference import Reference
from simulacra.errors import DataError, SettingError
from simulacra.evaluate.image_sets import ImageOptions, Labelled, score_images, synthetic_images
from simulacra.evaluate.pixels import as_bytes
from simulacra.evaluate.progress import Progress, silent
from simulacra.evaluate.scores import Scores
from simulacra.evaluate.seeds import check_seeds
from simulacra.evaluate.training_rows import check_rows, subsample
from simulacra.schema import Schema
from simulacra.synthesis.run import Run

SCORES_FILE = "scores.json"
"""Computed on real records: the one file of a run that the guarantee does not cover."""

MOST_ROWS = 60_000


class Choices(TypedDict, total=False):
    """What may be chosen beside seed and classifiers; some of it is for tables or for images only."""

    seeds: int
    train: Any
    protocol: str
    groups: Iterable[str] | None
    engine: str
    device: str
    fid: Sequence[str]
    cache: bool


FOR_TABLES = frozenset({"protocol", "groups"})
FOR_IMAGES = frozenset({"engine", "fid", "cache"})


def evaluate_run(
    run: Run | str | Path,
    real: Any,
    *,
    rows: int | None = None,
    seed: int = 0,
    classifiers: Iterable[str] | None = None,
    progress: Progress = silent,
    **choices: Unpack[Choices],
) -> Scores:
    """Score a run against real test records (anything `fit` takes as data), on `rows` synthetic ones.

    `rows` defaults to the noisy number of records, at most 60,000; of a condensed set it is all at most. Everything is
    done for `seeds` seeds, from `seed` on. `train` are the real training records: the yardstick for tables, and what
    the protocol "dp-mepf" compares images with. For tables: `protocol` ("sound" or "papers") and `groups`, columns to
    break figures down by. For images: `fid` names protocols for FID and its kin ("dp-gan", "dp-mepf"), and
    `cache=False` keeps no statistics of the real images.
    """
    opened = run if isinstance(run, Run) else Run.load(run)
    check_rows(rows)
    if opened.schema.image is None:

        def drawn(one: int) -> Any:
            return opened.sample(wanted_rows(opened, rows), seed=one)

        scores = _score_tables(drawn, real, opened.schema, seed, classifiers, progress, choices)
    else:

        def draw(wanted: int | None) -> Any:
            return opened.sample(wanted_rows(opened, wanted), seed=seed)

        options = _image_options(seed, classifiers, choices)
        scores = score_images(draw, real, opened.schema, options, rows=rows, progress=progress)
    opened.write_json(SCORES_FILE, scores.to_mapping())
    return scores


def evaluate_files(
    synthetic: Any,
    real: Any,
    *,
    schema: Schema | str | Path,
    pixels: str = "bytes",
    rows: int | None = None,
    seed: int = 0,
    classifiers: Iterable[str] | None = None,
    progress: Progress = silent,
    **choices: Unpack[Choices],
) -> Scores:
    """Score synthetic data of any origin: a table, an .npz file, a folder of images, or arrays. See `evaluate_run`.

    `pixels` says what the numbers of an .npz file or of arrays mean: "bytes", "unit" (from 0 to 1) or "signed" (from
    -1 to 1). It is never guessed.
    """
    described = schema if isinstance(schema, Schema) else Schema.load(schema)
    check_rows(rows)
    if described.image is None:
        from simulacra.evaluate.tables import misfits

        if pixels != "bytes":
            raise SettingError("pixels are for images; this is a table, so leave them out")
        frame = Reference.load(synthetic, described).frame()
        scores = _score_tables(lambda one: frame, real, described, seed, classifiers, progress, choices, rows)
        scores.notes.extend(misfits(synthetic, described, "synthetic rows"))
        return scores
    options = _image_options(seed, classifiers, choices)
    images, labels = _synthetic_images(synthetic, described, pixels)

    def draw(wanted: int | None) -> Labelled:
        # Drawn, because files often hold one class after the other.
        keep = subsample(len(images), wanted, seed)
        return images[keep], labels[keep]

    return score_images(draw, real, described, options, rows=rows, progress=progress)


def load_scores(run: Run) -> Scores | None:
    """The scores of a run, if it was scored."""
    path = run.folder / SCORES_FILE
    return Scores.from_json(path.read_text(encoding="utf-8")) if path.exists() else None


def _score_tables(
    draw: Callable[[int], Any],
    real: Any,
    schema: Schema,
    seed: int,
    classifiers: Iterable[str] | None,
    progress: Progress,
    choices: Choices,
    train_rows: int | None = None,
) -> Scores:
    """A table per seed; each seed also trains the classifiers anew."""
    from simulacra.evaluate.tables import misfits, over_seeds, score_table

    _refuse(FOR_IMAGES, choices, "for images only; this is a table, so leave that out")
    seeds = range(seed, seed + choices.get("seeds", 1))
    check_seeds(seed, len(seeds))
    test = Reference.load(real, schema).frame()
    train = choices.get("train")
    yardstick = None if train is None else Reference.load(train, schema).frame()
    chosen = None if classifiers is None else tuple(classifiers)
    groups = choices.get("groups")
    columns = None if groups is None else tuple(groups)
    found = [
        score_table(
            draw(one),
            test,
            schema,
            seed=one,
            train_rows=train_rows,
            classifiers=chosen,
            protocol=choices.get("protocol", "sound"),
            groups=columns,
            train=yardstick,
            progress=progress if len(seeds) == 1 else _numbered(progress, number, len(seeds)),
        )
        for number, one in enumerate(seeds, start=1)
    ]
    result = over_seeds(found, seeds)
    result.notes.extend(misfits(real, schema, "real test rows"))
    return result


def _numbered(progress: Progress, number: int, seeds: int) -> Progress:
    def show(stage: str, done: int = 0, total: int = 0, /) -> None:
        progress(f"seed {number} of {seeds}, {stage}", done, total)

    return show


def _synthetic_images(data: Any, schema: Schema, pixels: str) -> Labelled:
    """Fractions are rounded to bytes first; all else is read as any image data is."""
    import numpy as np

    from simulacra.data.imagefiles import read_npz

    archive = isinstance(data, (str, Path)) and Path(data).suffix.lower() == ".npz"
    if pixels == "bytes":
        if archive and read_npz(Path(data))[0].dtype.kind == "f":
            raise DataError(f'"{data}" holds fractions; say what they mean: --pixels unit (0 to 1) or signed (-1 to 1)')
        return synthetic_images(data, schema)
    if isinstance(data, (str, Path)):
        if not archive:
            raise SettingError(f"--pixels {pixels} is for .npz files and arrays; files of images hold bytes")
        data = read_npz(Path(data))
    images, labels = data if isinstance(data, tuple) else (data, None)
    rounded = as_bytes(np.asarray(images), pixels, what="synthetic images")
    if schema.labelled and labels is None:
        raise DataError("the synthetic images have no labels, but the schema lists classes; add them")
    return synthetic_images((rounded, labels) if schema.labelled else rounded, schema)


def _image_options(seed: int, classifiers: Iterable[str] | None, choices: Choices) -> ImageOptions:
    _refuse(FOR_TABLES, choices, "for tables only; these are images, so leave that out")
    chosen = None if classifiers is None else tuple(classifiers)
    return ImageOptions(seed=seed, classifiers=chosen, **choices)  # type: ignore[misc]


def _refuse(names: frozenset[str], choices: Choices, why: str) -> None:
    given = sorted(names & set(choices))
    if given:
        raise SettingError(f"{', '.join(given)}: {why}")


def wanted_rows(run: Run, wanted: int | None) -> int:
    """As many as are wanted; else about as many as there were records, going by the release and not by the data.

    Of a condensed set no record is taken twice: it would teach nothing new.
    """
    held = run.sampler.size
    if held is not None:
        return min(wanted or held, held)
    if wanted is not None:
        return wanted
    return min(MOST_ROWS, max(100, round(_noisy_total(run))))


def _noisy_total(run: Run) -> float:
    """How many records there were, as far as the releases tell; 10,000 if they do not."""
    counts = run.method.counted(run.schema, run.releases)
    return 10_000.0 if counts is None else float(counts.sum())

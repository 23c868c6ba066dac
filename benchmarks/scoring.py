"""Scorings: the papers' protocols by name. Which of them fit a row follows from its schema, never from a name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import click
import numpy as np

from benchmarks.material import Material
from benchmarks.rows import Row
from simulacra.errors import suggestion
from simulacra.evaluate.scores import Scores
from simulacra.schema import Schema

LONGEST_DETAIL = 32


@dataclass(frozen=True, kw_only=True)
class Scoring:
    """One protocol: what it says in words, the rows it is for, and how to compute it."""

    name: str
    words: str
    fits: Callable[[Schema], bool]
    compute: Callable[[Material], Scores]
    weights: tuple[str, ...] = ()
    """Pretrained networks that it needs."""
    condensed: bool | None = False
    """Whether it is for condensed sets, or for any number of samples; None is for both."""

    def suits(self, row: Row) -> bool:
        """Whether a row can be scored by it."""
        return self.condensed in (None, row.condensed is not None) and self.fits(row.schema)


def grey(schema: Schema) -> bool:
    """Labelled images with one channel."""
    return schema.image is not None and schema.image.channels == 1 and schema.labelled


def colour(schema: Schema) -> bool:
    """Labelled images with three channels."""
    return schema.image is not None and schema.image.channels == 3 and schema.labelled


def labelled_pictures(schema: Schema) -> bool:
    """Labelled images of any kind."""
    return schema.image is not None and schema.labelled


def pictures(schema: Schema) -> bool:
    """Any images."""
    return schema.image is not None


def classify(*classifiers: str, rows: int | None) -> Callable[[Material], Scores]:
    """Train classifiers on so many samples and test them on the real test images."""

    def compute(material: Material) -> Scores:
        from simulacra.evaluate import evaluate_images

        return evaluate_images(
            *material.samples,
            *material.real.test,
            pixels="bytes",
            seed=material.seed,
            seeds=1,  # the rows have seeds of their own
            train_rows=rows,
            classifiers=list(classifiers),
            device=material.device,
            engine="auto",
            progress=material.progress,
        )

    return compute


def fidelity(*, rows: int, against: str) -> Callable[[Material], Scores]:
    """Hold so many samples, drawn with the row's seed, against the real images of a split."""

    def compute(material: Material) -> Scores:
        from simulacra.evaluate.fidelity import compare

        images, _ = material.samples
        if rows < len(images):
            images = images[np.sort(np.random.default_rng(material.seed).choice(len(images), rows, replace=False))]
        reference, _ = getattr(material.real, against)
        found = compare(images, reference, device=material.device, progress=material.progress)
        if len(images) == rows:
            return found
        return replace(found, notes=[*found.notes, f"{len(images):,} images, because there are no more"])

    return compute


def tables(material: Material) -> Scores:
    """Twelve classifiers on the real test rows, and marginal distances."""
    from simulacra.evaluate import evaluate_table

    return evaluate_table(
        material.samples, material.real.test, material.real.schema, seed=material.seed, progress=material.progress
    )


MAJORITY_KEPT = {"adult": 0.4, "census": 0.2, "cervical": 0.3, "credit": 0.002, "covtype": 0.03, "intrusion": 0.03}
"""What DP-HP and DP-NTK kept of the largest class, before they cut off test rows."""


def tables_as_published(material: Material) -> Scores:
    """The same twelve with the papers' habits: predicted classes in place of scores, and fewer of the largest class.

    Not their third, the best of several settings on the test rows.
    """
    from simulacra.evaluate.downstream import train_and_test

    real = material.real
    kept = MAJORITY_KEPT.get(real.name, 1.0)
    label = real.schema.label
    assert label is not None
    largest = real.test[label].value_counts().index[0]
    samples, test = (_fewer(frame, label, largest, kept, material.seed) for frame in (material.samples, real.test))
    return train_and_test(samples, test, real.schema, seed=material.seed, hard=True, progress=material.progress)


def _fewer(frame: Any, label: str, value: Any, kept: float, seed: int) -> Any:
    chosen = (frame[label] != value) | (np.random.default_rng(seed).random(len(frame)) < kept)
    return frame[chosen].reset_index(drop=True)


_ALL = (
    Scoring(
        name="lr-mlp-60000",
        words="logistic regression and a perceptron trained on 60,000 images, as in DP-MEPF",
        fits=grey,
        compute=classify("lr", "mlp", rows=60_000),
    ),
    Scoring(
        name="lr-mlp-6000",
        words="the same two trained on 6,000 of the images, as in DP-MERF, DP-HP and DP-NTK",
        fits=grey,
        compute=classify("lr", "mlp", rows=6_000),
    ),
    Scoring(
        name="cnn",
        words="the convolutional network of the DP-GAN paper, trained on 60,000 images",
        fits=grey,
        compute=classify("cnn", rows=60_000),
    ),
    Scoring(
        name="resnet9",
        words="the ResNet-9 of DP-MEPF, trained on 50,000 images",
        fits=colour,
        compute=classify("resnet9", rows=50_000),
    ),
    Scoring(
        name="fid-dp-gan",
        words="60,000 images (all, where the data set has fewer) against the test images, as in the DP-GAN paper",
        fits=pictures,
        compute=fidelity(rows=60_000, against="test"),
        weights=("inception",),
    ),
    Scoring(
        name="fid-dp-mepf",
        words="5,000 images against the training images, as in DP-MEPF",
        fits=pictures,
        compute=fidelity(rows=5_000, against="train"),
        weights=("inception",),
    ),
    Scoring(
        name="tables",
        words="twelve classifiers, one fixed setting each, scored by their probabilities; the mean over the twelve. Of "
        "a condensed set, the rows of a class come as often as its noisy share asks for",
        fits=lambda schema: schema.image is None,
        compute=tables,
        condensed=None,
    ),
    Scoring(
        name="tables-as-published",
        words="the same twelve by the habits of the DP-HP and DP-NTK papers, save that each has one setting: ranked by "
        "predicted classes, and with their part of the largest class kept in samples and test rows",
        fits=lambda schema: schema.image is None and schema.labelled,
        compute=tables_as_published,
    ),
    Scoring(
        name="convnet-condensed",
        words="the ConvNet of the condensation papers, trained on all of a condensed set for 1,000 epochs",
        fits=labelled_pictures,
        compute=classify("convnet", rows=None),
        condensed=True,
    ),
    Scoring(
        name="networks-condensed",
        words="the other five networks of the condensation papers, trained on the same set in the same way",
        fits=labelled_pictures,
        compute=classify("mlp128", "lenet", "alexnet", "vgg11", "resnet18", rows=None),
        condensed=True,
    ),
)

SCORINGS: dict[str, Scoring] = {scoring.name: scoring for scoring in _ALL}


def choose(names: Iterable[str]) -> list[Scoring]:
    """The named scorings, or all; an unknown name is refused."""
    wanted = list(names)
    for name in wanted:
        if name not in SCORINGS:
            raise click.ClickException(f'no scoring is called "{name}"{suggestion(name, SCORINGS)}')
    return [scoring for name, scoring in SCORINGS.items() if not wanted or name in wanted]


def trim(details: dict[str, Any]) -> dict[str, Any]:
    """What is worth keeping for ever: short values, and each classifier's figures without its time."""
    kept = {name: value for name, value in details.items() if _short(value)}
    groups = {name: value for name, value in details.items() if isinstance(value, dict)}
    kept |= {name: short for name, group in groups.items() if (short := {k: v for k, v in group.items() if _short(v)})}
    rows = details.get("classifiers")
    if isinstance(rows, list) and all(isinstance(row, dict) for row in rows):
        kept["classifiers"] = [{k: v for k, v in row.items() if k != "seconds" and _short(v)} for row in rows]
    return kept


def _short(value: Any) -> bool:
    if isinstance(value, list):
        return len(value) <= LONGEST_DETAIL and all(_short(inner) and not isinstance(inner, list) for inner in value)
    return value is None or isinstance(value, (bool, int, float, str))

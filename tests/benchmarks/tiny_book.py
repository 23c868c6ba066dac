"""A book small enough for tests: embedded data, settings that train in a blink, scorings that take no time."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import rows, scoring, stages
from benchmarks.material import Material
from benchmarks.rows import Family
from benchmarks.scoring import Scoring, grey, pictures
from simulacra.evaluate import Scores, evaluate_table

QUICK = {"pairs": 200, "training.steps": 6, "training.batch": 64, "generator.hidden": "16"}
DRAWN = {"rate": 1.0, "steps": 4, "batch": 16, "critic.channels": 4, "generator.latent": 4}
FAMILIES = [
    Family(method="real", data=("digits", "adult"), seeds=(0,)),
    Family(method="dp-merf", data=("digits",), epsilons=(5,), seeds=(0, 1), settings=QUICK, seeded=("feature_seed",)),
    Family(method="dp-merf", data=("adult",), epsilons=(1,), seeds=(0,), settings=QUICK),
    Family(method="dp-merf", data=("digits",), seeds=(0,), settings=QUICK, variant="free"),
    Family(
        method="dp-gan",
        data=("digits",),
        epsilons=(5,),
        seeds=(0,),
        adjacency="add-remove",
        settings=DRAWN,
        variant="gan",
    ),
    Family(method="dp-merf", data=("digits",), epsilons=(5,), seeds=(0,), settings=QUICK, variant="set", condensed=3),
]


def nearest_mean(material: Material) -> Scores:
    """Classify by the nearest class mean of the samples: a real score that takes no time."""
    (images, labels), (test, truth) = material.samples, material.real.test
    means = [
        images[labels == k].mean(axis=0) if (labels == k).any() else np.full(images.shape[1:], 1e3) for k in range(10)
    ]
    distances = np.stack([((test - mean) ** 2).sum(axis=(1, 2)) for mean in means], axis=1)
    material.progress("nearest means")
    return Scores(
        scores={"lr_accuracy": float((distances.argmin(axis=1) == truth).mean())}, details={"rows": len(images)}
    )


def brightness(material: Material) -> Scores:
    """A stand-in for FID."""
    return Scores(scores={"fid": float(abs(material.samples[0].mean() - material.real.train[0].mean()))})


def two_classifiers(material: Material) -> Scores:
    """As for tables, with two of the twelve."""
    real = material.real
    return evaluate_table(material.samples, real.test[:2000], real.schema, classifiers=["gaussian_nb", "decision_tree"])


SCORINGS = {
    "lr-mlp-6000": Scoring(name="lr-mlp-6000", words="nearest mean", fits=grey, compute=nearest_mean),
    "fid-dp-gan": Scoring(name="fid-dp-gan", words="brightness", fits=pictures, compute=brightness),
    "convnet-condensed": Scoring(
        name="convnet-condensed", words="nearest mean", fits=grey, compute=nearest_mean, condensed=True
    ),
    "tables": Scoring(name="tables", words="two", fits=lambda schema: schema.image is None, compute=two_classifiers),
}


def install(patch: Any = setattr) -> None:
    """Put the small book in the place of the real one."""
    patch(rows, "FAMILIES", FAMILIES)
    for name in list(scoring.SCORINGS):
        if name not in SCORINGS:
            scoring.SCORINGS.pop(name)
    scoring.SCORINGS.update(SCORINGS)
    patch(stages, "IMAGES", 300)
    patch(stages, "MOST_TABLE_ROWS", 400)

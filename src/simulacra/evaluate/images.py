"""Train on synthetic images, test on real ones.

The papers differ in how many synthetic images they train on (6,000 or 60,000), which moves the accuracy by points:
`train_rows` is part of the result. They also differ in whether they report the mean or the best of several seeds: here
the mean, the best and the spread are three scores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulacra.errors import DataError, SettingError, suggestion
from simulacra.evaluate.image_classifiers import CLASSIFIERS, Prediction, predictions
from simulacra.evaluate.pixels import as_bytes
from simulacra.evaluate.scores import Scores
from simulacra.evaluate.seeds import check_seeds
from simulacra.evaluate.training_rows import subsample
from simulacra.networks.allocation import freed_memory_kept

Images = NDArray[np.uint8] | NDArray[np.floating[Any]]

DEFAULT_CLASSIFIERS = ("lr", "mlp")


@freed_memory_kept()
def train_and_test_images(
    synthetic: Images,
    synthetic_labels: NDArray[np.integer[Any]],
    real: Images,
    real_labels: NDArray[np.integer[Any]],
    *,
    pixels: str = "bytes",
    seed: int = 0,
    seeds: int = 1,
    train_rows: int | None = None,
    classifiers: Iterable[str] | None = None,
    device: str = "cpu",
    engine: str = "auto",
    progress: Callable[[str], None] | None = None,
) -> Scores:
    """Accuracy and macro F1 on the real images: `lr_accuracy`, `lr_f1`, `mlp_accuracy`, `mlp_f1`, and so on.

    Both are means over `seeds` networks trained from `seed`, `seed` + 1, ...; with more than one there are also
    `mlp_accuracy_best` and, as standard deviations, `mlp_accuracy_spread` and `mlp_f1_spread`.
    """
    chosen = list(dict.fromkeys(DEFAULT_CLASSIFIERS if classifiers is None else classifiers))
    for name in chosen:
        if name not in CLASSIFIERS:
            raise SettingError(f'unknown classifier "{name}"{suggestion(name, CLASSIFIERS)}')
    check_seeds(seed, seeds)
    images, labels = _checked(synthetic, synthetic_labels, pixels, "synthetic images")
    test_images, test_labels = _checked(real, real_labels, pixels, "real images")
    if images.shape[1:] != test_images.shape[1:]:
        raise DataError(f"synthetic images have {_size(images)} pixels and real ones {_size(test_images)}")
    keep = subsample(len(images), train_rows, seed)
    images, labels = images[keep], labels[keep]
    notes: list[str] = []
    absent = np.setdiff1d(test_labels, labels)
    if len(absent):
        notes.append(f"{len(absent)} classes of the test images never occur among the synthetic ones")
    if len(np.unique(test_labels)) < 2:
        notes.append("the test images hold one class only, so whoever guesses it is always right")
    # Networks want classes that count from 0; these are the ones that occur on either side.
    names, codes = np.unique(np.concatenate([labels, test_labels]), return_inverse=True)
    scores: dict[str, float] = {}
    rows: list[dict[str, Any]] = []
    for number, name in enumerate(chosen, start=1):
        if progress is not None:
            progress(f"{CLASSIFIERS[name]} ({number} of {len(chosen)})")
        answers = predictions(
            name,
            images,
            codes[: len(labels)],
            test_images,
            classes=len(names),
            seeds=range(seed, seed + seeds),
            device=device,
            engine=engine,
            progress=progress,
        )
        row = _row(name, answers, codes[len(labels) :])
        rows.append(row)
        scores |= _scores(name, row)
        if row["note"]:
            notes.append(f"{CLASSIFIERS[name]}: {row['note']}")
    details = {"classifiers": rows, "train_rows": len(images), "test_rows": len(test_images), "seeds": seeds}
    return Scores(scores=scores, details=details, notes=notes)


def _row(name: str, answers: Sequence[Prediction], truth: NDArray[np.int64]) -> dict[str, Any]:
    """What there is to say about one classifier, for all seeds together and for each."""
    per_seed = []
    for answer in answers:
        accuracy, f1 = _metrics(truth, answer.predicted)
        per_seed.append(
            {
                "seed": answer.seed,
                "accuracy": accuracy,
                "f1": f1,
                "seconds": round(answer.seconds, 3),
                "steps": answer.steps,
                "note": answer.note,
            }
            | answer.details
        )
    return {
        "name": name,
        "title": CLASSIFIERS[name],
        "accuracy": float(np.mean([one["accuracy"] for one in per_seed])),
        "f1": float(np.mean([one["f1"] for one in per_seed])),
        "per_seed": per_seed,
        "seconds": round(sum(answer.seconds for answer in answers), 3),
        "engine": answers[0].engine,
        "note": "; ".join(dict.fromkeys(answer.note for answer in answers if answer.note)),
    }


def _scores(name: str, row: dict[str, Any]) -> dict[str, float]:
    scores = {f"{name}_accuracy": row["accuracy"], f"{name}_f1": row["f1"]}
    accuracies = [one["accuracy"] for one in row["per_seed"]]
    if len(accuracies) > 1:
        scores[f"{name}_accuracy_best"] = max(accuracies)
        scores[f"{name}_accuracy_spread"] = float(np.std(accuracies, ddof=1))
        scores[f"{name}_f1_spread"] = float(np.std([one["f1"] for one in row["per_seed"]], ddof=1))
    return scores


def _metrics(truth: NDArray[np.int64], predicted: NDArray[np.int64]) -> tuple[float, float]:
    from sklearn.metrics import f1_score

    f1 = f1_score(truth, predicted, average="macro", labels=np.unique(truth), zero_division=0.0)
    return float(np.mean(truth == predicted)), float(f1)


def _checked(
    images: Images, labels: NDArray[np.integer[Any]], pixels: str, what: str
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    numbers = np.asarray(labels).astype(np.int64).ravel()
    if len(images) != len(numbers):
        raise DataError(f"{what}: {len(images)} images but {len(numbers)} labels")
    return as_bytes(images, pixels, what=what), numbers


def _size(images: NDArray[np.uint8]) -> str:
    return " x ".join(map(str, images.shape[1:]))

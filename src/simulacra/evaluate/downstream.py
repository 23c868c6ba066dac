"""Train on synthetic rows, test on real rows: how useful the synthetic table is for the task its label states.

Scores come from probabilities or decision values, never from hard labels, and the test rows keep their own class
shares. The papers' evaluators differ on both points, so their figures are not comparable with these.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from simulacra.data.frames import Encoded, as_encoded
from simulacra.errors import SchemaError
from simulacra.evaluate.breakdown import Outcome, by_class, by_group
from simulacra.evaluate.classifiers import CANNOT_TRAIN, Classifier, choose
from simulacra.evaluate.design_matrix import MOST_ONE_HOT, design_of, shared_out
from simulacra.evaluate.progress import Progress, silent
from simulacra.evaluate.ranking import auprc, auroc
from simulacra.evaluate.scores import Scores
from simulacra.evaluate.training_rows import subsample
from simulacra.schema import Schema

if TYPE_CHECKING:
    import pandas as pd

METRICS = ("auroc", "auprc", "f1", "accuracy")
MOST_WORKERS = 8
"""Threads that train classifiers side by side: each holds a copy of the training rows."""


@dataclass(frozen=True, kw_only=True)
class _Task:
    """Encoded training and test rows, with training classes renumbered without gaps (boosters insist)."""

    inputs: NDArray[np.float32]
    labels: NDArray[np.int64]
    test_inputs: NDArray[np.float32]
    test_labels: NDArray[np.int64]
    present: NDArray[np.int64]
    classes: int
    hard: bool

    @property
    def binary(self) -> bool:
        return self.classes == 2


def train_and_test(
    synthetic: pd.DataFrame | Encoded,
    real: pd.DataFrame | Encoded,
    schema: Schema,
    *,
    seed: int = 0,
    train_rows: int | None = None,
    classifiers: Iterable[str] | None = None,
    hard: bool = False,
    groups: Iterable[str] | None = None,
    progress: Progress = silent,
) -> Scores:
    """Fit each classifier on `synthetic` and score it on `real`, several at a time.

    `hard` ranks test rows by the predicted class alone, as the papers did; it is there to be compared with them.

    `auroc`, `auprc`, `f1` and `accuracy`, each as `_mean` and `_best` over the classifiers. With two classes the second
    value of the label is the positive one. With more, AUROC and AUPRC are of one class against the rest, averaged over
    the classes that occur in the test rows, and F1 is weighted by their shares. `details` has the same by class and
    by the values of the columns in `groups` (by default unordered ones with few values).
    """
    if schema.label is None:
        raise SchemaError("the schema names no label; add label = COLUMN to train classifiers")
    ours = as_encoded(synthetic, schema, what="synthetic table")
    theirs = as_encoded(real, schema, what="real table")
    chosen = choose(classifiers)
    notes: list[str] = []
    task = _task(ours, theirs, seed, train_rows, hard, notes)
    outcomes = _all(chosen, task, seed, progress)
    rows = [outcome.row for outcome in outcomes]
    notes += [f"{row['title']}: {row['note']}" for row in rows if row["note"]]
    details: dict[str, Any] = {
        "classifiers": rows,
        "train_rows": len(task.labels),
        "test_rows": len(task.test_labels),
        "classes": list(schema.class_names),
        "by_class": by_class(ours, theirs, outcomes),
        "by_group": by_group(ours, theirs, outcomes, groups),
    }
    if task.binary:
        details["positive_class"] = schema.class_names[1]
        details["positive_share_of_test_rows"] = float(np.mean(task.test_labels == 1))
    scores: dict[str, float] = {}
    for metric in METRICS:
        values = [row[metric] for row in rows]
        scores[f"{metric}_mean"] = float(np.mean(values))
        scores[f"{metric}_best"] = float(np.max(values))
    return Scores(scores=scores, details=details, notes=notes)


def _task(synthetic: Encoded, real: Encoded, seed: int, train_rows: int | None, hard: bool, notes: list[str]) -> _Task:
    schema = real.schema
    keep = subsample(len(synthetic), train_rows, seed)
    labels = synthetic.labels.numpy()[keep]
    test_labels = real.labels.numpy()
    present, renumbered = np.unique(labels, return_inverse=True)
    names = schema.class_names
    absent = [names[index] for index in np.setdiff1d(np.unique(test_labels), present)]
    if absent:
        notes.append(f"classes of the test rows that the synthetic rows never show: {', '.join(absent)}")
    if len(np.unique(test_labels)) < 2:
        notes.append("the test rows hold one class only, so no ranking can be measured: AUROC is set to 0.5")
    if shared_out(schema):
        notes.append(
            f"columns with more than {MOST_ONE_HOT} values ({', '.join(shared_out(schema))}) were folded into that "
            "many for the classifiers, so they see less of them"
        )
    return _Task(
        inputs=design_of(synthetic.inputs[keep], schema),
        labels=np.asarray(renumbered, dtype=np.int64),
        test_inputs=design_of(real.inputs, schema),
        test_labels=test_labels,
        present=present,
        classes=schema.classes,
        hard=hard,
    )


def _all(chosen: list[Classifier], task: _Task, seed: int, progress: Progress) -> list[Outcome]:
    """Every classifier, a thread per core: nearly all of the work is done by compiled code that lets others run."""
    import sklearn.metrics  # noqa: F401  here, and all else below: threads that import one library can lock up
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    progress("classifiers", 0, len(chosen))
    estimators = [classifier.make(seed) for classifier in chosen]
    workers = min(len(chosen), os.cpu_count() or 1, MOST_WORKERS)
    # Small matrix products gain nothing from threads and lose a factor of 3 to 5 when other work shares the cores.
    with warnings.catch_warnings(), threadpool_limits(1), ThreadPoolExecutor(workers) as pool:
        # Not converged, collinear columns, a class with one row: ordinary on poor data, and scored as it stands.
        warnings.simplefilter("ignore")
        # The slow ones first, so that no core is left with one of them at the end.
        order = sorted(range(len(chosen)), key=lambda place: not chosen[place].slow)
        waiting = {pool.submit(_one, chosen[place], estimators[place], task): place for place in order}
        found: dict[int, Outcome] = {}
        for done, future in enumerate(as_completed(waiting), start=1):
            found[waiting[future]] = future.result()
            progress("classifiers", done, len(chosen))
    return [found[place] for place in range(len(chosen))]


def _one(classifier: Classifier, estimator: Any, task: _Task) -> Outcome:
    """Fit and score one classifier; one that cannot be fitted scores like a guess that ignores the inputs."""
    started = time.perf_counter()
    note = ""
    values = np.zeros((len(task.test_labels), task.classes))
    if len(task.present) < 2:
        note = "not trained, because all synthetic labels are the same class; scored as a guess"
    else:
        try:
            values[:, task.present] = _fit_and_score(classifier, estimator, task)
        except CANNOT_TRAIN as error:
            note = f"could not be trained on these {len(task.labels)} rows ({type(error).__name__}); scored as a guess"
            values[:] = 0.0
    if not np.isfinite(values).all():
        # A naive Bayes model with no spread at all divides zero by zero; such rows carry no opinion.
        note = "gave no number for some rows, which were scored as a guess"
        values = np.nan_to_num(values, nan=0.0, posinf=np.finfo(np.float64).max, neginf=np.finfo(np.float64).min)
    absent = np.setdiff1d(np.arange(task.classes), task.present)
    predictions = values.copy()
    predictions[:, absent] = -np.inf
    if note.endswith("scored as a guess") and not values.any():
        predictions[:, np.bincount(task.present[task.labels]).argmax()] = np.inf
    result: dict[str, Any] = {"name": classifier.name, "title": classifier.title}
    predicted = predictions.argmax(axis=1)
    if task.hard:
        values = np.eye(task.classes)[predicted]
    result |= _metrics(task, values, predicted)
    result |= {"seconds": round(time.perf_counter() - started, 3), "note": note}
    return Outcome(row=result, values=values, predicted=predicted)


def _fit_and_score(classifier: Classifier, estimator: Any, task: _Task) -> NDArray[np.float64]:
    """One number per test row and class that occurs in training, larger for likelier."""
    precision = np.float64 if classifier.double else np.float32
    test_inputs = task.test_inputs.astype(precision, copy=False)
    with np.errstate(all="ignore"):
        estimator.fit(task.inputs.astype(precision, copy=False), task.labels)
        if hasattr(estimator, "predict_proba"):
            values = np.asarray(estimator.predict_proba(test_inputs), dtype=np.float64)
        else:
            values = np.asarray(estimator.decision_function(test_inputs), dtype=np.float64)
    return np.stack([-values, values], axis=1) if values.ndim == 1 else values


def _metrics(task: _Task, values: NDArray[np.float64], predicted: NDArray[np.intp]) -> dict[str, float]:
    from sklearn.metrics import f1_score

    truth = task.test_labels
    accuracy = float(np.mean(predicted == truth))
    if task.binary:
        positive = truth == 1
        f1 = float(f1_score(positive, predicted == 1, zero_division=0.0))
        ranked = {"auroc": auroc(positive, values[:, 1]), "auprc": auprc(positive, values[:, 1])}
        return ranked | {"f1": f1, "accuracy": accuracy}
    present = np.unique(truth)
    f1 = float(f1_score(truth, predicted, average="weighted", labels=present, zero_division=0.0))
    return {
        "auroc": float(np.mean([auroc(truth == index, values[:, index]) for index in present])),
        "auprc": float(np.mean([auprc(truth == index, values[:, index]) for index in present])),
        "f1": f1,
        "accuracy": accuracy,
    }

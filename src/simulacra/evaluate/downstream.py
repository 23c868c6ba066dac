"""Train on synthetic rows, test on real rows: how useful the synthetic table is for the task its label states.

Scores come from probabilities or decision values, never from hard labels, and the test rows keep their own class
shares. The papers' evaluators differ on both points, so their figures are not comparable with these.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from simulacra.evaluate.cells import check_frame
from simulacra.evaluate.classifiers import Classifier, choose
from simulacra.evaluate.design_matrix import class_index, design_matrix
from simulacra.evaluate.scores import Scores
from simulacra.evaluate.training_rows import subsample
from simulacra.schema import Schema

if TYPE_CHECKING:
    import pandas as pd

Progress = Callable[[str], None]


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
    synthetic: pd.DataFrame,
    real: pd.DataFrame,
    schema: Schema,
    *,
    seed: int = 0,
    train_rows: int | None = None,
    classifiers: Iterable[str] | None = None,
    hard: bool = False,
    progress: Progress | None = None,
) -> Scores:
    """Fit each classifier on `synthetic` and score it on `real`.

    `hard` ranks test rows by the predicted class alone, as the papers did; it is there to be compared with them.

    With two classes: `auroc_mean`, `auprc_mean` (the mean over classifiers), `auroc_best` and `auprc_best`; the second
    value of the label is the positive one. With more: `f1_mean`, `f1_best` (weighted F1), `auroc_mean` and `auroc_best`
    (one class against the rest, averaged over the classes that occur in the test rows).
    """
    check_frame(synthetic, schema, what="synthetic table")
    check_frame(real, schema, what="real table")
    chosen = choose(classifiers)
    notes: list[str] = []
    task = _task(synthetic, real, schema, seed, train_rows, hard, notes)
    rows: list[dict[str, Any]] = []
    for number, classifier in enumerate(chosen, start=1):
        if progress is not None:
            progress(f"{classifier.title} ({number} of {len(chosen)})")
        row = _one(classifier, task, seed)
        if row["note"]:
            notes.append(f"{classifier.title}: {row['note']}")
        rows.append(row)
    details: dict[str, Any] = {
        "classifiers": rows,
        "train_rows": len(task.labels),
        "test_rows": len(task.test_labels),
        "classes": list(schema.class_names),
    }
    if task.binary:
        details["positive_class"] = schema.class_names[1]
        details["positive_share_of_test_rows"] = float(np.mean(task.test_labels == 1))
    metrics = ("auroc", "auprc") if task.binary else ("f1", "auroc")
    scores: dict[str, float] = {}
    for metric in metrics:
        values = [row[metric] for row in rows]
        scores[f"{metric}_mean"] = float(np.mean(values))
        scores[f"{metric}_best"] = float(np.max(values))
    return Scores(scores=scores, details=details, notes=notes)


def _task(
    synthetic: pd.DataFrame,
    real: pd.DataFrame,
    schema: Schema,
    seed: int,
    train_rows: int | None,
    hard: bool,
    notes: list[str],
) -> _Task:
    labels = class_index(synthetic, schema)
    keep = subsample(len(labels), train_rows, seed)
    labels = labels[keep]
    test_labels = class_index(real, schema)
    present, renumbered = np.unique(labels, return_inverse=True)
    names = schema.class_names
    absent = [names[index] for index in np.setdiff1d(np.unique(test_labels), present)]
    if absent:
        notes.append(f"classes of the test rows that the synthetic rows never show: {', '.join(absent)}")
    if len(np.unique(test_labels)) < 2:
        notes.append("the test rows hold one class only, so no ranking can be measured: AUROC is set to 0.5")
    return _Task(
        inputs=design_matrix(synthetic.iloc[keep], schema),
        labels=np.asarray(renumbered, dtype=np.int64),
        test_inputs=design_matrix(real, schema),
        test_labels=test_labels,
        present=present,
        classes=schema.classes,
        hard=hard,
    )


def _one(classifier: Classifier, task: _Task, seed: int) -> dict[str, Any]:
    """Fit and score one classifier; one that cannot be fitted scores like a guess that ignores the inputs."""
    started = time.perf_counter()
    note = ""
    values = np.zeros((len(task.test_labels), task.classes))
    if len(task.present) < 2:
        note = "not trained, because all synthetic labels are the same class; scored as a guess"
    else:
        try:
            values[:, task.present] = _fit_and_score(classifier, task, seed)
        except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
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
    return result | {"seconds": round(time.perf_counter() - started, 3), "note": note}


def _fit_and_score(classifier: Classifier, task: _Task, seed: int) -> NDArray[np.float64]:
    """One number per test row and class that occurs in training, larger for likelier."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    estimator = classifier.make(seed)
    precision = np.float64 if classifier.double else np.float32
    test_inputs = task.test_inputs.astype(precision, copy=False)
    # Small matrix products gain nothing from threads and lose a factor of 3 to 5 when other work shares the cores.
    with warnings.catch_warnings(), np.errstate(all="ignore"), threadpool_limits(1, user_api="blas"):
        # Not converged, collinear columns, a class with one row: ordinary on poor data, and scored as it stands.
        warnings.simplefilter("ignore")
        estimator.fit(task.inputs.astype(precision, copy=False), task.labels)
        if hasattr(estimator, "predict_proba"):
            values = np.asarray(estimator.predict_proba(test_inputs), dtype=np.float64)
        else:
            values = np.asarray(estimator.decision_function(test_inputs), dtype=np.float64)
    return np.stack([-values, values], axis=1) if values.ndim == 1 else values


def _metrics(task: _Task, values: NDArray[np.float64], predicted: NDArray[np.intp]) -> dict[str, float]:
    from sklearn.metrics import average_precision_score, f1_score

    truth = task.test_labels
    if task.binary:
        positive = truth == 1
        share = float(positive.mean())
        # A single score for all rows has the share of positives as its precision at every recall.
        auprc = float(average_precision_score(positive, values[:, 1])) if 0 < share < 1 else share
        return {"auroc": _auroc(positive, values[:, 1]), "auprc": auprc}
    each = [_auroc(truth == index, values[:, index]) for index in np.unique(truth)]
    f1 = f1_score(truth, predicted, average="weighted", labels=np.unique(truth), zero_division=0.0)
    return {"f1": float(f1), "auroc": float(np.mean(each))}


def _auroc(positive: NDArray[np.bool_], values: NDArray[np.float64]) -> float:
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(positive, values)) if 0 < positive.sum() < len(positive) else 0.5

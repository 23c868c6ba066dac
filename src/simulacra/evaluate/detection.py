"""Detection: can a classifier tell a synthetic row from a real one? AUROC over rows it was not fitted on.

0.5 means that it cannot; 1 that every synthetic row gives itself away. This judges the whole row, label included, and
is harsh: one value that is slightly too frequent is enough. Two detectives are sent: a linear one, which sees shares
of values and shifted means, and a boosted one, which sees combinations too.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from simulacra.data.frames import Encoded, as_encoded
from simulacra.evaluate.design_matrix import design_of
from simulacra.evaluate.ranking import auroc
from simulacra.evaluate.scores import Scores
from simulacra.evaluate.training_rows import subsample
from simulacra.schema import Schema

if TYPE_CHECKING:
    import pandas as pd

MOST_ROWS = 5000
"""Of each kind: more would take longer and change the third digit."""
FOLDS = 3
SUSPICIOUS = 0.4
WORSE_THAN_A_COIN = (
    "detection is well below 0.5: synthetic rows repeat real ones, whose twins were learned under the other name, "
    "or there are too few rows"
)


def detect(synthetic: pd.DataFrame | Encoded, real: pd.DataFrame | Encoded, schema: Schema, *, seed: int = 0) -> Scores:
    """`detection_auroc` of the boosted detective and `detection_auroc_linear`, with as many rows of either kind."""
    ours = as_encoded(synthetic, schema, what="synthetic table")
    theirs = as_encoded(real, schema, what="real table")
    rows = min(len(ours), len(theirs), MOST_ROWS)
    if rows < 2 * FOLDS:
        return Scores(scores={}, notes=[f"detection needs at least {2 * FOLDS} rows of either kind, so there is none"])
    inputs = np.concatenate([_whole_rows(ours, rows, seed), _whole_rows(theirs, rows, seed + 1)])
    synthetic_row = np.repeat([True, False], rows)
    folds = np.tile(np.arange(rows) % FOLDS, 2)
    scores = {
        name: _held_out(make, inputs, synthetic_row, folds, seed)
        for name, make in (("detection_auroc", _boosted), ("detection_auroc_linear", _linear))
    }
    notes = [WORSE_THAN_A_COIN] if min(scores.values()) < SUSPICIOUS else []
    return Scores(scores=scores, details={"detection_rows": rows}, notes=notes)


def _whole_rows(rows: Encoded, wanted: int, seed: int) -> NDArray[np.float32]:
    """Features and, one-hot, the label, of rows in random order."""
    keep = subsample(len(rows), wanted, seed)
    # Drawn rows come in the order of the file, which often has one class after the other.
    keep = np.random.default_rng(seed).permutation(keep)
    features = design_of(rows.inputs[keep], rows.schema)
    classes = np.eye(rows.schema.classes, dtype=np.float32)[rows.labels.numpy()[keep]]
    return np.concatenate([features, classes], axis=1)


def _held_out(
    make: Any, inputs: NDArray[np.float32], truth: NDArray[np.bool_], folds: NDArray[np.int64], seed: int
) -> float:
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    found = []
    # One thread: those of the booster wait for each other in a busy loop where cores are shared.
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        for fold in range(FOLDS):
            aside = folds == fold
            model = make(seed).fit(inputs[~aside], truth[~aside])
            found.append(auroc(truth[aside], model.predict_proba(inputs[aside])[:, 1]))
    return float(np.mean(found))


def _boosted(seed: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(random_state=seed)


def _linear(seed: int) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(max_iter=500, random_state=seed)

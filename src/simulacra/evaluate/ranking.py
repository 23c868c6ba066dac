"""How well numbers rank positives above negatives; defined where a class is missing too."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def auroc(positive: NDArray[np.bool_], values: NDArray[np.float64]) -> float:
    """Area under the ROC curve; 0.5, a guess, where one of the two sides is empty."""
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(positive, values)) if 0 < positive.sum() < len(positive) else 0.5


def auprc(positive: NDArray[np.bool_], values: NDArray[np.float64]) -> float:
    """Average precision; a single value for all rows has the share of positives as its precision at every recall."""
    from sklearn.metrics import average_precision_score

    share = float(positive.mean())
    return float(average_precision_score(positive, values)) if 0 < share < 1 else share

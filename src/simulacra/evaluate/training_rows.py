"""Which synthetic rows a classifier sees."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simulacra.errors import SettingError


def check_rows(wanted: int | None) -> None:
    """Refuse to train on nothing."""
    if wanted is not None and wanted < 1:
        raise SettingError(f"rows must be at least 1, got {wanted}")


def subsample(rows: int, wanted: int | None, seed: int) -> NDArray[np.intp]:
    """The indices of `wanted` rows drawn without replacement, in order; all rows if `wanted` is None or too many."""
    if wanted is not None and wanted < 1:
        raise SettingError(f"train_rows must be at least 1, got {wanted}")
    if wanted is None or wanted >= rows:
        return np.arange(rows)
    return np.sort(np.random.default_rng(seed).choice(rows, size=wanted, replace=False))

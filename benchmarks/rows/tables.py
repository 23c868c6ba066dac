"""Rows of tables by methods that release once, and by rivals."""

from __future__ import annotations

from typing import Any

from benchmarks import rivals
from benchmarks.rows.row import TABLES, Family


def families() -> list[Family]:
    """Every table at epsilon 1, and Adult at others."""
    return [
        Family(method="hybrid", data=("adult",), epsilons=(1, 10), seeded=("feature_seed",)),
        Family(method="pairs", data=("adult",), epsilons=(0.2, 10)),
        Family(method="pairs", data=TABLES, epsilons=(1,)),
        *_without_ingredients(),
        *(
            Family(method=method, data=TABLES, epsilons=(1,), seeded=("feature_seed",))
            for method in ("dp-merf", "dp-ntk", "dp-hp")
        ),
        *(
            Family(method=method, data=("adult",), epsilons=(10,), seeded=("feature_seed",))
            for method in ("dp-merf", "dp-ntk", "dp-hp")
        ),
        # Their relation is add-remove, which is the weaker promise: a line of ours under it stands beside them.
        Family(method="pairs", data=TABLES, epsilons=(1,), adjacency="add-remove", variant="add-remove"),
        *(Family(method=name, data=TABLES, epsilons=(1,), adjacency="add-remove") for name in rivals.NAMES),
        *(Family(method=name, data=("adult",), epsilons=(10,), adjacency="add-remove") for name in rivals.NAMES),
    ]


def _without_ingredients() -> list[Family]:
    """Pairs on Adult without one of its parts at a time: what each adds."""
    even = round(14 / 105, 4)  # 14 columns and the label make 105 pairs, 14 of them with the label
    without: dict[str, dict[str, Any]] = {
        "network": {"generator.kind": "auto"},
        "even-shares": {"label_share": even},
        "noisy-columns": {"column_noise": 100.0},
        "no-strong": {"fitting.label_spread": 0.5},
        "no-prior": {"fitting.spread": 1000.0, "fitting.label_spread": 1000.0},
    }
    return [
        Family(method="pairs", data=("adult",), epsilons=(1,), seeds=(0, 1, 2), settings=settings, variant=variant)
        for variant, settings in without.items()
    ]

"""Rows of NDPDC, LDPDC and DPMix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from benchmarks.rows.row import Family
from simulacra.methods.presets import preset


def families() -> list[Family]:
    """LDPDC and NDPDC: the paper's tables, its sweeps, and NDPDC with a learning rate that falls."""

    def family(
        method: str,
        data: str,
        epsilons: Sequence[float | None],
        variant: str = "",
        per_class: int = 50,
        **settings: Any,
    ) -> Family:
        chosen = {**preset(method, data), "per_class": per_class, **settings}
        return Family(
            method=method,
            data=(data,),
            epsilons=epsilons,
            adjacency="add-remove",
            settings=chosen,
            variant=variant,
            condensed=per_class,
        )

    found = []
    # The paper's default is a noise multiplier of 1, which is this epsilon with counts, by privacy loss distributions.
    for data, default in (("mnist", 5.0), ("fashion-mnist", 5.0), ("cifar10", 6.2), ("celeba-gender", 0.31)):
        found += [
            family("ndpdc", data, (1, default)),
            family("ndpdc", data, (1, default), "falling", final_rate=0.05),
            family("ldpdc", data, (1,)),
            # Distribution matching: no noise, no clipping, and a loss of means where the others have sums of 50.
            family("ndpdc", data, (None,), "dm", clip=None, learning_rate=0.0004),
        ]
    found += [
        family("ndpdc", "adult", (1, 10)),
        family("ndpdc", "adult", (1, 10), "falling", rounds=2000, final_rate=0.05),
        # The defaults for tables, with groups of 500 on average; chosen on held-back training rows.
        replace(
            family("ndpdc", "adult", (1, 10), "rectified"),
            settings={"per_class": 50, "rate": round(1000 / 32_561, 6)},
        ),
        family("ldpdc", "mnist", (10,)),
        family("ndpdc", "mnist", (10,)),
        family("ndpdc", "mnist", (10,), "falling", final_rate=0.05),
    ]
    # Groups of 50 on average, by public numbers; two classes of 32,561 records, and ten of 60,000 images.
    for method, data, rate in (
        ("ldpdc", "adult", 100 / 32_561),
        ("dpmix", "adult", 100 / 32_561),
        ("dpmix", "mnist", 500 / 60_000),
    ):
        settings = {"per_class": 50, "rate": round(rate, 6)}
        one = Family(method=method, data=(data,), epsilons=(1, 10), adjacency="add-remove", settings=settings)
        found.append(replace(one, condensed=50))
    # Begun from samples of a cheap release, in the same budget, and from noise where the rows above do not have it.
    found += [family("ndpdc", "mnist", (0.2,)), family("ndpdc", "mnist", (0.2, 1), "from-moments", begin="moments")]
    # For a processor, a quarter of an hour: a twentieth of the rounds, which samples of moments save the first steps.
    found.append(family("ndpdc", "mnist", (1, 10), "brief", begin="moments", rounds=500, final_rate=0.05))
    # Tables VI to IX: noise, group size, rounds and set size; the noise follows from epsilon.
    found.append(family("ndpdc", "mnist", (2,), "sweep-noise"))
    found += [family("ndpdc", "mnist", (1,), f"group{size}", rate=size / 6000) for size in (25, 100)]
    found += [family("ndpdc", "mnist", (1,), f"rounds{count}", rounds=count) for count in (2000, 4000, 8000)]
    found += [family("ndpdc", "mnist", (1,), f"per-class{count}", per_class=count) for count in (10, 20, 100, 200)]
    return found

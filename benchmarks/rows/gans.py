"""Rows of DP-GAN."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.rows.row import Family
from simulacra.methods.presets import preset


def families() -> list[Family]:
    """DP-GAN: the paper's runs, its sweeps, and shorter runs that show the same order where GPU time is short."""

    def family(data: str, epsilons: Sequence[float | None], variant: str, settings: Mapping[str, Any]) -> Family:
        seeds = (0, 1, 2)
        return Family(
            method="dp-gan",
            data=(data,),
            epsilons=epsilons,
            seeds=seeds,
            adjacency="add-remove",
            settings=settings,
            variant=variant,
        )

    def sampled(batch: int, steps: int) -> dict[str, Any]:
        """Batches of that many of 60,000 images, a public number."""
        return {"batch": batch, "rate": round(batch / 60_000, 7), "steps": steps}

    fixed, adaptive = preset("dp-gan", "mnist-fixed"), preset("dp-gan", "mnist")
    found = []
    for data in ("mnist", "fashion-mnist"):
        found += [
            family(data, (10,), "adaptive", preset("dp-gan", data)),
            family(data, (1,), "adaptive", preset("dp-gan", f"{data}-strict")),
        ]
    found.append(family("fashion-mnist", (10,), "pace100", preset("dp-gan", "fashion-mnist-fixed")))
    for critic_steps in (1, 10, 50, 100, 200):
        pace = {**fixed, "schedule.critic_steps": (critic_steps,)}
        found.append(family("mnist", (10,), f"pace{critic_steps}", pace))
        found.append(family("mnist", (10,), f"pace{critic_steps}-short", {**pace, **sampled(128, 50_000)}))
    for batch, steps in ((64, 450_000), (128, 450_000), (2048, 105_000)):
        found.append(family("mnist", (10,), f"batch{batch}", {**adaptive, **sampled(batch, steps)}))
    # An eighth of the published run's records, in fewer and larger steps with an average of the generator's weights.
    # Chosen on training images of MNIST: with so little noise the critic is ahead at a threshold of 0.6, and no more
    # steps of its own would ever come.
    large = {**sampled(2048, 7500), "learning_rate": 3e-4, "schedule.threshold": 0.8, "average": 0.999}
    found += [family(data, (1, 10), "large-short", {**adaptive, **large}) for data in ("mnist", "fashion-mnist")]
    # Half of the published steps. At the same epsilon each has less noise by the root of two, and a learning rate that
    # is higher by as much goes as far in half the steps; with less noise the paper found the higher threshold better.
    half = {"learning_rate": 3e-4, "average": 0.999}
    for data in ("mnist", "fashion-mnist"):
        for epsilon, name, steps in ((10, data, 87_000), (1, f"{data}-strict", 82_500)):
            chosen = {**preset("dp-gan", name), **half, "steps": steps, "schedule.threshold": 0.7}
            found.append(family(data, (epsilon,), "adaptive-half", chosen))
    pace = {**fixed, **half, **sampled(128, 225_000), "schedule.critic_steps": (50,)}
    found.append(family("mnist", (10,), "pace50-half", pace))
    # At the published run's noise multiplier, 0.97, for a fortieth of its steps; which is what the epsilon comes from.
    for critic_steps in (1, 10):
        brief = {**fixed, **sampled(128, 12_000), "schedule.critic_steps": (critic_steps,)}
        found.append(family("mnist", (1.5,), f"pace{critic_steps}-brief", brief))
    # For a processor, ten minutes: a critic of few weights, which so few steps teach labels, where a convolutional one
    # learns looks first. Chosen on held-back training images of MNIST.
    dense = {
        **sampled(1000, 3000),
        "critic.kind": "dense",
        "critic.hidden": (256, 128),
        "generator.kind": "convolutional",
        "generator.latent": 90,
        "learning_rate": 1e-3,
        "average": 0.99,
        "fake_labels": "uniform",
        "schedule.threshold": 0.7,
        "schedule.grace": 50,
    }
    found += [family(data, (1, 10), "dense", dense) for data in ("mnist", "fashion-mnist")]
    found += [
        # Without noise, a generator step for each critic step, as GANs are usually trained; Figure 4 of the paper.
        family("mnist", (None,), "pace1", {**fixed, **sampled(128, 50_000), "schedule.critic_steps": (1,)}),
        family("adult", (1, 10), "", {"rate": 0.02, "steps": 5000, "average": 0.0}),
        family("adult", (1, 10), "averaged", {"rate": 0.02, "steps": 5000}),
    ]
    return found

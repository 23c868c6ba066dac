"""From releases to a sampler: free of privacy cost, as often as one likes, on any machine with torch."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from simulacra.errors import PlanError
from simulacra.generators import GeneratorOptions
from simulacra.methods import AUTO, make_method
from simulacra.networks.devices import pick_device, plain_torch
from simulacra.privacy.budget import Adjacency
from simulacra.schema import Schema
from simulacra.synthesis.releasing import load_schema, plan_for, release
from simulacra.synthesis.run import Run, check_seed
from simulacra.synthesis.watching import Watcher


@plain_torch()
def train(
    run: Run | str | Path,
    *,
    seed: int = 0,
    device: str = "auto",
    settings: Mapping[str, Any] | None = None,
    watcher: Watcher | None = None,
) -> Run:
    """Train (again) from the releases in a run folder. `settings` may change all that did not decide what was asked."""
    from simulacra.methods.base import Context, ReleaseOnce

    opened = run if isinstance(run, Run) else Run.load(run)
    check_seed(seed)
    watcher = watcher or Watcher()
    method = make_method(opened.facts["method"], {**opened.method.to_mapping(), **(settings or {})}, opened.schema)
    before = opened.method
    if not isinstance(method, ReleaseOnce) or not isinstance(before, ReleaseOnce):
        raise PlanError(f"{method.name} trains on the records and cannot be trained again from its release")
    changed = [name for name, value in method.asking().items() if before.asking()[name] != value]
    if changed:
        raise PlanError(f"{', '.join(changed)} decided what was released and cannot change now; release again for that")
    checkpoint = opened.folder / "checkpoint"
    context = Context(
        seed=seed,
        device=pick_device(device),
        checkpoint=checkpoint,
        on_step=watcher.on_step,
        on_look=watcher.on_look,
        samples=lambda: opened.sampler,
    )
    releases = opened.releases
    _forget_other_training(opened, {"seed": seed, "device": context.device, "settings": method.to_mapping()})
    options = getattr(method, "generator", None)
    condensed = isinstance(options, GeneratorOptions) and options.condensed
    watcher.stage("Training the records" if condensed else "Training the generator")
    sampler = method.train(opened.schema, releases, context)
    sampler.save(opened.folder)
    opened.write_json(
        "training.json",
        {
            "seed": seed,
            "device": context.device,
            "settings": method.to_mapping(),
            "stopped_early": context.stopped_early,
            "curve": context.curve,
            **({"curves": context.curves} if context.curves else {}),
        },
    )
    if not context.stopped_early:
        shutil.rmtree(checkpoint, ignore_errors=True)
    return Run(opened.folder)


def fit(
    data: Any,
    *,
    schema: Schema | str | Path,
    method: str = AUTO,
    epsilon: float | None,
    delta: float | None,
    adjacency: str | Adjacency,
    out: str | Path,
    ledger: str | Path | None = None,
    label: str | None = None,
    settings: Mapping[str, Any] | None = None,
    seed: int = 0,
    device: str = "auto",
    not_private: bool = False,
    resume: bool = False,
    watcher: Watcher | None = None,
) -> Run:
    """Release, then train; both at once for methods that draw while they learn.

    `data` is a path, a DataFrame, an Arrow table, or images and labels as arrays.

    run = fit("patients.csv", schema="schema.toml", epsilon=1.0, delta=1e-5, adjacency="add-remove", out="run")

    The adjacency has no default: choose "add-remove" or "replace-one". See `release` and `train` for the rest.
    """
    from simulacra.methods.looping import PrivateLoop

    device = pick_device(device)
    check_seed(seed)
    loaded = load_schema(schema, label)
    chosen = make_method(method, settings or {}, loaded)
    if isinstance(chosen, PrivateLoop):
        from simulacra.synthesis.looping import begin

        planned = plan_for(chosen, loaded, epsilon, delta, adjacency, not_private)
        return begin(
            data,
            schema=loaded,
            method=chosen,
            plan=planned,
            out=out,
            ledger=ledger,
            seed=seed,
            device=device,
            resume=resume,
            watcher=watcher,
        )
    run = release(
        data,
        schema=loaded,
        method=method,
        epsilon=epsilon,
        delta=delta,
        adjacency=adjacency,
        out=out,
        ledger=ledger,
        settings=settings,
        not_private=not_private,
        resume=resume,
        watcher=watcher,
    )
    return train(run, seed=seed, device=device, watcher=watcher)


def _forget_other_training(run: Run, wanted: dict[str, Any]) -> None:
    """A checkpoint is continued only by the same training; another seed, device or other settings start anew."""
    folder = run.folder / "checkpoint"
    stamp = folder / "wanted.json"
    if stamp.exists() and run._json("checkpoint/wanted.json") == wanted:
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(exist_ok=True)
    run.write_json("checkpoint/wanted.json", wanted)

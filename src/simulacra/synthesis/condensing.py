"""Condense: a few records per class that match an existing release, in a new run folder, free of privacy cost."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from simulacra.data.writers import check_new
from simulacra.errors import CertificateError, OutputError, PlanError, SettingError, suggestion
from simulacra.generators import GeneratorOptions
from simulacra.synthesis.run import Run
from simulacra.synthesis.training import train
from simulacra.synthesis.watching import Watcher

RELEASED = ("schema.toml", "plan.json", "certificate.json", "releases", "run.json")
"""What a run has of its release; run.json comes last, because it makes a folder a run."""
SAMPLER = ("sampler.safetensors", "sampler.json")
INITS = ("auto", "noise", "grey", "samples")


def condense(
    run: Run | str | Path,
    *,
    out: str | Path,
    per_class: int | None = None,
    steps: int | None = None,
    learning_rate: float | None = None,
    init: str = "auto",
    seed: int = 0,
    device: str = "auto",
    settings: Mapping[str, Any] | None = None,
    watcher: Watcher | None = None,
) -> Run:
    """Train a set of `per_class` records of each class to match the releases in a run; a new run folder holds it.

    The records begin as the run's own samples if it was trained (`init="samples"`), else as noise. The rest are
    settings of the method, like all that is left out. The new folder has the certificate of the release it came from.
    """
    opened = run if isinstance(run, Run) else Run.load(run)
    folder = check_new(out)
    chosen = _settings(opened, per_class=per_class, steps=steps, learning_rate=learning_rate, init=init)
    if "generator.kind" in (settings or {}):
        raise SettingError("generator.kind: a condensed set is what condense makes; for another kind use train")
    try:
        _copy_release(opened.folder, folder)
        return train(folder, seed=seed, device=device, settings=chosen | dict(settings or {}), watcher=watcher)
    except BaseException:  # a folder that is left behind would pass the run's own samples off as the set
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _settings(
    run: Run, *, per_class: int | None, steps: int | None, learning_rate: float | None, init: str
) -> dict[str, Any]:
    """The method's settings that make it train a condensed set; refused where there is nothing to match."""
    from simulacra.methods.base import ReleaseOnce

    method = run.method
    if not isinstance(method, ReleaseOnce) or not isinstance(getattr(method, "generator", None), GeneratorOptions):
        raise PlanError(
            f"{method.name} leaves no release that a set could be matched to; condense a run of dp-merf, say"
        )
    if not (run.folder / "certificate.json").is_file():
        raise CertificateError(
            f'"{run.folder}" holds no finished release to condense; finish it first: simulacra release ... --resume'
        )
    if init not in INITS:
        raise SettingError(f'init: unknown beginning "{init}"{suggestion(init, INITS)}')
    trained = all((run.folder / name).is_file() for name in SAMPLER)
    if init == "samples" and not trained:
        raise SettingError(
            f'"{run.folder}" has no sampler whose samples a set could begin with; train one first, '
            f"with: simulacra train {run.folder}, or begin with noise"
        )
    if init == "auto":
        init = "samples" if trained else "noise"
    told = {
        "generator.per_class": per_class,
        "training.steps": steps,
        "training.learning_rate": learning_rate,
    }
    named = {name: value for name, value in told.items() if value is not None}
    return {"generator.kind": "condensed", "generator.init": init, **named}


def _copy_release(source: Path, folder: Path) -> None:
    try:
        folder.mkdir()
        for name in (*SAMPLER, *RELEASED):
            if (source / name).is_dir():
                shutil.copytree(source / name, folder / name)
            elif name not in SAMPLER or (source / name).exists():
                shutil.copyfile(source / name, folder / name)
    except (OSError, shutil.Error) as error:
        reason = getattr(error, "strerror", None) or "a file of the run could not be copied"
        raise OutputError(f'cannot make the run "{folder}": {reason}; choose another place') from None

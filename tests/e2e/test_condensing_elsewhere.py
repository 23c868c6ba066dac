"""Prepare here, condense there: a machine that draws needs the images, torch, numpy and safetensors alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tiny
from test_training_elsewhere import ABSENT

import simulacra

PROGRAM = """
import sys

import numpy
import torch  # first: it may want some of these for itself, and only our own imports are judged

for name in {absent!r}:
    sys.modules[name] = None  # as if it were not installed

import simulacra

stored = numpy.load("pictures.npz")
run = simulacra.resume((stored["images"], stored["labels"]), "run", device="cpu")
pixels, labels = run.sample()
print(run.training["rounds"]["{step}"]["done"], *pixels.shape)
"""


@pytest.mark.parametrize(("method", "step", "rounds"), [("ndpdc", "embeddings", 5), ("ldpdc", "means", 3)])
def test_a_prepared_set_is_condensed_with_torch_numpy_and_safetensors_alone(
    method: str, step: str, rounds: int, work: Path, remembered_plans: None
) -> None:
    images, labels = tiny.pictures()
    np.savez("pictures.npz", images=images, labels=labels)
    settings = {"rate": 0.3, "per_class": 3, **({"rounds": 5} if method == "ndpdc" else {})}
    simulacra.prepare(
        (images, labels),
        schema=tiny.schema(tiny.PICTURES),
        method=method,
        epsilon=5.0,
        delta=1e-5,
        adjacency="add-remove",
        out="run",
        ledger="pictures.ledger",
        settings=settings,
    )
    program = PROGRAM.format(absent=ABSENT, step=step)
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=work)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.split() == [str(rounds), "6", "8", "8"]
    assert simulacra.verify("run").ok

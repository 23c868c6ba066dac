"""Release here, train there: a machine that trains needs torch, numpy and safetensors, and nothing else of ours."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ABSENT = [
    *("click", "dp_accounting", "filelock", "jinja2", "opendp", "pandas", "PIL"),
    *("pyarrow", "rich", "scipy", "sklearn", "tomli_w", "xgboost"),
]

PROGRAM = """
import sys

import torch  # first: it may want some of these for itself, and only our own imports are judged

for name in {absent!r}:
    sys.modules[name] = None  # as if it were not installed

from simulacra.synthesis.training import train

run = train("run", seed=3, device="cpu", settings={{"training.steps": 4}})
print(sum(len(records.labels) for records in run.sampler.records(10, seed=0)))
"""


def test_a_release_can_be_trained_and_sampled_with_torch_numpy_and_safetensors_alone(trained: Path) -> None:
    program = PROGRAM.format(absent=ABSENT)
    finished = subprocess.run(
        [sys.executable, "-c", program], cwd=trained.parent, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.split()[-1] == "10"


DRAWING = """
import sys

import numpy
import torch

for name in {absent!r}:
    sys.modules[name] = None

import simulacra

pictures = numpy.load("pictures.npz")
run = simulacra.resume((pictures["images"], pictures["labels"]), "gan", device="cpu")
print(run.training["rounds"]["gradient"]["done"], sum(len(r.labels) for r in run.sampler.records(5, seed=0)))
"""


def test_a_private_gan_can_be_prepared_here_and_trained_there(work: Path) -> None:
    import numpy as np
    import tiny

    import simulacra

    images, labels = tiny.pictures()
    np.savez(work / "pictures.npz", images=images, labels=labels)
    simulacra.prepare(
        (images, labels),
        schema=tiny.schema(tiny.PICTURES),
        method="dp-gan",
        epsilon=5.0,
        delta=1e-5,
        adjacency="add-remove",
        out="gan",
        ledger="gan.ledger",
        settings={"rate": 1.0, "steps": 5, "critic.channels": 4, "generator.latent": 4},
    )
    (work / "gan.ledger").unlink()
    finished = subprocess.run(
        [sys.executable, "-c", DRAWING.format(absent=ABSENT)], cwd=work, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.split() == ["5", "5"]


def test_perceptual_moments_can_be_released_here_and_matched_there(work: Path) -> None:
    import tiny
    import torch

    import simulacra
    from simulacra.networks import encoder_files
    from simulacra.networks.small_encoder import SmallEncoder

    with torch.random.fork_rng(devices=[]):
        encoder_files.save(work / "encoder.safetensors", SmallEncoder((4,)).state_dict(), {"data": "pictures"})
    simulacra.release(
        tiny.pictures(),
        schema=tiny.schema(tiny.PICTURES),
        method="dp-mepf",
        epsilon=5.0,
        delta=1e-5,
        adjacency="add-remove",
        out="run",
        ledger="pictures.ledger",
        settings={
            "encoder.network": "small",
            "encoder.widths": (4,),
            "encoder.weights": "encoder.safetensors",
            "stopping.proxy": "encoder",
            "stopping.samples": 20,
            "training.batch": 8,
        },
    )
    finished = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(absent=ABSENT)], cwd=work, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.split()[-1] == "10"

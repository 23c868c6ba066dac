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

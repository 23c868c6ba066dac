"""Rivals that a user would pick instead: MST and AIM, in an environment of their own, on the same public cells."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import click
import numpy as np

HERE = Path(__file__).parent
NAMES = ("aim", "mst")
MOST_SECONDS = 3600
"""Of one core for a fit; one that takes longer did not finish."""
ENVIRONMENT = "SIMULACRA_RIVALS"
"""Names a Python interpreter that has the rivals; else an environment is made in the work folder."""


class DidNotFinishError(click.ClickException):
    """The rival was stopped at its limit."""


def fit(
    data: str, name: str, *, epsilon: float, delta: float, seed: int, most_rows: int, folder: Path
) -> dict[str, Any]:
    """Fit a rival to the training records of a data set and draw as many rows, into cells.npz; what it took."""
    folder.mkdir(parents=True, exist_ok=True)
    records = training_cells(data)
    rows = min(len(records["cells"]), most_rows)
    np.savez(folder / "records.npz", **records)
    command = [
        str(interpreter(folder.parents[4])),
        str(HERE / "fit.py"),
        *("--cells", str(folder / "records.npz"), "--model", name, "--out", str(folder / "cells")),
        *("--epsilon", str(epsilon), "--delta", str(delta), "--seed", str(seed), "--rows", str(rows)),
        *("--cpu-seconds", str(MOST_SECONDS)),
    ]
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, env=one_thread, stderr=subprocess.PIPE, text=True, check=False)
    (folder / "records.npz").unlink()
    if done.returncode == -signal.SIGXCPU:
        raise DidNotFinishError(f"stopped after {MOST_SECONDS:,} s of one core")
    if done.returncode < 0:
        raise click.ClickException(f"{name} was killed by signal {-done.returncode}; was there enough memory?")
    if done.returncode:
        raise click.ClickException(f"{name} failed: {done.stderr.strip().splitlines()[-1]}")
    facts: dict[str, Any] = json.loads((folder / "cells.json").read_bytes())
    return facts


def training_cells(data: str) -> dict[str, np.ndarray[Any, Any]]:
    """The cell of every column of every training record, the label last, and how many cells a column has."""
    import torch

    from simulacra import datasets
    from simulacra.data import open_source
    from simulacra.features.pairs import Columns

    found = datasets.load(data, "train")
    columns = Columns(found.schema)
    batches = open_source(found.data, found.schema).batches()
    cells = torch.cat([columns.index(batch.inputs, batch.labels).to(torch.int16) for batch in batches])
    return {"cells": cells.numpy(), "sizes": np.array(columns.sizes)}


def drawn_rows(data: str, folder: Path, seed: int) -> Any:
    """The drawn cells as a DataFrame: a value inside its cell is uniform, as for our own methods."""
    import torch

    from simulacra import datasets
    from simulacra.data.cells import Cells
    from simulacra.data.encode import decode
    from simulacra.data.reference import to_frame

    schema = datasets.schema(data)
    with np.load(folder / "cells.npz", allow_pickle=False) as archive:
        cells = torch.from_numpy(archive["cells"].astype(np.int64))
    features = cells[:, :-1] if schema.labelled else cells
    inputs = Cells(schema).place(features, torch.Generator().manual_seed(seed))
    return to_frame(decode(inputs, cells[:, -1] if schema.labelled else None, schema))


def interpreter(work: Path) -> Path:
    """The rivals' Python: as told, or of an environment that is made when it is first needed."""
    if told := os.environ.get(ENVIRONMENT):
        return Path(told)
    place = work / "rivals"
    python = place / "bin" / "python"
    if not (place / "made").exists():
        if sys.version_info >= (3, 12):
            raise click.ClickException(f"the rivals need Python 3.10 or 3.11; name one that has them in {ENVIRONMENT}")
        venv.create(place, with_pip=True, clear=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "-r", str(HERE / "requirements.txt")]
        if subprocess.run(install, check=False).returncode:
            raise click.ClickException("the rivals could not be installed; see what pip says above")
        (place / "made").touch()
    return python

"""Fit MST or AIM of the package dpmm to a table of cell numbers, and draw rows: run by an environment of its own.

It knows nothing of simulacra: it reads cells.npz (cells, sizes) and writes cells again. Bins are public and shared with
our methods, so the whole budget goes to the model. One process and one thread, so that CPU time is time on one core.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd
from dpmm.models.aim import AIMGM
from dpmm.models.mst import MSTGM

MODELS = {"mst": MSTGM, "aim": AIMGM}


def main() -> None:
    """See --help."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=Path, required=True, help="an archive with cells (n, columns) and sizes")
    parser.add_argument("--model", choices=sorted(MODELS), required=True)
    parser.add_argument("--epsilon", type=float, required=True)
    parser.add_argument("--delta", type=float, required=True)
    parser.add_argument(
        "--seed", type=int, required=True, help="of the choice of tables and of drawing; noise takes none"
    )
    parser.add_argument("--rows", type=int, required=True, help="to draw")
    parser.add_argument("--cpu-seconds", type=int, default=0, help="give up after so many; 0: never")
    parser.add_argument("--out", type=Path, required=True, help="an archive with the drawn cells, and facts as JSON")
    asked = parser.parse_args()
    if asked.cpu_seconds:
        resource.setrlimit(resource.RLIMIT_CPU, (asked.cpu_seconds, asked.cpu_seconds + 60))
    with np.load(asked.cells) as archive:
        cells, sizes = archive["cells"], archive["sizes"]
    names = [f"c{number}" for number in range(cells.shape[1])]
    frame = pd.DataFrame(cells.astype(np.int64), columns=names)
    domain = {name: int(size) for name, size in zip(names, sizes, strict=True)}
    state = np.random.RandomState(asked.seed)
    started = time.process_time()
    model = MODELS[asked.model](epsilon=asked.epsilon, delta=asked.delta, random_state=state, n_jobs=1)
    model.set_domain(domain)
    model.check_fit(frame)
    model.fit(frame)
    fitted = time.process_time()
    drawn = model.generate(n_records=asked.rows)[names].to_numpy()
    facts = {
        "package": f"dpmm {version('dpmm')}",
        "fit_seconds": round(fitted - started, 1),
        "draw_seconds": round(time.process_time() - fitted, 1),
        "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }
    np.savez(asked.out.with_suffix(".npz"), cells=drawn.astype(np.int32))
    asked.out.with_suffix(".json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

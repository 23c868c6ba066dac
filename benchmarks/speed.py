"""Speed and memory of a release, as ratios that mean the same on any machine.

    python -m benchmarks.speed                 # all, printed and written to benchmarks/results/speed.json
    python -m benchmarks.speed critic          # one of: embedding, streaming, startup, tangent, inception, upsampling,
                                               # training, critic, condensation, perceptual

`streaming` needs the Covertype table in SIMULACRA_DATA; `embedding` uses MNIST's size and invented pixels.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results" / "speed.json"


def embedding() -> dict[str, Any]:
    """DP-MERF's per-class embedding of 60,000 images of 784 pixels, against its matrix product alone."""
    import torch

    from simulacra.data.points import PixelPoints
    from simulacra.features.combine import PerClass
    from simulacra.features.fourier import RandomFourier
    from simulacra.privacy.records import Records
    from simulacra.privacy.summing import add_chunks, chunk_rows

    images, pixels, classes, pairs = 60_000, 784, 10, 5000
    random = torch.Generator().manual_seed(0)
    inputs = torch.rand(images, pixels, generator=random) * 2 - 1
    labels = torch.randint(0, classes, (images,), generator=random)
    fourier = RandomFourier(PixelPoints(pixels), pairs=pairs, length_scales=[7.0], seed=0)
    feature_map = PerClass(fourier, classes)
    rows = chunk_rows(feature_map, pixels)

    def product(dtype: torch.dtype) -> None:
        frequencies = fourier.frequencies.to(dtype).T.contiguous()
        for start in range(0, images, rows):
            inputs[start : start + rows].to(dtype) @ frequencies

    def whole() -> None:
        total = torch.zeros(feature_map.shape, dtype=torch.float64)
        add_chunks(total, feature_map, Records(inputs=inputs, labels=labels))

    plain, plain32, ours = best(lambda: product(torch.float64)), best(lambda: product(torch.float32)), best(whole)
    return {
        "seconds": ours,
        "matrix_product_float64_seconds": plain,
        "matrix_product_float32_seconds": plain32,
        "ratio_to_float64_product": ours / plain,
        "ratio_to_float32_product": ours / plain32,
    }


def streaming() -> dict[str, Any]:
    """A release over all of Covertype and over a quarter of it: peak memory, and whether time grows linearly."""
    import pyarrow.parquet as parquet

    folder = os.environ.get("SIMULACRA_DATA")
    if folder is None or not (Path(folder) / "tables/covtype.parquet").exists():
        return {"skipped": "set SIMULACRA_DATA to a folder with tables/covtype.parquet"}
    whole = Path(folder) / "tables/covtype.parquet"
    with tempfile.TemporaryDirectory() as temporary:
        quarter = Path(temporary) / "quarter.parquet"
        rows = parquet.read_metadata(whole).num_rows
        parquet.write_table(parquet.read_table(whole).slice(0, rows // 4), quarter)
        all_rows = _release_in_child(whole, Path(temporary) / "all")
        some = _release_in_child(quarter, Path(temporary) / "some")
    return {
        "rows": rows,
        "seconds": all_rows["seconds"],
        "peak_megabytes": all_rows["megabytes"],
        "quarter_seconds": some["seconds"],
        "quarter_peak_megabytes": some["megabytes"],
        "time_ratio_for_four_times_the_rows": all_rows["seconds"] / some["seconds"],
    }


def startup() -> dict[str, Any]:
    """`simulacra --help`, and what an import of torch alone would take."""
    executable = Path(sys.executable).with_name("simulacra")
    return {
        "help_seconds": best(lambda: subprocess.run([executable, "--help"], check=True, capture_output=True), times=5),
        "import_torch_seconds": best(lambda: subprocess.run([sys.executable, "-c", "import torch"], check=True)),
    }


def best(work: Callable[[], Any], times: int = 3) -> float:
    """The quickest of several goes, after one to warm up."""
    work()
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def _release_in_child(data: Path, out: Path) -> dict[str, float]:
    """Run a release in a fresh process, so that its peak memory is its own; time without the imports."""
    program = f"""
import resource, time
from simulacra import datasets
from simulacra.synthesis.releasing import release
import torch, opendp.prelude, dp_accounting
start = time.perf_counter()
release({str(data)!r}, schema=datasets.schema("covtype"), method="dp-merf", epsilon=1.0, delta=1e-7,
        adjacency="add-remove", out={str(out)!r}, ledger={str(out)!r} + ".ledger")
print(time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""
    output = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    seconds, megabytes = map(float, output.split()[-2:])
    return {"seconds": seconds, "megabytes": megabytes}


def main(names: list[str]) -> None:
    """Run the named benchmarks, print them and keep them with the hardware and the commit they ran on."""
    from benchmarks import speed_condensation, speed_critic, speed_networks, speed_perceptual, speed_training
    from simulacra.networks.allocation import set_before_torch

    known: dict[str, Callable[[], dict[str, Any]]] = {
        "embedding": embedding,
        "streaming": streaming,
        "startup": startup,
        "tangent": speed_networks.tangent,
        "inception": speed_networks.inception,
        "upsampling": speed_networks.upsampling,
        "training": speed_training.training,
        "critic": speed_critic.critic,
        "condensation": speed_condensation.condensation,
        "perceptual": speed_perceptual.perceptual,
    }
    set_before_torch()
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in names or known:
        measured = known[name]()
        place = f"{name}-gpu" if measured.get("device") == "cuda" else name
        results[place] = {**measured, "cores": os.cpu_count(), "processor": platform.machine(), "commit": _commit()}
        print(place, json.dumps(results[place], indent=2))
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=2) + "\n")


def _commit() -> str:
    found = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"


if __name__ == "__main__":
    main(sys.argv[1:])

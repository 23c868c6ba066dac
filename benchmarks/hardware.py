"""What a figure was measured with: processor or GPU, versions, commit, date. Never a path or the name of a host."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def hardware(device: str) -> dict[str, Any]:
    """The GPU if it did the work, and always the processor and how many cores this process may use."""
    facts: dict[str, Any] = {"device": device, "processor": _processor(), "cores": _cores()}
    if device.startswith("cuda"):
        import torch

        facts["gpu"] = torch.cuda.get_device_name(device)
    return facts


def versions() -> dict[str, str]:
    """Of what computes."""
    import numpy
    import torch

    return {"python": platform.python_version(), "torch": str(torch.__version__), "numpy": numpy.__version__}


def commit() -> str:
    """The commit of this checkout, with a mark if the code was changed since; "unknown" outside of one."""
    found = _git("rev-parse", "--short=12", "HEAD")
    if not found:
        return "unknown"
    return found + ("+changes" if _git("status", "--porcelain", "--", "src", "benchmarks/*.py") else "")


def now() -> str:
    """The time in UTC, to the second; later times sort later."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _git(*words: str) -> str:
    try:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _processor() -> str:
    listed = Path("/proc/cpuinfo")
    lines = listed.read_text(encoding="utf-8", errors="replace").splitlines() if listed.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1

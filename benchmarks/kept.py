"""Measurements that are kept as one JSON file, by name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.outcomes import dump


def read(path: Path) -> dict[str, Any]:
    """What was measured; nothing if nothing was."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def add(path: Path, found: Mapping[str, Any]) -> None:
    """Put measurements beside those that are there, or in their places."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dump({**read(path), **found}), encoding="utf-8")

"""Presets: the settings that papers print, by method and data set. Epsilon, paths and devices never belong in one."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from simulacra.errors import SettingError, suggestion

FOLDER = Path(__file__).parent


def names(method: str) -> tuple[str, ...]:
    """The presets of a method."""
    return tuple(sorted(file.stem for file in (FOLDER / method).glob("*.toml")))


def methods_with(name: str) -> tuple[str, ...]:
    """The methods that have a preset of this name.

    >>> methods_with("adult")
    ('dp-hp', 'dp-ntk', 'ndpdc')
    """
    return tuple(sorted(folder.name for folder in FOLDER.iterdir() if name in names(folder.name)))


def preset(method: str, name: str) -> dict[str, Any]:
    """The settings of a preset, with dotted names, for `fit(..., settings=...)`; change what you like on top.

    >>> preset("dp-ntk", "mnist")["training.batch"]
    5000
    """
    if name not in names(method):
        raise SettingError(f'{method} has no preset "{name}"{suggestion(name, names(method))}')
    return dict(_dotted(_read(method, name)["settings"]))


def source(method: str, name: str) -> str:
    """Where the numbers of a preset come from."""
    return str(_read(method, name)["source"])


def _read(method: str, name: str) -> dict[str, Any]:
    return tomllib.loads((FOLDER / method / f"{name}.toml").read_text(encoding="utf-8"))


def _dotted(settings: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for key, value in settings.items():
        found += _dotted(value, f"{prefix}{key}.") if isinstance(value, Mapping) else [(f"{prefix}{key}", value)]
    return found

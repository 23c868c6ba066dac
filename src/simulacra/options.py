"""The base of every settable dataclass: values come from TOML, JSON or `--set name=value`; unknown ones are errors."""

from __future__ import annotations

import dataclasses
import json
import math
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from simulacra.errors import SettingError, suggestion


@dataclass(frozen=True, kw_only=True)
class Options:
    """A frozen bag of settings that knows how to be read from a mapping and written back.

    Nested options are reached with dots: `training.steps=500`.
    """

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any], *, where: str = "settings") -> Self:
        """Build from plain values; an unknown key, a wrong type or a bad value is a SettingError that names it."""
        nested: dict[str, Any] = {}
        for key, value in values.items():
            head, _, rest = key.partition(".")
            if rest:
                inner = nested.setdefault(head, {})
                if not isinstance(inner, dict):
                    raise SettingError(f"{where}: {head} is set twice, as a value and as a group; keep one")
                inner[rest] = value
            elif isinstance(value, Mapping) and isinstance(nested.get(head), dict):
                nested[head].update(value)
            else:
                nested[head] = dict(value) if isinstance(value, Mapping) else value
        hints = typing.get_type_hints(cls)
        fields = {field.name: hints[field.name] for field in dataclasses.fields(cls) if field.init}
        arguments: dict[str, Any] = {}
        for key, value in nested.items():
            if key not in fields:
                raise SettingError(f'{where}: unknown setting "{key}"{suggestion(key, fields)}')
            arguments[key] = _convert(value, fields[key], f"{where}: {key}")
        return cls(**arguments)

    def to_mapping(self) -> dict[str, Any]:
        """Plain values that `from_mapping` reads back to an equal object."""
        return typing.cast(dict[str, Any], json.loads(json.dumps(dataclasses.asdict(self))))

    def replace(self, values: Mapping[str, Any]) -> Self:
        """A copy with some settings changed; dotted names reach nested options."""
        merged = self.to_mapping()
        for key, value in values.items():
            target = merged
            *path, last = key.split(".")
            for part in path:
                inner = target.get(part)
                if not isinstance(inner, dict):
                    raise SettingError(f'unknown setting "{key}"{suggestion(key, merged)}')
                target = inner
            if last not in target:
                raise SettingError(f'unknown setting "{key}"{suggestion(last, target)}')
            target[last] = value
        return type(self).from_mapping(merged)


def parse_assignments(pairs: typing.Iterable[str]) -> dict[str, str]:
    """Turn `["steps=10", "training.batch=5"]` into a mapping; texts are converted once types are known."""
    result: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise SettingError(f'--set wants name=value, got "{pair}"')
        result[name.strip()] = value.strip()
    return result


def _convert(value: Any, hint: Any, where: str) -> Any:
    """Convert a plain or textual value to the type a field declares."""
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        members = typing.get_args(hint)
        if type(None) in members and (value is None or value in ("none", "auto")):
            return None
        others = [member for member in members if member is not type(None)]
        if len(others) == 1:
            return _convert(value, others[0], where)
    if origin is typing.Literal:
        choices = typing.get_args(hint)
        if value in choices:
            return value
        raise SettingError(f'{where}: expected one of {", ".join(map(str, choices))}, got "{value}"')
    if origin is tuple:
        parts = [part for part in value.split(",") if part.strip()] if isinstance(value, str) else value
        if not isinstance(parts, (list, tuple)):
            raise SettingError(f"{where}: expected a list, got {value!r}")
        return tuple(_convert(part, typing.get_args(hint)[0], where) for part in parts)
    if isinstance(hint, type) and issubclass(hint, Options):
        if isinstance(value, hint):
            return value
        if isinstance(value, Mapping):
            return hint.from_mapping(value, where=where)
        raise SettingError(f"{where}: expected a group of settings, got {value!r}")
    if hint is bool:
        if isinstance(value, bool):
            return value
        if str(value).lower() in ("true", "yes", "on", "1"):
            return True
        if str(value).lower() in ("false", "no", "off", "0"):
            return False
        raise SettingError(f'{where}: expected true or false, got "{value}"')
    if hint in (int, float):
        if isinstance(value, bool):
            raise SettingError(f"{where}: expected a number, got {value}")
        try:
            if hint is int and isinstance(value, (int, str)):
                return int(value)  # exact, where a float would lose the digits of a large seed
        except ValueError:
            pass  # "1e3" is a whole number too
        try:
            number = float(value)
        except (TypeError, ValueError):
            raise SettingError(f'{where}: expected a number, got "{value}"') from None
        if not math.isfinite(number):
            raise SettingError(f"{where}: expected a finite number, got {value}")
        if hint is float:
            return number
        if number != int(number):
            raise SettingError(f"{where}: expected a whole number, got {value}")
        return int(number)
    if hint is str:
        return str(value)
    raise SettingError(f"{where}: settings of type {hint} cannot be read from text")

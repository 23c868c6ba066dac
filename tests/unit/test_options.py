"""Settings: unknown names and wrong types are errors that name the thing and the fix."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from simulacra.errors import SettingError
from simulacra.options import Options, parse_assignments


@dataclass(frozen=True, kw_only=True)
class Training(Options):
    steps: int = 100
    rate: float = 0.1


@dataclass(frozen=True, kw_only=True)
class Settings(Options):
    pairs: int = 10
    width: float | None = None
    kind: Literal["small", "large"] = "small"
    fair: bool = False
    name: str = "x"
    sizes: tuple[int, ...] = (1, 2)
    training: Training = field(default_factory=Training)


def test_an_unknown_setting_gets_a_suggestion() -> None:
    with pytest.raises(SettingError, match='unknown setting "pair"; did you mean "pairs"'):
        Settings.from_mapping({"pair": 3})
    with pytest.raises(SettingError, match='did you mean "steps"'):
        Settings().replace({"training.step": 3})
    with pytest.raises(SettingError, match='training: unknown setting "step"'):
        Settings.from_mapping({"training.step": 3})
    with pytest.raises(SettingError, match=r'unknown setting "nothing\.steps"'):
        Settings().replace({"nothing.steps": 3})
    with pytest.raises(SettingError, match="known: "):
        Settings.from_mapping({"zzz": 1})


def test_nested_settings_are_reached_with_dots_or_groups() -> None:
    expected = Settings(training=Training(steps=5, rate=0.5))
    assert Settings.from_mapping({"training.steps": "5", "training.rate": "0.5"}) == expected
    assert Settings.from_mapping({"training": {"steps": 5, "rate": 0.5}}) == expected
    assert Settings.from_mapping({"training": {"steps": 5}, "training.rate": 0.5}) == expected
    assert Settings.from_mapping({"training.rate": 0.5, "training": {"steps": 5}}) == expected
    assert Settings().replace({"training.steps": 5, "training.rate": "0.5"}) == expected


def test_a_group_and_a_value_of_one_name_are_refused() -> None:
    with pytest.raises(SettingError, match="set twice"):
        Settings.from_mapping({"training": 3, "training.steps": 5})
    with pytest.raises(SettingError, match="group of settings"):
        Settings.from_mapping({"training": 3})


def test_settings_survive_a_round_trip() -> None:
    settings = Settings(pairs=3, width=0.25, kind="large", fair=True, sizes=(4, 5, 6), training=Training(steps=7))
    assert Settings.from_mapping(settings.to_mapping()) == settings
    assert Settings().replace({}) == Settings()


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("pairs", "12", 12),
        ("pairs", "1e3", 1000),
        ("pairs", 4.0, 4),
        ("pairs", "9007199254740993", 9007199254740993),
        ("width", "0.5", 0.5),
        ("width", "none", None),
        ("width", "auto", None),
        ("kind", "large", "large"),
        ("fair", "yes", True),
        ("fair", "False", False),
        ("fair", 1, True),
        ("name", 7, "7"),
        ("sizes", "3,4,5", (3, 4, 5)),
        ("sizes", "", ()),
        ("sizes", [8], (8,)),
    ],
)
def test_texts_become_the_declared_types(key: str, text: Any, value: Any) -> None:
    assert getattr(Settings.from_mapping({key: text}), key) == value


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        ("pairs", "many", "expected a number"),
        ("pairs", "1.5", "whole number"),
        ("pairs", True, "expected a number"),
        ("pairs", "nan", "finite"),
        ("pairs", None, "expected a number"),
        ("width", "inf", "finite"),
        ("width", [1], "expected a number"),
        ("kind", "medium", "one of small, large"),
        ("fair", "perhaps", "true or false"),
        ("sizes", 3, "expected a list"),
        ("sizes", "1,two", "expected a number"),
    ],
)
def test_a_wrong_value_is_an_error_that_names_the_setting(key: str, text: Any, message: str) -> None:
    with pytest.raises(SettingError, match=rf"settings: {key}: .*{message}"):
        Settings.from_mapping({key: text})


def test_assignments_are_names_and_values() -> None:
    assert parse_assignments(["steps=10", " training.rate = 0.5 ", "name=a=b"]) == {
        "steps": "10",
        "training.rate": "0.5",
        "name": "a=b",
    }
    for wrong in ("steps", "=3", ""):
        with pytest.raises(SettingError, match="name=value"):
            parse_assignments([wrong])

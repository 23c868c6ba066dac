"""DP-MEPF on bad input: settings, weights and projections end in one line, and nothing is spent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tiny
from mepf_runs import SCHEMA, WIDTHS, encoder_file, release, settings

import simulacra
from simulacra.errors import DataError, SettingError
from simulacra.features.projections import random_matrices, write
from simulacra.methods import make_method, perceiving
from simulacra.networks import encoder_files


@pytest.mark.parametrize(
    ("chosen", "says"),
    [
        ({"encoder.network": "vgg18"}, 'no encoder "vgg18"; did you mean "vgg1'),
        ({"encoder.network": "resnet18-small"}, 'do not fit the encoder "resnet18-small"'),
        ({"encoder.widths": (4, 8)}, 'do not fit the encoder "small"'),
        ({"encoder.weights": "absent.safetensors"}, 'no file "absent.safetensors"'),
        ({"encoder.weights": None}, "simulacra pretrain small"),
        ({"encoder.weights": None, "encoder.network": "vgg19-normalised"}, "simulacra weights get vgg19-normalised"),
        ({"encoder.checksum": "0123456789abcdef"}, "are others than those of this run"),
        ({"encoder.resize": 1}, "needs images of at least 2 x 2 pixels, got 1 x 1"),
        ({"encoder.resize": 0}, "resize must be from 1"),
        ({"stopping.proxy": "inception"}, "simulacra weights get inception"),
        ({"stopping.noise": 0}, "stopping.noise must be positive"),
        ({"projection.source": "absent.safetensors"}, 'no file "absent.safetensors"'),
        ({"projection.source": "encoder.safetensors"}, "is not a projection"),
        ({"projection.directions": 0}, "projection.directions must be from 1"),
        ({"layers.last": 0}, "layers.last must be from 1 to 4"),
        ({"layers.last": 5}, "layers.last must be from 1 to 4 for this encoder, got 5"),
        ({"moments": 3}, "moments must be 1 or 2"),
        ({"generator.kind": "condensed"}, "a condensed generator is not for"),
        ({"training.newest": 0}, "training.newest must be above 0"),
        ({"training.average": 1}, "training.average must be at least 0 and below 1"),
        ({"training.loss": "fast"}, "expected one of plain, averaged, tracked"),
    ],
)
def test_bad_settings_end_in_one_line_with_nothing_spent(
    chosen: dict[str, Any], says: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("SIMULACRA_CACHE", str(folder / "cache"))
    with pytest.raises((DataError, SettingError), match=says) as error:
        simulacra.fit(
            tiny.pictures(),
            schema=SCHEMA,
            method="dp-mepf",
            epsilon=1.0,
            delta=1e-5,
            adjacency="replace-one",
            out="run",
            ledger="pictures.ledger",
            settings={**settings("encoder.safetensors"), **chosen},
            device="cpu",
        )
    assert "\n" not in str(error.value)
    assert tiny.reservations(folder / "pictures.ledger") == 0
    assert not (folder / "run").exists()


def test_weights_that_were_changed_are_refused_and_nothing_is_spent(folder: Path) -> None:
    file = folder / "encoder.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(DataError, match="changed or cut short"):
        release(folder)
    assert tiny.reservations(folder / "pictures.ledger") == 0


def test_published_weights_are_named_as_such_where_a_run_had_others(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published = encoder_files.load("small", file=folder / "encoder.safetensors", widths=WIDTHS)
    monkeypatch.setattr(perceiving, "_loaded", lambda options: published)
    method: Any = make_method("dp-mepf", {"encoder.checksum": "0123456789abcdef"}, SCHEMA)
    with pytest.raises(DataError, match="the published file of vgg19-normalised are others than those of this run"):
        method.encoder.load()


@pytest.mark.parametrize("factor", [1e4, 1e10, 1e30])
def test_weights_with_which_training_could_not_go_on_are_refused_and_nothing_is_spent(
    factor: float, folder: Path
) -> None:
    """They are finite, and so is what is released; the squares of features are not."""
    file = folder / "encoder.safetensors"
    tensors, _ = encoder_files.read_safetensors(file)
    large = {name: value * factor if name.endswith("weight") else value for name, value in tensors.items()}
    encoder_files.save(file, large, {"data": "some public pictures"})
    with pytest.raises(DataError, match="single precision cannot hold"):
        release(folder)
    assert tiny.reservations(folder / "pictures.ledger") == 0


def test_directions_of_other_weights_are_refused_and_nothing_is_spent(folder: Path) -> None:
    """Two trainings of one network have layers of the same sizes, and nothing else in common."""
    matrices = random_matrices([4 * 64, 4 * 64, 6 * 16, 6 * 16], 3, seed=0)
    mine = encoder_files.load("small", file=folder / "encoder.safetensors", widths=WIDTHS).checksum
    other = encoder_files.load("small", file=encoder_file(folder, seed=2, name="other"), widths=WIDTHS).checksum
    for name, checksum in (("mine", mine), ("theirs", other)):
        write(folder / f"{name}.safetensors", matrices, {"data": "pictures", "network_checksum": checksum})
    with pytest.raises(DataError, match="was found with other weights of the network"):
        release(folder, projection__source=str(folder / "theirs.safetensors"))
    assert tiny.reservations(folder / "pictures.ledger") == 0
    assert release(folder, projection__source=str(folder / "mine.safetensors")).verify().ok


def test_tables_are_refused() -> None:
    with pytest.raises(simulacra.SimulacraError, match="dp-mepf is for images"):
        make_method("dp-mepf", {}, tiny.schema(tiny.PEOPLE))

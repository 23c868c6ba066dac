"""Pretraining and directions: from public images alone, with files that say what they were made of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
import torch
from tiny import Cli

from simulacra.errors import DataError, OutputError, SettingError
from simulacra.networks import encoder_files, public_images
from simulacra.networks.pretraining import Schooling, pretrain

WORDS = ("pretrain", "small", "--data", "digits", "--widths", "4,6", "--epochs", "1", "--batch", "64")


def test_an_encoder_learns_to_name_public_images(tmp_path: Path) -> None:
    out = tmp_path / "encoder.safetensors"
    told: list[tuple[int, int, float]] = []
    facts = pretrain(
        "small",
        data="digits",
        out=out,
        widths=(8, 16),
        schooling=Schooling(epochs=8, batch=64, learning_rate=5e-3),
        on_step=lambda *each: told.append(each),
    )
    assert float(facts["accuracy"]) > 0.7
    assert told[-1][0] == told[-1][1] == 8 * (1437 // 64)
    loaded = encoder_files.load("small", file=out, widths=(8, 16))
    assert (loaded.public_data, loaded.checksum) == ("digits", facts["contents"])
    assert json.loads(out.with_suffix(".json").read_text())["data_checksum"] == facts["data_checksum"]


def test_the_same_seed_gives_the_same_encoder(tmp_path: Path) -> None:
    found = [
        pretrain("small", data="digits", out=tmp_path / f"{name}.safetensors", widths=(4,), schooling=schooling)
        for name, schooling in (
            ("a", Schooling(epochs=1)),
            ("b", Schooling(epochs=1)),
            ("c", Schooling(epochs=1, seed=1)),
        )
    ]
    assert found[0]["contents"] == found[1]["contents"] != found[2]["contents"]


def test_public_images_come_in_colour_and_at_the_side_that_is_asked_for() -> None:
    images = public_images.load("digits", most=100)
    batch = images.batch(torch.arange(10), side=12, device="cpu")
    assert batch.shape == (10, 3, 12, 12)
    assert 0 <= batch.min() <= batch.max() <= 1
    assert len(images.labels) == 100
    assert images.checksum == public_images.load("digits", most=100).checksum
    assert images.checksum != public_images.load("digits", most=99).checksum
    with pytest.raises(DataError, match="is a table"):
        public_images.load("adult")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"out": "encoder.pth"}, "must end in .safetensors"),
        ({"out": "/dev/null/encoder.safetensors"}, 'cannot write into "/dev/null"'),
        ({"network": "vgg11"}, "needs images of side 16, got 8"),
        ({"network": "vgg99"}, "unknown encoder"),
        ({"data": "adult"}, "is a table"),
        ({"schooling": lambda: Schooling(epochs=0)}, "epochs must be at least 1"),
        ({"schooling": lambda: Schooling(side=0)}, "the side must be from 1"),
    ],
)
def test_what_cannot_be_trained_is_refused_in_one_line(arguments: dict[str, Any], says: str, work: Path) -> None:
    made = {"network": "small", "data": "digits", "out": "encoder.safetensors", **arguments}
    with pytest.raises((SettingError, DataError, OutputError), match=says):
        pretrain(
            made["network"],
            data=made["data"],
            out=made["out"],
            schooling=made["schooling"]() if "schooling" in made else None,
        )
    assert not list(work.iterdir())


def test_what_the_training_will_need_in_the_end_is_looked_for_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    genuine = public_images.load

    def without_a_test_split(name: str, split: str = "train") -> public_images.PublicImages:
        if split == "test":
            raise DataError("there is no such split")
        return genuine(name, split)

    monkeypatch.setattr(public_images, "load", without_a_test_split)
    monkeypatch.setattr("simulacra.networks.pretraining._learn", lambda *_: pytest.fail("trained already"))
    with pytest.raises(DataError, match="no such split"):
        pretrain("small", data="digits", out=tmp_path / "encoder.safetensors")


def test_from_public_images_to_a_private_release_on_the_command_line(cli: Cli, work: Path) -> None:
    facts = cli(*WORDS, "--out", "encoder.safetensors", "--json").json
    assert facts["data"] == "digits"
    again = cli(*WORDS, "--out", "encoder.safetensors")
    assert again.code == 2
    assert "exists already" in again.err
    encoder = ("--widths", "4,6", "--weights", "encoder.safetensors")
    found = cli(
        "directions", "small", *encoder, "--data", "digits", "--directions", "5", "--images", "40",
        "--out", "directions.safetensors", "--json",
    ).json  # fmt: skip
    assert found["network_checksum"] == facts["contents"]
    chosen = {
        "encoder.network": "small",
        "encoder.widths": "4,6",
        "encoder.weights": "encoder.safetensors",
        "projection.source": "directions.safetensors",
        "training.steps": "3",
        "training.batch": "16",
    }
    words = [word for name, value in chosen.items() for word in ("--set", f"{name}={value}")]
    images, labels = tiny.pictures()
    np.savez(work / "pictures.npz", images=images, labels=labels)
    (work / "schema.toml").write_text(tiny.PICTURES)
    private = ("pictures.npz", "--schema", "schema.toml")
    done = cli("fit", *private, "--method", "dp-mepf", "--epsilon", "5", "--out", "run", "--json", *words)
    assert done.code == 0, done.err
    assert cli("verify", "run", "--json").json["ok"]
    remarks = json.loads((work / "run" / "certificate.json").read_text())["remarks"]
    assert facts["contents"] in remarks[0]
    assert found["contents"] in remarks[1]


def test_directions_that_do_not_fit_into_memory_are_refused_before_the_work(
    cli: Cli, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli(*WORDS, "--out", "encoder.safetensors")
    monkeypatch.setattr("simulacra.features.directions.memory", lambda: 2**20)
    encoder = ("--widths", "4,6", "--weights", "encoder.safetensors")
    done = cli("directions", "small", *encoder, "--data", "digits", "--out", "d.safetensors")
    assert "more than there is here; look at fewer images" in done.err
    assert len(done.lines) == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--directions", "50", "--images", "40"), "directions must be from 1"),
        (("--resize", "0"), "resize must be from 1 to 1024, got 0"),
        (("--resize", "5000"), "resize must be from 1 to 1024, got 5000"),
        (("--widths", "4,x"), "--widths wants whole numbers"),
        (("--data", "adult"), "describes a table"),
        (("--weights", "absent.safetensors"), "no file"),
    ],
)
def test_directions_that_cannot_be_found_are_refused_in_one_line(
    words: tuple[str, ...], says: str, cli: Cli, work: Path
) -> None:
    cli(*WORDS, "--out", "encoder.safetensors")
    usual = {"--data": "digits", "--widths": "4,6", "--weights": "encoder.safetensors", "--out": "d.safetensors"}
    chosen = {**usual, **dict(zip(words[::2], words[1::2], strict=True))}
    done = cli("directions", "small", *(word for pair in chosen.items() for word in pair))
    assert done.code == 2
    assert says in done.err
    assert len(done.lines) == 1
    assert not (work / "d.safetensors").exists()

"""Public networks and projections from the command line: what a user would trip over."""

from __future__ import annotations

from pathlib import Path

import pytest
import tiny
import torch

from simulacra.features.projections import write
from simulacra.networks import encoder_files
from simulacra.networks.small_encoder import SmallEncoder

WIDTHS = "4,6"
SIZES = (4 * 64, 4 * 64, 6 * 16, 6 * 16)
CHOSEN = (
    "--set",
    "encoder.network=small",
    "--set",
    f"encoder.widths={WIDTHS}",
    "--set",
    "encoder.weights=e.safetensors",
)
QUICK = ("--set", "training.steps=2", "--set", "training.batch=10", "--set", "generator.hidden=8")


def encoder(data: str) -> None:
    with torch.random.fork_rng(devices=[]):
        encoder_files.save(Path("e.safetensors"), SmallEncoder((4, 6)).state_dict(), {"data": data})


def projection(data: str) -> tuple[str, str]:
    write(Path("p.safetensors"), [torch.eye(3, size) for size in SIZES], {"data": data})
    return "--set", "projection.source=p.safetensors"


@pytest.mark.parametrize("learned", ["network", "projection"])
def test_a_private_data_set_is_not_taken_for_public(cli: tiny.Cli, work: Path, learned: str) -> None:
    encoder("digits" if learned == "network" else "mnist")
    chosen = (*CHOSEN, *projection("digits" if learned == "projection" else "mnist"), *QUICK)
    ask = ("dataset:digits", "--method", "dp-mepf", *chosen, "--out", "run")
    refused = cli("fit", *ask, "--epsilon", "1")
    assert refused.code
    assert '"digits" is private here' in refused.err
    assert len(refused.lines) == 1
    assert not (work / "digits.ledger").exists()
    assert not (work / "run").exists()
    # Without a promise there is none to break: the best that public data could do.
    assert not cli("release", *ask, "--not-private").code


def test_other_public_data_is_welcome(cli: tiny.Cli, work: Path) -> None:
    encoder("mnist")
    chosen = (*CHOSEN, *projection("fashion-mnist"))
    assert not cli("release", "dataset:digits", "--method", "dp-mepf", *chosen, "--epsilon", "1", "--out", "run").code


def test_directions_are_found_for_the_form_of_another_known_data_set(cli: tiny.Cli, work: Path) -> None:
    encoder("mnist")
    options = ("--weights", "e.safetensors", "--widths", WIDTHS, "--directions", "3", "--images", "20")
    done = cli(
        "directions",
        "small",
        "--data",
        "digits",
        "--schema",
        "dataset:mnist",
        *options,
        "--out",
        "d.safetensors",
        "--json",
    )
    assert done.json["form"] == "28 x 28 x 1"


def test_the_way_to_use_an_encoder_names_its_widths(cli: tiny.Cli, work: Path) -> None:
    done = cli("pretrain", "small", "--data", "digits", "--widths", "2", "--epochs", "1", "--out", "e.safetensors")
    assert "encoder.widths=2" in done.out + done.err

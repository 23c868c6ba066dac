"""DP-MEPF takes noise out before it trains: unless told otherwise, and with a word where that cannot help."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from mepf_runs import SCHEMA, release, settings

import simulacra
from simulacra.errors import SettingError
from simulacra.methods import make_method
from simulacra.methods.dp_mepf import MOMENTS


def test_noise_is_taken_out_before_training_unless_told_otherwise(folder: Path) -> None:
    run = release(folder)
    released = {order: run.releases[name] for order, name in MOMENTS.items()}
    counts = run.releases["class-counts"].value.clamp(min=1.0)

    def begun_from(**more: Any) -> Any:
        method: Any = make_method("dp-mepf", settings(folder / "encoder.safetensors", **more), SCHEMA)
        return method._sums(run.releases, method._view(SCHEMA), counts)

    clean, noisy = begun_from(), begun_from(denoise=False)
    for order, release_ in released.items():
        assert torch.equal(noisy[order], release_.value)
        assert clean[order].square().sum() < 0.5 * noisy[order].square().sum()
    assert clean[2].min() >= 0 > noisy[2].min()
    simulacra.train(run.folder, device="cpu", settings={"denoise": False})  # no question of privacy


def test_a_release_of_nothing_but_noise_is_not_trained_on_in_silence(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denoised(sums: dict[int, torch.Tensor], *_: object) -> dict[int, torch.Tensor]:
        return {order: torch.zeros_like(value) for order, value in sums.items()}

    run = release(folder)
    monkeypatch.setattr("simulacra.methods.dp_mepf.denoised", denoised)
    with pytest.raises(SettingError, match="nothing in this release can be told from noise"):
        simulacra.train(run.folder, device="cpu")
    simulacra.train(run.folder, device="cpu", settings={"denoise": False})


def test_a_release_too_large_for_taking_noise_out_of_it_says_how_to_go_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is paid for by then."""

    def denoised(*_: object) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 20141047808 bytes.")

    run = release(folder)
    monkeypatch.setattr("simulacra.methods.dp_mepf.denoised", denoised)
    with pytest.raises(SettingError, match=r"taking noise out .* does not fit into memory; set denoise=false"):
        simulacra.train(run.folder, device="cpu")
    simulacra.train(run.folder, device="cpu", settings={"denoise": False})


def test_without_privacy_there_is_no_noise_to_take_out(folder: Path) -> None:
    run = simulacra.release(
        tiny.pictures(),
        schema=SCHEMA,
        method="dp-mepf",
        epsilon=None,
        delta=None,
        adjacency="replace-one",
        not_private=True,
        out=folder / "open",
        ledger=folder / "pictures.ledger",
        settings=settings(folder / "encoder.safetensors"),
    )
    method: Any = make_method("dp-mepf", settings(folder / "encoder.safetensors"), SCHEMA)
    sums = method._sums(run.releases, method._view(SCHEMA), run.releases["class-counts"].value)
    assert torch.equal(sums[1], run.releases["first-moment"].value)

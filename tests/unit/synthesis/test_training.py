"""Training from releases: the same whatever the data were, repeatable, and resumable; and releases that resume."""

from __future__ import annotations

import json
import operator
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tiny
import torch

import simulacra
from simulacra.errors import LedgerError, OutputError, PlanError, SettingError
from simulacra.networks.devices import pick_device
from simulacra.schema import ImageShape, Schema
from simulacra.synthesis.asking import ask_about
from simulacra.synthesis.run import Run
from simulacra.synthesis.watching import Watcher


def arguments(**more: Any) -> dict[str, Any]:
    return {
        "schema": tiny.schema(tiny.PEOPLE),
        "epsilon": 5.0,
        "delta": 1e-5,
        "adjacency": "add-remove",
        "ledger": "people.ledger",
        "method": tiny.METHOD,
        "settings": tiny.SETTINGS,
        **more,
    }


def sampler(run: Path) -> bytes:
    return (run / "sampler.safetensors").read_bytes()


class StopAt(Watcher):
    """A user who presses Ctrl-C after so many steps."""

    def __init__(self, step: int) -> None:
        self.wanted = step

    def on_step(self, step: int, steps: int, loss: float) -> None:
        if step == self.wanted:
            raise KeyboardInterrupt


def test_copies_of_one_release_train_to_the_same_sampler(trained_once: Path, work: Path) -> None:
    for name in ("one", "two"):
        shutil.copytree(trained_once, work / name)
        simulacra.train(work / name, seed=11, device="cpu")
    assert sampler(work / "one") == sampler(work / "two") != sampler(trained_once)


def test_the_sampler_depends_on_the_releases_and_not_on_the_data(work: Path) -> None:
    """Two runs on different people; once they hold the same releases, their samplers are the same."""
    one = simulacra.release(tiny.people(seed=1), out="one", **arguments()).folder
    two = simulacra.release(tiny.people(90, seed=2), out="two", **arguments()).folder
    for run in (one, two):
        simulacra.train(run, device="cpu")
    assert sampler(one) != sampler(two)
    for name, release in Run.load(one).releases.items():
        assert release.step == name
        release.save(two / "releases")
    simulacra.train(two, device="cpu")
    assert sampler(one) == sampler(two)


def test_training_needs_no_data_no_ledger_and_no_budget(trained_once: Path, tmp_path: Path) -> None:
    """Release once, synthesise for ever: the folder alone, on another machine."""
    alone = Path(shutil.copytree(trained_once, tmp_path / "elsewhere" / "run"))
    run = simulacra.train(alone, seed=2, device="cpu", settings={"training.steps": 3})
    assert len(run.sample(5)) == 5
    assert run.verify().ok
    assert sorted(path.name for path in alone.parent.iterdir()) == ["run"]


@pytest.mark.parametrize("stop", [1, 7, 20])
def test_an_interrupted_training_goes_on_to_the_same_sampler(stop: int, trained_once: Path, work: Path) -> None:
    settings = {"training.steps": 25}
    whole, parts = (Path(shutil.copytree(trained_once, work / name)) for name in ("whole", "parts"))
    simulacra.train(whole, device="cpu", settings=settings)
    early = simulacra.train(parts, device="cpu", settings=settings, watcher=StopAt(stop))
    assert early.training is not None
    assert early.training["stopped_early"] is True
    assert len(early.sample(5)) == 5
    simulacra.train(parts, device="cpu", settings=settings)
    assert sampler(parts) == sampler(whole)
    assert Run.load(parts).training == Run.load(whole).training
    assert not (parts / "checkpoint").exists()


def test_another_training_does_not_continue_a_foreign_checkpoint(trained_once: Path, work: Path) -> None:
    settings = {"training.steps": 25}
    fresh, used = (Path(shutil.copytree(trained_once, work / name)) for name in ("fresh", "used"))
    simulacra.train(used, device="cpu", settings=settings, watcher=StopAt(20))
    simulacra.train(used, device="cpu", settings=settings, seed=1)
    simulacra.train(fresh, device="cpu", settings=settings, seed=1)
    assert sampler(used) == sampler(fresh)


def test_what_a_crash_leaves_in_the_checkpoint_folder_is_swept_up(trained: Path) -> None:
    (trained / "checkpoint").mkdir()
    (trained / "checkpoint" / "wanted.json.partial").write_bytes(b"{")
    simulacra.train(trained, device="cpu")
    assert not (trained / "checkpoint").exists()


def test_settings_of_the_release_cannot_change_afterwards(trained: Path) -> None:
    for change in ({"pairs": 21}, {"count_noise": 1.0}, {"length_scales": (1.0,)}, {"feature_seed": 1}):
        with pytest.raises(PlanError, match=f"{next(iter(change))} decided what was released"):
            simulacra.train(trained, settings=change)
    simulacra.train(trained, device="cpu", settings={"pairs": 20, "generator.hidden": (8,)})
    with pytest.raises(SettingError, match="unknown setting"):
        simulacra.train(trained, settings={"pear": 1})


def test_a_device_is_checked_before_anything_is_spent(work: Path) -> None:
    assert pick_device("cpu") == "cpu"
    assert pick_device("auto") in ("cpu", "cuda")
    for name in ("quantum", "cuda:99", "meta", ""):
        with pytest.raises(SettingError, match="not available"):
            simulacra.fit(tiny.people(), out="run", device=name, **arguments())
    assert list(work.iterdir()) == []


@pytest.mark.parametrize("kind", ["frame", "arrow", "csv", "parquet"])
def test_the_same_rows_give_the_same_sums_whatever_holds_them(kind: str, work: Path) -> None:
    import pyarrow as pa

    frame = tiny.people()
    frame.to_csv("people.csv", index=False)
    frame.to_parquet("people.parquet")
    data = {
        "frame": frame,
        "arrow": pa.Table.from_pandas(frame),
        "csv": "people.csv",
        "parquet": Path("people.parquet"),
    }
    exact = {"epsilon": None, "delta": None, "not_private": True}
    run = simulacra.release(data[kind], out="run", **arguments(**exact))
    other = simulacra.release(frame, out="other", **arguments(**exact))
    for name, release in run.releases.items():
        assert release.value.allclose(other.releases[name].value, atol=1e-9)
    assert run.releases["class-counts"].value.tolist() == frame["buys"].value_counts().sort_index().tolist()


def test_releases_are_noisy_and_differ_every_time(work: Path) -> None:
    one, two = (simulacra.release(tiny.people(), out=name, **arguments()) for name in ("one", "two"))
    truth = simulacra.release(
        tiny.people(), out="truth", **arguments(epsilon=None, delta=None, not_private=True, ledger="void.ledger")
    )
    for name, release in one.releases.items():
        assert not release.value.equal(two.releases[name].value)
        assert release.noise == "exact"
        error = (release.value - truth.releases[name].value) / release.noise_std
        assert error.abs().max() < 7
        assert error.abs().mean() > 0.05


def test_a_fixed_noise_seed_is_recorded_and_voids_the_certificate(work: Path) -> None:
    from simulacra.privacy.noise import NoiseSource

    run = simulacra.release(tiny.people(), out="run", insecure_noise=NoiseSource(seed=1), **arguments())
    assert run.certificate["private"] is False
    assert run.verify().ok is False


def test_progress_tells_stages_noise_and_loss_but_never_a_row_count(work: Path) -> None:
    class Recorder(Watcher):
        def __init__(self) -> None:
            self.told: list[tuple[Any, ...]] = []

        def stage(self, name: str) -> None:
            self.told.append(("stage", name))

        def on_batch(self) -> None:
            self.told.append(("batch",))

        def on_noise(self, done: int, total: int) -> None:
            self.told.append(("noise", total))

        def on_step(self, step: int, steps: int, loss: float) -> None:
            self.told.append(("step", step, steps))

    watchers = [Recorder(), Recorder()]
    for watcher, rows in zip(watchers, (60, 119), strict=True):
        simulacra.fit(tiny.people(rows), out=f"run{rows}", device="cpu", watcher=watcher, **arguments())
    assert watchers[0].told == watchers[1].told
    kinds = {told[0] for told in watchers[0].told}
    assert kinds == {"stage", "batch", "noise", "step"}


def interrupt_certificate(monkeypatch: pytest.MonkeyPatch) -> None:
    import simulacra.privacy.certificate as certificate

    def fail(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(certificate, "write_certificate", fail)


def interrupt_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    from simulacra.privacy.noise import NoiseSource

    def fail(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(NoiseSource, "exact", fail)


@pytest.mark.parametrize("interrupt", [interrupt_certificate, interrupt_noise])
def test_a_release_that_was_interrupted_is_resumed(
    interrupt: Callable[[pytest.MonkeyPatch], None], work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        interrupt(patch)
        with pytest.raises(KeyboardInterrupt):
            simulacra.release(tiny.people(), out="run", **arguments())
    with pytest.raises(OutputError, match="exists already"):
        simulacra.release(tiny.people(), out="run", **arguments())
    with pytest.raises(PlanError, match="other settings"):
        simulacra.release(tiny.people(), out="run", resume=True, **arguments(epsilon=1.0))
    run = simulacra.release(tiny.people(), out="run", resume=True, **arguments())
    assert run.verify().ok


def test_a_folder_that_another_process_made_in_the_meantime_is_not_removed(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two runs racing for one name: the one that comes second must not clear away the first."""
    genuine = Path.mkdir

    def mkdir(self: Path, *words: Any, **more: Any) -> None:
        if self.name == "run" and not self.exists():
            genuine(self)
            (self / "run.json").write_text("of the other process")
        genuine(self, *words, **more)

    monkeypatch.setattr(Path, "mkdir", mkdir)
    with pytest.raises(OutputError, match="run"):
        simulacra.release(tiny.people(), out="run", **arguments())
    assert (work / "run" / "run.json").read_text() == "of the other process"


def test_the_ledger_is_named_after_the_data_file_and_must_be_named_for_data_in_memory(work: Path) -> None:
    tiny.people().to_csv("people.2024.csv", index=False)
    assert simulacra.release("people.2024.csv", out="run", **arguments(ledger=None)).facts["ledger"] == "people"
    assert (work / "people.ledger").exists()
    with pytest.raises(LedgerError, match="name a ledger"):
        simulacra.release(tiny.people(), out="other", **arguments(ledger=None))


def test_the_certificate_lists_what_was_assumed_public(work: Path) -> None:
    from dataclasses import replace

    schema = replace(tiny.schema(tiny.PEOPLE), rows=120)
    declared = simulacra.release(tiny.people(), out="declared", **arguments(schema=schema)).certificate
    silent = simulacra.release(tiny.people(), out="silent", **arguments()).certificate
    assert any("120" in line for line in declared["assumed_public"])
    assert any("not the number of records" in line for line in silent["assumed_public"])
    assert any("person" in line for line in silent["assumed_public"])


def test_a_frame_with_an_index_and_other_types_is_read_like_any_other(work: Path) -> None:
    frame = tiny.people().set_index(pd.Index(range(1000, 1120)))
    frame["town"] = frame["town"].astype("category")
    run = simulacra.fit(frame, out="run", device="cpu", **arguments())
    assert json.loads((run.folder / "training.json").read_text())["device"] == "cpu"


# -- what cannot work is refused before anything is spent ----------------------------------------------------------


def nothing_spent(ledger: Path) -> bool:
    """Whether the ledger has no entry but its opening."""
    return not ledger.exists() or len(simulacra.Ledger(ledger).entries()) == 1


def test_questions_that_fail_are_rehearsed_before_the_reserve(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a release that runs out of memory would be paid for, and again with every resume."""

    def too_large(self: object, inputs: object) -> None:
        raise RuntimeError("not enough memory: you tried to allocate 13107200000 bytes")

    monkeypatch.setattr("simulacra.features.fourier.RandomFourier.batch", too_large)
    with pytest.raises(PlanError, match="nothing was spent: not enough memory"):
        simulacra.release(tiny.people(), out="run", **arguments())
    assert not Path("run").exists()
    assert nothing_spent(Path("people.ledger"))


def test_a_generator_that_does_not_fit_is_refused_before_the_reserve(work: Path) -> None:
    settings = {"settings": {**tiny.SETTINGS, "generator.kind": "residual"}}
    images = np.zeros((9, 12, 12), dtype=np.uint8)
    schema = Schema(columns=(), image=ImageShape(height=12, width=12))
    with pytest.raises(SettingError, match=r"generator\.kind"):
        simulacra.release(images, out="run", **{**arguments(), **settings, "schema": schema})
    assert nothing_spent(Path("people.ledger"))


@pytest.fixture
def strange_torch() -> Iterator[None]:
    """A program that works on another device, in doubles and without gradients."""
    torch.set_default_device("meta")
    torch.set_default_dtype(torch.float64)
    torch.set_grad_enabled(False)
    yield
    torch.set_default_device(None)
    torch.set_default_dtype(torch.float32)
    torch.set_grad_enabled(True)


@pytest.mark.parametrize("told", [torch.autocast("cpu", dtype=torch.bfloat16), torch.inference_mode()])
def test_nothing_is_rounded_to_half_precision_in_a_release(work: Path, told: Any) -> None:
    """The margin for rounding in a sensitivity is 1e-5; half precision is off by 4e-3."""
    from simulacra.features.combine import ClassCount

    class Rounding(ClassCount):
        def clipped_sum(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
            assert (inputs[:2].float() @ inputs[:2].float().T).dtype == torch.float32
            assert not torch.is_inference(torch.zeros(1))
            return super().clipped_sum(inputs, labels)

    schema = tiny.schema(tiny.PEOPLE)
    common = {"schema": schema, "epsilon": 1.0, "delta": 1e-5, "adjacency": "add-remove", "ledger": "people.ledger"}
    with told:
        ask_about(tiny.people(), {"counts": Rounding(2)}, **common)  # type: ignore[arg-type]
        run = simulacra.fit(tiny.people(), out="run", device="cpu", **arguments())
    assert len(run.sample(5)) == 5


@pytest.mark.skipif(not hasattr(torch.backends, "fp32_precision"), reason="this torch has older switches only")
@pytest.mark.parametrize(
    ("part", "rounding"),
    [
        (torch.backends, "tf32"),
        (torch.backends.mkldnn.matmul, "bf16"),
        (torch.backends.cuda.matmul, "tf32"),
        (torch.backends.cudnn.conv, "ieee"),
    ],
    ids=["all", "products on a processor", "products on a GPU", "convolutions on a GPU"],
)
def test_whatever_may_be_rounded_is_as_torch_comes_and_is_left_as_it_was(part: Any, rounding: str) -> None:
    """Older switches, which keep private sums from being rounded, cannot even be read where these were used."""
    from simulacra.networks.devices import PRECISIONS, arithmetic, plain_torch

    def found() -> dict[str, str]:
        parts = {name: operator.attrgetter(name)(torch.backends) for name in PRECISIONS if name}
        return {"": torch.backends.fp32_precision, **{name: one.fp32_precision for name, one in parts.items()}}

    usual, before = found(), part.fp32_precision
    try:
        part.fp32_precision = rounding
        told = found()
        assert told != usual
        with plain_torch():
            assert found() == PRECISIONS
            with arithmetic(rounded=False):
                assert not torch.backends.cuda.matmul.allow_tf32
                assert not torch.backends.cudnn.allow_tf32
        assert found() == told
    finally:
        part.fp32_precision = before
    assert found() == usual


@pytest.mark.skipif(not hasattr(torch.backends, "fp32_precision"), reason="this torch has older switches only")
@pytest.mark.parametrize("name", ["dp-merf", "dp-gan", "ndpdc", "ldpdc", "dpmix"])
def test_products_may_be_rounded_in_training_and_never_in_a_private_sum(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What shortens products by parts of a hundred has no place where a sensitivity allows for parts of a million."""
    from simulacra.privacy import loop, summing

    told: list[str] = []
    add_chunks = summing.add_chunks

    def watched(*arguments: Any) -> None:
        told.append(torch.backends.mkldnn.matmul.fp32_precision)
        add_chunks(*arguments)

    monkeypatch.setattr(summing, "add_chunks", watched)
    assert loop.add_in_turn is summing.add_in_turn, "which both kinds of questions go through"
    settings = {
        "dp-merf": {"pairs": 8, "training.steps": 2, "training.batch": 4},
        "dp-gan": {"rate": 1.0, "steps": 3, "critic.hidden": "8", "generator.hidden": "8"},
        "ndpdc": {"rounds": 3, "per_class": 2, "rate": 1.0},
        "ldpdc": {"per_class": 2, "rate": 1.0},
        "dpmix": {"per_class": 2, "rate": 1.0},
    }[name]
    simulacra.fit(
        tiny.people(),
        schema=tiny.schema(tiny.PEOPLE),
        method=name,
        epsilon=10.0,
        delta=1e-5,
        adjacency="add-remove",
        out=tmp_path / "run",
        ledger=tmp_path / "people.ledger",
        device="cpu",
        settings=settings,
    )
    assert len(told) >= 2
    assert set(told) == {"none"}


def test_torch_is_not_made_to_ask_python_at_every_operation() -> None:
    from torch.overrides import _get_current_function_mode_stack as modes

    from simulacra.networks.devices import plain_torch

    with plain_torch():
        assert not modes()
        assert torch.zeros(1).device.type == "cpu"
    with torch.device("meta"), plain_torch():
        assert torch.zeros(1).device.type == "cpu"


def test_what_a_program_told_torch_does_not_matter(work: Path, strange_torch: None) -> None:
    simulacra.release(tiny.people(), out="run", **arguments())
    run = simulacra.train("run", device="cpu")
    assert len(run.sample(5)) == 5

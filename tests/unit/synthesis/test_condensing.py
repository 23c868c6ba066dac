"""Condensing a release: a small set that matches it, at no cost, with the certificate of where it came from."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
import torch

import simulacra
from simulacra.data.cells import Cells
from simulacra.errors import CertificateError, OutputError, PlanError, SettingError
from simulacra.methods import matching
from simulacra.synthesis.run import Run
from simulacra.synthesis.watching import Watcher

SMALL: dict[str, dict[str, Any]] = {
    "dp-merf": {"pairs": 60},
    "dp-ntk": {"widths": "10"},
    "dp-hp": {"order": 3, "product_order": 1, "subsets": 5},
    "pairs": {"generator.kind": "auto"},
    "moments": {"radius": 1.0},
}
FOR_TABLES, FOR_IMAGES = ("dp-merf", "dp-ntk", "dp-hp", "pairs"), ("dp-merf", "dp-ntk", "dp-hp", "moments")
QUICK = {"training.steps": 30, "training.batch": 64, "generator.hidden": "16", "training.learning_rate": 0.05}


def released(data: Any, schema: str, method: str, out: str) -> Run:
    """Without noise, so that a test of matching has something to match."""
    return simulacra.release(
        data,
        schema=tiny.schema(schema),
        method=method,
        epsilon=None,
        delta=None,
        not_private=True,
        adjacency="add-remove",
        out=out,
        ledger=f"{out}.ledger",
        settings={**QUICK, **SMALL[method]},
    )


def losses(run: Run) -> tuple[float, float]:
    assert run.training is not None
    curve = run.training["curve"]
    return curve[0][1], curve[-1][1]


@pytest.mark.parametrize("init", ["noise", "samples"])
def test_a_set_matches_the_release_and_keeps_its_certificate(init: str, trained: Path, work: Path) -> None:
    source = Run.load(trained)
    before = {path: path.read_bytes() for path in sorted(trained.rglob("*")) if path.is_file()}
    made = simulacra.condense(trained, out="set", per_class=5, steps=100, learning_rate=0.1, init=init, device="cpu")
    assert made.certificate == source.certificate
    assert made.verify().ok
    assert made.sampler.size == 10
    assert losses(made)[1] < losses(made)[0]
    assert {path: path.read_bytes() for path in sorted(trained.rglob("*")) if path.is_file()} == before
    assert made.training is not None
    assert made.training["settings"]["generator"]["init"] == init
    assert not (work / "set" / "scores.json").exists()


@pytest.mark.parametrize("method", FOR_IMAGES)
def test_images_of_every_method_come_near_what_they_match(method: str, work: Path) -> None:
    run = released(tiny.pictures(200), tiny.PICTURES, method, "run")
    made = simulacra.condense(run, out="set", per_class=4, steps=150, learning_rate=0.05, device="cpu")
    first, last = losses(made)
    assert last < 0.7 * first
    images, labels = made.sample()
    assert images[labels == 0].mean() + 60 < images[labels == 1].mean(), "light pictures are lighter than dark ones"


@pytest.mark.parametrize("method", FOR_TABLES)
def test_rows_of_every_method_come_near_what_they_match(method: str, work: Path) -> None:
    run = released(tiny.people(400), tiny.PEOPLE, method, "run")
    made = simulacra.condense(run, out="set", per_class=10, steps=150, learning_rate=0.05, device="cpu")
    first, last = losses(made)
    assert last < first
    frame = made.sample()
    assert (frame.groupby("buys", observed=True)["age"].mean().diff().dropna() > 5).all(), "buyers are older"


def test_what_is_matched_is_the_whole_set_in_every_step(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = released(tiny.people(), tiny.PEOPLE, "dp-merf", "run")
    seen = set()
    groups = matching.groups_for

    def watched(*arguments: Any) -> Any:
        made = groups(*arguments)
        seen.add(made.sizes)
        return made

    monkeypatch.setattr(matching, "groups_for", watched)
    simulacra.condense(run, out="set", per_class=7, steps=2, device="cpu")
    assert seen == {(7, 7)}


def test_the_set_with_the_least_loss_is_kept_and_not_the_last(work: Path) -> None:
    """Such a learning rate makes the last one a bad one."""
    run = released(tiny.people(300), tiny.PEOPLE, "dp-merf", "run")
    made = simulacra.condense(run, out="set", per_class=5, steps=40, learning_rate=3.0, device="cpu")
    assert made.training is not None
    least = min(loss for _, loss in made.training["curve"])
    assert least < losses(made)[1]
    again = simulacra.condense(made, out="again", per_class=5, steps=1, init="samples", device="cpu")
    assert losses(again)[0] == pytest.approx(least, rel=1e-4)


def test_the_same_seed_gives_the_same_set_and_another_another(trained: Path, work: Path) -> None:
    for name, seed in (("one", 3), ("two", 3), ("three", 4)):
        simulacra.condense(trained, out=name, per_class=3, steps=3, seed=seed, device="cpu")
    one, two, three = ((work / name / "sampler.safetensors").read_bytes() for name in ("one", "two", "three"))
    assert one == two != three


def test_without_a_sampler_it_begins_with_noise(trained: Path, work: Path) -> None:
    for name in ("sampler.json", "sampler.safetensors"):
        (trained / name).unlink()
    made = simulacra.condense(trained, out="set", per_class=2, steps=1, device="cpu")
    assert made.training is not None
    assert made.training["settings"]["generator"]["init"] == "noise"


def test_samples_that_nothing_moves_stay_what_they_are(trained: Path, work: Path) -> None:
    made = simulacra.condense(trained, out="set", per_class=20, steps=1, learning_rate=1e-9, device="cpu", seed=5)
    source = Run.load(trained)
    labels = torch.arange(2).repeat_interleave(20)
    (drawn,) = source.sampler.records(40, seed=5, labels=labels)
    cells = Cells(source.schema)
    assert torch.equal(cells.index(made.sampler.generator.records()), cells.index(drawn.inputs))


def test_one_record_per_class_works(work: Path) -> None:
    run = released(tiny.pictures(), tiny.PICTURES, "dp-merf", "run")
    images, labels = simulacra.condense(run, out="set", per_class=1, steps=20, device="cpu").sample()
    assert images.shape == (2, 8, 8)
    assert labels.tolist() == [0, 1]


def test_tables_without_a_label_have_one_class(work: Path) -> None:
    run = released(tiny.people(), tiny.UNLABELLED, "dp-merf", "run")
    assert len(simulacra.condense(run, out="set", per_class=6, steps=5, device="cpu").sample()) == 6


def test_train_makes_a_set_in_the_same_folder(trained: Path) -> None:
    made = simulacra.train(
        trained, settings={"generator.kind": "condensed", "generator.per_class": 3, "generator.init": "samples"}
    )
    assert made.sampler.size == 6
    assert made.verify().ok


def test_an_interrupted_set_can_be_used_and_continued(trained: Path, work: Path) -> None:
    class Stop(Watcher):
        def on_step(self, step: int, steps: int, loss: float) -> None:
            if step == 15:
                raise KeyboardInterrupt

    words: dict[str, Any] = {"per_class": 3, "steps": 30, "init": "samples", "device": "cpu"}
    whole = simulacra.condense(trained, out="whole", **words)
    made = simulacra.condense(trained, out="set", watcher=Stop(), **words)
    assert made.training is not None
    assert made.training["stopped_early"]
    assert len(made.sample()) == 6
    continued = simulacra.train(made, settings=made.training["settings"], device="cpu")
    assert np.array_equal(continued.sample().to_numpy(dtype=str), whole.sample().to_numpy(dtype=str))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"per_class": 0}, "per_class must be at least 1"),
        ({"per_class": 10**14}, r"lower generator\.per_class"),
        ({"steps": 0}, "steps >= 1"),
        ({"learning_rate": 0.0}, "learning_rate must be positive"),
        ({"init": "zeros"}, "unknown beginning"),
        ({"settings": {"generator.sprea": 1}}, "sprea"),
        ({"device": "cuda:99"}, "not available"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_left(
    words: dict[str, Any], says: str, trained: Path, work: Path
) -> None:
    with pytest.raises(SettingError, match=says):
        simulacra.condense(trained, out="set", **words)
    assert not (work / "set").exists()


def test_a_method_without_a_release_to_match_says_so(trained: Path, work: Path) -> None:
    class Looping:
        name = "dp-gan"

    run = Run.load(trained)
    run.__dict__["method"] = Looping()
    with pytest.raises(PlanError, match="dp-gan leaves no release"):
        simulacra.condense(run, out="set")
    assert not (work / "set").exists()


def test_what_was_asked_cannot_change(trained: Path, work: Path) -> None:
    with pytest.raises(PlanError, match="pairs decided what was released"):
        simulacra.condense(trained, out="set", settings={"pairs": 7})
    assert not (work / "set").exists()


def test_a_run_without_a_finished_release_or_sampler_says_so(trained: Path, work: Path) -> None:
    shutil.copytree(trained, "bare")
    Path("bare/sampler.json").unlink()
    with pytest.raises(SettingError, match="simulacra train bare"):
        simulacra.condense("bare", out="set", init="samples")
    Path("bare/certificate.json").unlink()
    with pytest.raises(CertificateError, match="no finished release"):
        simulacra.condense("bare", out="set")
    with pytest.raises(CertificateError, match="not a run folder"):
        simulacra.condense("nowhere", out="set")


def test_an_existing_folder_is_never_written_into(trained: Path, work: Path) -> None:
    Path("set").mkdir()
    with pytest.raises(OutputError, match="exists"):
        simulacra.condense(trained, out="set")
    assert list(Path("set").iterdir()) == []


def test_a_new_release_cannot_begin_with_samples_and_spends_nothing(work: Path) -> None:
    with pytest.raises(SettingError, match="trained before"):
        simulacra.release(
            tiny.people(),
            schema=tiny.schema(tiny.PEOPLE),
            epsilon=1.0,
            delta=1e-5,
            adjacency="add-remove",
            out="run",
            ledger="people.ledger",
            method=tiny.METHOD,
            settings={**tiny.SETTINGS, "generator.kind": "condensed", "generator.init": "samples"},
        )
    assert tiny.reservations(Path("people.ledger")) == 0


def test_a_step_that_does_not_fit_into_memory_names_the_setting(
    trained: Path, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_large(*_: object) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 80000000000 bytes")

    monkeypatch.setattr("simulacra.features.fourier.RandomFourier.class_sums", too_large)
    with pytest.raises(SettingError, match=r"lower generator\.per_class"):
        simulacra.condense(trained, out="set", device="cpu")
    with pytest.raises(SettingError, match=r"lower training\.batch"):
        simulacra.train(trained, device="cpu")
    assert not (work / "set").exists()


def test_the_command_line_makes_verifies_and_samples_a_set(trained: Path, cli: tiny.Cli) -> None:
    finished = cli("condense", "run", "--per-class", "4", "--steps", "5", "--out", "set", "--json")
    assert finished.json["trained"] is True
    assert finished.json["epsilon"] == Run.load(trained).certificate["epsilon"]
    assert cli("verify", "set").code == 0
    assert cli("sample", "set", "--out", "set.csv", "--json").json["rows"] == 8
    refused = cli("condense", "run", "--per-class", "0", "--out", "other")
    assert refused.code == 2
    assert len(refused.lines) == 1


def test_fit_makes_a_set_from_the_start(table: Path, cli: tiny.Cli) -> None:
    words = ("--schema", "schema.toml", "--epsilon", "5", "--set", "generator.kind=condensed")
    finished = cli("fit", "people.csv", *words, *tiny.QUICK, "--set", "generator.per_class=3", "--out", "set")
    assert finished.code == 0, finished.err
    assert "simulacra sample set --out samples.csv" in finished.out
    assert cli("sample", "set", "--out", "set.csv", "--json").json["rows"] == 6


@pytest.mark.skipif(not torch.cuda.is_available(), reason="captured CUDA graphs exist on a GPU only; run there")
@pytest.mark.parametrize("data", ["rows", "images"])
def test_a_gpu_makes_much_the_same_set(data: str, work: Path) -> None:
    source, schema = (tiny.people(300), tiny.PEOPLE) if data == "rows" else (tiny.pictures(), tiny.PICTURES)
    run = released(source, schema, "dp-merf", "run")
    first, last = losses(simulacra.condense(run, out="cpu", per_class=5, steps=100, device="cpu"))
    other_first, other_last = losses(simulacra.condense(run, out="gpu", per_class=5, steps=100, device="cuda"))
    assert other_first == pytest.approx(first, rel=0.01)
    assert other_last == pytest.approx(last, rel=0.5)

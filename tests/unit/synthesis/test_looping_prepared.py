"""Runs prepared here and drawn there: they draw what was paid for and no more, with torch alone and no ledger."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import looped
import pytest
import tiny
from loop_runs import Draws, Killed, arguments, die, fit, prepare, reserved
from looped import LoopedMeans

import simulacra
from simulacra.errors import LedgerError, PlanError
from simulacra.privacy.ledger import Ledger
from simulacra.privacy.permit import Permit

pytestmark = pytest.mark.usefixtures("looped_method")


def test_preparing_pays_for_everything_at_once_and_draws_nothing(draws: Draws) -> None:
    run = prepare()
    assert (draws.made, reserved()) == (0, 40)
    assert run.verify().ok
    assert list(run.releases) == ["class-counts"]
    simulacra.resume(tiny.people(), "run", device="cpu")  # no ledger is named, and none is needed
    assert (draws.made, reserved()) == (40, 40)
    with pytest.raises(PlanError, match="simulacra resume"):
        fit(resume=True)


def test_a_prepared_run_that_crashes_draws_no_more_than_was_paid_for(draws: Draws) -> None:
    run = prepare()
    for turn in (8, 17):
        die(turn)
        with pytest.raises(Killed):
            simulacra.resume(tiny.people(), "run", device="cpu")
    looped.AT_TURN.clear()
    simulacra.resume(tiny.people(), "run", device="cpu")
    permit = json.loads((run.folder / "permit.json").read_bytes())
    assert draws.made <= permit["used"]["sums"] == 40
    assert LoopedMeans.last.draws == 30
    again = simulacra.resume(tiny.people(), "run", device="cpu")
    assert draws.made <= 40
    assert again.verify().ok


@pytest.mark.parametrize("moment", ["before", "after"])
def test_preparing_that_crashes_pays_once(moment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    genuine = Ledger.reserve

    def dying(book: Ledger, run: str, steps: list[str], events: Any, **more: Any) -> str:
        if steps == ["sums"] and moment == "before":
            raise Killed
        entry = genuine(book, run, steps, events, **more)
        if steps == ["sums"]:
            raise Killed
        return entry

    monkeypatch.setattr(Ledger, "reserve", dying)
    with pytest.raises(Killed):
        prepare()
    with pytest.raises(LedgerError, match="not paid for"):
        simulacra.resume(tiny.people(), "run", device="cpu")
    monkeypatch.setattr(Ledger, "reserve", genuine)
    prepare(resume=True)
    assert reserved() == 40
    simulacra.resume(tiny.people(), "run", device="cpu")


def test_a_permit_that_was_taken_away_is_not_written_anew() -> None:
    run = prepare()
    (run.folder / "permit.json").unlink()
    with pytest.raises(LedgerError, match="taken away"):
        prepare(resume=True)


@pytest.mark.parametrize(
    ("name", "value"), [("run", "other"), ("used", {"sums": 41}), ("used", {"sums": -1}), ("kind", ""), ("prepaid", {})]
)
def test_a_changed_permit_is_refused(name: str, value: Any) -> None:
    file = prepare().folder / "permit.json"
    file.write_text(json.dumps({**json.loads(file.read_bytes()), name: value}))
    with pytest.raises(LedgerError):
        simulacra.resume(tiny.people(), "run", device="cpu")


def test_a_permit_pays_for_its_own_noise_only() -> None:
    run = prepare()
    permit, name = Permit(run.folder), run.facts["run"]
    from dataclasses import replace

    from simulacra.privacy.plan import Plan

    event = Plan.from_json(run._json("plan.json")).step("sums").event
    for other in (replace(event, noise_multiplier=event.noise_multiplier / 2), replace(event, sample_rate=0.5)):
        with pytest.raises(LedgerError, match="not paid for"):
            permit.reserve(name, ["sums"], [replace(other, count=1)])
    with pytest.raises(LedgerError, match="where the ledger is"):
        permit.ask(name, "class-counts", event)
    permit.reserve(name, ["sums"], [replace(event, count=39)])
    with pytest.raises(LedgerError, match="all 40"):
        permit.reserve(name, ["sums"], [replace(event, count=2)])


def test_a_question_that_got_lost_on_the_way_is_not_asked_again_elsewhere() -> None:
    run = prepare()
    for file in (run.folder / "releases").iterdir():
        file.unlink()
    with pytest.raises(LedgerError, match=r"not paid for in advance|where the ledger is"):
        simulacra.resume(tiny.people(), "run", device="cpu")


def test_only_loops_are_prepared_or_resumed(trained: Path) -> None:
    with pytest.raises(PlanError, match="train anywhere"):
        _with_all_methods(lambda: simulacra.prepare(tiny.people(), out="x", **arguments(method="dp-merf")))
    with pytest.raises(PlanError, match="simulacra train"):
        _with_all_methods(lambda: simulacra.resume(tiny.people(), trained))


def _with_all_methods(act: Any) -> None:
    from simulacra.methods.dp_merf import DPMERF

    with mock.patch("simulacra.methods.all_methods", return_value={"dp-merf": DPMERF}):
        act()


ABSENT = [
    *("click", "dp_accounting", "filelock", "jinja2", "opendp", "pandas", "PIL"),
    *("pyarrow", "rich", "scipy", "sklearn", "tomli_w", "xgboost"),
]
PROGRAM = """
import sys

import numpy
import torch  # first: it may want some of these for itself, and only our own imports are judged

for name in {absent!r}:
    sys.modules[name] = None  # as if it were not installed
sys.path.insert(0, {tests!r})

import looped
from simulacra.synthesis.looping import resume

looped.LoopedMeans.images = True
looped.Points.features = lambda self, inputs, label: self.batch(inputs)
looped.Points.batch = lambda self, inputs: self.points.of_records(inputs) / 8
stored = numpy.load("pictures.npz")
with looped.known():
    run = resume((stored["images"], stored["labels"]), "run", device="cpu")
    print(run.training["rounds"]["sums"]["done"], sum(len(r.labels) for r in run.sampler.records(10, seed=0)))
"""


def test_a_prepared_run_is_trained_with_torch_numpy_and_safetensors_alone(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import numpy as np

    monkeypatch.setattr(LoopedMeans, "images", True)
    images, labels = tiny.pictures()
    np.savez("pictures.npz", images=images, labels=labels)
    simulacra.prepare((images, labels), out="run", **arguments(schema=tiny.schema(tiny.PICTURES)))
    Path("people.ledger").rename("at-home.ledger")
    program = PROGRAM.format(absent=ABSENT, tests=str(Path(looped.__file__).parent))
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=work)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.split()[-2:] == ["40", "10"]
    assert not Path("people.ledger").exists()
    assert simulacra.verify("run").ok

"""Training loops: crashes lose time and never budget truth; prepared runs draw what was paid for and no more."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import looped
import pytest
import tiny
import torch
from looped import LoopedMeans

import simulacra
from simulacra.errors import CapExceeded, CertificateError, LedgerError, OutputError, PlanError, SettingError
from simulacra.privacy.budget import Adjacency, Budget
from simulacra.privacy.ledger import Ledger
from simulacra.privacy.loop import Loop
from simulacra.privacy.noise import NoiseSource
from simulacra.privacy.permit import Permit
from simulacra.synthesis.rounds import LoopRounds, block_for
from simulacra.synthesis.run import Run

BLOCK = 5
"""Draws per block in these tests; there are 40 in the plan."""


@pytest.fixture(autouse=True)
def method(work: Path, monkeypatch: pytest.MonkeyPatch, remembered_plans: None) -> Iterator[None]:
    monkeypatch.setattr("simulacra.synthesis.looping.block_for", lambda count: BLOCK)
    with looped.known():
        yield
    looped.AT_TURN.clear()


def arguments(**more: Any) -> dict[str, Any]:
    return {
        "schema": tiny.schema(tiny.PEOPLE),
        "method": LoopedMeans.name,
        "epsilon": 5.0,
        "delta": 1e-5,
        "adjacency": "add-remove",
        "ledger": "people.ledger",
        **more,
    }


def fit(**more: Any) -> Run:
    return simulacra.fit(tiny.people(), out="run", **arguments(device="cpu", **more))


def reserved(name: str = "run") -> int:
    return Ledger("people.ledger").reserved(Run.load(name).facts["run"], "sums")


class Killed(BaseException):
    """As sudden as kill -9, for this process."""


class Draws:
    """Counts every draw of noise of a loop, whatever becomes of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made = 0
        genuine = NoiseSource.fast

        def counted(source: NoiseSource, like: Any, std: float) -> Any:
            self.made += 1
            return genuine(source, like, std)

        monkeypatch.setattr(NoiseSource, "fast", counted)


@pytest.fixture
def draws(monkeypatch: pytest.MonkeyPatch) -> Draws:
    return Draws(monkeypatch)


def die(at: int) -> None:
    def act(number: int) -> None:
        if number == at:
            raise Killed

    looped.AT_TURN[:] = [act]


# -- a run ----------------------------------------------------------------------------------------------------------


def test_a_loop_runs_to_its_end_and_is_certified(draws: Draws) -> None:
    run = fit()
    assert draws.made == reserved() == LoopedMeans.last.draws == 40
    assert run.verify().ok
    assert run.training is not None
    assert run.training["rounds"] == {"sums": {"planned": 40, "done": 40}}
    assert not (run.folder / "checkpoint").exists()
    assert len(run.sample(5)) == 5
    assert list(run.releases) == ["class-counts"]


def test_the_certificate_states_rate_rounds_noise_clip_and_how_it_was_accounted_for() -> None:
    certificate = fit().certificate
    loop = certificate["steps"][1]
    assert (loop["sample_rate"], loop["count"], loop["norm_bound"], loop["noise"]) == (0.25, 40, 1.0, "fast")
    assert loop["noise_multiplier"] > 0
    assert certificate["epsilon"] <= 5 < certificate["epsilon_rdp"]
    assert "privacy loss distributions" in certificate["accounting"]
    assert "NOT safe against floating-point attacks" in certificate["noise_source"]
    assert certificate["remarks"] == ["each record fills the row of its class only"]


def test_a_certificate_that_hides_how_a_loop_was_accounted_for_is_refused() -> None:
    run = fit()
    statement = run.certificate
    statement["accounting"] = "trust me"
    from simulacra.privacy import certificate

    statement["digest"] = certificate._digest(statement)
    (run.folder / "certificate.json").write_bytes(certificate._dump(statement))
    assert any("accounting" in problem for problem in run.verify().problems)


def test_without_privacy_there_is_no_noise(draws: Draws) -> None:
    run = fit(epsilon=None, not_private=True)
    assert draws.made == 0
    assert not run.certificate["private"]


def test_release_and_train_refuse_and_name_the_way() -> None:
    with pytest.raises(PlanError, match="use fit"):
        simulacra.release(tiny.people(), out="run", **arguments())
    with pytest.raises(PlanError, match="cannot be trained again"):
        simulacra.train(fit())


@pytest.mark.parametrize("settings", [{"rate": 1.5}, {"rate": 0}, {"rounds": 0}, {"rounds": 1, "rate": 1}])
def test_rates_and_rounds_that_make_no_sense_are_refused_and_cost_nothing(settings: dict[str, Any]) -> None:
    with pytest.raises(SettingError):
        fit(settings=settings)
    assert not Path("people.ledger").exists()
    assert not Path("run").exists()


def test_a_cap_refuses_a_loop_before_anything_is_spent() -> None:
    cap = Budget(epsilon=1.0, delta=1e-5, adjacency=Adjacency.ADD_REMOVE)
    book = Ledger.create("people.ledger", adjacency=Adjacency.ADD_REMOVE, cap=cap, cap_filter="renyi")
    with pytest.raises(CapExceeded):
        fit()
    assert book.total().releases == 0
    assert not Path("run").exists()


# -- crashes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("turn", [0, 3, 4, 5, 12, 39])
def test_a_crash_between_draw_and_checkpoint_costs_at_most_a_block_and_is_paid_for(draws: Draws, turn: int) -> None:
    die(turn)
    with pytest.raises(Killed):
        fit()
    assert draws.made == turn + 1 <= reserved()
    looped.AT_TURN.clear()
    run = fit(resume=True)
    assert draws.made <= reserved() == 40
    lost = turn % BLOCK + 1
    assert LoopedMeans.last.draws == 40 - BLOCK
    assert draws.made == 40 - BLOCK + lost
    assert run.verify().ok


def test_a_crash_between_reserve_and_draw_is_not_refunded(draws: Draws, monkeypatch: pytest.MonkeyPatch) -> None:
    genuine = Loop._reserve

    def dying(loop: Loop) -> None:
        genuine(loop)
        if reserved() == 15:
            raise Killed

    monkeypatch.setattr(Loop, "_reserve", dying)
    with pytest.raises(Killed):
        fit()
    assert (draws.made, reserved()) == (10, 15)
    monkeypatch.setattr(Loop, "_reserve", genuine)
    simulacra.resume(tiny.people(), "run", ledger="people.ledger", device="cpu")
    assert LoopedMeans.last.draws == draws.made == 35
    assert reserved() == 40


def test_many_crashes_in_a_row_never_draw_more_than_was_paid_for(draws: Draws) -> None:
    die(7)
    with pytest.raises(Killed):
        fit()
    for turn in (6, 11, 13, 19, 20, 29, 33):
        die(turn)
        try:
            fit(resume=True)
        except Killed:
            assert draws.made <= reserved() <= 40
            continue
        break
    looped.AT_TURN.clear()
    run = fit(resume=True)
    assert draws.made <= reserved() == 40
    assert LoopedMeans.last.draws < 40
    assert run.training is not None
    assert run.training["rounds"]["sums"]["done"] == LoopedMeans.last.draws


def test_an_old_checkpoint_put_back_costs_turns_and_no_budget(draws: Draws) -> None:
    die(12)
    with pytest.raises(Killed):
        fit()
    shutil.copytree("run/checkpoint", "old")
    die(27)
    with pytest.raises(Killed):
        fit(resume=True)
    shutil.rmtree("run/checkpoint")
    shutil.copytree("old", "run/checkpoint")
    looped.AT_TURN.clear()
    fit(resume=True)
    assert draws.made <= reserved() == 40
    assert LoopedMeans.last.draws == 10 + 5


def test_a_run_killed_after_its_last_draw_is_finished_without_drawing(draws: Draws) -> None:
    with (
        mock.patch("simulacra.generators.sampler.Sampler.save", side_effect=Killed),
        pytest.raises(Killed),
    ):
        fit()
    assert draws.made == 40
    fit(resume=True)
    assert draws.made == 40
    assert LoopedMeans.last.draws == 40


def test_ctrl_c_ends_after_the_present_turn_and_keeps_what_was_learned(draws: Draws) -> None:
    looped.AT_TURN[:] = [lambda number: os.kill(os.getpid(), signal.SIGINT) if number == 11 else None]
    run = fit()
    assert run.training is not None
    assert run.training["stopped_early"]
    assert LoopedMeans.last.draws == draws.made == 12
    assert len(run.sample(3)) == 3
    looped.AT_TURN.clear()
    finished = fit(resume=True)
    assert finished.training is not None
    assert not finished.training["stopped_early"]
    assert LoopedMeans.last.draws == 12 + 25
    assert draws.made == 37 <= reserved()


def test_a_resumed_run_has_the_settings_and_the_seed_it_began_with() -> None:
    die(12)
    with pytest.raises(Killed):
        fit(seed=4)
    looped.AT_TURN.clear()
    for other in ({"seed": 5}, {"seed": 4, "settings": {"rate": 0.2}}, {"seed": 4, "epsilon": 4.0}):
        with pytest.raises(PlanError, match="other settings"):
            fit(resume=True, **other)
    run = simulacra.resume(tiny.people(), "run", ledger="people.ledger", device="cpu")
    assert run.training is not None
    assert run.training["seed"] == 4
    assert run.training["settings"] == run.method.to_mapping()


def test_a_damaged_checkpoint_is_one_clear_line() -> None:
    die(12)
    with pytest.raises(Killed):
        fit()
    looped.AT_TURN.clear()
    Path("run/checkpoint/sums.safetensors").write_bytes(b"nothing")
    with pytest.raises(CertificateError, match="remove it"):
        fit(resume=True)
    Path("run/checkpoint/sums.safetensors").unlink()
    fit(resume=True)
    assert LoopedMeans.last.draws == 25


def test_a_turn_without_a_draw_is_an_error() -> None:
    class Idle:
        drawn = left_in_block = 0
        left = 3

    rounds = LoopRounds(Idle(), count=3, checkpoint=Path("none"), stopping=lambda: False)  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="drew nothing"):
        list(rounds.turns(looped.Mean(total=None)))  # type: ignore[arg-type]


def test_a_block_is_a_hundredth_of_the_loop() -> None:
    assert [block_for(count) for count in (1, 50, 100, 101, 10_000)] == [1, 1, 1, 2, 100]


# -- prepared here, drawn there ---------------------------------------------------------------------------------------


def prepare(**more: Any) -> Run:
    return simulacra.prepare(tiny.people(), out="run", **arguments(**more))


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


@pytest.mark.parametrize("again", ["fit", "resume"])
def test_a_finished_run_stays_as_it_is(again: str, draws: Draws) -> None:
    """Its draws are used up and its checkpoint is gone: learning once more would begin with nothing."""
    run = fit()
    sampler, training = (run.folder / name for name in ("sampler.safetensors", "training.json"))
    before = sampler.read_bytes(), training.stat().st_mtime_ns
    if again == "fit":
        fit(resume=True)
    else:
        simulacra.resume(tiny.people(), "run", ledger="people.ledger", device="cpu")
    assert (sampler.read_bytes(), training.stat().st_mtime_ns) == before
    assert draws.made == 40


def test_draws_that_are_used_up_and_forgotten_are_one_clear_line() -> None:
    with mock.patch("simulacra.generators.sampler.Sampler.save", side_effect=Killed), pytest.raises(Killed):
        fit()
    shutil.rmtree("run/checkpoint")
    with pytest.raises(PlanError, match="begin a new run"):
        fit(resume=True)


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


KILLED = """
import os, signal, sys

sys.path.insert(0, {tests!r})
import looped, simulacra, tiny

looped.AT_TURN.append(lambda number: os.kill(os.getpid(), signal.SIGKILL) if number == {turn} else None)
with looped.known():
    simulacra.fit(
        tiny.people(), schema=tiny.schema(tiny.PEOPLE), method="looped-means", epsilon=5.0, delta=1e-5,
        adjacency="add-remove", ledger="people.ledger", out="run", device="cpu", settings={{"rounds": 300}},
    )
"""


def test_kill_9_in_the_middle_of_a_block_costs_that_block(work: Path, draws: Draws) -> None:
    """For real: another process, and nothing that could clean up after it. Blocks are three draws long."""
    program = KILLED.format(tests=str(Path(looped.__file__).parent), turn=100)
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=work)
    assert finished.returncode == -signal.SIGKILL, finished.stderr
    assert reserved() == 102
    simulacra.resume(tiny.people(), "run", ledger="people.ledger", device="cpu")
    assert reserved() == 300
    assert LoopedMeans.last.draws == 99 + 198
    assert draws.made == 198
    assert simulacra.verify("run").ok


# -- files that were changed by hand, or put back -------------------------------------------------------------------


def edit_plan(change: Any) -> None:
    path = Path("run") / "plan.json"
    values = json.loads(path.read_bytes())
    change(values)
    path.write_text(json.dumps(values))


def switch_noise_off(values: dict[str, Any]) -> None:
    values["private"] = False


def draw_more_with_less_noise(values: dict[str, Any]) -> None:
    loop = values["steps"][1]
    loop["noise_std"] *= 1e-3 / loop["noise_multiplier"]
    loop["noise_multiplier"] = 1e-3
    loop["count"] = 1000


@pytest.mark.parametrize("change", [switch_noise_off, draw_more_with_less_noise])
@pytest.mark.parametrize("prepared", [True, False])
def test_a_plan_that_is_not_the_certified_one_is_not_drawn_by(change: Any, prepared: bool, draws: Draws) -> None:
    if prepared:
        prepare()
    else:
        die(at=12)
        with pytest.raises(Killed):
            fit()
    before = draws.made
    edit_plan(change)
    looped.AT_TURN.clear()
    with pytest.raises((CertificateError, PlanError)):
        simulacra.resume(tiny.people(), "run", ledger=None if prepared else "people.ledger", device="cpu")
    assert draws.made == before
    assert any("plan.json" in problem for problem in Run.load("run").verify().problems)


def test_a_vault_does_not_take_a_plan_that_is_half_private() -> None:
    from dataclasses import replace

    from simulacra.privacy.plan import Plan
    from simulacra.privacy.vault import Vault

    run = prepare()
    half = replace(Plan.from_json(run.certificate), budget=None)
    with pytest.raises(PlanError, match="noise in every step"):
        Vault(
            sealed=mock.Mock(),
            plan=half,
            ledger=Permit(run.folder),
            run=run.facts["run"],
            folder=run.folder / "releases",
        )


def test_more_turns_than_draws_are_a_problem() -> None:
    run = fit()
    path = run.folder / "training.json"
    values = json.loads(path.read_bytes())
    values["rounds"]["sums"]["done"] = 41
    path.write_text(json.dumps(values))
    assert any("41 turns" in problem for problem in run.verify().problems)


@pytest.mark.parametrize("prepared", [True, False])
def test_accounts_that_were_put_back_are_noticed_by_the_checkpoint(prepared: bool, draws: Draws) -> None:
    """The ledger advises to restore a backup: an older one must not give the draws since then away again."""
    if prepared:
        prepare()
    else:
        die(at=12)
        with pytest.raises(Killed):
            fit()
    saved = [Path("run") / "permit.json"] if prepared else sorted(Path().glob("people.ledger*"))
    backup = {path: path.read_bytes() for path in saved}
    again = {"ledger": None if prepared else "people.ledger", "device": "cpu"}
    die(at=27)
    with pytest.raises(Killed):
        simulacra.resume(tiny.people(), "run", **again)
    for path, content in backup.items():
        path.write_bytes(content)
    looped.AT_TURN.clear()
    made = draws.made
    with pytest.raises(LedgerError, match="an old ledger or permit was put back"):
        simulacra.resume(tiny.people(), "run", **again)
    assert draws.made == made


def test_a_fork_cannot_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would hold a copy of the block and of the noise: two different sums with one noise give the records away."""

    def fork(number: int) -> None:
        if number == 3:
            monkeypatch.setattr("simulacra.privacy.loop.os.getpid", lambda: -1)

    looped.AT_TURN[:] = [fork]
    with pytest.raises(PlanError, match="a fork would draw the same noise twice"):
        fit()


def test_a_run_is_trained_by_one_process_at_a_time(draws: Draws) -> None:
    prepare()
    refused: list[str] = []

    def a_second_one(number: int) -> None:
        if number == 3:
            with pytest.raises(OutputError, match="another process is training") as caught:
                simulacra.resume(tiny.people(), "run", device="cpu")
            refused.append(str(caught.value))

    looped.AT_TURN[:] = [a_second_one]
    run = simulacra.resume(tiny.people(), "run", device="cpu")
    assert len(refused) == 1
    assert draws.made == 40
    assert not (run.folder / "learning.lock").exists()


def test_a_device_without_double_precision_is_refused_before_a_block_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    prepare()
    genuine = torch.zeros

    def single_only(*sizes: Any, **more: Any) -> torch.Tensor:
        if sizes == (1,) and more.get("dtype") is torch.float64:
            raise TypeError("this device has no float64")
        return genuine(*sizes, **more)

    monkeypatch.setattr("simulacra.privacy.vault.torch.zeros", single_only)
    with pytest.raises(PlanError, match="double precision"):
        simulacra.resume(tiny.people(), "run", device="cpu")
    assert json.loads((Path("run") / "permit.json").read_bytes())["used"] == {"sums": 0}

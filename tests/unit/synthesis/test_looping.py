"""Training loops: what a run is and states, and crashes, which lose time and never budget truth."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import looped
import pytest
import tiny
from loop_runs import BLOCK, Draws, Killed, arguments, die, fit, reserved
from looped import LoopedMeans

import simulacra
from simulacra.errors import CapExceeded, CertificateError, PlanError, SettingError
from simulacra.privacy.budget import Adjacency, Budget
from simulacra.privacy.ledger import Ledger
from simulacra.privacy.loop import Loop
from simulacra.synthesis.rounds import LoopRounds, block_for

pytestmark = pytest.mark.usefixtures("looped_method")

# -- a run ------------------------------------------------------------------------------------------------------------


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


def test_a_turn_without_a_draw_is_an_error() -> None:
    class Idle:
        drawn = left_in_block = 0
        left = 3

    rounds = LoopRounds(Idle(), count=3, checkpoint=Path("none"), stopping=lambda: False)  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="drew nothing"):
        list(rounds.turns(looped.Mean(total=None)))  # type: ignore[arg-type]


def test_a_block_is_a_hundredth_of_the_loop() -> None:
    assert [block_for(count) for count in (1, 50, 100, 101, 10_000)] == [1, 1, 1, 2, 100]


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


def test_draws_that_are_used_up_and_forgotten_are_one_clear_line() -> None:
    with mock.patch("simulacra.generators.sampler.Sampler.save", side_effect=Killed), pytest.raises(Killed):
        fit()
    shutil.rmtree("run/checkpoint")
    with pytest.raises(PlanError, match="begin a new run"):
        fit(resume=True)


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

"""Runs whose files were changed by hand or put back, forks and second processes: none of them draws."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest import mock

import looped
import pytest
import tiny
import torch
from loop_runs import Draws, Killed, die, fit, prepare

import simulacra
from simulacra.errors import CertificateError, LedgerError, OutputError, PlanError
from simulacra.privacy.permit import Permit
from simulacra.synthesis.run import Run

pytestmark = pytest.mark.usefixtures("looped_method")


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

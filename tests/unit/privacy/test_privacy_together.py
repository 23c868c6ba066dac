"""Several runs answered in one pass over the records: each is paid for, and each has noise of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from invented import SCHEMA, Counts, InMemory, Inputs, one_shot_plan, source

from simulacra.errors import LedgerError, PlanError
from simulacra.privacy.budget import Adjacency, Budget
from simulacra.privacy.ledger import Ledger
from simulacra.privacy.plan import Plan
from simulacra.privacy.query import FeatureMap
from simulacra.privacy.sealed import Sealed
from simulacra.privacy.vault import Vault

MAPS: dict[str, FeatureMap] = {"class-counts": Counts(), "inputs": Inputs()}
SUM = torch.tensor([2.0, 2.0, 1.0])


def plan_at(epsilon: float) -> Plan:
    return one_shot_plan(Budget(epsilon=epsilon, delta=1e-5, adjacency=Adjacency.ADD_REMOVE))


def opened(
    folder: Path, plans: dict[str, Plan], records: InMemory | None = None, *, resume: bool = False
) -> list[Vault]:
    sealed = Sealed(records or source(), SCHEMA)
    ledger = Ledger.open_or_create(folder / "data.ledger", adjacency=Adjacency.ADD_REMOVE)
    return [
        Vault(sealed=sealed, plan=plan, ledger=ledger, run=run, folder=folder / run, resume=resume)
        for run, plan in plans.items()
    ]


def test_one_pass_answers_all_runs_with_the_noise_of_each_plan(tmp_path: Path) -> None:
    records = source()
    plans = {"strict": plan_at(0.1), "strict-too": plan_at(0.1), "loose": plan_at(8.0), "open": one_shot_plan(None)}
    answers = Vault.ask_together(opened(tmp_path, plans, records), MAPS)
    assert records.passes == 1
    for plan, answer in zip(plans.values(), answers, strict=True):
        planned = plan.step("class-counts")
        release = answer["class-counts"]
        assert (release.event, release.noise_std) == (planned.event, planned.noise_std)
        assert (release.value - SUM).abs().max() <= 12 * planned.noise_std
    residuals = [answer["class-counts"].value - SUM for answer in answers]
    assert torch.equal(residuals[3], torch.zeros(3, dtype=torch.float64))
    assert all((residual != 0).all() for residual in residuals[:3])


def test_noise_is_not_shared(tmp_path: Path) -> None:
    """Two answers with one noise would give the sum away by their difference, where the plans differ."""
    plans = {"first": plan_at(1.0), "second": plan_at(1.0)}
    first, second = Vault.ask_together(opened(tmp_path, plans), MAPS)
    assert all((first[name].value != second[name].value).all() for name in MAPS)


def test_each_run_is_paid_for_before_the_records_are_read(tmp_path: Path) -> None:
    class Watching(InMemory):
        def batches(self):  # type: ignore[no-untyped-def]
            ledger = Ledger(tmp_path / "data.ledger")
            assert [ledger.asked(run, "inputs") for run in ("first", "second")] == [1, 1]
            return super().batches()

    records = source()
    plans = {"first": plan_at(1.0), "second": plan_at(2.0)}
    Vault.ask_together(opened(tmp_path, plans, Watching(records.inputs, records.labels)), MAPS)
    assert Ledger(tmp_path / "data.ledger").total().releases == 4


def test_what_was_answered_before_is_not_asked_again(tmp_path: Path) -> None:
    plans = {"first": plan_at(1.0), "second": plan_at(2.0)}
    [early] = Vault.ask_together(opened(tmp_path, {"first": plans["first"]}), MAPS)
    records = source()
    again, other = Vault.ask_together(opened(tmp_path, plans, records, resume=True), MAPS)
    assert all(torch.equal(early[name].value, again[name].value) for name in MAPS)
    assert set(other) == set(MAPS)
    assert records.passes == 1
    assert Ledger(tmp_path / "data.ledger").total().releases == 4
    Vault.ask_together(opened(tmp_path, plans, records, resume=True), MAPS)
    assert records.passes == 1


def test_a_map_that_one_plan_does_not_admit_spends_no_answer_of_any(tmp_path: Path) -> None:
    narrow = {"class-counts": Counts(), "inputs": Inputs(2, bound=1.5)}
    with pytest.raises(PlanError, match='step "inputs"'):
        Vault.ask_together(opened(tmp_path, {"first": plan_at(1.0), "second": plan_at(2.0)}), narrow)
    ledger = Ledger(tmp_path / "data.ledger")
    assert [ledger.asked(run, name) for run in ("first", "second") for name in MAPS] == [0, 0, 0, 0]


def test_runs_about_other_records_are_refused(tmp_path: Path) -> None:
    """Else one data set's sum would be released under another one's promise."""
    first = opened(tmp_path, {"first": plan_at(1.0)})
    second = opened(tmp_path, {"second": plan_at(1.0)}, source(7))
    with pytest.raises(PlanError, match="same sealed records"):
        Vault.ask_together([*first, *second], MAPS)
    assert Ledger(tmp_path / "data.ledger").asked("first", "inputs") == 0


def test_one_run_named_twice_is_answered_once(tmp_path: Path) -> None:
    [vault] = opened(tmp_path, {"run": plan_at(1.0)})
    with pytest.raises(LedgerError, match="not reserved"):
        Vault.ask_together([vault, vault], MAPS)
    assert Ledger(tmp_path / "data.ledger").asked("run", "inputs") == 1

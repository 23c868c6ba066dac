"""The same questions at several budgets: one pass over the records, and a run for each that stands alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tiny

import simulacra
from simulacra.errors import CapExceeded, OutputError, PlanError
from simulacra.privacy import vault as vault_module
from simulacra.privacy.budget import Adjacency, Budget
from simulacra.privacy.ledger import Ledger
from simulacra.synthesis.releasing import release_together
from simulacra.synthesis.run import Run

SCHEMA = tiny.schema(tiny.PEOPLE)


def released(work: Path, **more: Any) -> list[Run]:
    budgets = {"strict": 0.5, "loose": 8.0, "open": "not-private"}
    words: dict[str, Any] = {
        "schema": SCHEMA,
        "method": "dp-merf",
        "delta": 1e-5,
        "adjacency": "add-remove",
        "ledger": work / "people.ledger",
        "settings": tiny.SETTINGS,
        "budgets": {work / name: epsilon for name, epsilon in budgets.items()},
    }
    return release_together(tiny.people(), **{**words, **more})


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for each time that the records are summed over."""
    seen, genuine = [], vault_module.sum_over

    def sum_over(*words: Any) -> Any:
        seen.append(1)
        return genuine(*words)

    monkeypatch.setattr(vault_module, "sum_over", sum_over)
    return seen


def test_each_budget_has_a_run_of_its_own_from_one_pass(work: Path, passes: list[int]) -> None:
    strict, loose, free = released(work)
    assert len(passes) == 1
    for run, epsilon in ((strict, 0.5), (loose, 8.0)):
        found = run.verify()
        assert found.ok
        assert found.epsilon == pytest.approx(epsilon, rel=1e-6)
    assert not free.certificate["private"]
    assert len({run.facts["run"] for run in (strict, loose, free)}) == 3
    stds = [run.releases["embedding"].noise_std for run in (strict, loose, free)]
    assert stds[0] > stds[1] > stds[2] == 0
    exact = free.releases["embedding"].value
    for run, std in zip((strict, loose), stds, strict=False):
        residual = run.releases["embedding"].value - exact
        assert 0.7 * std < residual.std() < 1.4 * std


def test_together_they_cost_what_the_ledger_adds_up_to(work: Path) -> None:
    released(work, budgets={work / "one": 1.0, work / "two": 1.0})
    total = Ledger(work / "people.ledger").total()
    assert total.releases == 4
    assert 1.3 < total.epsilon < 1.6  # not 1, and by exact composition less than 2


def test_any_of_them_trains_and_samples_as_if_it_had_been_alone(work: Path) -> None:
    run = simulacra.train(released(work)[1])
    assert len(run.sample(7)) == 7


def test_what_is_too_much_for_a_cap_spends_nothing_and_leaves_nothing(work: Path, passes: list[int]) -> None:
    relation = Adjacency.ADD_REMOVE
    cap = Budget(epsilon=1.2, delta=1e-5, adjacency=relation)
    Ledger.create(work / "people.ledger", adjacency=relation, cap=cap)
    with pytest.raises(CapExceeded):
        released(work, budgets={work / "one": 1.0, work / "two": 1.0})  # each alone would be within it
    assert (passes, tiny.reservations(work / "people.ledger")) == ([], 0)
    assert not (work / "one").exists()


def test_a_crash_between_two_answers_costs_no_answer_that_was_kept(
    work: Path, passes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    genuine, answered = vault_module.Vault._answer, []

    def answer(vault: Any, planned: Any, total: Any) -> None:
        if len(answered) == 1:
            raise KeyboardInterrupt
        genuine(vault, planned, total)
        answered.append(vault._folder.parent.name)

    with monkeypatch.context() as patch:
        patch.setattr(vault_module.Vault, "_answer", answer)
        with pytest.raises(KeyboardInterrupt):
            released(work)
    assert answered == ["strict"]
    kept = (work / "strict" / "releases" / "class-counts.safetensors").read_bytes()
    runs = released(work, resume=True)
    assert all(run.verify().ok for run in runs[:2])
    assert (work / "strict" / "releases" / "class-counts.safetensors").read_bytes() == kept
    assert len(passes) == 2


def test_what_cannot_be_released_is_refused_at_no_cost(work: Path, passes: list[int]) -> None:
    with pytest.raises(PlanError, match="nothing to release"):
        released(work, budgets={})
    with pytest.raises(PlanError, match="use fit for each budget"):
        released(work, method="dp-gan", settings={})
    (work / "two").mkdir()
    with pytest.raises(OutputError, match="exists already"):
        released(work, budgets={work / "one": 1.0, work / "two": 1.0})
    assert (passes, tiny.reservations(work / "people.ledger")) == ([], 0)
    assert not (work / "one").exists()

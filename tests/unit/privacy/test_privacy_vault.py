"""The vault: it answers its plan, once, after paying."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from invented import ONE, SCHEMA, Counts, InMemory, Inputs, loop_plan, one_shot_plan, open_vault, source

from simulacra.errors import CapExceeded, LedgerError, MissingDependency, OutputError, PlanError
from simulacra.privacy import noise as noise_module
from simulacra.privacy import vault as vault_module
from simulacra.privacy.budget import Adjacency, Budget
from simulacra.privacy.ledger import Ledger
from simulacra.privacy.noise import NoiseSource
from simulacra.privacy.plan import make_plan
from simulacra.privacy.query import FeatureMap, Noise, Step
from simulacra.privacy.release import Release
from simulacra.privacy.sealed import Sealed
from simulacra.privacy.vault import Vault


def spent(folder: Path) -> int:
    return Ledger(folder / "data.ledger").total().releases


# -- the plan -----------------------------------------------------------------------------------------------------


def test_an_answer_is_the_sum_plus_the_planned_noise(tmp_path: Path) -> None:
    plan = one_shot_plan()
    release = open_vault(tmp_path, plan).ask("class-counts", Counts())
    planned = plan.step("class-counts")
    assert (release.event, release.noise_std, release.noise) == (planned.event, planned.noise_std, "exact")
    residual = release.value - torch.tensor([2.0, 2.0, 1.0])
    assert residual.dtype == torch.float64
    assert (residual != 0).all()
    assert (residual.abs() < 12 * planned.noise_std).all()


def test_without_privacy_the_answer_is_the_sum_and_says_so(tmp_path: Path) -> None:
    release = open_vault(tmp_path, one_shot_plan(None)).ask("class-counts", Counts())
    assert release.value.tolist() == [2, 2, 1]
    assert (release.noise, release.event.noise_multiplier) == ("none", 0)


def test_a_question_that_is_not_in_the_plan_is_refused_with_a_suggestion(tmp_path: Path) -> None:
    vault = open_vault(tmp_path, one_shot_plan())
    with pytest.raises(PlanError, match='did you mean "class-counts"'):
        vault.ask("class-count", Counts())
    with pytest.raises(PlanError, match="not in the plan"), vault.loop("gradient"):
        pass


@pytest.mark.parametrize("wrong", [Inputs(3), Inputs(2, bound=1.0001)])
def test_a_map_of_another_size_or_a_larger_bound_is_refused(tmp_path: Path, wrong: FeatureMap) -> None:
    records = source()
    with pytest.raises(PlanError, match='step "inputs"'):
        open_vault(tmp_path, one_shot_plan(), records=records).ask("inputs", wrong)
    assert records.passes == 0
    assert Ledger(tmp_path / "data.ledger").asked("run", "inputs") == 0


def test_a_map_with_signs_is_refused_where_the_plan_charged_for_none(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="more varied"):
        open_vault(tmp_path, one_shot_plan()).ask("class-counts", Inputs(3))


def test_a_smaller_bound_than_planned_is_welcome(tmp_path: Path) -> None:
    open_vault(tmp_path, one_shot_plan()).ask("inputs", Inputs(2, bound=0.5))


def test_a_loop_is_not_asked_and_a_question_is_not_looped(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"vault\.loop"):
        open_vault(tmp_path, loop_plan()).ask("gradient", Inputs())
    with (
        pytest.raises(PlanError, match="asked once"),
        open_vault(tmp_path, one_shot_plan(), run="other").loop("inputs"),
    ):
        pass


# -- answered once ------------------------------------------------------------------------------------------------


def test_a_second_question_gets_the_first_answer_and_costs_nothing(tmp_path: Path) -> None:
    vault = open_vault(tmp_path, one_shot_plan())
    first, second = vault.ask("inputs", Inputs()), vault.ask("inputs", Inputs())
    assert torch.equal(first.value, second.value)
    assert spent(tmp_path) == 2
    assert Ledger(tmp_path / "data.ledger").asked("run", "inputs") == 1


def test_several_questions_take_one_pass_over_the_records(tmp_path: Path) -> None:
    records = source()
    answers = open_vault(tmp_path, one_shot_plan(), records=records).ask_all(
        {"class-counts": Counts(), "inputs": Inputs()}
    )
    assert records.passes == 1
    assert set(answers) == {"class-counts", "inputs"}


class Kept(list[torch.Tensor]):
    """What maps keep for each other; they look at it, and the vault empties it."""

    def forget(self) -> None:
        self.clear()


def keeping(feature_map: FeatureMap, kept: Kept) -> FeatureMap:
    genuine = feature_map.clipped_sum

    def clipped_sum(inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        assert all(torch.equal(inputs, each) for each in kept)  # of this chunk, or nothing
        kept.append(inputs)
        return genuine(inputs, labels)

    feature_map.clipped_sum, feature_map.shared = clipped_sum, kept  # type: ignore[method-assign]
    return feature_map


def test_what_maps_keep_for_each_other_is_of_one_chunk_and_forgotten(tmp_path: Path) -> None:
    kept = Kept()
    maps = {"class-counts": keeping(Counts(), kept), "inputs": keeping(Inputs(), kept)}
    open_vault(tmp_path, one_shot_plan()).ask_all(maps)
    assert not kept


def test_a_loop_forgets_what_a_map_keeps(tmp_path: Path) -> None:
    kept = Kept()
    with open_vault(tmp_path, loop_plan()).loop("gradient") as draw:
        draw(keeping(Inputs(), kept))
    assert not kept


def test_a_refused_question_among_several_spends_no_answer(tmp_path: Path) -> None:
    vault = open_vault(tmp_path, one_shot_plan())
    with pytest.raises(PlanError):
        vault.ask_all({"class-counts": Counts(), "inputs": Inputs(7)})
    assert Ledger(tmp_path / "data.ledger").asked("run", "class-counts") == 0


def test_opening_the_vault_spends_the_one_shot_steps_in_one_entry(tmp_path: Path) -> None:
    open_vault(tmp_path, one_shot_plan())
    entries = Ledger(tmp_path / "data.ledger").entries()
    assert [entry["kind"] for entry in entries] == ["open", "reserve"]
    assert entries[1]["steps"] == ["class-counts", "inputs"]


def test_the_ledger_holds_the_question_before_the_records_are_read(tmp_path: Path) -> None:
    class Watching(InMemory):
        def batches(self):  # type: ignore[no-untyped-def]
            assert Ledger(tmp_path / "data.ledger").asked("run", "inputs") == 1
            return super().batches()

    records = source()
    open_vault(tmp_path, one_shot_plan(), records=Watching(records.inputs, records.labels)).ask("inputs", Inputs())


def test_a_folder_with_releases_is_not_used_again_by_accident(tmp_path: Path) -> None:
    open_vault(tmp_path, one_shot_plan()).ask("inputs", Inputs())
    with pytest.raises(PlanError, match="already released"):
        open_vault(tmp_path, one_shot_plan(), run="second")
    assert spent(tmp_path) == 2


# -- crash and resume ---------------------------------------------------------------------------------------------


def test_a_resumed_run_gives_the_same_answer_and_does_not_spend_again(tmp_path: Path) -> None:
    first = open_vault(tmp_path, one_shot_plan()).ask_all({"class-counts": Counts(), "inputs": Inputs()})
    records = source()
    again = open_vault(tmp_path, one_shot_plan(), resume=True, records=records).ask_all(
        {"class-counts": Counts(), "inputs": Inputs()}
    )
    assert all(torch.equal(first[name].value, again[name].value) for name in first)
    assert spent(tmp_path) == 2
    assert records.passes == 0


def test_a_crash_before_the_question_costs_nothing_more(tmp_path: Path) -> None:
    open_vault(tmp_path, one_shot_plan())
    open_vault(tmp_path, one_shot_plan(), resume=True).ask("inputs", Inputs())
    assert spent(tmp_path) == 2


def test_a_crash_between_question_and_answer_costs_that_question_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault = open_vault(tmp_path, one_shot_plan())
    vault.ask("class-counts", Counts())
    with monkeypatch.context() as patch:
        patch.setattr(Release, "save", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            vault.ask("inputs", Inputs())
    resumed = open_vault(tmp_path, one_shot_plan(), resume=True)
    assert spent(tmp_path) == 3
    assert Ledger(tmp_path / "data.ledger").reserved("run", "inputs") == 2
    resumed.ask("inputs", Inputs())
    open_vault(tmp_path, one_shot_plan(), resume=True).ask("inputs", Inputs())
    assert spent(tmp_path) == 3


def test_a_crash_between_the_two_files_of_a_release_costs_it_again(tmp_path: Path) -> None:
    first = open_vault(tmp_path, one_shot_plan()).ask("inputs", Inputs())
    (tmp_path / "releases" / "inputs.json").unlink()
    second = open_vault(tmp_path, one_shot_plan(), resume=True).ask("inputs", Inputs())
    assert not torch.equal(first.value, second.value)
    assert Ledger(tmp_path / "data.ledger").reserved("run", "inputs") == 2


def test_a_reservation_of_a_noisier_plan_does_not_pay_for_a_clearer_answer(tmp_path: Path) -> None:
    """A run of the same name that was given up before it asked anything had reserved other noise."""
    open_vault(tmp_path, one_shot_plan(Budget(epsilon=0.1, delta=1e-5, adjacency=Adjacency.ADD_REMOVE)))
    plan = one_shot_plan(Budget(epsilon=5.0, delta=1e-5, adjacency=Adjacency.ADD_REMOVE))
    open_vault(tmp_path, plan).ask("inputs", Inputs())
    assert Ledger(tmp_path / "data.ledger").total().epsilon >= 5.0 * 0.999


def test_a_run_is_not_resumed_under_a_ledger_that_never_paid_for_it(tmp_path: Path) -> None:
    """Else a release could be carried over to a fresh ledger, which would then be short of it."""
    open_vault(tmp_path, one_shot_plan()).ask("inputs", Inputs())
    for file in tmp_path.glob("data.ledger*"):
        file.unlink()
    with pytest.raises(PlanError, match="knows nothing"):
        open_vault(tmp_path, one_shot_plan(), resume=True)


def test_a_run_is_not_resumed_under_another_plan(tmp_path: Path) -> None:
    open_vault(tmp_path, one_shot_plan()).ask("inputs", Inputs())
    other = one_shot_plan(Budget(epsilon=2.0, delta=1e-5, adjacency=Adjacency.ADD_REMOVE))
    with pytest.raises(PlanError, match="another plan"):
        open_vault(tmp_path, other, resume=True)
    assert spent(tmp_path) == 2


def test_two_vaults_of_one_run_cannot_share_one_payment(tmp_path: Path) -> None:
    first = open_vault(tmp_path, one_shot_plan())
    second = open_vault(tmp_path, one_shot_plan(), releases="elsewhere")
    first.ask("inputs", Inputs())
    with pytest.raises(LedgerError, match="not reserved"):
        second.ask("inputs", Inputs())


def test_a_full_disk_while_saving_an_answer_is_one_error_and_the_run_can_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault = open_vault(tmp_path, one_shot_plan())
    genuine = os.replace

    def full(origin: object, target: object) -> None:
        if str(target).endswith("inputs.safetensors"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        genuine(origin, target)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(OutputError, match="free space"):
            vault.ask("inputs", Inputs())
    assert not list((tmp_path / "releases").iterdir())
    open_vault(tmp_path, one_shot_plan(), resume=True).ask("inputs", Inputs())


def test_a_release_folder_that_cannot_be_made_is_an_output_error(tmp_path: Path) -> None:
    vault = open_vault(tmp_path, one_shot_plan())
    (tmp_path / "releases").touch()
    with pytest.raises(OutputError, match="cannot make the folder"):
        vault.ask("inputs", Inputs())


# -- training loops -----------------------------------------------------------------------------------------------


def test_a_loop_gives_as_many_draws_as_planned_and_no_more(tmp_path: Path) -> None:
    with open_vault(tmp_path, loop_plan(4)).loop("gradient", block=3) as draw:
        values = [draw(Inputs()) for _ in range(4)]
        with pytest.raises(PlanError, match="all 4 draws"):
            draw(Inputs())
    assert len({tuple(value.tolist()) for value in values}) == 4


def test_a_loop_reserves_in_blocks(tmp_path: Path) -> None:
    vault = open_vault(tmp_path, loop_plan(10))
    ledger = Ledger(tmp_path / "data.ledger")
    assert ledger.reserved("run", "gradient") == 0
    with vault.loop("gradient", block=4) as draw:
        seen = []
        for _ in range(10):
            draw(Inputs())
            seen.append(ledger.reserved("run", "gradient"))
    assert seen == [4, 4, 4, 4, 8, 8, 8, 8, 10, 10]


def test_a_resumed_loop_is_shorter_by_what_was_reserved(tmp_path: Path) -> None:
    with open_vault(tmp_path, loop_plan(10)).loop("gradient", block=4) as draw:
        for _ in range(5):
            draw(Inputs())
    with open_vault(tmp_path, loop_plan(10), resume=True).loop("gradient", block=4) as draw:
        draw(Inputs())
        draw(Inputs())
        with pytest.raises(PlanError):
            draw(Inputs())
    assert Ledger(tmp_path / "data.ledger").reserved("run", "gradient") == 10


def test_two_loops_open_at_once_share_one_plan(tmp_path: Path) -> None:
    vault = open_vault(tmp_path, loop_plan(5))
    draws = 0
    with vault.loop("gradient", block=1) as left, vault.loop("gradient", block=1) as right:
        for _ in range(10):
            for draw in (left, right):
                try:
                    draw(Inputs())
                except PlanError:
                    continue
                draws += 1
    assert draws == 5


def test_a_loop_checks_its_map_at_every_draw(tmp_path: Path) -> None:
    with open_vault(tmp_path, loop_plan()).loop("gradient") as draw:
        draw(Inputs())
        with pytest.raises(PlanError, match="longer"):
            draw(Inputs(bound=2.0))


def test_a_loop_over_no_records_at_all_still_answers(tmp_path: Path) -> None:
    nobody = InMemory(torch.zeros(0, 2), torch.zeros(0, dtype=torch.int64))
    with open_vault(tmp_path, loop_plan(), records=nobody).loop("gradient") as draw:
        assert draw(Inputs()).shape == (2,)


def test_a_question_over_no_records_at_all_still_answers(tmp_path: Path) -> None:
    nobody = InMemory(torch.zeros(0, 2), torch.zeros(0, dtype=torch.int64))
    assert open_vault(tmp_path, one_shot_plan(), records=nobody).ask("inputs", Inputs()).value.shape == (2,)


def test_a_loop_takes_no_fixed_seed(tmp_path: Path) -> None:
    vault = open_vault(tmp_path, loop_plan(), noise=NoiseSource(seed=1))
    with pytest.raises(PlanError, match="seed"), vault.loop("gradient"):
        pass


def test_a_seeded_answer_says_so(tmp_path: Path) -> None:
    assert open_vault(tmp_path, one_shot_plan(), noise=NoiseSource(seed=1)).ask("inputs", Inputs()).noise == "seeded"


# -- refused before anything is spent -----------------------------------------------------------------------------


def test_a_plan_that_passes_the_cap_is_refused_before_anything_is_spent(tmp_path: Path) -> None:
    cap = Budget(epsilon=0.5, delta=1e-5, adjacency=Adjacency.ADD_REMOVE)
    ledger = Ledger.create(tmp_path / "data.ledger", adjacency=Adjacency.ADD_REMOVE, cap=cap)
    with pytest.raises(CapExceeded):
        open_vault(tmp_path, one_shot_plan(), ledger=ledger)
    with pytest.raises(CapExceeded):
        open_vault(tmp_path, one_shot_plan(None), ledger=ledger)
    assert ledger.total().releases == 0


def test_a_loop_that_cannot_fit_the_cap_is_refused_when_the_vault_opens(tmp_path: Path) -> None:
    cap = Budget(epsilon=0.5, delta=1e-5, adjacency=Adjacency.ADD_REMOVE)
    ledger = Ledger.create(tmp_path / "data.ledger", adjacency=Adjacency.ADD_REMOVE, cap=cap, cap_filter="renyi")
    steps = (
        Step.asking("inputs", Inputs(), relative_noise=9.0),
        Step(name="gradient", size=2, sample_rate=0.5, count=9, noise=Noise.FAST),
    )
    with pytest.raises(CapExceeded):
        open_vault(tmp_path, make_plan(steps, ONE), ledger=ledger)
    assert ledger.total().releases == 0


def test_a_ledger_of_another_relation_is_refused(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "data.ledger", adjacency=Adjacency.REPLACE_ONE)
    with pytest.raises(LedgerError, match="counts under"):
        open_vault(tmp_path, one_shot_plan(), ledger=ledger)


def test_exact_noise_without_opendp_is_refused_before_anything_is_spent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    monkeypatch.setitem(sys.modules, "opendp", None)
    with pytest.raises(MissingDependency, match="OpenDP"):
        open_vault(tmp_path, one_shot_plan())
    assert spent(tmp_path) == 0
    with pytest.raises(MissingDependency):
        noise_module.NoiseSource().exact(torch.zeros(2).numpy(), 1.0)


def test_exact_noise_does_not_wait_for_libraries_that_it_has_no_use_for() -> None:
    code = (
        "import sys\n"
        "import numpy as np\n"
        "from simulacra.privacy.noise import NoiseSource\n"
        "assert NoiseSource().exact(np.zeros(2), 1.0).any()\n"
        "print('heavy:', sorted({'opendp', 'pandas', 'sklearn'} & set(sys.modules)))\n"
    )
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert finished.stdout.rstrip().endswith("heavy: ['opendp']")


def test_progress_is_told_nothing_about_the_records(tmp_path: Path) -> None:
    calls: list[tuple[object, ...]] = []
    plan = one_shot_plan()
    vault = Vault(
        sealed=Sealed(source(), SCHEMA),
        plan=plan,
        ledger=Ledger.create(tmp_path / "data.ledger", adjacency=plan.adjacency),
        run="run",
        folder=tmp_path / "releases",
        on_batch=lambda *arguments: calls.append(arguments),
        on_noise=lambda done, whole: calls.append((done, whole)),
    )
    vault.ask("inputs", Inputs())
    assert calls == [(), (), (2, 2)]


def test_the_vault_module_has_no_other_way_in() -> None:
    public = [name for name in vars(vault_module.Vault) if not name.startswith("_")]
    assert public == ["ask", "ask_all", "ask_together", "discover", "loop"]

"""Certificates and releases: a stranger recomputes them, and sees every change."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from pathlib import Path
from typing import Any

import pytest
from invented import ONE, SCHEMA, Counts, Inputs, damage, loop_plan, one_shot_plan, open_vault

from simulacra.errors import CertificateError
from simulacra.privacy import certificate as certificate_module
from simulacra.privacy import gaussian
from simulacra.privacy.budget import Budget
from simulacra.privacy.certificate import CURVE, Verification, load_certificate, verify, write_certificate
from simulacra.privacy.noise import NoiseSource
from simulacra.privacy.plan import Plan, make_plan
from simulacra.privacy.query import Noise, Step
from simulacra.privacy.release import Release


def certified(folder: Path, budget: Budget | None = ONE, noise: NoiseSource | None = None) -> Path:
    """A run folder with two releases and their certificate."""
    plan = one_shot_plan(budget)
    folder.mkdir()
    SCHEMA.save(folder / "schema.toml")
    answers = open_vault(folder, plan, noise=noise).ask_all({"class-counts": Counts(), "inputs": Inputs()})
    certify(folder, plan, list(answers.values()))
    return folder


def certify(folder: Path, plan: Plan, releases: list[Release]) -> dict[str, Any]:
    return write_certificate(
        folder,
        plan=plan,
        releases=releases,
        schema=SCHEMA,
        run="run",
        method="invented",
        settings={"pairs": 10},
        ledger_name="data",
        assumed_public=["schema"],
    )


def forge(folder: Path, **changes: Any) -> None:
    """Change a certificate as a forger would, who also knows how to make its digest right again."""
    path = folder / "certificate.json"
    statement = json.loads(path.read_bytes())
    for key, value in changes.items():
        if value is None and key not in ("void", "epsilon"):
            del statement[key]
        else:
            statement[key] = value
    statement["digest"] = certificate_module._digest(statement)
    path.write_bytes(certificate_module._dump(statement))


def caught(folder: Path) -> bool:
    try:
        return not verify(folder).ok
    except CertificateError:
        return True


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return certified(tmp_path_factory.mktemp("certified") / "run")


def test_an_untouched_run_is_verified_from_nothing_but_itself(run: Path) -> None:
    found = verify(run)
    assert found.ok, found.problems
    assert found == verify(run / "certificate.json")
    assert 0.999 < (found.epsilon or 0) <= 1.0
    assert (found.delta, found.adjacency, found.private) == (1e-5, "add-remove", True)
    assert set(found.to_json()) == {"ok", "private", "epsilon", "delta", "adjacency", "problems"}


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 5.0])
def test_between_points_of_the_curve_delta_is_where_a_straight_line_in_logarithms_is(epsilon: float) -> None:
    mu = gaussian.mu_for(epsilon, 1e-5)
    usual = [epsilon * share for share in CURVE if share <= 2]
    for low, high in itertools.pairwise(usual):
        deltas = [math.log10(gaussian.delta_of(mu, at)) for at in (low, (low + high) / 2, high)]
        assert abs(deltas[1] - (deltas[0] + deltas[2]) / 2) < 0.15


def test_a_certificate_states_what_a_reader_needs(run: Path) -> None:
    statement = load_certificate(run)
    assert [step["name"] for step in statement["steps"]] == ["class-counts", "inputs"]
    assert {"noise_multiplier", "sample_rate", "count", "norm_bound", "sensitivity"} <= set(statement["steps"][0])
    assert [point["epsilon"] / statement["epsilon"] for point in statement["curve"]] == pytest.approx(CURVE)
    assert [point["delta"] for point in statement["curve"]] == sorted(
        (point["delta"] for point in statement["curve"]), reverse=True
    )
    assert statement["epsilon_rdp"] > statement["epsilon"]
    assert "2^-40" in statement["noise_source"]
    assert set(statement["files"]) == {
        "schema.toml",
        *(f"releases/{name}.{end}" for name in ("class-counts", "inputs") for end in ("json", "safetensors")),
    }


def test_every_flipped_byte_of_a_certificate_is_detected(run: Path) -> None:
    for position in damage(run / "certificate.json"):
        assert caught(run), position
    assert verify(run).ok


@pytest.mark.parametrize("name", ["inputs.json", "inputs.safetensors"])
def test_every_flipped_byte_of_a_release_is_detected(run: Path, name: str) -> None:
    for position in damage(run / "releases" / name):
        assert caught(run), position
    assert verify(run).ok


def test_every_flipped_byte_of_a_released_value_is_detected_when_it_is_loaded(run: Path) -> None:
    for _ in damage(run / "releases" / "inputs.safetensors"):
        with pytest.raises(CertificateError):
            Release.load(run / "releases", "inputs")


def test_a_flipped_byte_of_the_schema_is_detected(run: Path) -> None:
    for position in damage(run / "schema.toml"):
        assert caught(run), position


def test_a_release_is_read_back_as_it_was_written(run: Path, tmp_path: Path) -> None:
    release = Release.load(run / "releases", "inputs")
    release.save(tmp_path)
    again = Release.load(tmp_path, "inputs")
    assert again.sha256() == release.sha256()
    assert (again.event, again.noise_std, again.noise) == (release.event, release.noise_std, release.noise)
    with pytest.raises(CertificateError, match="no release"):
        Release.load(tmp_path, "other")


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    return certified(tmp_path / "run")


def test_a_smaller_claimed_epsilon_is_caught(mine: Path) -> None:
    forge(mine, epsilon=0.9)
    assert any("the events cost epsilon" in problem for problem in verify(mine).problems)


def test_a_smaller_delta_at_the_same_epsilon_is_caught(mine: Path) -> None:
    forge(mine, delta=1e-6)
    assert caught(mine)


@pytest.mark.parametrize(
    "changes",
    [
        {"steps": [], "files": {}},
        {"curve": []},
        {"statement": "All that was released is (0.01, 1e-09)-differentially private."},
        {"noise_source": "exact discrete Gaussian"},
        {"unit": "hospital"},
        {"epsilon_rdp": 0.1},
    ],
)
def test_a_claim_that_does_not_follow_is_caught(mine: Path, changes: dict[str, Any]) -> None:
    forge(mine, **changes)
    assert not verify(mine).ok


def test_a_release_that_the_certificate_leaves_out_is_caught(mine: Path) -> None:
    certificate = load_certificate(mine)
    first, *others = certificate["steps"]
    files = {name: digest for name, digest in certificate["files"].items() if first["name"] not in name}
    forge(mine, steps=others, files=files)
    assert any("is not in the certificate" in problem for problem in verify(mine).problems)


def test_a_step_that_does_not_pay_for_the_grid_is_caught(mine: Path) -> None:
    steps = load_certificate(mine)["steps"]
    for step in steps:
        step["failure_delta"] = 0.0
    forge(mine, steps=steps)
    assert any("does not pay" in problem for problem in verify(mine).problems)


def test_an_understated_curve_is_caught(mine: Path) -> None:
    curve = load_certificate(mine)["curve"]
    curve[2]["delta"] /= 2
    forge(mine, curve=curve)
    assert verify(mine).problems == ('"curve" is not what follows from the events',)


@pytest.mark.parametrize(
    ("key", "factor"),
    [
        *((key, 3) for key in ("noise_multiplier", "sensitivity", "norm_bound", "noise_std", "count")),
        ("size", 10_000_000),
    ],
)
def test_a_step_with_other_numbers_is_caught(mine: Path, key: str, factor: int) -> None:
    steps = load_certificate(mine)["steps"]
    steps[1][key] *= factor
    forge(mine, steps=steps)
    assert caught(mine)


def test_more_noise_claimed_than_the_release_has_is_caught(mine: Path) -> None:
    steps = load_certificate(mine)["steps"]
    steps[1]["noise_multiplier"] *= 2
    steps[1]["noise_std"] *= 2
    forge(mine, steps=steps)
    assert any("other noise" in problem for problem in verify(mine).problems)


def test_a_left_out_step_or_file_is_caught(mine: Path) -> None:
    files = load_certificate(mine)["files"]
    del files["releases/inputs.json"]
    forge(mine, files=files)
    assert any("no release for step" in problem for problem in verify(mine).problems)
    (mine / "releases" / "inputs.safetensors").unlink()
    assert any("is missing" in problem for problem in verify(mine).problems)


@pytest.mark.parametrize("name", ["../secret", "/etc/hostname"])
def test_a_certificate_cannot_point_outside_its_folder(mine: Path, name: str) -> None:
    forge(mine, files={**load_certificate(mine)["files"], name: "0" * 64})
    assert any("outside its folder" in problem for problem in verify(mine).problems)


@pytest.mark.parametrize("key", ["digest", "steps", "epsilon", "delta", "adjacency", "files", "curve", "void", "prior"])
def test_a_missing_part_is_caught(mine: Path, key: str) -> None:
    path = mine / "certificate.json"
    statement = json.loads(path.read_bytes())
    del statement[key]
    path.write_bytes(certificate_module._dump(statement))
    assert caught(mine)


def test_absurd_numbers_are_problems_and_not_crashes(mine: Path) -> None:
    steps = load_certificate(mine)["steps"]
    steps[1]["noise_multiplier"], steps[1]["noise_std"] = 1e-300, 1e-300 * steps[1]["sensitivity"]
    forge(mine, steps=steps)
    assert caught(mine)


def test_a_run_without_privacy_says_not_private(tmp_path: Path) -> None:
    folder = certified(tmp_path / "run", budget=None)
    statement = load_certificate(folder)
    assert statement["statement"].startswith("NOT PRIVATE")
    assert "NOT PRIVATE" in statement["noise_source"]
    found = verify(folder)
    assert found.ok, found.problems
    assert (found.private, found.epsilon) == (False, None)


def test_a_run_without_privacy_cannot_pass_for_a_private_one(tmp_path: Path) -> None:
    folder = certified(tmp_path / "run", budget=None)
    forge(folder, private=True, epsilon=1.0, delta=1e-5)
    assert caught(folder)


def test_seeded_noise_voids_the_certificate(tmp_path: Path) -> None:
    folder = certified(tmp_path / "run", noise=NoiseSource(seed=7))
    statement = load_certificate(folder)
    assert statement["statement"].startswith("VOID")
    assert statement["private"] is False
    assert "VOID" in statement["noise_source"]
    assert any("void" in problem for problem in verify(folder).problems)


def test_a_void_certificate_cannot_pass_for_a_valid_one(tmp_path: Path) -> None:
    folder = certified(tmp_path / "run", noise=NoiseSource(seed=7))
    forge(folder, void=None, private=True)
    assert any("another source" in problem for problem in verify(folder).problems)


def test_the_noise_of_a_training_loop_is_named_as_not_float_safe(tmp_path: Path) -> None:
    SCHEMA.save(tmp_path / "schema.toml")
    statement = certify(tmp_path, loop_plan(), [])
    assert "NOT safe against floating-point attacks" in statement["noise_source"]
    assert verify(tmp_path).ok


def test_a_fast_one_shot_release_is_certified_as_fast(tmp_path: Path) -> None:
    plan = make_plan([Step(name="inputs", size=2, noise=Noise.FAST)], ONE)
    SCHEMA.save(tmp_path / "schema.toml")
    statement = certify(tmp_path, plan, [open_vault(tmp_path, plan).ask("inputs", Inputs())])
    assert "NOT safe" in statement["noise_source"]
    assert verify(tmp_path).ok


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"not json", b"\xff\xfe", b'{"kind": "other"}'])
def test_what_is_not_a_certificate_is_one_clear_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "certificate.json").write_bytes(content)
    with pytest.raises(CertificateError):
        verify(tmp_path)


def test_a_folder_without_a_certificate_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(CertificateError, match="no certificate"):
        verify(tmp_path)


def test_a_verification_with_any_problem_is_not_ok() -> None:
    assert Verification(epsilon=1.0, delta=1e-5, adjacency="add-remove", private=True).ok
    assert not Verification(epsilon=1.0, delta=1e-5, adjacency="add-remove", private=True, problems=("x",)).ok


def test_hashes_are_of_the_files_as_they_lie_there(run: Path) -> None:
    for name, claimed in load_certificate(run)["files"].items():
        assert hashlib.sha256((run / name).read_bytes()).hexdigest() == claimed

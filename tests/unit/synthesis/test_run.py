"""Run folders: what Python users open, sample from and check."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import tiny

import simulacra
from simulacra.errors import CertificateError, SettingError
from simulacra.synthesis.run import Run


def test_a_run_is_opened_from_its_folder_by_name_or_path(trained_once: Path) -> None:
    for path in (trained_once, str(trained_once)):
        run = Run.load(path)
        assert run.schema == tiny.schema(tiny.PEOPLE)
        assert run.method.name == "dp-merf"
        assert run.method.to_mapping()["pairs"] == 20
        assert list(run.releases) == ["class-counts", "embedding"]
        assert run.facts["ledger"] == "people"
        assert run.training is not None
        assert run.training["stopped_early"] is False


def test_a_run_holds_only_what_may_be_published(trained_once: Path) -> None:
    names = {str(path.relative_to(trained_once)) for path in trained_once.rglob("*") if path.is_file()}
    assert names == {
        "run.json",
        "schema.toml",
        "plan.json",
        "certificate.json",
        "releases/class-counts.json",
        "releases/class-counts.safetensors",
        "releases/embedding.json",
        "releases/embedding.safetensors",
        "sampler.json",
        "sampler.safetensors",
        "training.json",
    }
    for name in names:
        content = (trained_once / name).read_bytes()
        assert not any(secret.encode() in content for secret in tiny.SECRETS)


def test_a_verified_run_promises_what_was_asked_for(trained_once: Path) -> None:
    found = Run.load(trained_once).verify()
    assert found.ok
    assert found == simulacra.verify(trained_once)
    assert found.epsilon == pytest.approx(5, rel=1e-6)


def test_samples_of_a_table_are_a_frame_of_the_schemas_types(trained_once: Path) -> None:
    frame = Run.load(trained_once).sample(500, seed=1)
    assert isinstance(frame, pd.DataFrame)
    assert list(frame) == [column.name for column in tiny.schema(tiny.PEOPLE).columns]
    assert pd.api.types.is_integer_dtype(frame["age"])
    assert pd.api.types.is_float_dtype(frame["income"])
    assert frame["age"].between(0, 100).all()
    assert frame["income"].dropna().between(0, 200_000).all()
    assert frame["income"].isna().any()
    assert set(frame["buys"]) == {"no", "yes"}
    assert set(frame["member"].dropna()) <= {True, False}
    assert pd.api.types.is_datetime64_any_dtype(frame["joined"]), "days are moments, as in the real rows for scoring"
    assert frame["joined"].dropna().between("2010-01-01", "2020-12-31").all()


def test_a_seed_repeats_a_draw_and_without_one_every_draw_is_fresh(trained_once: Path) -> None:
    run = Run.load(trained_once)
    pd.testing.assert_frame_equal(run.sample(20, seed=3), run.sample(20, seed=3))
    assert not run.sample(20).equals(run.sample(20))


def test_labels_are_taken_in_turn(trained_once: Path) -> None:
    run = Run.load(trained_once)
    assert list(run.sample(5, labels=["yes", "no"])["buys"]) == ["yes", "no", "yes", "no", "yes"]
    with pytest.raises(SettingError, match="did you mean"):
        run.sample(5, labels=["noo"])
    with pytest.raises(SettingError, match="empty"):
        run.sample(5, labels=[])


@pytest.mark.parametrize("seed", [-1, 2**63, 2**80])
def test_a_seed_that_cannot_be_is_refused(seed: int, trained_once: Path) -> None:
    with pytest.raises(SettingError, match="seed"):
        Run.load(trained_once).sample(1, seed=seed)


def test_no_samples_are_an_empty_frame_with_all_columns(trained_once: Path) -> None:
    run = Run.load(trained_once)
    assert run.sample(0).dtypes.equals(run.sample(3, seed=0).dtypes)
    with pytest.raises(SettingError, match="negative"):
        run.sample(-1)


def test_encoded_samples_are_the_same_draw_in_pieces(trained_once: Path) -> None:
    run = Run.load(trained_once)
    pieces = list(run.encoded(9000, seed=2))
    assert [len(labels) for _, labels in pieces] == [8192, 808]
    assert all(inputs.abs().max() <= 1 for inputs, _ in pieces)


def test_samples_of_images_are_pixels_and_class_numbers(work: Path) -> None:
    schema = tiny.schema(tiny.PICTURES)
    words = {
        "schema": schema,
        "epsilon": 5.0,
        "delta": 1e-5,
        "adjacency": "replace-one",
        "method": tiny.METHOD,
        "settings": tiny.SETTINGS,
    }
    run = simulacra.fit(tiny.pictures(), out="run", ledger="pictures.ledger", device="cpu", **words)
    images, labels = run.sample(7, labels=["light"])
    assert (images.dtype, images.shape) == (np.uint8, (7, 8, 8))
    assert labels.tolist() == [1] * 7
    nothing, none = run.sample(0)
    assert nothing.shape == (0, 8, 8)
    assert len(none) == 0


@pytest.mark.parametrize("content", [b"", b"[1, 2]", b"{", b"\xff"])
def test_a_folder_whose_facts_are_damaged_is_refused(content: bytes, trained: Path) -> None:
    (trained / "run.json").write_bytes(content)
    with pytest.raises(CertificateError, match=r"run\.json"):
        Run.load(trained)


def test_an_empty_or_absent_folder_is_no_run(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(CertificateError, match="not a run folder"):
            Run.load(path)


def test_the_plan_in_the_folder_is_the_one_that_was_certified(trained_once: Path) -> None:
    planned = json.loads((trained_once / "plan.json").read_text())
    certificate = Run.load(trained_once).certificate
    for key in ("steps", "adjacency", "epsilon", "delta", "prior", "private"):
        assert planned[key] == certificate[key]

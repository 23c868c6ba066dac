"""evaluate on synthetic data that comes as files, FID from the command line, and the weights it needs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import tiny
import torch
from tiny import Cli

from simulacra.evaluate.fidelity import extraction


class Thumbnail(torch.nn.Module):
    """A stand-in for the Inception, so that no weights are needed here."""

    def load_state_dict(self, *_: object, **__: object) -> None:  # type: ignore[override]
        """Nothing to load."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.adaptive_avg_pool2d(images.mean(dim=1), 3).flatten(1)


@pytest.fixture
def pictures(work: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two sets of images as .npz files, and their schema."""
    monkeypatch.setenv("SIMULACRA_CACHE", str(work / "cache"))
    (work / "schema.toml").write_text(tiny.PICTURES)
    images, labels = tiny.pictures()
    np.savez(work / "synthetic.npz", x=images, y=labels)
    np.savez(work / "real.npz", x=images[::-1], y=labels[::-1])
    np.savez(work / "unit.npz", x=images.astype(np.float32) / 255, y=labels)
    np.savez(work / "signed.npz", x=images / 127.5 - 1, y=labels)
    return work


@pytest.fixture
def no_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extraction, "Inception", Thumbnail)
    monkeypatch.setattr(extraction.weights, "load", lambda _: {})


def scored(cli: Cli, *words: object) -> dict[str, float]:
    done = cli("evaluate", *words, "--device", "cpu", "--json")
    assert done.code == 0, done.err
    scores: dict[str, float] = done.json["scores"]
    return scores


def test_bytes_and_fractions_of_one_set_have_the_same_scores(cli: Cli, pictures: Path) -> None:
    common = ("--test", "real.npz", "--schema", "schema.toml", "--classifier", "lr")
    as_bytes = scored(cli, "synthetic.npz", *common)
    assert set(as_bytes) == {"lr_accuracy", "lr_f1"}
    assert scored(cli, "unit.npz", *common, "--pixels", "unit") == as_bytes
    assert scored(cli, "signed.npz", *common, "--pixels", "signed") == as_bytes


def test_a_range_that_is_not_the_files_own_is_refused_and_never_guessed(cli: Cli, pictures: Path) -> None:
    common = ("--test", "real.npz", "--schema", "schema.toml")
    for words in (("unit.npz",), ("signed.npz", "--pixels", "unit"), ("synthetic.npz", "--pixels", "unit")):
        done = cli("evaluate", *words, *common)
        assert done.code == 2
        assert len(done.err.strip().splitlines()) == 1


def test_several_seeds_give_mean_best_and_spread_apart(cli: Cli, pictures: Path) -> None:
    common = ("--test", "real.npz", "--schema", "schema.toml", "--classifier", "mlp", "--seeds", "2")
    found = scored(cli, "synthetic.npz", *common)
    assert {"mlp_accuracy", "mlp_accuracy_best", "mlp_accuracy_spread"} <= set(found)
    assert found["mlp_accuracy_best"] >= found["mlp_accuracy"]


def test_fid_by_both_protocols_and_the_departures_are_said(cli: Cli, pictures: Path, no_weights: None) -> None:
    common = ("--test", "real.npz", "--schema", "schema.toml", "--classifier", "none")
    done = cli(
        "evaluate", "synthetic.npz", *common, "--fid", "dp-gan", "--fid", "dp-mepf", "--train", "real.npz", "--json"
    )
    assert done.code == 0, done.err
    assert {"fid_dp_gan", "kid_dp_gan", "fid_dp_mepf", "coverage_dp_mepf"} <= set(done.json["scores"])
    assert done.json["scores"]["fid_dp_gan"] == pytest.approx(0, abs=1e-6)
    assert any("instead of 60,000" in note for note in done.json["notes"])
    assert (pictures / "cache" / "statistics").is_dir()


def test_scores_of_files_can_be_written_and_nothing_is_overwritten(cli: Cli, pictures: Path) -> None:
    common = ("--test", "real.npz", "--schema", "schema.toml", "--classifier", "lr", "--out", "scores.json")
    printed = scored(cli, "synthetic.npz", *common)
    assert json.loads((pictures / "scores.json").read_text())["scores"] == printed
    assert cli("evaluate", "synthetic.npz", *common).code == 2


def test_a_folder_of_images_is_scored_like_the_file(cli: Cli, pictures: Path) -> None:
    from PIL import Image

    images, labels = tiny.pictures()
    names = tiny.schema(tiny.PICTURES).class_names
    for number, (image, label) in enumerate(zip(images, labels, strict=True)):
        folder = pictures / "folder" / names[label]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(folder / f"{number:04d}.png")
    common = ("--test", "real.npz", "--schema", "schema.toml", "--classifier", "lr")
    assert scored(cli, "folder", *common) == pytest.approx(scored(cli, "synthetic.npz", *common), abs=0.02)


def test_a_table_in_a_file_is_scored_too(cli: Cli, table: Path, work: Path) -> None:
    found = scored(cli, table, "--test", "people.csv", "--schema", "schema.toml", "--classifier", "gaussian_nb")
    assert found["tvd_1way_mean"] == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("absent.npz", "--test", "real.npz", "--schema", "schema.toml"), 'no run, file or folder "absent.npz"'),
        (("synthetic.npz", "--test", "real.npz"), "which schema"),
        (("synthetic.npz", "--schema", "schema.toml"), "which real records"),
        (("synthetic.npz", "--test", "real.npz", "--schema", "schema.toml", "--fid", "dp-mepf"), "--train"),
        (
            ("synthetic.npz", "--test", "real.npz", "--schema", "schema.toml", "--fid", "dp-gan"),
            "weights get inception",
        ),
        (("synthetic.npz", "--test", "real.npz", "--schema", "schema.toml", "--seeds", "0"), "seeds must be"),
        (("synthetic.npz", "--test", "real.npz", "--schema", "schema.toml", "--classifier", "none"), "nothing to comp"),
        (("unit.npz", "--test", "real.npz", "--schema", "schema.toml"), "--pixels unit"),
        (
            ("synthetic.npz", "--test", "real.npz", "--schema", "schema.toml", "--seed", "4294967295", "--seeds", "2"),
            "seeds must be from 0",
        ),
        (
            ("synthetic.npz", "--test", "real.npz", "--schema", "schema.toml", "--classifier", "cnm"),
            "unknown classifier",
        ),
        (
            ("synthetic.npz", "--test", "real.npz", "--schema", "schema.toml", "--device", "abacus"),
            "not available here",
        ),
    ],
)
def test_bad_questions_end_in_one_line(words: tuple[str, ...], said: str, cli: Cli, pictures: Path) -> None:
    done = cli("evaluate", *words)
    assert done.code == 2
    assert said in done.err
    assert len(done.err.strip().splitlines()) == 1


def test_files_sorted_by_class_are_drawn_from_and_not_cut_off(cli: Cli, pictures: Path) -> None:
    images, labels = tiny.pictures()
    order = np.argsort(labels)
    np.savez(pictures / "sorted.npz", x=images[order], y=labels[order])
    common = ("--test", "real.npz", "--schema", "schema.toml", "--classifier", "lr", "--rows", "20")
    assert scored(cli, "sorted.npz", *common)["lr_accuracy"] > 0.9


def test_labels_outside_the_classes_are_refused_in_synthetic_images_and_told_in_real_ones(
    cli: Cli, pictures: Path
) -> None:
    images, labels = tiny.pictures()
    np.savez(pictures / "odd.npz", x=images, y=labels + 1)
    common = ("--schema", "schema.toml", "--classifier", "lr")
    refused = cli("evaluate", "odd.npz", "--test", "real.npz", *common)
    assert refused.code == 2
    assert "outside the schema's 2 classes" in refused.err
    told = cli("evaluate", "synthetic.npz", "--test", "odd.npz", *common, "--json")
    assert any("outside the schema's classes" in note for note in told.json["notes"])


def test_a_known_data_set_without_a_split_is_tested_on_its_test_images(
    cli: Cli, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIMULACRA_CACHE", str(work / "cache"))
    common = ("--classifier", "lr", "--rows", "200")
    plain = scored(cli, "dataset:digits", "--test", "dataset:digits", *common)
    assert plain == scored(cli, "dataset:digits:train", "--test", "dataset:digits:test", *common)


def test_no_classifier_leaves_distances_of_tables_and_nothing_of_images(cli: Cli, pictures: Path, table: Path) -> None:
    found = scored(cli, table, "--test", "people.csv", "--schema", "schema.toml", "--classifier", "none")
    assert "tvd_1way_mean" in found
    assert "auroc_mean" not in found


def test_image_options_are_refused_for_tables(cli: Cli, trained: Path, table: Path) -> None:
    done = cli("evaluate", "run", "--test", table, "--fid", "dp-gan")
    assert done.code == 2
    assert "for images" in done.err


def test_table_options_are_refused_for_images(cli: Cli, pictures: Path) -> None:
    common = ("--test", "real.npz", "--schema", "schema.toml")
    for words in (("--protocol", "papers"), ("--group", "town")):
        done = cli("evaluate", "synthetic.npz", *common, *words)
        assert done.code == 2
        assert "for tables only" in done.err


def test_tables_have_a_spread_over_seeds_a_yardstick_and_groups(cli: Cli, trained: Path, table: Path) -> None:
    quick = ("--classifier", "lda", "--rows", "100")
    words = ("--seeds", "2", "--train", table, "--group", "town", *quick)
    done = cli("evaluate", "run", "--test", table, "--json", *words)
    assert done.code == 0, done.err
    scores, details = done.json["scores"], done.json["details"]
    assert {"auroc_mean", "auroc_mean_spread", "real_auroc_mean", "tvd_3way_mean_spread"} <= set(scores)
    assert details["seeds"] == [0, 1]
    assert details["real_train_rows"] == len(tiny.people())
    assert list(details["by_group"]) == ["town"]
    hard = scored(cli, "run", "--test", table, "--protocol", "papers", *quick)
    soft = scored(cli, "run", "--test", table, *quick)
    assert hard["auroc_mean"] != soft["auroc_mean"]


def test_weights_are_listed_and_wrong_files_refused(cli: Cli, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIMULACRA_CACHE", str(work / "cache"))
    listed = cli("weights", "list", "--json").json
    assert (listed[0]["name"], listed[0]["here"]) == ("inception", False)
    assert "inception" in cli("weights", "list").out
    (work / "network.pt").write_bytes(b"not a network")
    done = cli("weights", "import", "inception", "network.pt")
    assert done.code == 2
    assert "does not have a published checksum" in done.err
    assert cli("weights", "get", "incepton").err == (
        'simulacra: no weights called "incepton"; did you mean "inception"?\n'
    )

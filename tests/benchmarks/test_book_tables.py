"""The tables: means and spreads over seeds, papers beside, and the page in the documentation."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks import book, contest, outcomes
from benchmarks.outcomes import empty
from benchmarks.page import speed_section, to_page
from benchmarks.rows import Row
from benchmarks.tables import to_data, to_json, to_markdown

ROOT = Path(__file__).parents[2]


def scored(seed: int, scores: dict[str, dict[str, float]], **fields: Any) -> dict[str, Any]:
    row = Row(**{"method": "dp-merf", "data": "mnist", "epsilon": 1.0, "seed": seed, **fields})
    return {**empty(row), "scorings": {name: {"scores": values, "draw": "d"} for name, values in scores.items()}}


def line(text: str, start: str) -> list[str]:
    found = [row for row in text.splitlines() if row.startswith(start)]
    assert len(found) == 1, found
    return [cell.strip() for cell in found[0].strip("|").split("|")]


def test_a_line_has_the_mean_and_the_spread_over_seeds() -> None:
    three = [
        scored(0, {"lr-mlp-6000": {"lr_accuracy": 0.7, "mlp_accuracy": 0.8}, "fid-dp-gan": {"fid": 100.0}}),
        scored(1, {"lr-mlp-6000": {"lr_accuracy": 0.8, "mlp_accuracy": 0.8}}),
    ]
    text = to_markdown(three)
    section = text.split("## mnist\n")[1].split("## ")[0]
    head = line(section, "| method")
    cells = dict(zip(head, line(section, "| **dp-merf** | 1 "), strict=True))
    assert cells["seeds"] == "2"
    assert cells["LR 6,000"] == "0.750 ± 0.071"
    assert cells["MLP 6,000"] == "0.800 ± 0.000"
    assert cells["FID, test"] == "100.0 (1 of 2)"
    assert cells["LR 60,000"] == "–"
    paper = dict(zip(head, line(section, "| dp-merf, dp-ntk paper | 1 "), strict=True))
    assert paper["LR 6,000"] == "0.769"


def test_variants_and_relations_have_lines_of_their_own() -> None:
    figures = {"lr-mlp-6000": {"lr_accuracy": 0.5}}
    text = to_markdown(
        [
            scored(0, figures),
            scored(0, figures, variant="wide"),
            scored(0, figures, adjacency="add-remove", variant="other"),
            scored(0, figures, method="real", epsilon=None),
            scored(0, {}, epsilon=7.0),
        ]
    )
    section = text.split("## mnist\n")[1].split("## ")[0]
    for start in ("| **dp-merf** | 1 ", "| **dp-merf** (wide) | 1 ", "| **dp-merf** (other, add-remove) | 1 "):
        line(section, start)
    assert section.strip().splitlines()[2].startswith("| **real** | – ")
    assert "| 7 |" not in section


def test_the_tables_come_as_json_too() -> None:
    entries = to_json([scored(seed, {"cnn": {"cnn_accuracy": 0.5 + seed / 10}}) for seed in (0, 1)])
    ours = [entry for entry in entries if entry["source"] == "this project"]
    assert len(ours) == 1
    assert ours[0]["figures"]["cnn: cnn_accuracy"]["mean"] == pytest.approx(0.55)
    assert ours[0]["figures"]["cnn: cnn_accuracy"]["seeds"] == 2
    assert ours[0]["seeds"] == [0, 1]


def test_the_command_prints_every_form(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outcomes.save(tmp_path, scored(0, {"cnn": {"cnn_accuracy": 0.5}}))
    for form in ("markdown", "json", "page"):
        book.main(["table", "--results", str(tmp_path), "--format", form])
        out = capsys.readouterr().out
        if form == "json":
            assert any(entry["source"] == "this project" for entry in json.loads(out))
        else:
            assert "| **dp-merf** | 1 | 1 |" in out
            assert out.startswith("# Benchmarks" if form == "page" else "## ")


def test_the_page_of_benchmarks_is_the_book_as_it_stands() -> None:
    """If this fails: python -m benchmarks.book table --format page > BENCHMARKS.md"""
    found = list(outcomes.read_all(outcomes.BOOK)) if outcomes.BOOK.exists() else []
    assert (ROOT / "BENCHMARKS.md").read_text(encoding="utf-8") == to_page(found)


def test_the_package_carries_the_book_as_it_stands() -> None:
    """If this fails: python -m benchmarks.book table --format data > src/simulacra/datasets/book.json"""
    from simulacra.datasets.results import BOOK, citations, known, results

    found = list(outcomes.read_all(outcomes.BOOK)) if outcomes.BOOK.exists() else []
    assert BOOK.read_text(encoding="utf-8") == to_data(found)
    lines = results()
    assert {line.source for line in lines} - {""} <= set(citations())
    adult = [line for line in lines if line.data == "adult" and line.method == "real" and not line.source]
    assert adult[0].figures["AUROC"].seeds >= 1
    from simulacra.datasets import schema

    assert known(schema("adult")) == "adult"
    assert known(schema("fashion-mnist")) == "fashion-mnist"


def test_a_row_that_was_not_run_says_so_and_the_best_stands_apart() -> None:
    figures = {"tables": {"auroc_mean": 0.8, "auroc_best": 0.9, "tvd_2way_mean": 0.1}}
    page = to_page([scored(0, figures, data="adult", method="pairs")], {})
    section = page.split("## adult\n")[1].split("## ")[0]
    main, _, best = section.partition("The best of the twelve classifiers on adult:")
    assert line(main, "| **pairs** | 1 ")[2:4] == ["1", "0.800"]
    assert "best" not in main
    assert line(best, "| **pairs** | 1 ")[2:] == ["1", "0.900"]
    assert "0.900" not in main
    assert "| **dp-merf** |" not in main
    planned = main.partition("No run yet:")[2]
    assert re.search(r"^\* \*\*dp-merf\*\*: at 1, 10$", planned, re.MULTILINE)
    assert re.search(r"^\* \*\*dp-gan\*\*: add-remove at 1, 10; averaged, add-remove at 1, 10$", planned, re.MULTILINE)
    assert "**real**" in planned, "the yardstick was not run either"


def test_a_data_set_of_which_nothing_was_run_has_no_empty_table() -> None:
    section = to_page([], {}).split("## celeba\n")[1].split("## ")[0]
    assert "|" not in section
    assert re.search(
        r"^\* \*\*dp-mepf\*\*: at 0\.2, 0\.5, 1, 2, 5, 10 and without noise; first at 0\.2", section, re.MULTILINE
    )


def test_the_page_begins_with_its_sections() -> None:
    page = to_page([], {})
    contents = re.findall(r"\(#([a-z0-9-]+)\)", page.partition("\n\nA figure of ours")[0])
    assert {"adult", "mnist", "speed", "sources"} <= set(contents)
    assert all(re.search(rf"^## {name}$", page, re.MULTILINE | re.IGNORECASE) for name in contents)


def test_speed_is_told_in_ratios_and_what_was_not_measured_says_so() -> None:
    nothing = speed_section({})
    assert nothing.count("no run") == 11
    critic = {"ratios": {"128": {"times_opacus": 3.16, "share_of_not_private": 0.76}}, "cores": 2, "commit": "abc"}
    training = {"ratios": {"dp-merf": {"times_faster": 2.86}}, "device": "cpu", "cores": 2, "commit": "abc"}
    told = speed_section({"critic": critic, "training": training})
    assert "a step of DP-MERF's training on MNIST | torch as it comes | 2.9 times as fast" in told
    assert "3.2 times as fast" in told
    assert "0.76 times as fast" in told
    assert told.count("no run") == 9


def test_the_contest_shows_the_highest_in_bold_whoever_has_it() -> None:
    def entry(method: str, auroc: float, data: str = "adult", **fields: Any) -> dict[str, Any]:
        return scored(0, {"tables": {"auroc_mean": auroc}}, method=method, data=data, **fields)

    ours = [entry("pairs", 0.8), entry("dp-merf", 0.85), entry("dp-merf", 0.99, variant="tuned")]
    text = contest.section([entry("real", 0.9, epsilon=None), *ours, entry("mst", 0.7, adjacency="add-remove")])
    assert line(text, "| adult | AUROC") == [
        "adult",
        "AUROC",
        "0.900",
        "**0.850 (dp-merf)**",
        "0.800",
        "no run",
        "0.700",
    ]
    stopped = {**entry("aim", 0.0, adjacency="add-remove"), "scorings": {}, "unfinished": "stopped"}
    text = contest.section([*ours, entry("mst", 0.86, adjacency="add-remove"), stopped])
    assert line(text, "| adult | AUROC")[2:] == ["–", "0.850 (dp-merf)", "0.800", "did not finish", "**0.860**"]
    assert "census" not in text

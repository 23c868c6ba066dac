"""The table of what NDPDC's settings cost."""

from __future__ import annotations

from pathlib import Path

from benchmarks import budgets


def test_the_default_of_the_paper_costs_what_the_method_page_says() -> None:
    found = budgets.budget(budgets.Point(), 60_000)
    assert abs(found["epsilon"] - 5.01) < 0.01
    assert found["epsilon_rdp"] > found["epsilon"]


def test_what_is_written_is_what_is_computed() -> None:
    written = budgets.read()
    assert written is not None
    assert [(row["noise"], row["group"], row["rounds"]) for row in written["rows"]] == [
        (point.noise, point.group, point.rounds) for point in budgets.POINTS
    ]
    point = budgets.Point(rounds=2000)
    row = next(row for row in written["rows"] if row["rounds"] == 2000)
    assert row["cifar10"] == budgets.budget(point, 50_000)


def test_without_a_run_the_page_says_so(tmp_path: Path) -> None:
    assert budgets.section(budgets.read(tmp_path / "none.json")).endswith("No run.\n")

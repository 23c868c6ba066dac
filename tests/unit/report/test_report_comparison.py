"""Runs side by side."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
import tiny
from test_report import Page

from simulacra.errors import SettingError
from simulacra.report.comparing import comparison_view
from simulacra.report.comparison import Comparison, Group, compare
from simulacra.report.curves import lines_over_epsilon
from simulacra.synthesis.run import Run


def scored(folder: Path, source: Path, *, epsilon: float | None, values: dict[str, float], **facts: object) -> Path:
    """A copy of a run that claims another epsilon and these scores."""
    shutil.copytree(source, folder)
    certificate = json.loads((folder / "certificate.json").read_text())
    (folder / "certificate.json").write_text(json.dumps({**certificate, "epsilon": epsilon, **facts}))
    (folder / "scores.json").write_text(json.dumps({"scores": values, "details": {"test_rows": 10}}))
    return folder


@pytest.fixture
def runs(trained: Path, work: Path) -> list[Path]:
    return [
        scored(work / "a", trained, epsilon=1.0, values={"auroc_mean": 0.7, "odd": 1.0}),
        scored(work / "b", trained, epsilon=1.0, values={"auroc_mean": 0.8}),
        scored(work / "c", trained, epsilon=10.0, values={"auroc_mean": 0.9}),
        scored(work / "d", trained, epsilon=None, values={"auroc_mean": 0.95}),
    ]


def test_runs_with_the_same_promise_are_taken_together(runs: list[Path]) -> None:
    found = compare(runs)
    assert [(group.epsilon, len(group.runs)) for group in found.groups] == [(1.0, 2), (10.0, 1), (None, 1)]
    first = found.groups[0].to_json()["scores"]
    assert first["auroc_mean"] == {"mean": pytest.approx(0.75), "spread": pytest.approx(0.0707, abs=1e-3), "runs": 2}
    assert first["odd"] == {"mean": 1.0, "spread": None, "runs": 1}
    assert found.drawn == ("auroc_mean",)
    assert found.computed_on == "real data, outside the privacy guarantee"


def test_the_page_draws_curves_and_says_what_is_not_private(cli: tiny.Cli, runs: list[Path], work: Path) -> None:
    done = cli("compare", *runs, "--out", "compare.html", "--json")
    assert done.code == 0, done.err
    assert done.json["out"] == "compare.html"
    assert len(done.json["groups"]) == 3
    page = Page((work / "compare.html").read_text())
    assert "0.750 ± 0.071" in page.text
    assert "not private" in page.text
    assert "outside the privacy guarantee" in page.text
    assert any("dp-merf 0.9 at epsilon 10" in str(svg["aria-label"]) for svg in page.all("svg"))
    assert page.all("script") == []
    assert len(page.all("caption")) == len(page.all("table"))
    again = cli("compare", *runs, "--out", "compare.html")
    assert again.code == 2  # nothing is written over
    plain = cli("compare", *runs)
    assert "auroc_mean" in plain.out
    assert "0.7500" in plain.out


def test_what_does_not_compare_is_said_or_refused(trained: Path, runs: list[Path], work: Path) -> None:
    other = scored(work / "e", trained, epsilon=2.0, values={}, delta=1e-6, adjacency="replace-one")
    notes = " ".join(compare([*runs, other]).notes)
    assert "differ in delta" in notes
    assert "differ in adjacency" in notes
    unscored = Path(shutil.copytree(trained, work / "f"))
    (unscored / "scores.json").unlink(missing_ok=True)
    assert "not scored yet" in " ".join(compare([unscored]).notes)
    assert compare([unscored]).drawn == ()
    comparison_view(compare([unscored]))
    text = (unscored / "schema.toml").read_text()
    (unscored / "schema.toml").write_text(text.replace("upper = 100", "upper = 120"))
    with pytest.raises(SettingError, match="another schema"):
        compare([*runs, unscored])
    with pytest.raises(SettingError, match="given twice"):
        compare([runs[0], Run.load(runs[0])])
    with pytest.raises(SettingError, match="no run has a score"):
        compare(runs, scores=["auroc_men"])


def test_scores_by_other_classifiers_or_protocols_are_told_apart(runs: list[Path]) -> None:
    def measured(run: Path, **details: object) -> None:
        found = json.loads((run / "scores.json").read_text())
        (run / "scores.json").write_text(json.dumps(found | {"details": details}))

    for run in runs:
        measured(run, classifiers=[{"name": "lda"}], protocol="sound")
    assert "measured in different ways" not in " ".join(compare(runs).notes)
    for details in ({"classifiers": [{"name": "lda"}], "protocol": "papers"}, {"classifiers": [{"name": "mlp"}]}):
        measured(runs[0], **details)
        assert "measured in different ways" in " ".join(compare(runs).notes)


def test_released_scores_stand_apart(trained: Path, work: Path) -> None:
    (trained / "scores.json").unlink(missing_ok=True)
    (trained / "released-scores.json").write_text(json.dumps({"scores": {"auroc_mean": 0.6}}))
    found = compare([trained])
    assert found.drawn == ("released_auroc_mean",)
    assert found.computed_on is None


def test_a_chart_of_equal_values_or_of_nothing_is_drawn_without_a_fault() -> None:
    flat = lines_over_epsilon([("m", [(1.0, 0.5, 0.0)]), ("n", [(1.0, 0.5, 0.0)])], label="l", title="t")
    assert "NaN" not in flat
    assert "nan" not in flat
    assert "No points" in lines_over_epsilon([("m", [])], label="l", title="t")


def test_two_epsilons_side_by_side_are_not_written_over_one_another() -> None:
    drawn = lines_over_epsilon(
        [("m", [(4.9995, 0.5, 0.0), (1.0, 0.4, 0.0)]), ("n", [(5.0, 0.6, 0.0)])], label="", title=""
    )
    below = re.findall(r'y="256.0" text-anchor="middle">([^<]*)<', drawn)
    assert below == ["1", "5"]
    alone = lines_over_epsilon([("m", [(4.9995, 0.5, 0.0)]), ("n", [(5.0, 0.6, 0.0)])], label="", title="")
    places = [float(x) for x in re.findall(r'<circle[^>]* cx="([\d.]+)"', alone)]
    places += [float(x) + 4 for x in re.findall(r'<polygon[^>]* points="([\d.]+)', alone)]
    assert len(places) == 2
    assert abs(places[0] - places[1]) < 1


def test_figures_of_a_comparison_line_up_and_have_readable_names() -> None:
    values = {"accuracy_mean": [0.84], "tvd_2way_mean": [0.0687], "fid_dp_gan": [26.64]}
    group = Group(method="m", epsilon=1.0, delta=1e-5, adjacency="add-remove", runs=("r",), values=values)
    found = Comparison(groups=(group,), drawn=tuple(values), notes=(), computed_on=None)
    view = comparison_view(found)
    assert view["headings"] == ["Accuracy mean", "TVD 2-way mean", "FID DP GAN"]
    assert view["rows"][0]["cells"] == ["0.840", "0.069", "26.6"]

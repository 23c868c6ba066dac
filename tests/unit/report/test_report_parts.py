"""The parts of a report that stand beside the promise: heat maps, the ledger, released scores, the book."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import tiny
from test_report import HOSTILE, Page, full, hostile_schema, plain, rows  # noqa: F401

from simulacra import report
from simulacra.data.frames import encode_frame
from simulacra.datasets.results import results
from simulacra.evaluate import Scores
from simulacra.evaluate.classifiers import ALL
from simulacra.privacy.budget import Adjacency, Budget
from simulacra.privacy.ledger import Ledger
from simulacra.report import ReportContent
from simulacra.report.accounts import read_accounts
from simulacra.report.maps import MOST_CELLS, correlations, pair_views
from simulacra.report.scoring import book_view
from simulacra.schema import Categorical, Numeric, Schema


def test_correlations_and_pairs_stand_side_by_side_with_the_real_ones(full: ReportContent) -> None:  # noqa: F811
    page = Page(report.render(full))
    alternatives = [str(image["alt"]) for image in page.all("img")]
    assert sum("go together most" in text for text in alternatives) == 2
    assert sum("differ most" in text for text in alternatives) == 1
    assert sum("Shares of" in text and "real" in text for text in alternatives) == 6
    assert "Largest differences" in page.text
    order = page.text.partition("rows from the top, in this order:")[2].split()
    assert order[0] == full.schema.columns[0].name.split()[0]


def test_without_real_rows_there_is_one_map_of_each(plain: ReportContent) -> None:  # noqa: F811
    page = Page(report.render(plain))
    alternatives = [str(image["alt"]) for image in page.all("img")]
    assert sum("go together most" in text for text in alternatives) == 1
    assert sum("Shares of" in text for text in alternatives) == 6
    assert "Largest differences" not in page.text


def test_the_pairs_that_are_furthest_off_are_drawn(full: ReportContent) -> None:  # noqa: F811
    assert full.scores is not None
    worst = dataclasses.replace(full.scores, details={"worst_pairs": [{"columns": ["town", "owner"], "tvd": 0.3}]})
    page = Page(report.render(dataclasses.replace(full, scores=worst)))
    assert [str(i["alt"]) for i in page.all("img") if "Shares of" in str(i["alt"])] == [
        "Shares of owner (down) by town (across), synthetic",
        "Shares of owner (down) by town (across), real",
    ]


def test_a_column_of_thousands_of_values_is_drawn_by_the_commonest() -> None:
    schema = Schema(columns=(Categorical(name="c", values=tuple(range(5000))), Numeric(name="x", lower=0, upper=1)))
    frame = pd.DataFrame({"c": np.arange(3000), "x": np.linspace(0, 1, 3000)})
    rows_encoded = encode_frame(frame, schema)
    (pair,) = pair_views(rows_encoded, None, schema)
    assert len(pair.maps[0].picture) < 20_000
    assert (pair.across_span, pair.down_span) == ("its commonest values", "0 to 1")
    found = correlations(rows_encoded, None, schema)
    assert found is not None
    assert found.names == ("c", "x")
    assert MOST_CELLS < 5000
    one = Schema(columns=schema.columns[1:])
    assert correlations(encode_frame(frame, one), None, one) is None


def test_the_ledger_is_told_by_run_with_the_cap(trained: Path, work: Path, plain: ReportContent) -> None:  # noqa: F811
    import simulacra

    cap = Budget(epsilon=9.0, delta=1e-5, adjacency=Adjacency.ADD_REMOVE)
    Ledger.create(work / "people.ledger", adjacency=Adjacency.ADD_REMOVE, cap=cap)
    for number in (1, 2):
        simulacra.release(
            tiny.people(),
            schema=tiny.schema(tiny.PEOPLE),
            epsilon=2.0,
            delta=1e-5,
            adjacency="add-remove",
            out=work / f"run{number}",
            ledger=work / "people.ledger",
            method=tiny.METHOD,
            settings=tiny.SETTINGS,
        )
    this = simulacra.Run.load(work / "run2").facts["run"]
    accounts = read_accounts(work / "people.ledger", this=this)
    assert [line.this for line in accounts.lines] == [False, True]
    assert [line.epsilon for line in accounts.lines] == pytest.approx([2.0, 2.0], rel=1e-2)
    assert accounts.epsilon is not None
    assert 2.0 < accounts.epsilon < 4.0
    page = Page(report.render(dataclasses.replace(plain, accounts=accounts)))
    assert "of a cap of 9 that was fixed in advance" in page.text
    assert "this run" in page.text
    assert any("of a cap of 9" in str(svg["aria-label"]) for svg in page.all("svg"))
    assert "This run is not in it" not in page.text
    strange = read_accounts(work / "people.ledger", this="0" * 16)
    assert "This run is not in it" in Page(report.render(dataclasses.replace(plain, accounts=strange))).text


def test_released_scores_are_not_marked_as_outside_the_guarantee(plain: ReportContent) -> None:  # noqa: F811
    released = Scores(
        scores={"auroc_mean": 0.8, "auroc_noise": 0.01, "tvd_1way_mean": 0.2, "tvd_1way_noise_floor": 0.05}
        | {"tvd_1way_max": 0.4, "tvd_1way_max_noise_floor": 0.09},
        details={"privacy": {"epsilon": 0.5, "delta": 1e-5, "adjacency": "add-remove"}, "classifiers": []},
        computed_on="real data, released under epsilon 0.5",
    )
    page = Page(report.render(dataclasses.replace(plain, released=[released])))
    assert "Scores that may be published" in page.text
    assert "± 0.01" in page.text
    assert page.text.count("noise alone 0.05") == page.text.count("noise alone 0.09") == 1
    assert "outside the guarantee" not in page.text
    assert "auroc_noise" not in page.text


def test_a_known_data_set_stands_beside_the_book(full: ReportContent) -> None:  # noqa: F811
    published = [dataclasses.asdict(line) for line in results() if line.data == "adult"]
    assert full.scores is not None
    twelve = [{"name": name, "title": name, "auroc": 0.8} for name in ALL]
    scores = dataclasses.replace(full.scores, details=full.scores.details | {"classifiers": twelve})
    page = Page(report.render(dataclasses.replace(full, published=published, scores=scores)))
    assert "Beside the book and the papers" in page.text
    assert "dp-ntk paper" in page.text
    assert "this run, real test rows" in page.text
    assert "Beside the book" not in Page(report.render(full)).text


@pytest.mark.parametrize("other", ["fewer classifiers", "papers"])
def test_what_was_measured_otherwise_does_not_stand_in_a_column_of_the_book(full: ReportContent, other: str) -> None:  # noqa: F811
    """Its AUROC is the mean of twelve classifiers that rank by probabilities: a mean of one is no match for it."""
    published = [dataclasses.asdict(line) for line in results() if line.data == "adult"]
    assert full.scores is not None
    rows = [{"name": name, "title": name, "auroc": 0.8} for name in (ALL if other == "papers" else ALL[:1])]
    details = full.scores.details | {"classifiers": rows, "protocol": "papers" if other == "papers" else "sound"}
    scores = Scores(scores=full.scores.scores | {"tvd_2way_mean": 0.123}, details=details)
    book = book_view(published, scores, "run")
    assert book is not None
    own = dict(zip(book["names"], book["lines"][0]["cells"], strict=True))
    assert (own["AUROC"], own["2-way TVD"]) == ("–", "0.123")


def test_pairs_that_real_rows_chose_are_marked(plain: ReportContent) -> None:  # noqa: F811
    """Which pairs are furthest off is a figure about the real rows, even where only synthetic ones are drawn."""
    names = [column.name for column in plain.schema.columns][:2]
    scores = Scores(scores={"tvd_2way_mean": 0.2}, details={"worst_pairs": [{"columns": names, "tvd": 0.2}]})
    html = report.render(dataclasses.replace(plain, scores=scores, real=None))
    heading = html[html.index("Pairs of columns") :].split("</h3>")[0]
    assert "outside the guarantee" in heading
    plainly = report.render(dataclasses.replace(plain, scores=None, real=None))
    assert "outside the guarantee" not in plainly[plainly.index("Pairs of columns") :].split("</h3>")[0]


def test_breakdowns_spreads_and_yardsticks_are_shown(full: ReportContent) -> None:  # noqa: F811
    assert full.scores is not None
    line = {"real_rows": 30, "real_share": 0.5, "synthetic_share": 0.25, "auroc": None}
    scores = Scores(
        scores={**full.scores.scores, "auroc_mean_spread": 0.017, "real_auroc_mean": 0.899, "detection_auroc": 0.61}
        | {"tvd_3way_mean": 0.2, "dcr_median": 0.1},
        details={
            **full.scores.details,
            "seeds": [0, 1],
            "real_train_rows": 32_561,
            "by_class": [{"class": HOSTILE, "recall": 0.77, "tvd_1way": None, **line}],
            "by_group": {"town": [{"value": HOSTILE, "accuracy": 0.66, **line}]},
        },
    )
    page = Page(report.render(dataclasses.replace(full, scores=scores)))
    for words in (
        "± 0.017",
        "32,561 real rows",
        "0.899",
        "0.610",
        "0.770",
        "0.660",
        "of the first seed",
        "triples of columns, mean",
        "no measure of privacy",
    ):
        assert words in page.text
    assert "means over 2 seeds" in page.text


def test_every_link_of_the_contents_leads_to_a_section(full: ReportContent) -> None:  # noqa: F811
    page = Page(report.render(full))
    targets = {str(link["href"])[1:] for link in page.all("a")}
    assert targets <= {attributes["id"] for _, attributes in page.tags if "id" in attributes}
    assert {"promise", "budget", "signal", "data", "scores", "training", "public", "verify"} <= targets
    assert encode_frame(rows(4, 0), hostile_schema()) is not None

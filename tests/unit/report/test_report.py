from __future__ import annotations

import dataclasses
import datetime as dt
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from simulacra import report
from simulacra.errors import DataError, OutputError
from simulacra.evaluate import Scores
from simulacra.report import ReportContent
from simulacra.schema import Boolean, Categorical, Datetime, ImageShape, Numeric, Schema

HOSTILE = "<script>alert('x')</script>\"&"
VOID = {"meta", "img", "br", "rect", "line", "polyline", "circle", "link", "hr", "input"}

CERTIFICATE: dict[str, Any] = {
    "private": True,
    "epsilon": 1.0,
    "delta": 1e-5,
    "adjacency": "replace-one",
    "unit": "person",
    "epsilon_rdp": 1.27,
    "curve": [{"epsilon": 0.5, "delta": 1e-3}, {"epsilon": 1.0, "delta": 1e-5}, {"epsilon": 2.0, "delta": 0.0}],
    "steps": [
        {"name": "class-counts", "noise_multiplier": 11.8, "sample_rate": 1.0, "count": 1, "norm_bound": 1.0}
        | {"sensitivity": 1.414, "noise_std": 16.7, "noise": "exact", "size": 2},
        {"name": "embedding", "noise_multiplier": 3.93, "sample_rate": 1.0, "count": 1, "norm_bound": 1.0}
        | {"sensitivity": 2.0, "noise_std": 7.86, "noise": "exact", "size": 8000},
    ],
    "assumed_public": ["the schema"],
    "noise_source": "exact discrete Gaussian",
    "versions": {"simulacra": "0.1.0"},
    "releases": {"embedding": "ab" * 32},
    "prior": [{"name": "bounds", "noise_multiplier": 20.0, "count": 1}],
}


class Page(HTMLParser):
    """Checks that tags nest, and keeps what the tests ask about."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))


def hostile_schema() -> Schema:
    return Schema(
        columns=(
            Numeric(name=HOSTILE, lower=0, upper=10, missing=True),
            Categorical(name="town", values=(HOSTILE, *(f"town {k}" for k in range(20))), other=True),
            Boolean(name="owner", missing=True),
            Datetime(name="since", lower=dt.date(2000, 1, 1), upper=dt.date(2020, 1, 1)),
            Categorical(name="label", values=("</title>", "yes")),
        ),
        label="label",
    )


def rows(count: int, seed: int) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            HOSTILE: np.where(random.random(count) < 0.2, np.nan, random.random(count) * 10),
            "town": random.choice([HOSTILE, "town 1", "town 2", "elsewhere"], count),
            "owner": pd.array([True, False, None, True][:4] * (count // 4), dtype="boolean"),
            "since": pd.Timestamp("2005-01-01") + pd.to_timedelta(random.integers(0, 900, count), unit="D"),
            "label": random.choice(["</title>", "yes"], count),
        }
    )


@pytest.fixture
def plain() -> ReportContent:
    return ReportContent(
        title=f"A table {HOSTILE}",
        method="dp-merf",
        certificate=CERTIFICATE,
        schema=hostile_schema(),
        synthetic=rows(40, 0),
    )


@pytest.fixture
def full(plain: ReportContent) -> ReportContent:
    row = {"name": "lda", "title": f"LDA {HOSTILE}", "auroc": 0.8, "auprc": 0.7, "seconds": 1.0, "note": ""}
    return dataclasses.replace(
        plain,
        summary=HOSTILE,
        real=rows(60, 1),
        scores=Scores(
            scores={
                "auroc_mean": 0.812,
                "auprc_mean": 0.7,
                "auroc_best": 0.934,
                "auprc_best": 0.9,
                "tvd_1way_mean": 0.1,
            },
            details={"classifiers": [row], "train_rows": 40, "test_rows": 60, "positive_class": HOSTILE},
            notes=[HOSTILE],
        ),
        settings={"pairs": 1000, "training": {"steps": 5, HOSTILE: HOSTILE}},
        class_signal=[
            {"class_name": HOSTILE, "signal": 10.0, "noise": 1.0},
            {"class_name": "rare", "signal": 0.0, "noise": 1.0},
            {"class_name": "exact", "signal": 1.0, "noise": 0.0},
        ],
        class_words=[(HOSTILE, f"noise is {HOSTILE}"), ("rare", "favourable from 300 records")],
        training_curve=[(step, 1.0 / (step + 1)) for step in range(1000)],
        commands=[f"simulacra fit data.csv --label '{HOSTILE}'"],
        run_name="my run",
    )


def test_a_full_report_is_well_formed_and_says_everything(full: ReportContent):
    page = Page(report.render(full))
    for words in ("The promise", "Where the budget went", "Signal and noise", "Column by column", "How useful it is"):
        assert words in page.text
    for words in (
        "Training",
        "assumed to be public",
        "simulacra verify my run",
        "spent on the schema",
        "0.812",
        "0.934",
    ):
        assert words in page.text
    assert "not covered by the guarantee. Do not publish unless the test rows may be" in page.text
    assert "NOT PRIVATE" not in page.text


def test_fid_and_the_spread_over_seeds_stand_beside_the_classifiers(full: ReportContent):
    assert full.scores is not None
    row = {"name": "cnn", "title": "A network", "accuracy": 0.9, "f1": 0.89, "seconds": 1.0, "note": ""}
    measured = Scores(
        scores={"fid_dp_gan": 26.6, "cnn_accuracy": 0.9, "cnn_f1": 0.89, "cnn_accuracy_best": 0.95}
        | {"cnn_accuracy_spread": 0.012, "cnn_f1_spread": 0.013},
        details={"classifiers": [row], "train_rows": 40, "test_rows": 60, "seeds": 3},
    )
    text = Page(report.render(dataclasses.replace(full, scores=measured))).text
    assert "FID (60,000 images against the test images)" in text
    assert "A network, accuracy, best of the seeds" in text
    assert "means over 3 seeds" in text
    assert text.count("0.900 ± 0.012") == text.count("0.890 ± 0.013") == 1
    assert "spread" not in text


def test_noise_per_class_is_told_in_words_with_what_would_be_favourable(full: ReportContent):
    gauged = {"signal": 10.0, "noise": 3.0, "bound": 0.0901, "records_needed": 3000, "epsilon_needed": 4.5}
    rows = [{"class_name": "a", **gauged}, {"class_name": "b", **gauged, "epsilon_needed": 1e6, "bound": 1.0}]
    html = report.render(dataclasses.replace(full, class_signal=rows, class_words=[("a", "noise is 0.3")]))
    page = Page(html)
    assert "at least 10 times the noise, which is favourable: 0 of 2 classes get there" in page.text
    assert "noise is 0.3." in page.text
    for words in ("9.1 %", "3,000", "4.5", "none below 100"):
        assert words in page.text
    assert html.count('class="threshold"') == 1
    many = Page(report.render(dataclasses.replace(full, class_words=[(str(k), "noise is 0.3") for k in range(13)])))
    assert "Class by class, in words" in many.text
    assert "favourable: 2 of 3 classes get there" in many.text
    untold = Page(report.render(dataclasses.replace(full, class_words=())))
    assert "Favourable from records" not in untold.text


@pytest.mark.parametrize(("ratio", "says"), [(30.0, "gets there"), (3.0, "does not get there")])
def test_a_release_about_all_classes_together_is_not_called_a_class(
    full: ReportContent, ratio: float, says: str
) -> None:
    rows = [{"class_name": "all records", "signal": ratio, "noise": 1.0}]
    page = Page(report.render(dataclasses.replace(full, class_signal=rows, class_words=[("all records", "good")])))
    assert f"favourable: the release as a whole {says}." in page.text
    assert "per class" not in page.text.partition("Signal and noise")[2].partition("Numbers")[0]


def test_what_learned_from_the_rows_in_rounds_is_not_called_free_to_repeat(plain: ReportContent):
    loop = {"name": "rounds", "noise_multiplier": 2.0, "sample_rate": 0.1, "count": 50, "noise": "fast"}
    curve = [(1.0, 2.0), (2.0, 1.0)]
    for steps, free in ((CERTIFICATE["steps"], True), ([*CERTIFICATE["steps"], loop], False)):
        certificate = CERTIFICATE | {"steps": steps}
        page = Page(report.render(dataclasses.replace(plain, certificate=certificate, training_curve=curve)))
        assert ("can be repeated for ever" in page.text) == free
        assert ("pays again" in page.text) != free


def test_days_are_shown_without_an_hour(plain: ReportContent):
    page = Page(report.render(plain))
    assert re.search(r"20\d\d-\d\d-\d\d", page.text)
    assert "00:00:00" not in page.text


def test_the_promise_is_told_in_numbers_and_words(plain: ReportContent):
    page = Page(report.render(plain))
    assert "1e-5" in page.text
    assert "at most 2.72 times (e to the power of epsilon) what it would have been then, plus 1e-5 (delta)" in page.text
    # The point (0.5, 1e-3) of the curve bounds the guess more tightly than (1, 1e-5) does.
    assert "62.3\xa0%" in report.render(plain)
    assert "epsilon 1.27" in page.text


def test_hostile_names_are_text_and_nothing_else(full: ReportContent):
    html = report.render(full)
    page = Page(html)
    assert page.all("script") == []
    assert "<script" not in html
    assert html.count("</title>") == 1
    assert HOSTILE in " ".join(page.words)
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)


def test_nothing_is_fetched_from_anywhere(full: ReportContent):
    html = report.render(full)
    assert re.search(r"https?://|@import|url\(", html) is None
    for _, attributes in Page(html).tags:
        for name in ("src", "href", "srcset", "data", "action", "xlink:href"):
            value = attributes.get(name)
            assert value is None or value.startswith(("#", "data:image/png;base64,"))


def test_it_can_be_read_without_seeing_it(full: ReportContent):
    page = Page(report.render(full))
    assert page.all("html") == [{"lang": "en"}]
    assert len(page.all("h1")) == 1
    assert all(svg["role"] == "img" and svg["aria-label"] for svg in page.all("svg"))
    assert all(image["alt"] for image in page.all("img"))
    assert all("scope" in cell for cell in page.all("th"))
    assert len(page.all("caption")) == len(page.all("table"))


def test_without_real_data_nothing_is_marked_as_real(plain: ReportContent):
    html = report.render(plain)
    page = Page(html)
    assert "outside the guarantee" not in page.text
    assert "How useful it is" not in page.text
    assert 'class="real-line"' not in html


def test_with_real_data_every_such_part_is_marked(full: ReportContent):
    page = Page(report.render(full))
    assert page.text.count("real data, outside the guarantee") == 5
    assert "Before you publish this file" in page.text


@pytest.mark.parametrize("certificate", [{"private": False}, CERTIFICATE | {"private": False}, {}])
def test_a_run_that_is_not_private_says_so_first(certificate: dict[str, Any], plain: ReportContent):
    page = Page(report.render(dataclasses.replace(plain, certificate=certificate)))
    assert "NOT PRIVATE" in page.text
    assert "The promise holds" not in page.text.split("What was assumed")[0]
    assert "to the power of epsilon" not in page.text


def test_a_run_that_is_not_private_is_nowhere_called_fit_to_be_shared(full: ReportContent):
    steps = [dict(step, noise_multiplier=0.0, noise_std=0.0) for step in CERTIFICATE["steps"]]
    certificate = CERTIFICATE | {"private": False, "epsilon": None, "delta": None, "steps": steps}
    page = Page(report.render(dataclasses.replace(full, certificate=certificate)))
    for words in ("shared freely", "The promise holds", "no further privacy"):
        assert words not in page.text
        assert words in Page(report.render(full)).text
    assert page.words.count("none") >= len(steps)


@pytest.mark.parametrize("channels", [None, 1, 3])
def test_images_are_shown_by_class_and_real_ones_only_as_averages(channels: int | None):
    shape = (40, 5, 4) if channels is None else (40, 5, 4, channels)
    random = np.random.default_rng(0)
    content = ReportContent(
        title="Images",
        method="dp-merf",
        certificate=CERTIFICATE,
        schema=Schema(image=ImageShape(height=5, width=4, channels=channels or 1, classes=(HOSTILE, "b", "never"))),
        synthetic=random.integers(0, 256, shape, dtype=np.uint8),
        synthetic_labels=np.arange(40) % 2,
        real=random.integers(0, 256, shape, dtype=np.uint8),
        # Four real images of class b are too few for an average that shows none of them.
        real_labels=np.array([0] * 36 + [1] * 4),
    )
    page = Page(report.render(content))
    alternatives = [image["alt"] for image in page.all("img")]
    assert sum("Average real" in str(text) for text in alternatives) == 1
    assert sum("Synthetic images" in str(text) for text in alternatives) == 2
    assert "none generated" in page.text


def test_images_without_labels_form_one_row():
    content = ReportContent(
        title="Images",
        method="dp-merf",
        certificate=CERTIFICATE,
        schema=Schema(image=ImageShape(height=5, width=4)),
        synthetic=np.zeros((3, 5, 4), dtype=np.uint8),
    )
    assert len(Page(report.render(content)).all("img")) == 2


def test_data_of_the_wrong_kind_is_refused(plain: ReportContent):
    with pytest.raises(DataError, match="DataFrame"):
        dataclasses.replace(plain, synthetic=np.zeros((3, 5, 4), dtype=np.uint8))
    with pytest.raises(DataError, match="uint8"):
        ReportContent(
            title="Images",
            method="m",
            certificate={},
            schema=Schema(image=ImageShape(height=5, width=4)),
            synthetic=np.zeros((3, 5, 4)),  # type: ignore[arg-type]
        )


def test_a_wide_table_draws_its_first_columns_and_counts_the_rest(plain: ReportContent):
    schema = Schema(columns=tuple(Numeric(name=f"x{k}", lower=0, upper=1) for k in range(65)))
    frame = pd.DataFrame(np.full((3, 65), 0.5), columns=[f"x{k}" for k in range(65)])
    page = Page(report.render(dataclasses.replace(plain, schema=schema, synthetic=frame)))
    assert "5 more columns are not drawn" in page.text


def test_writing_replaces_the_file_and_leaves_nothing_else(tmp_path: Path, plain: ReportContent):
    target = tmp_path / "report.html"
    target.write_text("old")
    report.write(target, plain)
    assert target.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert list(tmp_path.iterdir()) == [target]


def test_a_folder_that_does_not_exist_is_one_clear_line(tmp_path: Path, plain: ReportContent):
    with pytest.raises(OutputError, match="cannot write the report"):
        report.write(tmp_path / "nowhere" / "report.html", plain)

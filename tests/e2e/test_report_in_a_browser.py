"""The report, opened in a real browser: something is drawn, and nothing sticks out, on a desk and on a phone."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import tiny

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PHONE, DESK = 390, 1200
DARK = "--blink-settings=preferredColorScheme=0"

pytestmark = pytest.mark.skipif(BROWSER is None, reason="needs Chromium, which .ci/run installs where it may")


def browse(folder: Path, *words: str) -> str:
    """Run the browser without a window; gives what it printed."""
    assert BROWSER is not None
    quiet = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run")
    profile = f"--user-data-dir={folder / 'profile'}"
    done = subprocess.run([BROWSER, *quiet, profile, *words], capture_output=True, text=True, timeout=240, check=True)
    return done.stdout


def screenshot(page: Path, width: int, *words: str) -> np.ndarray:
    from PIL import Image

    target = page.with_suffix(".png")
    browse(page.parent, f"--window-size={width},2400", f"--screenshot={target}", *words, page.as_uri())
    return np.asarray(Image.open(target).convert("RGB"))


def overflow(page: Path, width: int) -> int:
    """By how many pixels the page is wider than the screen; 0 unless a reader has to scroll sideways.

    The page runs no scripts, so it is put into a frame of the screen's width, and the page around it measures.
    """
    measure = "document.title = f.contentDocument.documentElement.scrollWidth"
    frame = f'<iframe id="f" style="width:{width}px;height:2000px;border:0" srcdoc="{html.escape(page.read_text())}">'
    around = page.with_name("around.html")
    around.write_text(f"<!doctype html>{frame}</iframe><script>onload = () => {{ {measure} }}</script>")
    title = re.search(r"<title>(\d+)</title>", browse(page.parent, "--dump-dom", around.as_uri()))
    assert title, "the browser did not measure the page"
    return max(0, int(title[1]) - width)


def looked_at(page: Path) -> None:
    light, dark = screenshot(page, DESK), screenshot(page, DESK, DARK)
    for picture in (light, dark):
        colours, counts = np.unique(picture.reshape(-1, 3), axis=0, return_counts=True)
        assert len(colours) > 50, "hardly anything is drawn"
        assert counts.max() < 0.97 * counts.sum(), "the page is nearly blank"
        # The last fifth of the picture is still page, not emptiness below it.
        assert len(np.unique(picture[-480:].reshape(-1, 3), axis=0)) > 10
    assert light.mean() > 150 > 100 > dark.mean(), "light is not light, or dark is not dark"
    for width in (PHONE, DESK):
        assert overflow(page, width) == 0, f"something sticks out at a width of {width}"
    sizes = [screenshot(page, width).shape[1] for width in (500, DESK)]
    assert sizes == [500, DESK]


def test_the_report_of_a_table(cli: tiny.Cli, trained: Path, table: Path) -> None:
    assert cli("evaluate", "run", "--test", table, "--classifier", "lda", "--rows", "200").code == 0
    ledger = trained.parent / "empty.ledger"
    assert cli("ledger", "create", ledger, "--epsilon", "3", "--delta", "1e-5").code == 0
    done = cli("report", "run", "--test", table, "--ledger", ledger, "--out", "table.html")
    assert done.code == 0, done.err
    looked_at(trained.parent / "table.html")


@pytest.mark.slow
def test_the_report_of_images(cli: tiny.Cli, work: Path) -> None:
    import simulacra

    (work / "schema.toml").write_text(tiny.PICTURES)
    images, labels = tiny.pictures(80)
    np.savez(work / "real.npz", images=images, labels=labels)
    simulacra.fit(
        work / "real.npz",
        schema="schema.toml",
        epsilon=50.0,
        delta=1e-5,
        adjacency="add-remove",
        out=work / "run",
        settings={"pairs": 20, "training.steps": 6, "training.batch": 64},
        device="cpu",
    )
    done = cli("report", "run", "--test", "real.npz", "--out", "images.html")
    assert done.code == 0, done.err
    looked_at(work / "images.html")


def test_a_page_that_is_broken_would_be_noticed(work: Path) -> None:
    wide, blank = work / "wide.html", work / "blank.html"
    wide.write_text('<!doctype html><div style="width:900px">wide</div>')
    blank.write_text("<!doctype html><p>")
    assert overflow(wide, PHONE) > 400
    assert overflow(wide, DESK) == 0
    with pytest.raises(AssertionError, match="hardly anything"):
        looked_at(blank)


def test_a_heat_map_of_few_and_many_cells_is_a_square_and_not_a_tower(work: Path) -> None:
    """A column of 3 values across and one of 40 down was drawn thirteen times as high as wide."""
    from simulacra.report.maps import SYNTHETIC, _picture

    style = (Path(__file__).parents[2] / "src/simulacra/report/style.css").read_text(encoding="utf-8")
    picture = _picture(np.ones((40, 3)), SYNTHETIC)
    page = work / "map.html"
    measure = "document.title = `${m.offsetWidth} ${m.offsetHeight}`"
    page.write_text(
        f'<!doctype html><style>{style}</style><div style="width:200px"><img id="m" class="map" src="{picture}"></div>'
        f"<script>onload = () => {{ {measure} }}</script>"
    )
    title = re.search(r"<title>(\d+) (\d+)</title>", browse(work, "--dump-dom", page.as_uri()))
    assert title
    assert title[1] == title[2] == "200"

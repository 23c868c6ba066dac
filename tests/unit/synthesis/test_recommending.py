"""Which method, with which settings: from the book and the gauge, and from no data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tiny

from simulacra import datasets
from simulacra.errors import BudgetError, SettingError
from simulacra.methods import all_methods, make_method
from simulacra.schema import ImageShape, Numeric, Schema
from simulacra.synthesis.recommending import VERDICTS, kind_of, recommend

pytestmark = pytest.mark.usefixtures("remembered_plans")


@pytest.mark.parametrize("name", ["adult", "mnist", pytest.param("cifar10", marks=pytest.mark.slow)])
def test_every_method_that_fits_is_named_with_a_reason(name: str) -> None:
    schema = datasets.schema(name)
    found = recommend(schema, rows=30_000, epsilon=1.0)
    fitting = {one for one, kind in all_methods().items() if (kind.images if schema.image else kind.tables)}
    assert {advice.method for advice in found} <= fitting
    assert len(found) >= 5
    for advice in found:
        assert advice.reasons
        assert advice.verdict in VERDICTS
        assert all(kind_of(datasets.schema(one.data)) == kind_of(schema) for one in advice.evidence)
        json.dumps(advice.to_json(), allow_nan=False)
        make_method(advice.method, advice.settings, schema)  # settings can be used as they stand


def test_the_best_of_the_book_comes_first_and_papers_after_what_was_measured() -> None:
    found = recommend(datasets.schema("adult"), rows=30_000, epsilon=1.0)
    assert found[0].verdict == "recommended"
    scores = [advice.score or 0.0 for advice in found if advice.verdict == "recommended"]
    assert scores == sorted(scores, reverse=True)
    assert any(not one.source for one in found[0].evidence)
    assert VERDICTS.index(found[0].verdict) <= VERDICTS.index(found[-1].verdict)


def test_methods_are_compared_where_both_were_run() -> None:
    """Pairs was run on every table, hard ones among them, and is ahead on this one: it must come first."""
    found = recommend(datasets.schema("adult"), rows=30_000, epsilon=1.0)
    assert found[0].method == "pairs"
    behind = next(advice for advice in found if advice.method == "dpmix")
    assert behind.verdict == "others do better"  # it stands the noise, and is far behind all the same
    assert behind.score is not None
    assert found[0].score is not None
    assert behind.score < found[0].score


def test_evidence_of_data_like_these_comes_first() -> None:
    for rows, name in ((30_000, "adult"), (687, "cervical")):
        found = {advice.method: advice for advice in recommend(datasets.schema(name), rows=rows, epsilon=1.0)}
        nearest = found["pairs"].evidence[0]
        assert (nearest.data, nearest.epsilon) == (name, 1)
        assert nearest.nearness > 0.99
        assert sum(one.nearness for one in found["pairs"].evidence[1:]) > 0


def test_so_few_records_are_told_that_noise_will_win() -> None:
    found = recommend(datasets.schema("adult"), rows=60, epsilon=0.1)
    once = [advice for advice in found if advice.noise_ratio is not None]
    assert {advice.verdict for advice in once} == {"noise will win"}
    assert all("nothing is assured" in advice.reasons[0] for advice in once)


def test_a_loop_that_has_no_gauge_is_recommended_only_where_data_of_that_size_were_measured() -> None:
    """On a hundred records noise wins for all that can be gauged; nothing says that it would not for a loop."""
    for rows, verdict in ((100, "worth a try"), (60_000, "recommended")):
        found = {advice.method: advice for advice in recommend(datasets.schema("mnist"), rows=rows, epsilon=1.0)}
        assert found["ndpdc"].noise_ratio is None
        assert found["ndpdc"].verdict == verdict
    few = recommend(datasets.schema("mnist"), rows=100, epsilon=1.0)
    assert 'class "0": noise is' in next(one for one in few if one.noise_ratio is not None).reasons[0]


def test_a_method_whose_public_network_is_not_here_is_named_with_the_way_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIMULACRA_CACHE", str(tmp_path))
    found = recommend(datasets.schema("cifar10"), rows=50_000, epsilon=10.0)
    advice = next(one for one in found if one.method == "dp-mepf")
    assert "simulacra weights get" in advice.reasons[0]
    assert advice.evidence
    assert not any(one.method == "dp-mepf" for one in recommend(datasets.schema("adult"), rows=50_000, epsilon=10.0))


def test_evidence_is_from_a_near_epsilon_or_there_is_none() -> None:
    for advice in recommend(datasets.schema("adult"), rows=50_000, epsilon=1e-4):
        assert advice.evidence == ()
        assert advice.verdict in ("no evidence", "noise will win")


def test_rates_of_training_loops_follow_from_the_public_guess_of_records() -> None:
    found = {advice.method: advice for advice in recommend(datasets.schema("mnist"), rows=60_000, epsilon=1.0)}
    assert found["ndpdc"].settings["rate"] == pytest.approx(50 * 10 / 60_000, rel=1e-2)
    assert found["ndpdc"].noise_ratio is None


def test_a_schema_nobody_has_seen_is_answered_too() -> None:
    assert kind_of(Schema(image=ImageShape(height=9, width=9, channels=3))) == "colour"
    wide = Schema(columns=tuple(Numeric(name=f"x{k}", lower=0, upper=1) for k in range(5)))
    found = recommend(wide, rows=5000, epsilon=2.0, adjacency="replace-one")
    assert found
    assert all(advice.preset is None for advice in found)
    recommend(Schema(image=ImageShape(height=9, width=9, channels=3)), rows=500, epsilon=2.0)


@pytest.mark.parametrize(
    ("page", "name", "rows", "epsilon"), [("tables", "adult", 30_000, 1.0), ("images", "digits", 1400, 5.0)]
)
def test_the_notebooks_show_what_is_recommended_now(page: str, name: str, rows: int, epsilon: float) -> None:
    text = (Path(__file__).parents[3] / "docs" / f"tutorial-{page}.md").read_text(encoding="utf-8")
    shown = text.partition("noise / signal\n")[2].partition("```")[0].splitlines()
    found = recommend(datasets.schema(name), rows=rows, epsilon=epsilon)[: len(shown)]
    assert [line.split()[0] for line in shown] == [advice.method for advice in found]
    assert all(advice.verdict in line for line, advice in zip(shown, found, strict=True))


def test_bad_guesses_are_refused() -> None:
    schema = datasets.schema("adult")
    with pytest.raises(SettingError, match="rows"):
        recommend(schema, rows=0, epsilon=1.0)
    with pytest.raises(BudgetError, match="epsilon"):
        recommend(schema, rows=10, epsilon=-1.0)
    with pytest.raises(BudgetError, match="delta"):
        recommend(schema, rows=10, epsilon=1.0, delta=0.5)


def test_the_command_line_gives_lines_that_parse(cli: tiny.Cli, table: object) -> None:
    words = ("recommend", "--schema", "schema.toml", "--rows", "5000", "--epsilon", "1")
    done = cli(*words)
    assert done.code == 0, done.err
    assert "because" in done.out
    found = cli(*words, "--class-rows", "4900,100", "--json").json
    assert found[0]["command"].startswith("simulacra fit DATA --schema SCHEMA --method")
    even = cli(*words, "--json").json
    ratio = {one["method"]: one["noise_ratio"] for one in even}
    assert any(one["noise_ratio"] != ratio[one["method"]] for one in found)
    assert "which epsilon" in cli("recommend", "--schema", "schema.toml", "--rows", "5").err
    assert "which schema" in cli("recommend", "--rows", "5", "--epsilon", "1").err
    assert not list(Path().glob("*.ledger"))

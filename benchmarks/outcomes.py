"""Result files: one per row, written whole or not at all, merged without losing a scoring.

    {"row": ..., "draws": {DIGEST: release, training and samples}, "scorings": {NAME: scores, hardware, commit, ...}}

A draw is one release, one training and one set of samples. Each scoring names the draw it measured, so scorings that
were made on different machines, or after a new release, cannot be taken for one another. A rival that was stopped at
its limit has "unfinished" with the reason instead.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from benchmarks.rows import Row
from simulacra.privacy.durable import write_durably

BOOK = Path(__file__).parent / "results" / "book"
FORMAT = 1

NEWER_FIELDS = {"labelled": True, "condensed": None}
"""Fields of a row that older files lack, and what they meant."""

NEWER_SETTINGS: dict[str, dict[str, Any]] = {
    "dp-gan": {"average": 0.0},
    "dp-mepf": {"training.loss": "plain"},
    "dp-ntk": {"inputs": "unit"},
    "ndpdc": {"activation": "linear"},
}
"""The same for settings of a method, where rows name today what was the only way before."""

Result = dict[str, Any]


def empty(row: Row) -> Result:
    """The result of a row that nothing was scored of yet."""
    return {"format": FORMAT, "row": row.to_mapping(), "draws": {}, "scorings": {}}


def load(folder: Path, row: Row) -> Result:
    """What is known of a row. A file of other settings than the row's counts as nothing."""
    path = folder / f"{row.name}.json"
    if not path.exists():
        return empty(row)
    result = _read(path)
    return result if _is_result(result) and same_row(result["row"], row.to_mapping()) else empty(row)


def same_row(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two rows are the same, read back from JSON or not, and written before a field existed or after."""
    return _in_full(one) == _in_full(other)


def _in_full(row: Mapping[str, Any]) -> dict[str, Any]:
    plain = {**NEWER_FIELDS, **json.loads(dump(row))}
    return {**plain, "settings": {**NEWER_SETTINGS.get(plain["method"], {}), **plain["settings"]}}


def save(folder: Path, result: Result) -> None:
    """Write a result into its place, without draws that no scoring names; never over a row of other settings."""
    used = {scoring["draw"] for scoring in result["scorings"].values()}
    if result["scorings"]:  # it did finish, another time
        result = {name: value for name, value in result.items() if name != "unfinished"}
    kept = {**result, "draws": {name: draw for name, draw in result["draws"].items() if name in used}}
    path = folder / f"{result['row']['name']}.json"
    if path.exists() and not same_row(_read(path)["row"], result["row"]):
        raise click.ClickException(f"{result['row']['name']} has results of other settings; move that file away")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_durably(path, dump(kept).encode())


def dump(values: Any) -> str:
    """The one way results are written: sorted keys, no NaN."""
    return json.dumps(values, indent=2, sort_keys=True, allow_nan=False) + "\n"


def read_all(place: Path) -> Iterator[Result]:
    """Every result below a folder, or in a file of one or many results."""
    if not place.exists():
        raise click.ClickException(f'"{place}" is not there; give a folder of results or a file that run --pack wrote')
    for path in sorted(place.rglob("*.json")) if place.is_dir() else [place]:
        values = _read(path)
        results = values["results"] if isinstance(values, dict) and set(values) == {"results"} else [values]
        for result in results:
            if not _is_result(result):
                raise click.ClickException(f'"{path}" is not a result of the book; give results only')
            yield result


def write_pack(path: Path, results: Iterable[Result]) -> None:
    """Many results in one file, to be carried home and given to `collect`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_durably(path, dump({"results": list(results)}).encode())


def collect(place: Path, folder: Path) -> list[str]:
    """Merge all results at a place into a folder; says what changed, a line each."""
    changes = []
    for result in read_all(place):
        name = result["row"]["name"]
        path = folder / f"{name}.json"
        nothing = {"format": result["format"], "row": result["row"], "draws": {}, "scorings": {}}
        old = _read(path) if path.exists() else nothing
        if not _is_result(old) or not same_row(old["row"], result["row"]):
            raise click.ClickException(f"{name} has other settings here than in what came back; move one of them away")
        merged, changed = merge(old, result)
        if changed:
            save(folder, merged)
        changes += [f"{name}: {line}" for line in changed]
    return changes


def merge(old: Result, new: Result) -> tuple[Result, list[str]]:
    """The scorings of both, the newer where both have one; and what the second brought."""
    scorings, changed = dict(old["scorings"]), []
    for name, scoring in sorted(new["scorings"].items()):
        before = scorings.get(name)
        if before is None:
            changed.append(f"{name} is new")
        elif scoring["date"] > before["date"]:
            changed.append(f"{name} of {scoring['date']} replaces that of {before['date']}")
        else:
            continue
        scorings[name] = scoring
    if "unfinished" in new and not scorings and "unfinished" not in old:
        changed.append("did not finish")
    return {**old, **new, "draws": {**old["draws"], **new["draws"]}, "scorings": scorings}, changed


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        raise click.ClickException(f'"{path}" is not readable JSON; it was changed or cut off') from None


def _is_result(values: Any) -> bool:
    return isinstance(values, dict) and {"format", "row", "draws", "scorings"} <= set(values)

"""Bundles: what rows need on a machine elsewhere, in parts that are small enough to carry.

A part holds pieces and the manifest of the whole bundle, so the parts may travel apart and come in any order.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import click

from benchmarks import outcomes
from benchmarks.rows import Row
from benchmarks.scoring import Scoring
from benchmarks.stages import Workplace
from simulacra import datasets
from simulacra.datasets.catalogue import CATALOGUE
from simulacra.datasets.faces import FaceImages
from simulacra.datasets.places import CACHE_VARIABLE, DATA_VARIABLE, cache_folder, data_folder

FORMAT = 1
MANIFEST = "manifest.json"
NOT_CARRIED = ("checkpoint",)

Files = dict[str, Path]
"""Place in the work folder elsewhere, to the file here."""


def contents(work: Workplace, book: Path, rows: Sequence[Row], scorings: Sequence[Scoring]) -> Files:
    """All files that the rows need: releases (and samplers, if trained), data, weights, and what is known already."""
    files: Files = {}
    for row in rows:
        place = work.place(row)
        for path in sorted(place.glob("run/**/*")) + sorted(place.glob("trained.json")):
            inside = path.relative_to(place)
            if path.is_file() and inside.parts[1:2] != NOT_CARRIED:
                files[f"rows/{row.name}/{inside.as_posix()}"] = path
        known = book / f"{row.name}.json"
        if known.exists():
            files[f"results/{row.name}.json"] = known
        files |= network_files(row)
    for name in sorted({row.data for row in rows}):
        files |= data_files(name)
    for name in sorted({name for scoring in scorings for name in scoring.weights if _fits(scoring, rows)}):
        from simulacra.networks import weights

        path = weights.get(name)
        files[f"cache/{path.relative_to(cache_folder()).as_posix()}"] = path
    return files


def network_files(row: Row) -> Files:
    """The public networks that a row's method trains with; they must be in the cache to be found elsewhere."""
    from simulacra.methods import make_method

    if row.real or row.rival:
        return {}
    found = make_method(row.method, row.settings, row.schema).public_files()
    for path in found:
        if not path.is_relative_to(cache_folder()):
            raise click.ClickException(f'"{path.name}" does not travel; put it into the folder encoders of the cache')
    return {f"cache/{path.relative_to(cache_folder()).as_posix()}": path for path in found}


def data_files(name: str) -> Files:
    """The files of a data set, from the data folder or the cache; none for what comes with the library."""
    stem = name.replace("-", "_")
    folder = data_folder()
    if folder is not None:
        patterns = [f"{stem}.npz", f"{stem}/*", f"tables/{stem}.parquet", f"tables/{stem}_*.parquet"]
        files = CATALOGUE[name].files if name in CATALOGUE else None
        if isinstance(files, FaceImages):
            patterns = [f"{files.folder}/*", *([files.list_file] if files.attribute else [])]
        found = {path for pattern in patterns for path in folder.glob(pattern) if path.is_file()}
        if found:
            return {f"data/{path.relative_to(folder).as_posix()}": path for path in sorted(found)}
    for split in ("train", "test"):
        datasets.load(name, split)  # into the cache, if it can be downloaded
    cached = sorted(path for path in (cache_folder() / name).glob("**/*") if path.is_file())
    return {f"cache/{path.relative_to(cache_folder()).as_posix()}": path for path in cached}


def write(files: Files, out: Path, *, rows: Sequence[Row], commit: str, limit: int) -> list[Path]:
    """Cut the files into parts of at most `limit` bytes, the manifest in each of them counted."""
    if out.exists() and any(out.iterdir()):
        raise click.ClickException(f'"{out}" is not empty; choose a new folder for the bundle')
    sizes = {name: path.stat().st_size for name, path in files.items()}
    pieces = _cut(sizes, limit, room=1 << 12)
    # The manifest grows with the pieces and takes room from them: leave twice what this first cut would need.
    room = 2 * len(_manifest({}, pieces, rows, commit, blank=True))
    if room * 2 > limit:
        raise click.ClickException(f"parts of {limit} bytes are too small for the list of what is in them; allow more")
    pieces = _cut(sizes, limit, room=room)
    hashes: dict[str, str] = {}
    parts = [out / f"part-{number}" for number in range(1 + max((piece["part"] for piece in pieces), default=0))]
    for part in parts:
        part.mkdir(parents=True)
    for name, path in files.items():
        whole = hashlib.sha256()
        with path.open("rb") as source:
            for piece in (piece for piece in pieces if piece["file"] == name):
                content = source.read(piece["bytes"])
                whole.update(content)
                piece["sha256"] = hashlib.sha256(content).hexdigest()
                (parts[piece["part"]] / piece["name"]).write_bytes(content)
        hashes[name] = whole.hexdigest()
    manifest = _manifest(hashes, pieces, rows, commit)
    for folder in (out, *parts):
        (folder / MANIFEST).write_bytes(manifest)
    return parts


def unpack(folders: Iterable[Path], work: Path) -> dict[str, Any]:
    """Put the parts together in the work folder, checking every hash; gives the manifest."""
    parts = [part for folder in folders for part in _parts(folder)]
    manifest = _same_manifest(parts)
    found = {path.name: path for part in parts for path in part.iterdir()}
    _forget_other_runs(manifest["files"], work)
    for name, expected in sorted(manifest["files"].items()):
        target = work / PurePosixPath(name)
        if target.is_file() and _sha256(target) == expected:
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = target.with_name(target.name + ".partial")
        with beside.open("wb") as file:
            for piece in (piece for piece in manifest["pieces"] if piece["file"] == name):
                file.write(_piece(piece, found))
        if _sha256(beside) != expected:
            raise click.ClickException(f"{name} is not what was bundled; carry the bundle again")
        os.replace(beside, target)
    return manifest


def arrive(folders: Iterable[Path], work: Path, book: Path) -> str:
    """Unpack a bundle and settle with it; gives the commit that it was made at."""
    made_at: str = unpack(folders, work)["commit"]
    settle(work, book)
    return made_at


def settle(work: Path, book: Path) -> None:
    """Let this process find the unpacked data and weights, and take over what was known of the rows."""
    for variable, name in ((DATA_VARIABLE, "data"), (CACHE_VARIABLE, "cache")):
        folder = work / name
        folder.mkdir(parents=True, exist_ok=True)
        os.environ[variable] = str(folder)
    if (work / "results").exists():
        outcomes.collect(work / "results", book)


def _fits(scoring: Scoring, rows: Sequence[Row]) -> bool:
    return any(scoring.suits(row) for row in rows)


def _cut(sizes: Mapping[str, int], limit: int, *, room: int) -> list[dict[str, Any]]:
    """Fill parts one after the other; a file that does not fit goes on in the next."""
    pieces: list[dict[str, Any]] = []
    most = max(1, limit - room)
    part, free = 0, most
    for name, size in sizes.items():
        left = size
        while left > 0 or size == 0:
            if free == 0:
                part, free = part + 1, most
            taken = min(left, free)
            pieces.append({"file": name, "part": part, "name": f"piece-{len(pieces):05d}", "bytes": taken})
            left, free = left - taken, free - taken
            if left == 0:
                break
    return pieces


def _manifest(
    hashes: Mapping[str, str],
    pieces: Sequence[Mapping[str, Any]],
    rows: Sequence[Row],
    commit: str,
    blank: bool = False,
) -> bytes:
    if blank:
        hashes = {piece["file"]: "0" * 64 for piece in pieces}
        pieces = [{**piece, "sha256": "0" * 64} for piece in pieces]
    values = {
        "format": FORMAT,
        "commit": commit,
        "rows": [row.name for row in rows],
        "files": dict(hashes),
        "pieces": list(pieces),
    }
    return outcomes.dump(values).encode()


def _parts(folder: Path) -> list[Path]:
    """A part itself, or all parts of a bundle that came whole."""
    inside = sorted(path for path in folder.glob("part-*") if (path / MANIFEST).exists())
    if not inside and not (folder / MANIFEST).exists():
        raise click.ClickException(f'"{folder}" is neither a bundle nor a part of one; give folders that bundle wrote')
    return inside or [folder]


def _same_manifest(parts: Sequence[Path]) -> dict[str, Any]:
    texts = {(part / MANIFEST).read_bytes() for part in parts}
    if len(texts) != 1:
        raise click.ClickException("these parts are of different bundles; give all parts of one")
    try:
        manifest: dict[str, Any] = json.loads(texts.pop())
    except ValueError:
        raise click.ClickException("the manifest of the bundle is damaged; carry the bundle again") from None
    if manifest.get("format") != FORMAT:
        raise click.ClickException("the bundle was made by another version; bundle again")
    for name in manifest["files"]:
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            raise click.ClickException(f'the bundle names "{name}", which is outside of the work folder; do not use it')
    return manifest


def _piece(piece: Mapping[str, Any], found: Mapping[str, Path]) -> bytes:
    part = f"part-{piece['part']}"
    if piece["name"] not in found:
        raise click.ClickException(f"{part} of the bundle is missing or incomplete; give that folder too")
    content = found[piece["name"]].read_bytes()
    if hashlib.sha256(content).hexdigest() != piece["sha256"]:
        raise click.ClickException(f"{part} of the bundle is damaged; carry it again")
    return content


def _forget_other_runs(files: Mapping[str, str], work: Path) -> None:
    """A row whose release is another one than the bundle's loses its training and samples too."""
    for name, expected in files.items():
        if name.startswith("rows/") and name.endswith("/run/run.json"):
            present = work / PurePosixPath(name)
            if present.exists() and _sha256(present) != expected:
                shutil.rmtree(present.parents[1])


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

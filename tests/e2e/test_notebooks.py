"""The two notebook pages of the documentation, command by command."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import tiny

DOCS = Path(__file__).parents[2] / "docs"
SHELL = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def lines_of(page: str) -> list[list[str]]:
    text = (DOCS / page).read_text(encoding="utf-8")
    blocks = [block.replace("\\\n", " ") for block in SHELL.findall(text)]
    return [shlex.split(line)[1:] for block in blocks for line in block.splitlines() if line.startswith("simulacra ")]


@pytest.mark.slow
@pytest.mark.parametrize("page", ["tutorial-images.md", "tutorial-tables.md"])
def test_every_command_of_a_notebook_runs(page: str, cli: tiny.Cli, work: Path) -> None:
    commands = lines_of(page)
    assert len(commands) >= 8
    for words in commands:
        done = cli(*words)
        assert done.code == 0, f"{words}: {done.err}"
    assert len(list(work.glob("*.html"))) >= 2

"""One self-contained HTML file about a run: the promise on top, then the data, then how to check it all."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from simulacra.errors import OutputError
from simulacra.report.content import ReportContent

__all__ = ["ReportContent", "render", "write", "write_page"]


def render(content: ReportContent) -> str:
    """The report as HTML text. Nothing in it is fetched from anywhere, and it holds no script."""
    from simulacra.report.sections import view

    return _fill("template.html.j2", view(content))


def write(path: str | os.PathLike[str], content: ReportContent) -> None:
    """Write the report to `path`, replacing what is there; a failure leaves no half-written file."""
    _write(Path(path), render(content))


def write_page(path: str | os.PathLike[str], template: str, values: Mapping[str, Any]) -> None:
    """The same for another template and what it prints."""
    _write(Path(path), _fill(template, values))


def _fill(template: str, values: Mapping[str, Any]) -> str:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    from simulacra.report.charts import fixed, number, percent

    environment = Environment(
        loader=PackageLoader("simulacra", "report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["fixed"] = fixed
    environment.filters["number"] = number
    environment.filters["percent"] = percent
    return environment.get_template(template).render(values)


def _write(target: Path, text: str) -> None:
    partial = target.with_name(target.name + ".partial")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(target)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise OutputError(f'cannot write the report "{target}": {error.strerror}') from None

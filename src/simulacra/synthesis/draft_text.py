"""From the noisy counts of a private draft to the text of a schema file: post-processing, free of privacy cost."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from simulacra.schema.toml import BLANK

if TYPE_CHECKING:
    from simulacra.data.declared import DeclaredColumn
    from simulacra.privacy.plan import Plan

STRAY = 1e-5
"""The chance that any empty bin of the draft looks filled: small, as one would ruin a column's bounds for good."""
LOG_SPAN = 1000
"""Bounds that span more than this factor get a logarithmic scale."""
LARGEST_CODE = 2**62


@dataclass(frozen=True, kw_only=True)
class Found:
    """Noisy counts per bin, the missing cell last, and noisy counts per category; all of it released and paid for."""

    counts: Mapping[str, np.ndarray[Any, Any]]
    counted: int
    """Bins in all."""
    noise_std: float
    values: Mapping[str, Mapping[str, float]]

    @property
    def least(self) -> float:
        """A count above this is hardly noise alone."""
        from scipy.stats import norm

        return self.noise_std * float(norm.isf(STRAY / self.counted)) if self.counted else 0.0


def write_draft(columns: Sequence[DeclaredColumn], found: Found, plan: Plan, *, label: str | None) -> str:
    """The schema file, with the events that paid for it."""
    import tomli_w

    text = _head(plan)
    text += tomli_w.dumps({"label": label}) if label is not None else '# label = "NAME"\n'
    for column in columns:
        table, remarks = _describe(column, found)
        text += "\n" + "".join(f"# {remark}\n" for remark in remarks)
        text += tomli_w.dumps({"columns": {column.name: table}})
    text += "\n# What the bounds and values above have cost. Keep it: every certificate must count it.\n"
    for planned in plan.steps:
        text += f"# {planned.step.name}\n" + tomli_w.dumps({"spent": [planned.event.to_json()]})
    return text


def _head(plan: Plan) -> str:
    assert plan.budget is not None
    spent, budget = plan.epsilon(plan.budget.delta), plan.budget
    return f"""\
# A schema: all that is public about a record. Its bounds and values were found in the data with noisy counts, which
# are ({spent:.6g}, {budget.delta:g})-differentially private under {budget.adjacency} and in the ledger of the data.
# Every run that uses this schema counts them too: its epsilon must be larger than {spent:.6g}.
#
# Look it over: what few records have is not in it. Values outside the bounds are clamped, so you may widen them, and
# you may add values, from public knowledge; never by looking at the rows.
# missing = true is where missing values stood out; remove it where none can be, add it where they can.

# Whose privacy one row is, in words.
unit = "record"

# The number of rows, if it is public.
# rows = 10000

# The column to predict, if there is one; it must be categorical or boolean.
"""


def _describe(column: DeclaredColumn, found: Found) -> tuple[dict[str, Any], list[str]]:
    """A column's table, and what the owner should know about it."""
    if column.type == "boolean":
        return {"type": "boolean"} | ({"missing": True} if column.nullable and not column.is_label else {}), []
    if column.type == "categorical":
        return _describe_values(column, found.values[column.name])
    counts = found.counts[column.name]
    filled = np.flatnonzero(counts[:-1] > found.least)
    describe = _describe_moments if column.type == "datetime" else _describe_numbers
    table, remarks = describe(column, filled)
    if counts[-1] > found.least:
        table["missing"] = True
    return table, remarks


def _describe_numbers(column: DeclaredColumn, filled: np.ndarray[Any, Any]) -> tuple[dict[str, Any], list[str]]:
    from simulacra.data.geometric import number_edges

    whole = {"integer": True} if column.type == "integer" else {}
    if not filled.size:
        return {"type": "numeric", "lower": BLANK, "upper": BLANK, **whole}, [_NO_BIN]
    lower, upper = number_edges(int(filled[0]))[0], number_edges(int(filled[-1]))[1]
    if whole:
        lower, upper = math.floor(lower), math.ceil(upper)
    if lower == upper:  # nothing but zeros
        upper += 1
    table: dict[str, Any] = {"type": "numeric", "lower": lower, "upper": upper, **whole}
    # The scale is log1p(value - lower), so it needs room above one and not only a large ratio.
    if lower >= 0 and upper > LOG_SPAN * lower and upper - lower > LOG_SPAN:
        table["log"] = True
    return table, []


def _describe_moments(column: DeclaredColumn, filled: np.ndarray[Any, Any]) -> tuple[dict[str, Any], list[str]]:
    from simulacra.data.geometric import FIRST_YEAR

    if not filled.size:
        return {"type": "datetime", "lower": BLANK, "upper": BLANK}, [_NO_BIN]
    first, last = (FIRST_YEAR + int(place) for place in (filled[0], filled[-1]))
    if column.moments:
        bounds = {"lower": dt.datetime(first, 1, 1), "upper": dt.datetime(last, 12, 31, 23, 59, 59)}
        return {"type": "datetime", **bounds}, []
    days = {"lower": dt.date(first, 1, 1), "upper": dt.date(last, 12, 31)}
    return {"type": "datetime", **days}, ["These are days; for moments write bounds such as 2000-01-01T00:00:00."]


def _describe_values(column: DeclaredColumn, found: Mapping[str, float]) -> tuple[dict[str, Any], list[str]]:
    values: list[Any] = sorted((v for v in found if v not in ("", BLANK)), key=lambda v: (-found[v], v))
    if column.codes and all(_is_code(value) for value in values):
        values = [int(value) for value in values]
    remarks = []
    if len(values) < (2 if column.is_label else 1):
        remarks.append("Too few records share a value to find it under this budget. List the values.")
        remarks += [f"Found: {value!r}" for value in values]
        values = [BLANK]
    table: dict[str, Any] = {"type": "categorical", "values": values}
    if column.is_label:
        remarks.append("Rare classes are not listed and count as the first one; to keep them apart write other = true.")
    else:
        # Rare values were dropped, so there is always something that is not on the list.
        if "other" not in values:
            table["other"] = True
        if "" in found:
            table["missing"] = True
    return table, remarks


def _is_code(text: str) -> bool:
    return text.removeprefix("-").isascii() and text.removeprefix("-").isdigit() and abs(int(text)) < LARGEST_CODE


_NO_BIN = "Nothing stood out of the noise here; write bounds from public knowledge, or spend more."

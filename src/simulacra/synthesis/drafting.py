"""The private schema draft: bounds and categories bought from the data, as planned, ledgered, noisy counts.

Every count has the same noise. Half of delta pays for the thresholds that keep rare categories in, in equal parts, the
rest for the noise; a table without categorical columns has all of it for the noise.
"""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simulacra.errors import SchemaError
from simulacra.privacy.budget import Adjacency, Budget
from simulacra.privacy.discovery import discovery_step
from simulacra.privacy.plan import Plan, make_plan
from simulacra.privacy.query import Step
from simulacra.synthesis.draft_text import Found, write_draft
from simulacra.synthesis.releasing import ledger_for
from simulacra.synthesis.watching import Watcher

if TYPE_CHECKING:
    from simulacra.data.declared import DeclaredColumn
    from simulacra.data.geometric import GeometricSource
    from simulacra.features.histogram import ColumnHistogram
    from simulacra.privacy.vault import Vault

NUMERIC, DATETIME = "numeric-bounds", "datetime-bounds"
THRESHOLD_SHARE = 0.5
"""The part of delta that the thresholds of the categorical columns share."""


def draft_privately(
    data: Any,
    *,
    epsilon: float,
    delta: float,
    adjacency: str | Adjacency,
    label: str | None = None,
    ledger: str | Path | None = None,
    types: Mapping[str, str] | None = None,
    watcher: Watcher | None = None,
) -> str:
    """The text of a schema file for a table, with bounds and values found under (epsilon, delta).

    `types` names the type of a column (numeric, integer, categorical, boolean or datetime) where the file has none, or
    another one than the file has. What was spent is at the end of the text and counts in all that uses the schema.
    """
    from simulacra.data.declared import declared_columns
    from simulacra.data.geometric import GeometricSource
    from simulacra.data.readers import open_table
    from simulacra.privacy.ledger import Ledger
    from simulacra.privacy.sealed import Sealed
    from simulacra.privacy.vault import Vault

    watcher = watcher or Watcher()
    budget = Budget(epsilon=epsilon, delta=delta, adjacency=Adjacency.parse(str(adjacency)))
    ledger_path = ledger_for(data, ledger)
    reader = open_table(data)
    source = GeometricSource(reader, declared_columns(data, reader, types=types or {}, label=label))
    plan = plan_draft(source, budget)
    watcher.stage("Checking the data file")
    source.check()
    book = Ledger.open_or_create(ledger_path, adjacency=budget.adjacency)
    with tempfile.TemporaryDirectory(prefix="simulacra-draft-") as folder:
        watcher.stage("Counting")
        vault = Vault(
            sealed=Sealed(source, source.schema),
            plan=plan,
            ledger=book,
            run=f"draft-{secrets.token_hex(8)}",
            folder=Path(folder),
            on_batch=watcher.on_batch,
            on_noise=watcher.on_noise,
        )
        found = _ask(vault, source)
    # From here on there is no private data: only the noisy counts.
    return write_draft(source.columns, found, plan, label=label)


def plan_draft(source: GeometricSource, budget: Budget) -> Plan:
    """What will be asked and with how much noise; depends on names and types only."""
    steps = [
        Step.asking(name, histogram, relative_noise=1 / histogram.norm_bound)
        for name, (_, histogram) in _histograms(source).items()
    ]
    discoveries = _discoveries(source.columns)
    steps += [
        discovery_step(name, failure_delta=THRESHOLD_SHARE * budget.delta / len(discoveries)) for name in discoveries
    ]
    if not steps:
        raise SchemaError("every column is boolean, so there is nothing to find out; draft without epsilon")
    return make_plan(steps, budget)


def _ask(vault: Vault, source: GeometricSource) -> Found:
    from simulacra.privacy.sealed import SealedValues

    histograms = _histograms(source)
    releases = vault.ask_all({name: histogram for name, (_, histogram) in histograms.items()}) if histograms else {}
    values = {
        column.name: vault.discover(name, SealedValues(partial(source.texts, column)))
        for name, column in _discoveries(source.columns).items()
    }
    counts = {
        column.name: row
        for name, (columns, _) in histograms.items()
        for column, row in zip(columns, releases[name].value.numpy(), strict=True)
    }
    return Found(
        counts=counts, counted=sum(row.size for row in counts.values()), noise_std=_noise_std(releases), values=values
    )


def _noise_std(releases: Mapping[str, Any]) -> float:
    return max((release.noise_std for release in releases.values()), default=0.0)


def _histograms(source: GeometricSource) -> dict[str, tuple[tuple[DeclaredColumn, ...], ColumnHistogram]]:
    """One step for all numbers, one for all moments, as far as there are any."""
    from simulacra.data.geometric import bins_of
    from simulacra.features.histogram import ColumnHistogram

    moments = tuple(column for column in source.ordered if column.type == "datetime")
    numbers = tuple(column for column in source.ordered if column.type != "datetime")
    return {
        name: (columns, ColumnHistogram([source.place(column) for column in columns], bins_of(columns[0])))
        for name, columns in ((NUMERIC, numbers), (DATETIME, moments))
        if columns
    }


def _discoveries(columns: Sequence[DeclaredColumn]) -> dict[str, DeclaredColumn]:
    """One step per categorical column, numbered: column names may not be names of files."""
    found = [column for column in columns if column.type == "categorical"]
    return {f"categories-{number}": column for number, column in enumerate(found, start=1)}

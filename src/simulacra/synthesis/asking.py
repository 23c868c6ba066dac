"""Bounded questions about records that nobody trains on: planned, ledgered and answered once, as every release is."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simulacra.networks.devices import plain_torch
from simulacra.privacy.budget import Adjacency, Budget
from simulacra.privacy.plan import Plan, make_plan
from simulacra.privacy.query import FeatureMap, Step
from simulacra.schema import Schema
from simulacra.synthesis.releasing import ledger_for
from simulacra.synthesis.watching import Watcher

if TYPE_CHECKING:
    from simulacra.privacy.release import Release


@dataclass(frozen=True, kw_only=True)
class Answers:
    """The noisy sums, the plan they were asked under, and whose account paid for them."""

    releases: dict[str, Release]
    plan: Plan
    ledger: str


@plain_torch()
def ask_about(
    data: Any,
    questions: Mapping[str, FeatureMap],
    *,
    schema: Schema,
    epsilon: float,
    delta: float,
    adjacency: str | Adjacency,
    ledger: str | Path | None = None,
    watcher: Watcher | None = None,
) -> Answers:
    """Ask everything in one pass, under (epsilon, delta) together; each question gets the same noise multiplier.

    `ledger` counts everything ever released from these records; for a file it defaults to NAME.ledger in the working
    folder.
    """
    from simulacra.data import open_source
    from simulacra.privacy.ledger import Ledger
    from simulacra.privacy.sealed import Sealed
    from simulacra.privacy.summing import rehearse
    from simulacra.privacy.vault import Vault

    watcher = watcher or Watcher()
    budget = Budget(epsilon=epsilon, delta=delta, adjacency=Adjacency.parse(str(adjacency)))
    plan = make_plan([Step.asking(name, each) for name, each in questions.items()], budget)
    ledger_path = ledger_for(data, ledger)
    source = open_source(data, schema)
    watcher.stage("Checking the test data")
    source.check()
    rehearse(questions, inputs=schema.inputs, classes=schema.classes)
    book = Ledger.open_or_create(ledger_path, adjacency=budget.adjacency)
    with tempfile.TemporaryDirectory(prefix="simulacra-asking-") as folder:
        watcher.stage("Asking the test records")
        vault = Vault(
            sealed=Sealed(source, schema),
            plan=plan,
            ledger=book,
            run=f"scores-{secrets.token_hex(8)}",
            folder=Path(folder),
            on_batch=watcher.on_batch,
            on_noise=watcher.on_noise,
        )
        releases = vault.ask_all(questions)
    return Answers(releases=releases, plan=plan, ledger=book.name)

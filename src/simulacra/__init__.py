"""simulacra: differentially private synthetic data. Release once, synthesise for ever.

import simulacra

run = simulacra.fit("patients.csv", schema="schema.toml", epsilon=1.0, delta=1e-5, adjacency="add-remove", out="run")
run.sample(1000)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simulacra.errors import SimulacraError
    from simulacra.evaluate.runs import evaluate_files, evaluate_run
    from simulacra.paying import evaluate_privately
    from simulacra.privacy.budget import Adjacency, Budget
    from simulacra.privacy.certificate import verify
    from simulacra.privacy.ledger import Ledger
    from simulacra.report.comparing import write_comparison
    from simulacra.report.comparison import compare
    from simulacra.report.runs import write_report
    from simulacra.schema import Schema
    from simulacra.synthesis.condensing import condense
    from simulacra.synthesis.looping import prepare, resume
    from simulacra.synthesis.recommending import recommend
    from simulacra.synthesis.releasing import plan, release
    from simulacra.synthesis.run import Run
    from simulacra.synthesis.training import fit, train

__version__ = "0.1.0"

_HOMES = {
    "Adjacency": "simulacra.privacy.budget:Adjacency",
    "Budget": "simulacra.privacy.budget:Budget",
    "Ledger": "simulacra.privacy.ledger:Ledger",
    "Run": "simulacra.synthesis.run:Run",
    "Schema": "simulacra.schema:Schema",
    "SimulacraError": "simulacra.errors:SimulacraError",
    "compare": "simulacra.report.comparison:compare",
    "condense": "simulacra.synthesis.condensing:condense",
    "evaluate_files": "simulacra.evaluate.runs:evaluate_files",
    "evaluate_privately": "simulacra.paying:evaluate_privately",
    "evaluate_run": "simulacra.evaluate.runs:evaluate_run",
    "fit": "simulacra.synthesis.training:fit",
    "plan": "simulacra.synthesis.releasing:plan",
    "prepare": "simulacra.synthesis.looping:prepare",
    "recommend": "simulacra.synthesis.recommending:recommend",
    "release": "simulacra.synthesis.releasing:release",
    "resume": "simulacra.synthesis.looping:resume",
    "train": "simulacra.synthesis.training:train",
    "verify": "simulacra.privacy.certificate:verify",
    "write_comparison": "simulacra.report.comparing:write_comparison",
    "write_report": "simulacra.report.runs:write_report",
}

__all__ = [
    "Adjacency",
    "Budget",
    "Ledger",
    "Run",
    "Schema",
    "SimulacraError",
    "compare",
    "condense",
    "evaluate_files",
    "evaluate_privately",
    "evaluate_run",
    "fit",
    "plan",
    "prepare",
    "recommend",
    "release",
    "resume",
    "train",
    "verify",
    "write_comparison",
    "write_report",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: torch takes seconds, and `simulacra --help` should not."""
    if name not in _HOMES:
        raise AttributeError(f"module 'simulacra' has no attribute {name!r}")
    module, _, attribute = _HOMES[name].partition(":")
    return getattr(import_module(module), attribute)

"""Every error a user can cause, as a tree.

    SimulacraError                 one line that says what, where and the fix; the command line exits with code 2
    ├── SchemaError                the schema file is wrong or does not fit the method
    ├── DataError                  a file cannot be read, or is not what the schema describes
    ├── SettingError               an unknown method or setting, or a value out of range
    ├── BudgetError                an impossible promise (epsilon <= 0, delta outside (0, 1), ...)
    ├── PlanError                  a question that is not in the plan, or a premise of the accounting that does not hold
    ├── LedgerError                the ledger cannot be used
    │   ├── LedgerLocked           another process holds it
    │   ├── LedgerBroken           it was edited, truncated or damaged
    │   └── CapExceeded            the next release would pass the cap
    ├── CertificateError           a certificate, release or run folder that does not hold together
    ├── OutputError                the output cannot be written (exists already, disk full, ...)
    └── MissingDependency          an optional library is needed here

No message ever holds a private value: errors about single rows exist only in `schema check`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class SimulacraError(Exception):
    """Base of everything this library raises on purpose."""


class SchemaError(SimulacraError):
    """The schema file is wrong or does not fit the method."""


class DataError(SimulacraError):
    """A file cannot be read, or is not what the schema describes."""


class SettingError(SimulacraError):
    """An unknown method or setting, or a value out of range."""


class BudgetError(SimulacraError):
    """An impossible promise."""


class PlanError(SimulacraError):
    """A question that is not in the plan, or a premise of the accounting that does not hold."""


class LedgerError(SimulacraError):
    """The ledger cannot be used."""


class LedgerLocked(LedgerError):
    """Another process holds the ledger."""


class LedgerBroken(LedgerError):
    """The ledger was edited, truncated or damaged."""


class CapExceeded(LedgerError):
    """The next release would pass the ledger's cap."""


class CertificateError(SimulacraError):
    """A certificate, release or run folder that does not hold together."""


class OutputError(SimulacraError):
    """The output cannot be written."""


class MissingDependency(SimulacraError):
    """An optional library is needed here."""


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean "x"?` for the closest known word, else the list of known words.

    >>> suggestion("epsilom", ["epsilon", "delta"])
    '; did you mean "epsilon"?'
    """
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1)
    if close:
        return f'; did you mean "{close[0]}"?'
    return f"; known: {', '.join(names)}" if names else ""

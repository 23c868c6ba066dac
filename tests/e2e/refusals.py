"""How every refusal on the command line looks, and a run to ask for where it must be refused."""

from __future__ import annotations

import tiny
from tiny import QUICK, SECRETS

FIT = ("fit", "people.csv", "--schema", "schema.toml", "--epsilon", "1", *QUICK, "--device", "cpu", "--out")


def refused(finished: tiny.Finished, *says: str) -> None:
    """The one way every refusal looks."""
    assert finished.code == 2, finished
    assert len(finished.lines) == 1, finished.err
    assert finished.err.startswith("simulacra: ")
    assert "Traceback" not in finished.err
    assert finished.out == ""
    for word in says:
        assert word in finished.err
    for secret in SECRETS:
        assert secret not in finished.out + finished.err

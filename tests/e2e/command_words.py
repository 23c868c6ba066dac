"""Words of commands that the tests of the command line share: a promise, and a quick run of invented people."""

from __future__ import annotations

import tiny
from tiny import QUICK, Cli

BUDGET = ("--epsilon", "5", "--delta", "1e-5")


def fit(cli: Cli, *words: object) -> tiny.Finished:
    return cli("fit", "people.csv", "--schema", "schema.toml", "--out", "run", *QUICK, "--device", "cpu", *words)

"""Flags that mean the same in every command."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from simulacra.methods import AUTO

Command = Callable[..., Any]

SEED = click.IntRange(0, 2**32 - 1)
"""What torch, numpy and scikit-learn all take."""


def flags(*names: str) -> Callable[[Command], Command]:
    """Add shared flags to a command, by name."""

    def add(command: Command) -> Command:
        for name in reversed(names):
            command = _FLAGS[name](command)
        return command

    return add


_FLAGS: dict[str, Callable[[Command], Command]] = {
    "schema": click.option(
        "--schema", type=click.Path(), help="Schema file (TOML), or dataset:NAME: all that is public."
    ),
    "method": click.option(
        "--method", default=AUTO, help="See: simulacra methods [default: pairs for tables, dp-merf for images]."
    ),
    "preset": click.option(
        "--preset", help="A paper's settings for a data set; --set changes them. See: simulacra methods."
    ),
    "epsilon": click.option("--epsilon", type=float, help="Privacy loss that is promised, e.g. 1."),
    "delta": click.option("--delta", type=float, default=1e-5, show_default=True, help="Failure probability."),
    "adjacency": click.option(
        "--adjacency",
        default="add-remove",
        show_default=True,
        help="Neighbouring relation: add-remove or replace-one.",
    ),
    "label": click.option("--label", help="Label column, if not the schema's."),
    "out": click.option("--out", type=click.Path(), required=True, help="New folder or file to write."),
    "ledger": click.option("--ledger", type=click.Path(), help="Ledger of the data set [default: DATA.ledger]."),
    "seed": click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of training; never of noise."),
    "device": click.option("--device", default="auto", show_default=True, help="cpu, cuda or auto."),
    "set": click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting of the method."),
    "not-private": click.option("--not-private", is_flag=True, help="Add no noise at all: no privacy whatsoever."),
    "resume": click.option("--resume", is_flag=True, help="Continue an interrupted run in --out."),
    "json": click.option("--json", "as_json", is_flag=True, help="Machine-readable output."),
}

"""DATA arguments: a file, a folder, or `dataset:NAME[:SPLIT]` for a known data set, which brings its schema along."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from simulacra.errors import SchemaError, SettingError
from simulacra.schema import Schema

if TYPE_CHECKING:
    from simulacra.methods.base import Method

PREFIX = "dataset:"


def data_and_schema(data: str, schema: str | None) -> tuple[Any, Schema]:
    """What DATA and --schema mean together."""
    if data.startswith(PREFIX):
        from simulacra import datasets

        name, _, split = data.removeprefix(PREFIX).partition(":")
        dataset = datasets.load(name, split or "train")
        return dataset.data, schema_of(schema) if schema else dataset.schema
    if schema is None:
        raise SchemaError(f'which schema? Say --schema FILE; write one with: simulacra schema draft "{data}"')
    return data, schema_of(schema)


def schema_of(text: str) -> Schema:
    """What --schema means: a file, or dataset:NAME for the schema of a known data set."""
    if text.startswith(PREFIX):
        from simulacra import datasets

        return datasets.schema(text.removeprefix(PREFIX))
    return Schema.load(text)


def refuse_as_public(data: str, method: Method) -> None:
    """Private records must not have taught the public networks that look at them: nothing would be promised then.

    `data` is dataset:NAME: only a known data set has a name to go by. All its splits are refused, as what a network
    makes of a test set is in the file of its weights.
    """
    from simulacra.datasets import same_people

    name = data.removeprefix(PREFIX).partition(":")[0]
    for public in method.learned_from():
        if same_people(name, public):
            raise SettingError(
                f'"{name}" is private here, and a public network or projection was learned from "{public}": '
                "nothing could be promised; choose one of other data"
            )


def data_for(data: str, split: str = "train") -> Any:
    """DATA where the schema is known already; `split` is meant where a known data set is named without one."""
    return data_and_schema(with_split(data, split), None)[0] if data.startswith(PREFIX) else data


def with_split(data: str, split: str) -> str:
    """dataset:NAME is dataset:NAME:SPLIT; anything else is left as it is."""
    named = data.startswith(PREFIX) and ":" not in data.removeprefix(PREFIX)
    return f"{data}:{split}" if named else data


def ledger_name(data: str, ledger: str | None) -> str | None:
    """The ledger of a known data set is named after it; its splits overlap and share one."""
    if ledger is None and data.startswith(PREFIX):
        return f"{data.removeprefix(PREFIX).partition(':')[0]}.ledger"
    return ledger


data_argument = click.argument("data", metavar="DATA")

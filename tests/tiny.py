"""Tiny invented data and schemas, and a command line that runs in this process: what end-to-end tests share."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from simulacra.schema import Schema

SECRETS = ("987654321", "Zyxwvutsrq")
"""A number and a text that stand in every invented table; no message may ever repeat them."""

SETTINGS = {"pairs": 20, "training.steps": 6, "training.batch": 64, "generator.hidden": "16"}
METHOD = "dp-merf"
"""For tests that are about something else: for tables and images, labelled or not, and trained in steps."""
QUICK = ("--method", METHOD, *(word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")))
"""Small enough to train in a blink."""

PEOPLE = """
label = "buys"
unit = "person"

[columns.age]
type = "numeric"
lower = 0
upper = 100
integer = true

[columns.income]
type = "numeric"
lower = 0
upper = 200000
log = true
missing = true

[columns.town]
type = "categorical"
values = ["north", "south"]
other = true

[columns.member]
type = "boolean"
missing = true

[columns.joined]
type = "datetime"
lower = 2010-01-01
upper = 2020-12-31
missing = true

[columns.buys]
type = "categorical"
values = ["no", "yes"]
"""

UNLABELLED = PEOPLE.replace('label = "buys"\n', "")

PICTURES = """
unit = "picture"

[image]
height = 8
width = 8
channels = 1
classes = ["dark", "light"]
"""


def people(rows: int = 120, seed: int = 0) -> pd.DataFrame:
    """A table of every kind of column, with missing values and two secrets that do not fit the schema."""
    random = np.random.default_rng(seed)
    age = random.integers(18, 91, rows)
    income = pd.array(random.integers(0, 150_000, rows), dtype="Int64")
    income[random.random(rows) < 0.1] = pd.NA
    frame = pd.DataFrame(
        {
            "age": age,
            "income": income,
            "town": random.choice(["north", "south", "west"], rows),
            "member": pd.array(random.random(rows) < 0.5, dtype="boolean"),
            "joined": pd.Timestamp("2010-01-01") + pd.to_timedelta(random.integers(0, 4000, rows), unit="D"),
            "buys": np.where(age + random.normal(0, 10, rows) > 55, "yes", "no"),
        }
    )
    frame.loc[frame.index % 11 == 3, ["member", "joined"]] = None
    frame.loc[1, "income"] = int(SECRETS[0])
    frame.loc[2, "town"] = SECRETS[1]
    return frame


def pictures(count: int = 60, seed: int = 0) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Dark and light grey squares of 8 x 8 pixels."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 2, count)
    pixels = random.integers(0, 90, (count, 8, 8)) + 160 * labels[:, None, None]
    return pixels.astype(np.uint8), labels


def png_folder(folder: Path, count: int = 20, size: int = 8) -> Path:
    """The same as PNG files, in a subfolder per class."""
    from PIL import Image

    images, labels = pictures(count)
    for name in ("dark", "light"):
        (folder / name).mkdir(parents=True)
    for number, (image, label) in enumerate(zip(images, labels, strict=True)):
        Image.fromarray(np.resize(image, (size, size))).save(folder / ("dark", "light")[label] / f"{number}.png")
    return folder


def schema(text: str) -> Schema:
    """A schema from TOML text."""
    import tomllib

    from simulacra.schema.toml import from_mapping

    return from_mapping(tomllib.loads(text))


@dataclass(frozen=True)
class Finished:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output, which must be exactly one JSON document."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        """Standard error, line by line."""
        return self.err.splitlines()


Cli = Callable[..., Finished]


def reservations(ledger: Path) -> int:
    """How often something was spent, going by the file."""
    if not ledger.exists():
        return 0
    return sum(json.loads(line)["kind"] != "open" for line in ledger.read_text().splitlines())

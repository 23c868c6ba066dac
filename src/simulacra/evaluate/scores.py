"""Scores: what an evaluation found, ready for JSON, and the reminder that it is not covered by the guarantee."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from simulacra.errors import DataError

NO_CLASSIFIER = "none"
"""In place of a classifier's name: train none."""

COMPUTED_ON = "real data, outside the privacy guarantee"


@dataclass(frozen=True, kw_only=True)
class Scores:
    """The result of `evaluate_table` or `evaluate_images`.

    `scores` is flat, name to finite number; `details` holds the figures per classifier and per column; `notes` says in
    words whatever a reader must know to read the numbers, such as a classifier that could not be trained.
    """

    scores: dict[str, float]
    details: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    computed_on: str = COMPUTED_ON

    def __post_init__(self) -> None:
        for name, value in self.scores.items():
            if not math.isfinite(value):
                raise ValueError(f'score "{name}" is not a finite number; leave it out and write a note instead')

    def to_mapping(self) -> dict[str, Any]:
        """Plain values that `from_mapping` reads back to an equal object."""
        return {
            "scores": dict(self.scores),
            "details": dict(self.details),
            "notes": list(self.notes),
            "computed_on": self.computed_on,
        }

    def to_json(self) -> str:
        """A JSON object with `scores`, `details`, `notes` and `computed_on`."""
        return json.dumps(self.to_mapping(), indent=2, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Scores:
        """Read back what `to_mapping` gave."""
        try:
            return cls(
                scores={str(name): float(value) for name, value in values["scores"].items()},
                details=dict(values.get("details", {})),
                notes=[str(note) for note in values.get("notes", [])],
                computed_on=str(values.get("computed_on", COMPUTED_ON)),
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise DataError("scores are damaged: expected an object with scores, details and notes") from error

    @classmethod
    def from_json(cls, text: str) -> Scores:
        """Read back what `to_json` gave."""
        try:
            values = json.loads(text)
        except json.JSONDecodeError:
            raise DataError("scores are damaged: not valid JSON; run evaluate again") from None
        if not isinstance(values, dict):
            raise DataError("scores are damaged: expected a JSON object; run evaluate again")
        return cls.from_mapping(values)


def merged(parts: Iterable[Scores]) -> Scores:
    """Several sets of scores with different names as one."""
    scores: dict[str, float] = {}
    details: dict[str, Any] = {}
    notes: list[str] = []
    for part in parts:
        scores |= part.scores
        details |= part.details
        notes += [note for note in part.notes if note not in notes]
    return Scores(scores=scores, details=details, notes=notes)

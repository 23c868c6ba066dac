"""The promise in plain words: what epsilon and delta mean for one person, with numbers that follow from them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from simulacra.report.charts import NARROW, number

MEANING_OF_REAL = (
    "Computed on real data: not covered by the guarantee. Do not publish unless the test rows may be published."
)

THE_RECORD_ITSELF = ("record", "row", "image")
"""Units that have no record, because they are one."""


@dataclass(frozen=True, kw_only=True)
class Promise:
    """The headline of a report and the sentences below it."""

    private: bool
    headline: str
    sentences: tuple[str, ...]


def best_guess(certificate: Mapping[str, Any]) -> float | None:
    """The highest share of right guesses that anyone can reach between two equally likely neighbouring data sets.

    Under (epsilon, delta) the false positives and false negatives of any test add up to at least
    2 (1 - delta) / (1 + e^epsilon) (Kairouz et al. 2015), so that a coin toss is guessed with at most
    (e^epsilon + delta) / (1 + e^epsilon); every point of the curve is such a bound and the least one holds.
    """
    points = [(certificate.get("epsilon"), certificate.get("delta"))]
    points += [(point.get("epsilon"), point.get("delta")) for point in certificate.get("curve") or ()]
    bounds = []
    for epsilon, delta in points:
        if epsilon is None or delta is None or not 0 <= delta <= 1 or epsilon < 0:
            continue
        bounds.append(1 - (1 - delta) / (1 + math.exp(min(epsilon, 700.0))))
    return min(bounds) if bounds else None


def promise(certificate: Mapping[str, Any]) -> Promise:
    """What a reader should know first."""
    epsilon, delta = certificate.get("epsilon"), certificate.get("delta")
    unit = str(certificate.get("unit") or "record")
    if not certificate.get("private") or epsilon is None or delta is None:
        return Promise(
            private=False,
            headline="NOT PRIVATE",
            sentences=(
                "This run promises nothing. It was made without valid privacy noise, for comparison only.",
                "Treat the generator, the samples and this file like the original records.",
            ),
        )
    whose = f"one {unit}" if unit in THE_RECORD_ITSELF else f"one {unit}'s record"
    replace = certificate.get("adjacency") == "replace-one"
    change = "replaced by another" if replace else "left out or added"
    sentences = [
        f"Whatever is computed from this release would have come out almost as likely with {whose} {change}.",
        # Delta is added; it is not how often the factor fails, which under Gaussian noise is oftener.
        f"The probability of any outcome, and of anything that follows from it, is at most {_factor(epsilon)} times (e "
        f"to the power of epsilon) what it would have been then, plus {number(delta)} (delta), whatever else an "
        "observer knows.",
    ]
    guess = best_guess(certificate)
    if guess is not None:
        question = f"which of two values {whose} has" if replace else f"whether {whose} was used at all"
        sentences.append(
            f"Put as a game: asked {question}, when both answers are equally likely, nobody can be right more than "
            f"{_share(guess)} of the time. Tossing a coin is right {_share(0.5)} of the time."
        )
    if epsilon > 8:
        sentences.append("This epsilon is large: on its own it promises little. Look at the bound of the game above.")
    return Promise(private=True, headline="Differentially private", sentences=tuple(sentences))


def adjacency_words(certificate: Mapping[str, Any]) -> str:
    """What the two data sets that may not be told apart differ in."""
    unit = certificate.get("unit") or "record"
    if certificate.get("adjacency") == "replace-one":
        return f"replace-one: data sets of the same size in which one {unit} differs"
    if certificate.get("adjacency") == "add-remove":
        return f"add-remove: data sets of which one has one {unit} more"
    return str(certificate.get("adjacency") or "not stated")


def _factor(epsilon: float) -> str:
    # Rounded up to three digits: a bound must not be stated tighter than it is.
    if epsilon >= 25:
        return "more than 10^10"
    factor = math.exp(epsilon)
    unit = 10.0 ** min(0, math.floor(math.log10(factor)) - 2)
    return f"{math.ceil(factor / unit - 1e-9) * unit:,.10g}"


def _share(value: float) -> str:
    # Rounded up, for the same reason.
    text = f"{math.ceil(value * 1000 - 1e-9) / 10:.3g} %" if value < 0.999 else "practically 100 %"
    return text.replace(" %", NARROW + "%")

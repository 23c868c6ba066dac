"""Small pictures as inline SVG, drawn by hand: no library, no script, colours from the page's own style sheet.

Every function returns safe markup; every text that goes in is escaped, since column names and categories may be
hostile.
Synthetic shares are filled shapes and real shares are lines, so that no reading depends on colour.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from markupsafe import Markup, escape

WIDTH = 320
NARROW = "\u00a0"
"""A space at which no line breaks."""


def number(value: object, digits: int = 4) -> str:
    """A short text for a number: four significant digits, thousands apart, tiny and huge ones as powers of ten.

    >>> number(0.00001), number(1234567.0), number(3.7300001), number(None)
    ('1e-5', '1,234,567', '3.73', '–')
    """
    if value is None:
        return "–"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    if not math.isfinite(value):
        return "∞" if value > 0 else ("-∞" if value < 0 else "–")
    if value == int(value) and abs(value) < 1e12:
        return f"{int(value):,}"
    if abs(value) >= 1e4 and abs(value) < 1e12:
        return f"{value:,.0f}"
    return re.sub(r"e([+-])0*", lambda match: "e" + match[1].strip("+"), f"{value:.{digits}g}")


def fixed(value: float | None) -> str:
    """Three decimals, so that the figures of a column line up; a dash for none."""
    return "–" if value is None else f"{value:.3f}"


def percent(share: float) -> str:
    """A share in per cent; a tiny one is not rounded away to nothing."""
    text = "0 %" if share <= 0 else ("< 0.1 %" if share < 0.001 else f"{100 * share:.1f} %")
    return text.replace(" ", NARROW)


def histogram(shares: Sequence[float], real: Sequence[float] | None, *, ends: tuple[str, str], label: str) -> Markup:
    """Bars for the bins of an ordered column, real shares as a stepped line, and the two ends named below."""
    height, base, top = 130, 108, 8
    step = (WIDTH - 4) / max(1, len(shares))
    scale = (base - top) / max([*shares, *(real or []), 1e-12])
    body = [line_of(2, base, WIDTH - 2, base, "axis")]
    for index, share in enumerate(shares):
        body.append(_rect(2 + index * step + 0.5, base - share * scale, max(0.5, step - 1), share * scale, "synthetic"))
    if real:
        points = []
        for index, share in enumerate(real):
            y = base - share * scale
            points += [f"{2 + index * step:.1f},{y:.1f}", f"{2 + (index + 1) * step:.1f},{y:.1f}"]
        body.append(Markup('<polyline class="real-line" points="{}"/>').format(" ".join(points)))
    body.append(text_at(2, height - 6, _clip(ends[0], 24)))
    body.append(text_at(WIDTH - 2, height - 6, _clip(ends[1], 24), "end"))
    return svg(WIDTH, height, label, body)


def bars(names: Sequence[str], shares: Sequence[float], real: Sequence[float] | None, *, label: str) -> Markup:
    """One horizontal bar per category, with a tick where the real share lies."""
    row, left, right = 20, 116, 52
    room = WIDTH - left - right
    scale = room / max([*shares, *(real or []), 1e-12])
    body: list[Markup] = []
    for index, (name, share) in enumerate(zip(names, shares, strict=True)):
        y = index * row + 3
        body.append(text_at(left - 6, y + 11, _clip(name, 16), "end", "name"))
        body.append(_rect(left, y, share * scale, row - 7, "synthetic"))
        if real:
            x = left + real[index] * scale
            body.append(line_of(x, y - 2, x, y + row - 5, "real-line"))
        body.append(text_at(WIDTH - 2, y + 11, percent(share), "end", "quiet"))
    return svg(WIDTH, len(names) * row + 4, label, body)


def curve(
    points: Sequence[tuple[float, float]],
    *,
    label: str,
    titles: tuple[str, str],
    log_y: bool = False,
    mark: tuple[float, float] | None = None,
) -> Markup:
    """A line through points, with the ends of both axes labelled and, if asked for, one point marked."""
    width, height, left, right, top, bottom = 420, 230, 58, 14, 24, 40
    usable = [(x, y) for x, y in points if math.isfinite(x) and math.isfinite(y) and (y > 0 or not log_y)]
    if not usable:
        return Markup('<p class="quiet">No points to draw.</p>')
    if mark is not None and (mark[1] > 0 or not log_y):
        usable.append(mark)
    usable.sort()
    heights = [math.log10(y) if log_y else y for _, y in usable]
    low, high = min(heights), max(heights)
    if log_y:
        low, high = math.floor(low), math.ceil(high)
    if high - low < 1e-12:
        low, high = low - 0.5, high + 0.5
    first, last = usable[0][0], usable[-1][0]
    span = last - first or 1.0

    def place(x: float, y: float) -> tuple[float, float]:
        level = math.log10(y) if log_y else y
        return (
            left + (x - first) / span * (width - left - right),
            top + (high - level) / (high - low) * (height - top - bottom),
        )

    body: list[Markup] = []
    for tick in ticks(low, high, whole=log_y):
        y = top + (high - tick) / (high - low) * (height - top - bottom)
        body.append(line_of(left, y, width - right, y, "grid-line"))
        body.append(text_at(left - 6, y + 4, f"1e{tick:.0f}" if log_y else number(tick, 3), "end"))
    for tick in ticks(first, last):
        x = left + (tick - first) / span * (width - left - right)
        body.append(text_at(x, height - bottom + 18, number(tick, 3), "middle"))
    body.append(line_of(left, height - bottom, width - right, height - bottom, "axis"))
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in usable))
    body.append(Markup('<polyline class="synthetic-line" points="{}"/>').format(path))
    if mark is not None and (mark[1] > 0 or not log_y):
        x, y = place(*mark)
        body.append(Markup('<circle class="mark" cx="{}" cy="{}" r="5"/>').format(f"{x:.1f}", f"{y:.1f}"))
    body.append(text_at(width - right, height - 5, titles[0], "end", "quiet"))
    body.append(text_at(4, 13, titles[1], "start", "quiet"))
    return svg(width, height, label, body, "chart wide")


def split(parts: Sequence[tuple[str, float]], *, label: str) -> Markup:
    """One bar cut into shares that add up to 1; the same order and patterns as the list beside it."""
    width, height = 640, 30
    body: list[Markup] = []
    x = 0.0
    for index, (_, share) in enumerate(parts):
        body.append(_rect(x, 0, max(0.0, share * width - 2), height, f"part part-{index % 6}"))
        x += share * width
    return svg(width, height, label, body, "chart split")


def gauge_bar(share: float, *, label: str) -> Markup:
    """How full something is: a filled part of a framed bar."""
    width, height = 640, 22
    filled = max(0.0, min(1.0, share)) * width
    body = [_rect(0, 0, width, height, "track"), _rect(0, 0, filled, height, "synthetic" if share < 1 else "weak")]
    return svg(width, height, label, body, "chart split")


def versus(rows: Sequence[tuple[str, float]], *, label: str, threshold: float | None = None) -> Markup:
    """Ratios of signal to noise on a log scale: bars to the right of the middle line are mostly signal.

    A ratio that is wanted is marked by a dashed line, which bars cross that reach it.
    """
    row, left, width, right = 22, 120, 420, 84
    shown = [ratio for _, ratio in rows if ratio > 0] + ([] if threshold is None else [threshold])
    reach = max([abs(math.log10(ratio)) for ratio in shown] + [0.5]) * 1.05
    middle = left + (width - left - right) / 2
    scale = (width - left - right) / 2 / reach
    body = [line_of(middle, 0, middle, len(rows) * row, "axis")]
    for index, (name, ratio) in enumerate(rows):
        length = math.log10(ratio) * scale if ratio > 0 else -(width - left - right) / 2
        y = index * row + 4
        kind = "synthetic" if length >= 0 else "weak"
        body.append(_rect(min(middle, middle + length), y, max(1.0, abs(length)), row - 8, kind))
        body.append(text_at(left - 6, y + 11, _clip(name, 16), "end", "name"))
        words = f"{_rounded(ratio)} : 1" if ratio >= 1 else (f"1 : {_rounded(1 / ratio)}" if ratio > 0 else "none")
        body.append(text_at(width - 2, y + 11, words, "end", "quiet"))
    if threshold is not None:
        x = middle + math.log10(threshold) * scale
        body.append(line_of(x, 0, x, len(rows) * row, "threshold"))
    return svg(width, len(rows) * row, label, body, "chart wide")


def _rounded(ratio: float) -> str:
    return f"{ratio:.1f}" if ratio < 10 else number(round(ratio))


def ticks(low: float, high: float, *, whole: bool = False) -> list[float]:
    """Three to six round numbers between two ends."""
    span = high - low
    if span <= 0:
        return [low]
    step = 10 ** math.floor(math.log10(span / 4))
    step = next(step * factor for factor in (1, 2, 5, 10) if span / (step * factor) <= 5)
    if whole:
        step = max(1, math.ceil(step))
    first = math.ceil(low / step - 1e-9)
    return [round(k * step, 12) for k in range(first, math.floor(high / step + 1e-9) + 1)]


def svg(width: float, height: float, label: str, body: Sequence[Markup], kind: str = "chart") -> Markup:
    opening = Markup('<svg class="{}" viewBox="0 0 {} {}" role="img" aria-label="{}">').format(
        kind, width, height, label
    )
    return opening + Markup("").join(body) + Markup("</svg>")


def _rect(x: float, y: float, width: float, height: float, kind: str) -> Markup:
    return Markup('<rect class="{}" x="{}" y="{}" width="{}" height="{}"/>').format(
        kind, f"{x:.1f}", f"{y:.1f}", f"{width:.1f}", f"{height:.1f}"
    )


def line_of(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    return Markup('<line class="{}" x1="{}" y1="{}" x2="{}" y2="{}"/>').format(
        kind, f"{x1:.1f}", f"{y1:.1f}", f"{x2:.1f}", f"{y2:.1f}"
    )


def text_at(x: float, y: float, text: str, anchor: str = "start", kind: str = "") -> Markup:
    return Markup('<text class="{}" x="{}" y="{}" text-anchor="{}">{}</text>').format(
        kind, f"{x:.1f}", f"{y:.1f}", anchor, escape(text)
    )


def _clip(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"

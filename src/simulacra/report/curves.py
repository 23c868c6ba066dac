"""Lines over epsilon, one per method: told apart by colour, by dashes and by the shape of their points."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from markupsafe import Markup

from simulacra.report.charts import NARROW, line_of, number, svg, text_at, ticks

Point = tuple[float, float, float]
"""Epsilon, mean, standard deviation (0 if there is none)."""

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 520, 280, 62, 18, 26, 42
CLOSE = 0.1
"""Epsilons within a quarter of one another are not drawn at the two ends of the picture."""
ROOM = 30
"""Between two figures below the axis."""
CORNERS = {
    "square": ((-4, -4), (4, -4), (4, 4), (-4, 4)),
    "diamond": ((0, -6), (6, 0), (0, 6), (-6, 0)),
    "triangle": ((0, -6), (6, 5), (-6, 5)),
    "hourglass": ((-5, -5), (5, -5), (-5, 5), (5, 5)),
}
SHAPES = ("circle", "square", "diamond", "triangle", "hourglass", "ring")


def lines_over_epsilon(lines: Sequence[tuple[str, Sequence[Point]]], *, label: str, title: str) -> Markup:
    """A chart with a logarithmic axis of epsilon, bars of one standard deviation, and a shape per line."""
    points = [point for _, line in lines for point in line]
    if not points:
        return Markup('<p class="quiet">No points to draw.</p>')
    xs = [math.log10(epsilon) for epsilon, _, _ in points]
    lows, highs = [y - s for _, y, s in points], [y + s for _, y, s in points]
    first, last = min(xs), max(xs)
    if last - first < CLOSE:
        first, last = first - 0.5, last + 0.5
    low, high = min(lows), max(highs)
    margin = 0.06 * (high - low) or 0.05 * max(abs(high), 1e-3)
    low, high = low - margin, high + margin

    def place(epsilon: float, value: float) -> tuple[float, float]:
        return (
            LEFT + (math.log10(epsilon) - first) / (last - first) * (WIDTH - LEFT - RIGHT),
            TOP + (high - value) / (high - low) * (HEIGHT - TOP - BOTTOM),
        )

    body: list[Markup] = []
    for tick in ticks(low, high):
        y = place(10**first, tick)[1]
        body += [line_of(LEFT, y, WIDTH - RIGHT, y, "grid-line"), text_at(LEFT - 6, y + 4, number(tick, 3), "end")]
    free = 0.0
    for epsilon in sorted({epsilon for epsilon, _, _ in points}):
        x = place(epsilon, low)[0]
        if x >= free:  # an epsilon that was calibrated to 4.9995 is close beside 5
            body.append(text_at(x, HEIGHT - BOTTOM + 18, number(epsilon, 3), "middle"))
            free = x + ROOM
    body.append(line_of(LEFT, HEIGHT - BOTTOM, WIDTH - RIGHT, HEIGHT - BOTTOM, "axis"))
    for index, (_, line) in enumerate(lines):
        body += _one_line(index, sorted(line), place)
    body.append(text_at(WIDTH - RIGHT, HEIGHT - 6, f"epsilon (log{NARROW}scale)", "end", "quiet"))
    body.append(text_at(4, 14, title, "start", "quiet"))
    return svg(WIDTH, HEIGHT, label, body, "chart wide")


def marker(index: int) -> Markup:
    """The shape of a line by itself, for the legend."""
    return Markup('<svg class="key" viewBox="0 0 16 16" role="img" aria-label="mark {}">{}</svg>').format(
        SHAPES[index % len(SHAPES)], _shape(index, 8, 8)
    )


def _one_line(
    index: int, points: Sequence[Point], place: Callable[[float, float], tuple[float, float]]
) -> list[Markup]:
    body: list[Markup] = []
    placed = [place(epsilon, value) for epsilon, value, _ in points]
    if len(placed) > 1:
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
        body.append(Markup('<polyline class="line line-{}" points="{}"/>').format(index % 6, path))
    for (epsilon, value, spread), (x, y) in zip(points, placed, strict=True):
        if spread > 0:
            top, bottom = place(epsilon, value + spread)[1], place(epsilon, value - spread)[1]
            body.append(line_of(x, top, x, bottom, f"line line-{index % 6} bar"))
        body.append(_shape(index, x, y))
    return body


def _shape(index: int, x: float, y: float) -> Markup:
    kind, name = f"point point-{index % 6}", SHAPES[index % len(SHAPES)]
    corners = CORNERS.get(name)
    if corners is None:
        extra = " hollow" if name == "ring" else ""
        return Markup('<circle class="{}" cx="{}" cy="{}" r="5"/>').format(kind + extra, f"{x:.1f}", f"{y:.1f}")
    path = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in corners)
    return Markup('<polygon class="{}" points="{}"/>').format(kind, path)

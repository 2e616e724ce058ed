"""Bar and line charts as SVG text: what the results page needs, and no more."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDTH = 760
LEFT = 230
RIGHT = 110
ROW = 26
TOP = 56
INK, GREY, OURS, THEIRS = "#222222", "#777777", "#2f6fb0", "#b8c4d0"
COLOURS = (OURS, "#c8553d", "#588157", "#8d6cab")


@dataclass(frozen=True)
class Bar:
    """One bar. low and high: the ends of its whisker. ours: drawn in the strong colour."""

    label: str
    value: float
    low: float
    high: float
    ours: bool = False


def shown(value: float) -> str:
    """Return a figure with three digits that count."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else "–"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{digits}f}" if abs(value) < 1000 else f"{value:,.0f}"


def bars(title: str, unit: str, rows: Sequence[Bar]) -> str:
    """Return a chart of horizontal bars with the spread of the rounds."""
    top = max((row.high for row in rows), default=0.0) or 1.0
    scale = (WIDTH - LEFT - RIGHT) / top
    parts = []
    for number, row in enumerate(rows):
        y, length = TOP + number * ROW, row.value * scale
        middle, colour = y + ROW / 2 - 3, OURS if row.ours else THEIRS
        parts += [
            _text(LEFT - 8, middle + 4, row.label, "end"),
            f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{ROW - 8}" fill="{colour}"/>',
            _line(LEFT + row.low * scale, middle, LEFT + row.high * scale, middle, INK),
            _text(LEFT + max(length, row.high * scale) + 6, middle + 4, shown(row.value)),
        ]
    return _document(title, unit, TOP + len(rows) * ROW + 12, parts)


def lines(title: str, unit: str, series: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Return a chart of lines over a logarithmic x axis; y begins at 0."""
    points = [point for row in series.values() for point in row]
    top = max((y for _, y in points), default=0.0) * 1.1 or 1.0
    low, high = (math.log10(f(x for x, _ in points)) for f in (min, max)) if points else (0.0, 1.0)
    bottom, height, left = 300, 300 - TOP, 70

    def place(x: float, y: float) -> tuple[float, float]:
        across = (math.log10(x) - low) / ((high - low) or 1.0)
        return left + across * (WIDTH - left - 190), bottom - y / top * height

    parts = [_line(left, bottom, WIDTH - 190, bottom, GREY), _line(left, TOP, left, bottom, GREY)]
    parts += [_text(left - 6, bottom - part * height + 4, shown(top * part), "end") for part in (0.0, 0.5, 1.0)]
    parts += [_text(place(x, 0)[0], bottom + 18, f"{x:,.0f}", "middle") for x in sorted({x for x, _ in points})]
    for number, (name, row) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        where = [place(x, y) for x, y in row]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in where)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in where]
        parts.append(_text(WIDTH - 180, TOP + 16 * number, name, colour=colour))
    return _document(title, unit, bottom + 34, parts)


def _line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def _text(x: float, y: float, text: str, anchor: str = "start", colour: str = INK) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(text)}</text>'


def _document(title: str, unit: str, height: float, parts: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" role="img" '
        'font-family="sans-serif" font-size="13">'
    )
    paper = f'<rect width="{WIDTH}" height="{height:.0f}" fill="#ffffff"/>'
    big = f'<text x="12" y="22" font-size="16" fill="{INK}">{escape(title)}</text>'
    titles = [f"<title>{escape(title)}</title>", paper, big, _text(12, 40, unit, colour=GREY)]
    return "\n".join([head, *titles, *parts, "</svg>", ""])

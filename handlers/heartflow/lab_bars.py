"""Horizontal bars as SVG, coloured by the page's style sheet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_WIDTH, _LEFT, _RIGHT, _ROW, _TOP = 460, 176, 60, 26, 30
_NAME_CHARS = 22


@dataclass(frozen=True)
class Bar:
    """One bar of several parts, each a name (its CSS class) and a number from 0 up."""

    name: str
    parts: tuple[tuple[str, float], ...]

    @property
    def sum(self) -> float:
        """Return its whole length."""
        return sum(value for _, value in self.parts)


def chart(title: str, bars: Sequence[Bar]) -> str:
    """Return the chart, "" when there is nothing to draw."""
    if not bars:
        return ""
    scale = (_WIDTH - _LEFT - _RIGHT) / (max(bar.sum for bar in bars) or 1.0)
    rows = "".join(_row(bar, _TOP + at * _ROW, scale) for at, bar in enumerate(bars))
    height = _TOP + len(bars) * _ROW + 6
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(title)}">'
        f'<text class="title" x="0" y="16">{escape(title)}</text>{rows}</svg>\n'
    )


def _row(bar: Bar, top: float, scale: float) -> str:
    name = bar.name if len(bar.name) <= _NAME_CHARS else f"{bar.name[: _NAME_CHARS - 1]}…"
    drawn, left = "", float(_LEFT)
    for kind, value in bar.parts:
        width = value * scale
        if value:
            drawn += (
                f'<rect class="{escape(kind)}" x="{left:.1f}" y="{top + 3}" width="{width:.1f}" height="18">'
                f"<title>{escape(kind)}: {value:,.0f}</title></rect>"
            )
        left += width
    return (
        f'<text class="name" x="{_LEFT - 8}" y="{top + 17}">{escape(name)}</text>{drawn}'
        f'<text x="{left + 6:.1f}" y="{top + 17}">{bar.sum:,.0f}</text>'
    )

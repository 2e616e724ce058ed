"""The neighbourhood of a topic as one SVG: no script, nothing loaded, readable on light and dark ground."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 1120, 940
_CENTRE = WIDTH / 2, HEIGHT / 2
_RINGS = (250.0, 395.0)
_NAME_CHARS = 22
_STYLE = """
svg { background: var(--ground); font: 14px system-ui, sans-serif; max-width: 100%; height: auto }
:root, svg { --ground: #ffffff; --ink: #1b1f24; --line: #8b98a5; --node: #dfe9f5; --rim: #3b6ea5; --main: #ffd98a }
@media (prefers-color-scheme: dark) {
  :root, svg { --ground: #14171a; --ink: #e8eaed; --line: #66717d; --node: #24384d; --rim: #7fb2e5; --main: #8a6414 }
}
.edge { stroke: var(--line) } .relation { stroke-dasharray: 6 4 }
.node { fill: var(--node); stroke: var(--rim); stroke-width: 1.5 } .main { fill: var(--main) }
text { fill: var(--ink); text-anchor: middle; paint-order: stroke; stroke: var(--ground); stroke-width: 4px }
.weight { font-size: 11px; opacity: .75 }
"""


@dataclass(frozen=True)
class Node:
    """A topic. ring: 0 in the middle, 1 its neighbours, 2 theirs; parent: the node of ring 1 it hangs on."""

    id: str
    name: str
    ring: int
    parent: str = ""
    strength: float = 1.0


@dataclass(frozen=True)
class Line:
    """An association between two nodes; weight in [0, 1], decayed."""

    source: str
    target: str
    weight: float
    type: str


def svg(nodes: Sequence[Node], lines: Sequence[Line], *, title: str) -> str:
    """Return the drawing as SVG text; nodes[0] stands in the middle."""
    places = placed(nodes)
    drawn = [_line(line, places) for line in lines if line.source in places and line.target in places]
    drawn += [_node(node, *places[node.id]) for node in nodes]
    body = "\n".join(drawn)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        'role="img">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n{body}\n</svg>\n"
    )


def html(drawing: str, title: str, said: Sequence[str]) -> str:
    """Return a page with the drawing and, below it, what was said about the topic."""
    listed = "\n".join(f"<li>{escape(text)}</li>" for text in said)
    return (
        '<!doctype html>\n<html><head><meta charset="utf-8">'
        f'<title>{escape(title)}</title>\n<meta name="viewport" content="width=device-width">\n'
        f"<style>{_STYLE} body {{ background: var(--ground); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; "
        "max-width: 60rem; margin: 2rem auto; padding: 0 1rem }</style></head>\n"
        f"<body><h1>{escape(title)}</h1>\n{drawing}<ol>\n{listed}\n</ol></body></html>\n"
    )


def placed(nodes: Sequence[Node]) -> Mapping[str, tuple[float, float]]:
    """Return where each node stands: the first ring evenly around, the second one fanned out behind its parents."""
    inner = [node for node in nodes if node.ring == 1]
    angles = {node.id: 2 * math.pi * at / max(1, len(inner)) - math.pi / 2 for at, node in enumerate(inner)}
    places = {node.id: _CENTRE for node in nodes if node.ring == 0}
    places |= {id: _at(angle, _RINGS[0] * (1 if at % 2 == 0 or len(inner) < 9 else 0.78))
               for at, (id, angle) in enumerate(angles.items())}  # fmt: skip
    wide = 2 * math.pi / max(1, len(inner))
    for parent, angle in angles.items():
        children = [node for node in nodes if node.ring == 2 and node.parent == parent]
        for at, node in enumerate(children):
            places[node.id] = _at(
                angle + wide * ((at + 1) / (len(children) + 1) - 0.5), _RINGS[1] * (1 - 0.11 * (at % 2))
            )
    return places


def _at(angle: float, radius: float) -> tuple[float, float]:
    return _CENTRE[0] + radius * math.cos(angle), _CENTRE[1] + radius * math.sin(angle)


def _line(line: Line, places: Mapping[str, tuple[float, float]]) -> str:
    (x1, y1), (x2, y2) = places[line.source], places[line.target]
    kind = " relation" if line.type == "relation" else ""
    return (
        f'<line class="edge{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
        f'stroke-width="{1 + 5 * line.weight:.1f}"><title>{escape(line.type)} {line.weight:.2f}</title></line>'
    )


def _node(node: Node, x: float, y: float) -> str:
    radius = (26, 17, 11)[node.ring] * (0.7 + 0.3 * max(0.0, min(1.0, node.strength)))
    shown = node.name if len(node.name) <= _NAME_CHARS else f"{node.name[: _NAME_CHARS - 1]}…"
    main = " main" if node.ring == 0 else ""
    return (
        f'<g><title>{escape(node.name)}: strength {node.strength:.2f}</title><circle class="node{main}" cx="{x:.1f}" '
        f'cy="{y:.1f}" r="{radius:.1f}"/><text x="{x:.1f}" y="{y + radius + 15:.1f}">{escape(shown)}</text></g>'
    )

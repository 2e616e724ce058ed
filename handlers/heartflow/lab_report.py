"""A lab run, and the difference of two, as lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from unicodedata import east_asian_width

FIGURES = (
    ("precision", "precision", 3),
    ("recall", "recall", 3),
    ("f1", "F1", 3),
    ("main_call_ratio", "main calls per message", 3),
    ("token_ratio", "share of baseline tokens", 3),
    ("plain_token_ratio", "share of a plain bot's", 3),
)
"""Key, name and digits of the shares a report tells."""
COUNTS = (
    ("messages", "messages"),
    ("labelled", "labelled"),
    ("answered", "answered"),
    ("wrong", "wrong"),
    ("failed", "failed"),
    ("calls", "model calls"),
)
_TEXT, _REASON = 44, 60


def lines(run: Mapping[str, Any], *, every: bool = False) -> Iterator[str]:
    """Yield the report of a run. every: each message; else those that were engaged and those that were judged wrong."""
    yield from _totals(run)
    yield ""
    yield from table(
        ("layer", "engaged", "silent", "calls", "tokens in", "tokens out", "cost"),
        [_layer(one) for one in run["layers"]],
    )
    shown = [one for one in run["decisions"] if every or one["decision"] == "engage" or one["wrong"]]
    if shown:
        yield ""
        yield from table(("", "message", "sender", "text", "decision", "layer", "reason"), [_row(one) for one in shown])
    if left := len(run["decisions"]) - len(shown):
        yield f"({left} more stayed silent; --all shows them)"
        yield from _silences(run)


def changes(diff: Mapping[str, Any]) -> Iterator[str]:
    """Yield the difference of two runs: figures side by side, then each message whose decision changed."""
    yield from table(("", *diff["names"], "change"), [_compared(one) for one in diff["figures"]])
    yield ""
    if not diff["changed"]:
        yield "no decision changed"
    for one in diff["changed"]:
        label = f"  (label: {one['label']})" if one.get("label") else ""
        yield f"{one['message_id']}  {one['sender_name']}: {clipped(one['text'], 80)}{label}"
        for name, side in zip(diff["names"], (one["a"], one["b"]), strict=True):
            yield f"    {name}: {side['decision']} at {side['layer']}, {side['reason']}"
    for name, ids in zip(diff["names"], (diff["only_a"], diff["only_b"]), strict=True):
        if ids:
            yield f"only in {name}: {len(ids)} messages ({', '.join(ids[:5])}{', …' if len(ids) > 5 else ''})"


def figure(value: Any, digits: int = 3) -> str:
    """Return a number for the reader; – for what is unknown."""
    if value is None:
        return "–"
    return f"{value:.{digits}f}" if isinstance(value, float) else str(value)


def money(cost: float, unpriced: int) -> str:
    """Return US dollars, with a + where the price of some calls isn't known."""
    return f"${cost:.4f}{'+' if unpriced else ''}"


def table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield aligned lines, headers first; a Chinese or Japanese character is two columns wide."""
    every = [tuple(headers), *(tuple(row) for row in rows)]
    widths = [max(map(_width, column)) for column in zip(*every, strict=True)]
    for row in every:
        padded = (cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(padded).rstrip()


def clipped(text: str, columns: int) -> str:
    """Return `text` on one line of at most `columns` columns."""
    shown = " ".join(text.split())
    if _width(shown) <= columns:
        return shown
    while _width(shown) >= columns:
        shown = shown[:-1]
    return f"{shown}…"


def _totals(run: Mapping[str, Any]) -> Iterator[str]:
    for key, name in COUNTS:
        if key != "failed" or run[key]:
            yield f"{name:25} {run[key]}"
    for key, name, digits in FIGURES:
        yield f"{name:25} {figure(run[key], digits)}"
    tokens = run["tokens"]
    yield f"{'tokens':25} {tokens['in']} in, {tokens['out']} out"
    yield f"{'compared with':25} {tokens['baseline']} baseline, {tokens['plain']} plain bot"
    yield f"{'cost':25} {money(run['cost'], run['unpriced_calls'])}"


def _layer(one: Mapping[str, Any]) -> tuple[str, ...]:
    counts = (one[key] or "" for key in ("engaged", "silent", "calls", "tokens_in", "tokens_out"))
    return (one["layer"], *map(str, counts), money(one["cost"], one["unpriced"]) if one["calls"] else "")


def _row(one: Mapping[str, Any]) -> tuple[str, ...]:
    mark = "✗" if one["wrong"] else "✓" if one.get("label") else ""
    said = (clipped(one["sender_name"], 16), clipped(one["text"], _TEXT))
    return (mark, one["message_id"], *said, one["decision"], one["layer"], clipped(one["reason"], _REASON))


def _silences(run: Mapping[str, Any]) -> Iterator[str]:
    """Yield how often the chain stayed silent for each reason, by its first words."""
    counts: dict[tuple[str, str], int] = {}
    for one in run["decisions"]:
        if one["decision"] == "silent":
            kind = (one["layer"], kind_of(one["reason"]))
            counts[kind] = counts.get(kind, 0) + 1
    yield ""
    ranked = sorted(counts.items(), key=lambda item: -item[1])
    yield from table(("silent because of", "layer", "messages"), [(why, at, str(n)) for (at, why), n in ranked])


def kind_of(reason: str) -> str:
    """Return the stable beginning of a reason: the words before its colon, `score` for any score."""
    head = reason.partition(":")[0]
    return "score under the threshold" if head.startswith("score ") else clipped(head, _TEXT)


def _compared(one: Mapping[str, Any]) -> tuple[str, ...]:
    change = one["change"]
    shown = "" if not change else f"{change:+.3f}" if isinstance(change, float) else f"{change:+d}"
    return (one["name"], figure(one["a"]), figure(one["b"]), shown)


def _width(text: str) -> int:
    return sum(2 if east_asian_width(char) in "WF" else 1 for char in text)

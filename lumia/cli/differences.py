"""How `lumia replay` shows what differs: per run the steps, per step the fields, texts as a unified diff."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from lumia.cli import output
from lumia.replay import Difference, Summary, TreeReplay, Usage

WIDTH = 160
"""Characters of a value that are shown in a line; longer texts are shown as a diff, cut to lines that differ."""
MAX_LINES = 40
NOTHING = "nothing"


def lines_of(tree: TreeReplay) -> Iterator[tuple[str, str]]:
    """Yield (line, style) of everything that differs in a tree."""
    yield f"run {tree.root_id} {tree.id}", "bold"
    for place, found in groupby(tree.differences, key=_place):
        yield f"  {place}", "cyan"
        for difference in found:
            for text, style in _shown(difference):
                yield f"    {text}", style
    for note in tree.notes:
        yield f"  note: {note}", "dim"


def _place(difference: Difference) -> str:
    run = f"run {difference.run_id} {difference.id}"
    if difference.step is None:
        return run
    attempt = f", try {difference.attempt}" if difference.attempt > 1 else ""
    return f"{difference.handler} (step {difference.step}{attempt}) in {run}"


def _shown(difference: Difference) -> Iterator[tuple[str, str]]:
    then, now = difference.recorded, difference.replayed
    mark = "  (inexact: a secret was taken out of what it was given)" if difference.inexact else ""
    if isinstance(then, str) and isinstance(now, str) and ("\n" in then + now or len(then) + len(now) > WIDTH):
        yield f"{difference.field}:{mark}", ""
        yield from _diff(then, now)
        return
    yield f"{difference.field}: {_value(then)} → {_value(now)}{mark}", ""


def _diff(then: str, now: str) -> Iterator[tuple[str, str]]:
    found = list(difflib.unified_diff(then.splitlines(), now.splitlines(), "recorded", "replayed", lineterm="", n=1))
    styles = {"+": "green", "-": "red"}
    for line in found[2 : 2 + MAX_LINES]:
        yield f"  {_cut(line)}", styles.get(line[:1], "dim")
    if len(found) > 2 + MAX_LINES:
        yield f"  … {len(found) - 2 - MAX_LINES} more lines", "dim"


def _value(value: Any) -> str:
    if value is None:
        return NOTHING
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return _cut(", ".join(value) or NOTHING)
    return _cut(value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False, default=str))


def _cut(text: str) -> str:
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 1]}…"


def show(trees: Iterable[TreeReplay]) -> None:
    """Print what differs, on stdout; the colours are left out where that is no terminal."""
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True)
    for tree in trees:
        for line, style in lines_of(tree):
            console.print(line, style=style or None, markup=False)


def show_summary(summary: Summary) -> None:
    """Print the sums on stderr."""
    rows = [
        ("replayed", f"{summary.trees} run trees: {summary.runs} runs, {summary.steps} steps"),
        ("same", str(summary.same)),
        ("different", _counted(summary.different, summary.kinds)),
        *(("skipped", f"{number}: {why}") for why, number in sorted(summary.skipped.items())),
        ("tokens", f"{_tokens(summary.recorded)} recorded, {_tokens(summary.replayed)} replayed"),
        ("cost", f"${summary.recorded.cost:.4f} recorded, ${summary.replayed.cost:.4f} replayed"),
        ("time", f"{summary.seconds:.2f} s, {summary.rate:,.0f} runs/s"),
    ]
    for name, text in rows:
        output.note(f"{name:<10} {text}")


def _counted(number: int, kinds: dict[str, int]) -> str:
    found = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    return f"{number} ({found})" if found else str(number)


def _tokens(used: Usage) -> str:
    return f"{used.tokens_in:.0f}+{used.tokens_out:.0f}"

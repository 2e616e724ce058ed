"""A trace is drawn as a tree beside its time line, at any width and in any encoding."""

from __future__ import annotations

import io
import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from lumia.cli.drawing import Bar, drawn, scale, show, stretch
from lumia.trace import build
from tests.support.stories import Story, answered


def lines(width: int, story: Story | None = None) -> list[str]:
    return [line.plain for line in drawn(build((story or answered()[0]).entries), width=width)]


def test_the_tree_is_drawn_with_outcomes_reasons_times_and_bars() -> None:
    shown = lines(140)
    assert shown[0] == "answered: 1 message delivered at +2.39 s"
    row = next(line for line in shown if "TimeoutError" in line)
    assert row.startswith("├─ heartflow.think") and "retry" in row and "920 ms" in row and "████" in row
    assert any(line.startswith("│  └─ model reply") and "812→40 tokens, $0.00042" in line for line in shown)


@given(st.integers(40, 220))
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    table = lines(width)[4:]
    assert all(cell_len(line) <= width for line in table if "handler  ▒" not in line)


def test_wide_characters_keep_the_columns_aligned() -> None:
    story = Story()
    run = story.start("消息.接收")
    story.step(run, 0, "a.b", 10, "stop", reason="冷却" * 40).end(run, 10)
    rows = [line for line in lines(100, story)[4:] if " ms " in line and "handler" not in line][-2:]
    ends = {cell_len(row[: row.index(" ms")]) for row in rows}
    assert len(rows) == 2 and len(ends) == 1


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_an_encoding_without_line_drawing_gets_plain_characters(encoding: str) -> None:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding, errors="strict")
    show(build(answered()[0].entries), file, width=100)
    file.flush()
    assert "|- heartflow.think" in raw.getvalue().decode() and "###" in raw.getvalue().decode()


def test_colours_are_for_terminals_only() -> None:
    file = io.StringIO()
    show(build(answered()[0].entries), file, width=100)
    assert "\x1b" not in file.getvalue()


TIMES = st.floats(0, 1e7, allow_nan=False)


@given(TIMES, TIMES, st.floats(0.001, 1e7), st.integers(16, 200), st.sampled_from(["handler", "call", "wait", "run"]))
def test_every_bar_shows_and_fits(at: float, ms: float, rest: float, width: int, kind: str) -> None:
    text = stretch(Bar(kind, at, ms), at + ms + rest, width)
    assert 1 <= len(text) <= width and text.strip()


@given(st.floats(0.01, 1e8), st.integers(16, 200))
def test_a_scale_begins_at_zero_and_fits(span: float, width: int) -> None:
    text = scale(span, width)
    assert text.startswith("0") and len(text) <= width
    marks = [_ms(mark) for mark in text.split("  ") if mark.strip()]
    assert all(one < other for one, other in pairwise(marks))


def _ms(mark: str) -> float:
    number, _, unit = mark.strip().partition(" ")
    return float(number) * {"": 1, "ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}[unit]


def test_what_operators_did_stands_above_the_tree() -> None:
    story = Story()
    run = story.start()
    story.tell("cancel", run, 500, reason="wrong group")
    story.tell("dead", run, 900, step=0, handler="a.b", reason="no").end(run, 900, "failed")
    story.tell("dead", run, 90_000, step=0, handler="a.b", outcome="retried", reason="as run 01xyz")
    shown = "\n".join(lines(120, story))
    assert "end asked for at +500 ms (" in shown and "): wrong group" in shown
    assert re.search(r"^dead letter at a.b retried 2023-11-\d\d [\d:]+: as run 01xyz$", shown, re.MULTILINE)

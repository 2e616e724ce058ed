"""Draw a trace: a tree of runs, steps and calls beside their time line.

Everything here makes lines of styled text; `show` prints them. A terminal too narrow for the time line gets the tree
alone, an output that can't encode line-drawing characters gets ASCII.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import IO, TYPE_CHECKING

from lumia.history import Usage
from lumia.journal import CANCEL
from lumia.trace import Act, Effect, Run, Step, Trace, Wait
from lumia.verdict import seconds, verdict

if TYPE_CHECKING:
    from rich.text import Text

MIN_WIDTH = 40
BARS_FROM = 72
"""Columns from which on there is room for the time line."""
LANES = {"handler": "█", "call": "▒", "wait": "░", "run": "─"}
ASCII = str.maketrans("█▒░─├┤└│◀…→·×", "#+.-||`|<~>-x")
GOOD, OPEN, BAD = "green", "yellow", "red"
STYLES = {"done": GOOD, "next": GOOD, "stop": GOOD, "replayed": GOOD, "stopped": OPEN, "skipped": OPEN, "retry": OPEN,
          "held": OPEN, "unknown": OPEN, "block": BAD, "blocked": BAD, "failed": BAD, "cancelled": BAD}  # fmt: skip
WAITED = {"inbox": "in the inbox", "lane": "in lane", "queue": "in queue", "delay": "delayed",
          "backoff": "before retry", "handover": "handover", "unknown": "waiting"}  # fmt: skip
MINUTE, HOUR, DAY = 60_000.0, 3_600_000.0, 86_400_000.0
UNITS = (("d", DAY), ("h", HOUR), ("min", MINUTE), ("s", 1000.0))
STEPS = (
    *(factor * 10.0**power for power in range(-4, 4) for factor in (1, 2, 5)),
    *(10_000.0, 20_000.0, 30_000.0, *(factor * MINUTE for factor in (1, 2, 5, 10, 20, 30))),
    *(HOUR, 2 * HOUR, 6 * HOUR, 12 * HOUR, DAY),
)
"""Milliseconds between the marks of a time line."""
WORTH_A_LINE = 0.01
"""Share of the whole time from which on a wait gets a line of its own."""
STATES = {"waiting": "waiting for the lane", "queued": "waiting for a worker", "claimed": "being executed",
          "delayed": "delayed", "unknown": "not ended"}  # fmt: skip


@dataclass(frozen=True)
class Bar:
    """A stretch of the time line. kind: handler, call, wait or run. at, ms: milliseconds."""

    kind: str
    at: float
    ms: float


@dataclass(frozen=True)
class Node:
    """A line of the tree and those below it."""

    label: str
    bar: Bar
    outcome: str = ""
    detail: str = ""
    style: str = ""
    below: tuple[Node, ...] = ()


def show(trace: Trace, file: IO[str], *, width: int = 0) -> None:
    """Print a trace; width: columns, 0 for those of the terminal. Colours only on a terminal."""
    from rich.console import Console

    console = Console(file=file, highlight=False, soft_wrap=True, width=width or None)
    plain = not _encodable(file)
    for line in drawn(trace, width=max(MIN_WIDTH, width or console.width)):
        if plain:
            line.plain = line.plain.translate(ASCII)
        console.print(line)


def _encodable(file: IO[str]) -> bool:
    try:
        "".join(LANES.values()).encode(getattr(file, "encoding", None) or "utf-8")
    except (UnicodeError, LookupError):
        return False
    return True


def drawn(trace: Trace, *, width: int) -> Iterator[Text]:
    """Yield the lines of a trace for a terminal of `width` columns."""
    from rich.text import Text

    told = verdict(trace.run)
    yield Text(told.text, style=f"bold {({True: GOOD, False: BAD, None: OPEN})[told.answered]}")
    for line in headlines(trace):
        yield Text(line, style="dim")
    yield Text()
    yield from _Table(trace, list(flat(_run(trace.run, trace.ms * WORTH_A_LINE))), width).lines()


def headlines(trace: Trace) -> list[str]:
    """Return what and where, then when, how long and at what price."""
    run = trace.run
    began = datetime.fromtimestamp(trace.started).astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")
    lasted = f"{seconds(trace.ms)}{'' if trace.ended else ' so far'}"
    retry = f"goes on from the dead letter of run {run.retry_of}" if run.retry_of else ""
    lines = [_joined(f"run {run.run_id}", run.id, run.key), _joined(began, lasted, price(trace.usage)), retry]
    acts = sorted(((act, one) for one in run.walk() for act in one.acts), key=lambda found: found[0].at)
    return [*filter(None, lines), *(_act(trace, one, act) for act, one in acts)]


def _act(trace: Trace, run: Run, act: Act) -> str:
    """Tell what an operator did, with the day and time: it may have been long after the run."""
    when = datetime.fromtimestamp(trace.started + act.at / 1000).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    whose = "" if run is trace.run else f" of run {run.run_id}"
    if act.kind == CANCEL:
        return f"end{whose} asked for at +{seconds(act.at)} ({when}): {act.reason}"
    how = f"as run {act.run}" if act.run else act.reason
    return f"dead letter{whose} at {act.handler} {act.kind} {when}: {how}".removesuffix(": ")


def price(used: Usage) -> str:
    """Return tokens and cost as `120→30 tokens, $0.0012`, "" for none."""
    parts = [f"{used.tokens_in}→{used.tokens_out} tokens"] if used.tokens_in or used.tokens_out else []
    return ", ".join([*parts, *([f"${used.cost:.6f}".rstrip("0").rstrip(".")] if used.cost else [])])


# --- the tree


def flat(root: Node) -> Iterator[tuple[str, Node]]:
    """Yield each node with the lines that lead to it."""
    yield "", root
    yield from _flat_below(root.below, "")


def _flat_below(nodes: Sequence[Node], lead: str) -> Iterator[tuple[str, Node]]:
    for node in nodes:
        last = node is nodes[-1]
        yield f"{lead}{'└─ ' if last else '├─ '}", node
        yield from _flat_below(node.below, f"{lead}{'   ' if last else '│  '}")


def _run(run: Run, least: float) -> Node:
    mark = " ◀" if run.marked and run.relation != "root" else ""
    about = run.relation if run.relation in ("detached", "retry") else ""
    place = f"queue {run.queue}" if run.queue else ""
    own_id = run.run_id if run.relation != "root" else ""
    last = run.ended if run.ended is not None else run.at
    reason = run.reason or (f"dead letter: {run.dead}" if run.dead else "")
    outcome = run.outcome or ("running" if run.ended is None else "")
    return Node(f"{run.id or run.run_id}{mark}", Bar("run", run.at, max(0.0, last - run.at)), outcome,
                _joined(about, reason, place, own_id), "bold", tuple(_parts(run, least)))  # fmt: skip


def _joined(*parts: str) -> str:
    return " · ".join(part for part in parts if part)


def _parts(run: Run, least: float) -> Iterator[Node]:
    children = list(run.children)
    for number, step in enumerate(run.steps):
        yield from (_wait(wait) for wait in step.waits if wait.ms >= least)
        yield _step(step)
        if number + 1 == len(run.steps) or run.steps[number + 1].index != step.index:
            yield from (_run(child, least) for child in children if child.after == step.index)
            children = [child for child in children if child.after != step.index]
    yield from (_run(child, least) for child in children)
    if run.state not in ("finished", "ended"):
        yield _now(run)


def _wait(wait: Wait) -> Node:
    return Node(WAITED.get(wait.kind, wait.kind), Bar("wait", wait.at, wait.ms), style="dim")


def _step(step: Step) -> Node:
    tries = f" ×{step.attempt}" if step.attempt > 1 else ""
    used = Usage(*(step.notes.get(name, 0) for name in ("tokens_in", "tokens_out", "cost")))
    reason = step.reason if step.exact else _joined(step.reason, "began in this time")
    detail = _joined(reason, str(step.notes.get("model", "")), price(used) if not step.effects else "")
    below = tuple(_effect(effect) for effect in step.effects)
    return Node(f"{step.handler}{tries}", Bar("handler", step.at, step.ms), step.outcome, detail, "", below)


def _effect(effect: Effect) -> Node:
    kind = "" if effect.kind in ("", "call") else f"{effect.kind} "
    detail = _joined(effect.reason, effect.model, price(effect.usage))
    return Node(f"{kind}{effect.key}", Bar("call", effect.at, effect.ms), effect.outcome, detail)


def _now(run: Run) -> Node:
    behind = f"behind run {run.live.behind}" if run.live and run.live.behind else ""
    handler = run.live.handler if run.live else ""
    since = max([run.at, *(step.at + step.ms for step in run.steps)])
    kind = "handler" if run.state == "claimed" else "wait"
    return Node(STATES.get(run.state, run.state), Bar(kind, since, run.waited), "", _joined(behind, handler), OPEN)


# --- the table


@dataclass(frozen=True)
class _Widths:
    label: int
    outcome: int
    detail: int
    time: int
    bar: int


class _Table:
    def __init__(self, trace: Trace, rows: list[tuple[str, Node]], width: int) -> None:
        self._rows = rows
        self._span = max([trace.ms, *(node.bar.at + node.bar.ms for _, node in rows)]) or 1.0
        self._widths = _measured(rows, width)

    def lines(self) -> Iterator[Text]:
        from rich.text import Text

        if self._widths.bar:
            yield Text(" " * self._before + scale(self._span, self._widths.bar), style="dim")
        for lead, node in self._rows:
            yield self._line(lead, node)
        if self._widths.bar:
            yield Text()
            yield Text("█ handler  ▒ recorded call  ░ waiting  ─ run with its start and end", style="dim")

    @property
    def _before(self) -> int:
        widths = self._widths
        return sum(size + 2 for size in (widths.label, widths.outcome, widths.detail, widths.time) if size)

    def _line(self, lead: str, node: Node) -> Text:
        from rich.text import Text

        sizes = self._widths
        line = Text()
        line.append(_cell(lead + node.label, sizes.label), style=node.style or None)
        line.append(f"  {_cell(node.outcome, sizes.outcome)}", style=STYLES.get(node.outcome, "dim"))
        if sizes.detail:
            line.append(f"  {_cell(node.detail, sizes.detail)}", style="dim")
        line.append(f"  {seconds(node.bar.ms):>{sizes.time}}", style="dim" if node.bar.kind == "wait" else None)
        if sizes.bar:
            line.append(f"  {stretch(node.bar, self._span, sizes.bar)}", style=_colour(node))
        line.rstrip()
        return line


def _colour(node: Node) -> str:
    if node.bar.kind in ("wait", "run"):
        return "dim"
    return BAD if STYLES.get(node.outcome) == BAD else "cyan" if node.bar.kind == "handler" else "magenta"


def _measured(rows: list[tuple[str, Node]], width: int) -> _Widths:
    """Share the columns out: the time line gets a third, the tree what it needs, reasons the rest."""
    from rich.cells import cell_len

    def widest(texts: Iterable[str]) -> int:
        return max(map(cell_len, texts), default=0)

    outcome, time = widest(node.outcome for _, node in rows), widest(seconds(node.bar.ms) for _, node in rows)
    bar = max(16, min(width // 3, width - 64)) if width >= BARS_FROM else 0
    left = width - outcome - time - 4 - (bar + 2 if bar else 0)
    detail = min(widest(node.detail for _, node in rows), max(0, left // 3))
    label = min(widest(lead + node.label for lead, node in rows), left - (detail + 2 if detail else 0))
    spare = left - label - (detail + 2 if detail else 0)
    detail = min(widest(node.detail for _, node in rows), detail + spare)
    return _Widths(max(8, label), outcome, detail if detail >= 6 else 0, time, bar)


def _cell(text: str, width: int) -> str:
    """Return `text` in exactly `width` columns; what is cut off ends in `…`."""
    from rich.cells import cell_len, set_cell_size

    clean = " ".join(text.split()) if "\n" in text else text
    return set_cell_size(clean, width) if cell_len(clean) <= width else f"{set_cell_size(clean, width - 1)}…"


def stretch(bar: Bar, span: float, width: int) -> str:
    """Return a bar's place on a time line of `span` milliseconds and `width` columns; the shortest is one column."""
    first = min(width - 1, int(bar.at / span * width))
    last = min(width, max(first + 1, round((bar.at + bar.ms) / span * width)))
    body = LANES[bar.kind] * (last - first)
    return " " * first + (f"├{body[2:]}┤" if bar.kind == "run" and len(body) > 1 else body)


def scale(span: float, width: int) -> str:
    """Return the marks of a time line: round times, as many as have room."""
    text = ""
    step = _round_step(span * 12 / width)
    for number in range(int(span / step) + 1):
        place = round(number * step / span * width)
        mark = _tick(number * step)
        if place + len(mark) <= width and place >= len(text) + (2 if text else 0):
            text = text.ljust(place) + mark
    return text


def _tick(ms: float) -> str:
    unit, size = next(((unit, size) for unit, size in UNITS if ms >= size), ("ms", 1.0))
    return f"{ms / size:g} {unit}" if ms else "0"


def _round_step(least: float) -> float:
    """Return the smallest round time that is at least `least` milliseconds."""
    if least > DAY:
        return DAY * math.ceil(least / DAY)
    return next(step for step in STEPS if step >= least)

"""The results as JSON, as a page of tables with charts, and as text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import goals, svg
from bench.stats import Spread

RESULTS = Path(__file__).parent / "results"
Row = Sequence[str]


def summary(rounds: Sequence[Any]) -> dict[str, Any]:
    """Return the JSON form of a contender's rounds: each figure's median with the lowest and the highest round."""
    found: dict[str, Any] = {}
    for name in ("rate", "accepted", "in_flight", "worker_us", "valkey_us"):
        values = [value for one in rounds if (value := getattr(one, name))]
        if values:
            found[name] = vars(Spread.of(values))
    names = list(dict.fromkeys(name for one in rounds for name in one.latency))
    if names:
        found["latency"] = {
            name: {
                field: vars(Spread.of([getattr(one.latency[name], field) for one in rounds if name in one.latency]))
                for field in ("offered", "achieved", "samples", "p50", "p99")
            }
            for name in names
        }
    return found


def _cell(spread: Mapping[str, Any] | None) -> str:
    return (
        "–" if not spread else f"{svg.shown(spread['median'])} ({svg.shown(spread['low'])}–{svg.shown(spread['high'])})"
    )


def table(head: Row, rows: Sequence[Row]) -> str:
    """Return a Markdown table whose columns are aligned in the source, too."""
    every = [head, *rows]
    widths = [max(len(row[column]) for row in every) for column in range(len(head))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in every
    ]
    return "\n".join([lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]])


def goal_table(found: Mapping[str, Any]) -> str:
    """Return the goals beside the figures."""
    rows = [
        (goal.name, goal.goal, "–" if goal.figure is None else f"{svg.shown(goal.figure)}{goal.unit}", goal.verdict)
        for goal in goals.judge(found)
    ]
    return table(("goal", "wanted", "measured", ""), rows)


def throughput_table(found: Mapping[str, Any]) -> str:
    """Return throughput and CPU of every contender, and why one is missing."""
    ratio, rows = goals.ratios(found), []
    for one in found["contenders"]:
        if "missing" in one:
            rows.append((one["title"], f"not measured: {one['missing']}", "", "", "", ""))
            continue
        times = f"{ratio[one['name']]:.2f}×" if one["name"] in ratio else ""
        figures = (_cell(one.get(name)) for name in ("accepted", "worker_us", "valkey_us"))
        rows.append((one["title"], _cell(one.get("rate")), times, *figures))
    head = ("", "messages/s", "Lumia is", "accepted/s", "worker CPU, µs/message", "Valkey CPU, µs/message")
    return table(head, rows)


def latency_table(found: Mapping[str, Any]) -> str:
    """Return latencies at the steady rate and at half of each contender's saturation, and bytes in flight."""
    rows = []
    for one in found["contenders"]:
        known = one.get("latency", {})
        steady, half = known.get("steady", {}), known.get("half", {})
        half_rate = svg.shown(half["offered"]["median"]) if half else "–"
        at_50, at_half = ([_cell(part.get(name)) for name in ("p50", "p99")] for part in (steady, half))
        rows.append((one["title"], *at_50, half_rate, *at_half, _cell(one.get("in_flight"))))
    head = ("", "p50 at 50/s, ms", "p99 at 50/s, ms", "half of its most, /s", "p50 there, ms", "p99 there, ms",
            "broker bytes per waiting message")  # fmt: skip
    return table(head, rows)


def guarantee_table(found: Mapping[str, Any]) -> str:
    """Return what each contender promises beside what it reaches."""
    rows = []
    for one in found["contenders"]:
        promise = one["guarantee"]
        rows.append((one["title"], svg.shown(one["rate"]["median"]) if one.get("rate") else "–", promise["killed"],
                     promise["duplicates"], promise["order"], one["events"]))  # fmt: skip
    head = ("", "messages/s", "worker killed (SIGKILL)", "can a stage run twice", "order", "task events")
    return table(head, rows)


def growth_table(rows: Sequence[Mapping[str, Any]], first: str, fields: Mapping[str, str]) -> str:
    """Return a table of what grows and what it costs."""
    cells = [
        (
            f"{row[first]:,}",
            *(_cell(row[name]) if isinstance(row[name], dict) else svg.shown(row[name]) for name in fields),
        )
        for row in rows
    ]
    return table((first, *fields.values()), cells)


HANDLERS = {"lookup": "find handlers, µs", "accept": "accept, µs/message", "work": "work off, µs/message",
            "load_ms": "load plugin, ms", "build_ms": "build index, ms"}  # fmt: skip
LANES = {"idle_accept": "idle lanes: accept, µs/message", "idle_work": "idle lanes: work off, µs/message",
         "active_accept": "active lanes: accept", "active_work": "active lanes: work off",
         "keys": "keys of idle lanes"}  # fmt: skip
MEMORY = {"in_lanes": "waiting, in 50 lanes", "without_lane": "waiting, without a lane",
          "finished": "finished, with its journal entries", "archived": "finished and archived"}  # fmt: skip


def text(found: Mapping[str, Any]) -> str:
    """Return everything that was measured as text."""
    compared = any("rate" in one or "latency" in one or "missing" in one for one in found["contenders"])
    parts = [throughput_table(found), latency_table(found), guarantee_table(found)] if compared else []
    return "\n\n".join([*parts, *_own(found), goal_table(found)])


def _own(found: Mapping[str, Any]) -> list[str]:
    parts = []
    if found.get("memory"):
        rows = [(label, svg.shown(found["memory"][name])) for name, label in MEMORY.items()]
        parts.append(table(("Lumia, bytes of broker memory per message", ""), rows))
    if found.get("handlers"):
        parts.append(growth_table(found["handlers"], "handlers", HANDLERS))
    if found.get("lanes"):
        parts.append(growth_table(found["lanes"], "lanes", LANES))
    return parts


def page(found: Mapping[str, Any], charts: Sequence[str]) -> str:
    """Return the results page."""
    machine, conditions = found["machine"], found["conditions"]
    where = f"{machine['cores']} cores ({machine['processor']}), {machine['memory_gib']} GiB, {machine['system']}"
    how = f"{conditions['rounds']} rounds in rotating order, the median with the lowest and the highest in brackets"
    head = [
        "# Results",
        "Written by `make bench`; [what is measured, how, and what it does not say](../../docs/benchmark.md).",
        f"Measured {found['measured']} on {where}, Python {machine['python']}: {how}.",
        "The same for programs: [latest.json](latest.json).",
    ]
    parts = ["## Goals", goal_table(found), "## Throughput", throughput_table(found), "## Latency and memory",
             latency_table(found), "## What each one promises", guarantee_table(found)]  # fmt: skip
    own = _own(found)
    parts += ["## Lumia as handlers, lanes and messages grow", *own] if own else []
    parts += ["## Charts", *(f"![{name}]({name}.svg)" for name in charts)] if charts else []
    versions = [
        (name, ", ".join(f"{p} {v}" for p, v in sorted(one.items()))) for name, one in found["versions"].items()
    ]
    return "\n\n".join([*head, *parts, "## Versions", table(("", ""), versions)]) + "\n"


def charts(found: Mapping[str, Any]) -> dict[str, str]:
    """Return name → SVG of what was measured."""
    drawn: dict[str, str] = {}
    for name, title, unit, path in (
        ("throughput", "Throughput of a 4-stage pipeline", "messages per second, more is better", ("rate",)),
        ("cpu", "CPU time of the workers", "µs per message, less is better", ("worker_us",)),
        ("memory", "Broker memory of a waiting message", "bytes, less is better", ("in_flight",)),
        ("latency-p50", "Latency at 50 messages/s, p50", "ms, less is better", ("latency", "steady", "p50")),
        ("latency-p99", "Latency at 50 messages/s, p99", "ms, less is better", ("latency", "steady", "p99")),
    ):
        rows = [_bar(one, spread) for one in found["contenders"] if (spread := _at(one, path))]
        if rows:
            drawn[name] = svg.bars(title, unit, rows)
    for name, fields in (("handlers", ("accept", "work")), ("lanes", ("idle_work", "active_work"))):
        if found.get(name):
            series = {
                field.replace("_", ", "): [(row[name], row[field]["median"]) for row in found[name]] for field in fields
            }
            drawn[name] = svg.lines(
                f"Cost of a message as {name} grow", "µs of CPU time per message, worker and Valkey", series
            )
    return drawn


def _at(one: Mapping[str, Any], path: Sequence[str]) -> Any:
    value: Any = one
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _bar(one: Mapping[str, Any], spread: Mapping[str, float]) -> svg.Bar:
    return svg.Bar(one["title"], spread["median"], spread["low"], spread["high"], one["name"].startswith("lumia"))


def write(found: dict[str, Any], folder: Path) -> None:
    """Write latest.json, README.md and the charts."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = charts(found)
    for name, chart in drawn.items():
        (folder / f"{name}.svg").write_text(chart)
    (folder / "latest.json").write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n")
    (folder / "README.md").write_text(page(found, list(drawn)))

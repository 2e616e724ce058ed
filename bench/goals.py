"""What the figures must reach, and whether they do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

OUR = "lumia"
CHAIN = "celery-chain"


@dataclass(frozen=True)
class Goal:
    """A goal beside its figure; `met` is None where nothing was measured."""

    name: str
    goal: str
    figure: float | None
    unit: str
    met: bool | None

    @property
    def verdict(self) -> str:
        """Return the word for the table."""
        return {True: "met", False: "**not met**", None: "not measured"}[self.met]


def _at_least(name: str, least: float, figure: float | None, unit: str) -> Goal:
    return Goal(name, f"≥ {least:g}{unit}", figure, unit, None if figure is None else figure >= least)


def _at_most(name: str, most: float, figure: float | None, unit: str) -> Goal:
    return Goal(name, f"≤ {most:g}{unit}", figure, unit, None if figure is None else figure <= most)


def _below(name: str, limit: float, figure: float | None, unit: str) -> Goal:
    return Goal(name, f"< {limit:g}{unit}", figure, unit, None if figure is None else figure < limit)


def rates(found: Mapping[str, Any]) -> dict[str, float]:
    """Return contender → median messages per second of those that were measured."""
    return {one["name"]: one["rate"]["median"] for one in found["contenders"] if one.get("rate")}


def ratios(found: Mapping[str, Any]) -> dict[str, float]:
    """Return contender → how many times its throughput Lumia's is."""
    known = rates(found)
    ours = known.get(OUR)
    return {name: ours / rate for name, rate in known.items() if ours and rate and name != OUR}


def _least(found: Mapping[str, float], prefix: str) -> float | None:
    """Return the ratio to the best of a peer's variants."""
    return min((ratio for name, ratio in found.items() if name.startswith(prefix)), default=None)


def _latency(found: Mapping[str, Any], field: str) -> float | None:
    ours = [one for one in found["contenders"] if one["name"] == OUR]
    steady = ours[0].get("latency", {}).get("steady") if ours else None
    return steady[field]["median"] if steady else None


def growth(rows: list[dict[str, Any]], *fields: str) -> float | None:
    """Return the cost at the largest size over that at the smallest."""
    if len(rows) < 2:
        return None
    first, last = (sum(row[field]["median"] for field in fields) for row in (rows[0], rows[-1]))
    return last / first if first else None


def judge(found: Mapping[str, Any]) -> list[Goal]:
    """Return every goal with the figure of `found`, the content of latest.json."""
    ratio, memory = ratios(found), found.get("memory") or {}
    handlers, lanes = found.get("handlers") or [], found.get("lanes") or []
    most = f"{handlers[-1]['handlers']:,} handlers against {handlers[0]['handlers']:,}" if handlers else "handlers"
    idle = f"{lanes[-1]['lanes']:,} idle lanes against {lanes[0]['lanes']:,}" if lanes else "idle lanes"
    return [
        _at_least("throughput over the best Celery chain", 5, _least(ratio, CHAIN), "×"),
        _at_least("throughput over Dramatiq's pipeline", 1.3, _least(ratio, "dramatiq"), "×"),
        _below("accept → last commit at 50/s, p50", 6, _latency(found, "p50"), " ms"),
        _below("accept → last commit at 50/s, p99", 20, _latency(found, "p99"), " ms"),
        _at_most("memory per message in flight, 50 lanes", 1024, memory.get("in_lanes"), " B"),
        _at_most("memory per message in flight, without lane", 1024, memory.get("without_lane"), " B"),
        _at_most("memory per finished run, archived", 400, memory.get("archived"), " B"),
        _at_most(f"cost of a message, {most}", 1.5, growth(handlers, "accept", "work"), "×"),
        _at_most(f"cost of a message, {idle}", 1.1, growth(lanes, "idle_accept", "idle_work"), "×"),
        _at_most("Redis keys held by idle lanes", 0, float(sum(row["keys"] for row in lanes)) if lanes else None, ""),
    ]

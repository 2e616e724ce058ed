"""Forgetting's arithmetic (spec §11.4): S(t) = S₀ × 0.5^(t / half-life), computed when something is read.

Nothing is decayed in place, so there is nothing to run, to miss or to run twice; and a clock that goes back leaves a
strength as it was stored. `half_life_days` decides; the spec's `decay_rate` is informational.
"""

from __future__ import annotations

DAY = 86400.0
EDGE_HALF_LIFE_DAYS = 7.0
INSTANCE_HALF_LIFE_DAYS = 7.0
"""Of an instance's relevance when it was never used; each use makes it `HALF_LIFE_GROWTH` times as long."""
GAIN = 0.1
"""What one use or mention adds to a strength, which ends at 1."""
HALF_LIFE_GROWTH = 1.1
MAX_HALF_LIFE_DAYS = 365.0
COMENTION_GAIN = 0.35
"""The weight of a pair named together once; each further time closes this share of the gap to 1."""


def decayed(strength: float, half_life_days: float, since: float, now: float) -> float:
    """Return what is left of `strength` at `now` when it was stored at `since`; seconds since 1970."""
    elapsed = max(0.0, now - since) / DAY
    return float(strength * 0.5 ** (elapsed / max(half_life_days, 1e-3)))


def decayed_edge(weight: float, since: float, now: float) -> float:
    """Return what is left at `now` of an edge's weight that was stored at `since`."""
    return decayed(weight, EDGE_HALF_LIFE_DAYS, since, now)


def sql_strength(table: str, now: str = "%(now)s") -> str:
    """Return the SQL of a topic's strength now; `table` is its name or alias, `now` a placeholder of seconds."""
    return _sql(f"{table}.strength", f"{table}.half_life_days", f"{table}.last_accessed", now)


def sql_weight(table: str, now: str = "%(now)s") -> str:
    """Return the SQL of an edge's weight now."""
    return _sql(f"{table}.weight", str(EDGE_HALF_LIFE_DAYS), f"{table}.last_activated", now)


def _sql(value: str, half_life: str, since: str, now: str) -> str:
    # Underflow of a double is an error in SQL: 1000 half-lives leave nothing anyway.
    # date_part gives a double, extract a numeric, which takes several times as long.
    elapsed = f"greatest(0, {now}::float8 - date_part('epoch', {since})) / {DAY}"
    return f"({value} * power(0.5::float8, least(1000, {elapsed} / greatest({half_life}, 0.001))))"

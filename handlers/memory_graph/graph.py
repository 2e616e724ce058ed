"""Topics, mentions and the edges between topics: upserts of many rows at once, in the order of their keys.

The caller holds the locks of all scopes it writes to (`scopes.locked`), so nobody else adds or removes topics there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import lumia

from .content import key_of, name_of
from .decay import COMENTION_GAIN, GAIN, sql_strength, sql_weight
from .types import COMENTION, Embedded

if TYPE_CHECKING:
    import psycopg

MAX_TOPICS = 16
"""Topics per text; more are left out."""
_PAIRED = 6
"""The weightiest topics of a text, which are linked with each other: at most 15 pairs."""
ACTIVE_EMBEDDER = "(SELECT id FROM memory_embedders WHERE id = %(embedder)s AND state = 'active')"
"""NULL, which no row takes, once the embedder was changed: no vector of the old one is written as the new one's."""
_TOUCH = f"""
UPDATE memory_topics t SET mentions = t.mentions + w.mentions,
    strength = least(1, {sql_strength("t")} + {GAIN}),
    last_accessed = greatest(t.last_accessed, to_timestamp(%(now)s))
FROM unnest(%(ids)s::text[], %(mentions)s::int[]) AS w (id, mentions) WHERE t.id = w.id
"""
_ADD = f"""
INSERT INTO memory_topics
    (id, topic_name, topic_embedding, scope_id, name_key, mentions, embedder_id, created_at, last_accessed)
SELECT w.*, {ACTIVE_EMBEDDER}, to_timestamp(%(now)s), to_timestamp(%(now)s)
FROM unnest(%(ids)s::text[], %(names)s::text[], %(vectors)b::vector[], %(scopes)s::int[], %(keys)s::text[],
            %(mentions)s::int[]) AS w
"""
_LINK = f"""
INSERT INTO topic_edges AS e (id, from_topic, to_topic, weight, edge_type, activation_count, last_activated)
SELECT w.id, w.a, w.b, w.weight, w.kind, w.count, to_timestamp(%(now)s)
FROM unnest(%(ids)s::text[], %(a)s::text[], %(b)s::text[], %(weights)s::float8[], %(kinds)s::text[],
            %(counts)s::int[]) AS w (id, a, b, weight, kind, count) ORDER BY w.a, w.b
ON CONFLICT (from_topic, to_topic) DO UPDATE SET
    weight = least(1, {sql_weight("e")} + (1 - {sql_weight("e")}) * excluded.weight),
    activation_count = e.activation_count + excluded.activation_count,
    last_activated = greatest(e.last_activated, excluded.last_activated)
"""


@dataclass
class Mentioned:
    """A topic of a batch: its name as first written, how often it is mentioned, and its vector if it is new."""

    name: str
    mentions: int
    vector: Embedded


Key = tuple[int, str]
"""A topic among all: number of its scope, key of its name."""


def named(topics: Sequence[tuple[str, float]]) -> dict[str, tuple[str, float]]:
    """Return key → (name, weight in [0, 1]) of usable topics in their order, one per key."""
    found: dict[str, tuple[str, float]] = {}
    for raw, weight in topics:
        name = name_of(raw)
        key = key_of(name)
        if key and key not in found and len(found) < MAX_TOPICS:
            found[key] = name, min(1.0, max(0.0, float(weight)))
    return found


def upsert_topics(
    connection: psycopg.Connection[Any], topics: Mapping[Key, Mentioned], *, embedder: int, now: float
) -> dict[Key, str]:
    """Make the topics or count their mentions; returns their ids."""
    keys = sorted(topics)
    if not keys:
        return {}
    found = ids_of(connection, keys)
    known = [key for key in keys if key in found]
    if known:
        values = {"ids": [found[key] for key in known], "mentions": [topics[key].mentions for key in known]}
        connection.execute(_TOUCH, {**values, "now": now})
    new = {key: lumia.system.new_id() for key in keys if key not in found}
    if new:
        values = {
            "ids": list(new.values()),
            "names": [topics[key].name for key in new],
            "vectors": [topics[key].vector for key in new],
            "scopes": [scope for scope, _ in new],
            "keys": [key for _, key in new],
            "mentions": [topics[key].mentions for key in new],
        }
        connection.execute(_ADD, {**values, "embedder": embedder, "now": now})
    return found | new


def ids_of(connection: psycopg.Connection[Any], keys: Iterable[Key]) -> dict[Key, str]:
    """Return the ids of those topics that exist."""
    wanted = list(keys)
    rows = connection.execute(
        "SELECT w.scope_id, w.name_key, t.id FROM unnest(%s::int[], %s::text[]) AS w (scope_id, name_key) "
        "CROSS JOIN LATERAL (SELECT id FROM memory_topics "
        'WHERE scope_id = w.scope_id AND name_key = w.name_key COLLATE "C" LIMIT 1) AS t',
        ([scope for scope, _ in wanted], [key for _, key in wanted]),
    )
    return {(scope, key): number for scope, key, number in rows}


def mention(connection: psycopg.Connection[Any], links: Iterable[tuple[str, str, float]]) -> None:
    """Note that instances are about topics: (instance id, topic id, weight)."""
    rows = sorted({(topic, instance): weight for instance, topic, weight in links}.items())
    if rows:
        connection.execute(
            "INSERT INTO memory_mentions (topic_id, instance_id, weight) "
            "SELECT * FROM unnest(%s::text[], %s::text[], %s::real[]) ON CONFLICT DO NOTHING",
            ([topic for (topic, _), _ in rows], [one for (_, one), _ in rows], [weight for _, weight in rows]),
        )


def pairs_of(topics: Sequence[tuple[str, float]]) -> list[tuple[str, str, float]]:
    """Return the pairs (smaller id, larger id, weight) that topics (id, weight) named in one text make."""
    weightiest = sorted(topics, key=lambda one: (-one[1], one[0]))[:_PAIRED]
    return [
        (min(a, b), max(a, b), COMENTION_GAIN * min(w, v)) for (a, w), (b, v) in combinations(weightiest, 2) if a != b
    ]


def link(
    connection: psycopg.Connection[Any],
    edges: Iterable[tuple[str, str, float]],
    *,
    now: float,
    edge_type: str = COMENTION,
) -> None:
    """Make the edges (from, to, weight), or bring their weights nearer to 1 by the share `weight` of the gap."""
    gaps: dict[tuple[str, str], float] = {}
    counts: dict[tuple[str, str], int] = {}
    for a, b, weight in edges:
        gaps[a, b] = gaps.get((a, b), 1.0) * (1.0 - min(1.0, max(0.0, weight)))
        counts[a, b] = counts.get((a, b), 0) + 1
    if not gaps:
        return
    rows = sorted(gaps)
    values = {
        "ids": [lumia.system.new_id() for _ in rows],
        "a": [a for a, _ in rows],
        "b": [b for _, b in rows],
        "weights": [1.0 - gaps[row] for row in rows],
        "kinds": [edge_type] * len(rows),
        "counts": [counts[row] for row in rows],
    }
    connection.execute(_LINK, {**values, "now": now})

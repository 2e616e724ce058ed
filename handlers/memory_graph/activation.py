"""Spreading activation from the topics of a query (spec §11.3), in one statement.

Seeds are the topics that the query names or that are near to it. From them it goes over topic_edges of weight ≥ 0.3,
two hops, 0.5 to the power of the depth, less into hubs; then to the instances that mention the topics reached, which
come with their neighbours in the conversation.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import texts
from .content import key_of
from .decay import sql_strength, sql_weight
from .lookup import Place
from .packing import AROUND, PACKED
from .topics import readable, topics_of
from .types import Scope, Topic

ACTIVE = 24
"""Instances taken from the activated topics."""
SEEDS = 20
"""Topics near to the query from which activation spreads."""
HOPS, FADING, WEAKEST_EDGE = 2, 0.5, 0.3
_HUB = 1000
"""A topic with more mentions, or with more than a twentieth of the scope's, is about everything: nothing spreads
through it."""
_EDGES_OF_TOPIC, _REACHED, _FRONT = 10, 50, 20
"""Edges followed from a topic in each direction, topics that a hop looks at, and those it hands on."""
_TOPICS_USED, _INSTANCES_OF_TOPIC = 30, 40
TOPICS_SCAN = 40
"""Rows taken from the topics' vector index, of which the nearest by the whitened query are kept."""
_EDGES = f"""
SELECT {{to}} AS id, weight, last_activated FROM topic_edges
WHERE {{here}} = h.id AND weight >= {WEAKEST_EDGE} ORDER BY {{to}} LIMIT {_EDGES_OF_TOPIC}
"""
_BOTH_WAYS = " UNION ALL ".join(
    f"({_EDGES.format(to=to, here=here)})" for to, here in (("from_topic", "to_topic"), ("to_topic", "from_topic"))
)


def _hop(front: str) -> str:
    """Return the SQL of one hop: hubs neither send nor, by the logarithm of their mentions, receive much."""
    return f"""SELECT best.id, best.score / (1 + ln(greatest(1, t.mentions))) AS score, best.root
    FROM (SELECT id, score, root FROM (
        SELECT DISTINCT ON (id) id, h_score * {FADING} * weight AS score, root FROM (
            SELECT e.id, h.score AS h_score, {sql_weight("e")} AS weight, h.root
            FROM {front} h CROSS JOIN LATERAL ({_BOTH_WAYS}) e) AS reached
        WHERE weight >= {WEAKEST_EDGE} ORDER BY id, score DESC, root) AS one ORDER BY score DESC, id LIMIT {_REACHED}
    ) AS best
    JOIN memory_topics t ON t.id = best.id AND t.scope_id = ANY(%(scopes)s::int[]) AND t.mentions <= %(hub)s::int
    ORDER BY 2 DESC, 1 LIMIT {_FRONT}"""


# An edge weighs at most 1, so a hop gives at most FADING of what a topic has: those that can't give as much as the last
# of the topics used has after one hop don't send again, which changes nothing in what is used.
_SPREADING = f"""
WITH near AS MATERIALIZED (
    SELECT id, 1 - (topic_embedding <=> %(whitened)b) AS cosine FROM (
        SELECT id, topic_embedding FROM memory_topics WHERE scope_id = ANY(%(scopes)s::int[]){{which}}
        ORDER BY {{order}} LIMIT {{scan}}) AS scanned ORDER BY 2 DESC, 1 LIMIT {SEEDS}),
seeds AS MATERIALIZED (
    SELECT id, max(score)::float8 AS score, id AS root FROM (
        SELECT id, 1.0::float8 AS score FROM memory_topics
        WHERE scope_id = ANY(%(scopes)s::int[]) AND name_key = ANY(%(keys)s::text[])
        UNION ALL
        SELECT id, 0.5 * (cosine - least) / greatest(1e-6, most - least)
        FROM near CROSS JOIN (SELECT min(cosine) AS least, max(cosine) AS most FROM near) AS span
        ) AS found GROUP BY id),
first AS MATERIALIZED ({_hop("seeds")}),
best AS MATERIALIZED (
    SELECT id, score, 0 AS depth, root FROM seeds
    UNION ALL SELECT id, score, 1, root FROM first WHERE id NOT IN (SELECT id FROM seeds)),
sending AS MATERIALIZED (
    SELECT * FROM first WHERE score * {FADING} >= coalesce(
        (SELECT score FROM best ORDER BY score DESC OFFSET {_TOPICS_USED - 1} LIMIT 1), 0)),
second AS MATERIALIZED ({_hop("sending")}),
used AS MATERIALIZED (
    SELECT r.*, t.mentions, t.scope_id, t.topic_name, {sql_strength("t")} AS strength, t.half_life_days,
        t.access_count, date_part('epoch', t.created_at) AS created, date_part('epoch', t.last_accessed) AS accessed,
        t.pinned, source.topic_name AS source
    FROM (SELECT * FROM best UNION ALL SELECT id, score, 2, root FROM second
            WHERE id NOT IN (SELECT id FROM best)
        ORDER BY score DESC, id LIMIT {_TOPICS_USED}) AS r
    JOIN memory_topics t ON t.id = r.id JOIN memory_topics source ON source.id = r.root),
active AS MATERIALIZED (
    SELECT m.instance_id AS id, sum(u.score / (1 + ln(greatest(1, u.mentions))) * m.weight) AS spread
    FROM used u CROSS JOIN LATERAL (SELECT instance_id, weight FROM memory_mentions WHERE topic_id = u.id
        ORDER BY instance_id DESC LIMIT {_INSTANCES_OF_TOPIC}) m WHERE u.mentions <= %(hub)s::int
    GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT {ACTIVE}),
pool AS MATERIALIZED (
    SELECT i.number, i.scope_id, i.seq, a.spread FROM active a JOIN memory_instances i ON i.id = a.id
    WHERE i.scope_id = ANY(%(scopes)s::int[]))
SELECT (SELECT {PACKED} FROM {AROUND}),
    (SELECT string_agg(int8send(number) || float8send(spread), ''::bytea) FROM pool),
    (SELECT json_agg(json_build_array(score, depth, source, id, scope_id, topic_name, strength, half_life_days,
        access_count, mentions, created, accessed, pinned) ORDER BY score DESC, id) FROM used)::text
"""
_SPREAD = np.dtype([("number", ">i8"), ("spread", ">f8")])


@dataclass(frozen=True)
class Activated:
    """A topic that was reached. depth: hops from its seed, 0 for a seed; source: the seed's name."""

    topic: Topic
    score: float
    depth: int
    source: str


@dataclass(frozen=True)
class Activation:
    """What activation reached. packed: the instances with their neighbours (`packing`). numbers, spread: what reached
    the instances themselves, numbers rising."""

    topics: tuple[Activated, ...] = ()
    packed: bytes | None = None
    numbers: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    spread: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))

    def of(self, numbers: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return what reached each of these instances, in [0, 1]."""
        found = np.zeros(len(numbers))
        if len(self.numbers) and len(numbers):
            at = np.minimum(np.searchsorted(numbers, self.numbers), len(numbers) - 1)
            there = numbers[at] == self.numbers
            found[at[there]] = np.minimum(self.spread[there], 1.0)
        return found


@lru_cache(2)
def statement(exact: bool) -> str:
    """Return the SQL; `exact` compares all topics of the scopes instead of asking the vector index, which holds those
    that are named more than once."""
    order = "(topic_embedding <=> %(whitened)b) + 0" if exact else "topic_embedding <=> %(plain)b"
    which = "" if exact else " AND established"
    return " ".join(_SPREADING.format(order=order, which=which, scan=SEEDS if exact else TOPICS_SCAN).split())


def values(query: str, place: Place) -> dict[str, Any]:
    """Return what the statement needs of the query: keys of the topics it names, and what is a hub there."""
    words = [readable(word) for word in texts.words(query)]
    keys = {key_of(name) for name, _ in topics_of(query, place.people.values())} | {key_of(word) for word in words}
    return {"keys": sorted(keys), "hub": int(min(_HUB, max(20.0, 0.05 * place.instances)))}


def activation(row: tuple[Any, ...] | None, scopes: Mapping[int, Scope]) -> Activation:
    """Return what the statement's row says; scopes: those that were read, by their numbers."""
    packed, spread, used = row or (None, None, None)
    reached = np.frombuffer(spread or b"", _SPREAD)
    order = np.argsort(reached["number"])
    topics = tuple(_activated(scopes, *one) for one in json.loads(used or "[]"))
    return Activation(
        topics, packed, reached["number"][order].astype(np.int64), reached["spread"][order].astype(np.float64)
    )


def _activated(
    scopes: Mapping[int, Scope], score: float, depth: int, source: str, id: str, scope: int, name: str, strength: float,
    half_life: float, uses: int, mentions: int, created: float, accessed: float, pinned: bool,
) -> Activated:  # fmt: skip
    times = float(created), float(accessed)  # JSON knows no difference between 7 and 7.0
    topic = Topic(id, scopes[scope], name, float(strength), float(half_life), uses, mentions, *times, pinned)
    return Activated(topic, float(score), depth, source)

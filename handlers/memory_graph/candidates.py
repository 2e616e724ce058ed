"""What of a scope may answer a query, found in the database in four statements; ranking.py orders it.

1. lookup.py: the scopes a reader may see, the people named, where the query's terms stand.
2. The nearest instances and topics (`_nearest`).
3. `_GATHER`: spreading activation from the topics named in the query or near to it, over topic_edges of weight ≥ 0.3,
   two hops, 0.5 to the power of the depth (spec §11.3); then all candidates (the nearest, those with the best BM25
   score, those of the activated topics), each with its neighbours in the conversation, as one packed value.

Statements are planned once per connection, but for the nearest: their plan depends on the scope.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import lookup, texts, whitening
from .content import key_of
from .decay import DAY, HALF_LIFE_GROWTH, INSTANCE_HALF_LIFE_DAYS, MAX_HALF_LIFE_DAYS, sql_strength, sql_weight
from .ranking import Candidates, Parts, Query
from .topics import readable, topics_of
from .types import Embedded, Scope

if TYPE_CHECKING:
    import psycopg

NEAREST, ACTIVE = 64, 24
"""Instances taken from each of the two indexes, the vectors and the words, and from the activated topics."""
SEEDS = 20
HOPS, FADING, WEAKEST_EDGE = 2, 0.5, 0.3
_HUB = 1000
"""A topic with more mentions, or with more than a twentieth of the scope's, is about everything: nothing spreads
through it."""
_EXACT, _EXACT_SHARE, _EXACT_MOST = 8_000, 0.1, 50_000
"""Scopes up to this size, or up to this share of the table, are compared one by one: exact, and quicker than an
index that must skip what belongs to others."""
_SCAN = 100
"""Rows taken from the vector index, which knows nothing of whitening: the nearest by the plain query, of which the
nearest by the whitened one are kept. Also hnsw.ef_search (`Database`)."""
_EDGES_OF_TOPIC, _REACHED, _FRONT = 10, 50, 20
"""Edges followed from a topic in each direction, topics that a hop looks at, and those it hands on."""
_TOPICS_USED, _INSTANCES_OF_TOPIC = 30, 40
NEIGHBOURS = 1

_TOPICS_SCAN = 40
_QUICKER = f"SET LOCAL hnsw.ef_search = {_TOPICS_SCAN + 20}"
_NEAREST = """
SELECT {key}, 1 - ({column} <=> %(whitened)b) AS cosine FROM (
    SELECT {key}, {column} FROM {table} WHERE scope_id IN ({scopes}) ORDER BY {order} LIMIT {scan}) AS near
ORDER BY 2 DESC, 1 LIMIT {limit}
"""
_EDGES = f"""
SELECT e.{{to}} AS id, h.score * {FADING} * e.weight AS score, h.root
FROM {{front}} h CROSS JOIN LATERAL (
    SELECT {{to}}, {sql_weight("topic_edges")} AS weight FROM topic_edges
    WHERE {{here}} = h.id AND weight >= {WEAKEST_EDGE} LIMIT {_EDGES_OF_TOPIC}) e
WHERE e.weight >= {WEAKEST_EDGE}
"""


def _hop(front: str) -> str:
    """Return the SQL of one hop: hubs neither send nor, by the logarithm of their mentions, receive much."""
    ways = (("from_topic", "to_topic"), ("to_topic", "from_topic"))
    both = " UNION ALL ".join(_EDGES.format(to=to, here=here, front=front) for to, here in ways)
    return f"""SELECT best.id, best.score / (1 + ln(greatest(1, t.mentions))) AS score, best.root
    FROM (SELECT id, score, root FROM (SELECT DISTINCT ON (id) id, score, root FROM ({both}) AS reached
        ORDER BY id, score DESC, root) AS one ORDER BY score DESC, id LIMIT {_REACHED}) AS best
    JOIN memory_topics t ON t.id = best.id AND t.scope_id = ANY(%(scopes)s::int[]) AND t.mentions <= %(hub)s::int
    ORDER BY 2 DESC, 1 LIMIT {_FRONT}"""


_SPREADING = f"""
seeds AS MATERIALIZED (
    SELECT id, max(score)::float8 AS score, id AS root FROM (
        SELECT id, 1.0::float8 AS score FROM memory_topics
        WHERE scope_id = ANY(%(scopes)s::int[]) AND name_key = ANY(%(keys)s::text[])
        UNION ALL
        SELECT * FROM unnest(%(near)s::text[], %(nearness)s::float8[])) AS found GROUP BY id),
first AS MATERIALIZED ({_hop("seeds")}),
second AS MATERIALIZED ({_hop("first")}),
reached AS (
    SELECT DISTINCT ON (id) id, score, depth, root FROM (
        SELECT id, score, 0 AS depth, root FROM seeds
        UNION ALL SELECT id, score, 1, root FROM first
        UNION ALL SELECT id, score, 2, root FROM second) AS all_reached
    ORDER BY id, depth, score DESC),
used AS MATERIALIZED (
    SELECT r.id, r.score, r.depth, source.topic_name AS source, t.mentions, {sql_strength("t")} AS strength
    FROM reached r JOIN memory_topics t ON t.id = r.id JOIN memory_topics source ON source.id = r.root
    ORDER BY r.score DESC, r.id LIMIT {_TOPICS_USED}),
active AS MATERIALIZED (
    SELECT m.instance_id AS id, sum(u.score / (1 + ln(greatest(1, u.mentions))) * m.weight) AS spread
    FROM used u CROSS JOIN LATERAL (SELECT instance_id, weight FROM memory_mentions WHERE topic_id = u.id
        ORDER BY instance_id DESC LIMIT {_INSTANCES_OF_TOPIC}) m WHERE u.mentions <= %(hub)s::int
    GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT {ACTIVE}),"""
_STILL = """
used AS (SELECT ''::text AS id, 0::float8 AS score, 0 AS depth, ''::text AS source, 0 AS mentions, 0::float8 AS strength
    WHERE false),
active AS (SELECT ''::text AS id, 0::float8 AS spread WHERE false),"""
_GATHER = f"""
WITH {{activation}}
pool AS (
    SELECT scope_id, seq FROM memory_instances WHERE number = ANY(%(numbers)s::int8[])
    UNION SELECT i.scope_id, i.seq FROM active a JOIN memory_instances i ON i.id = a.id
    WHERE i.scope_id = ANY(%(scopes)s::int[])),
around AS (SELECT DISTINCT scope_id, seq + step AS seq FROM pool, generate_series(-{NEIGHBOURS}, {NEIGHBOURS}) AS step)
SELECT string_agg(int8send(i.number) || int8send(i.seq) || int4send(i.scope_id) || timestamptz_send(i.created_at)
    || timestamptz_send(i.last_accessed) || int4send(i.access_count) || float8send(i.relevance_score)
    || float8send(i.importance) || float8send(1 - (i.content_embedding <=> %(whitened)b)) || int4send(i.length)
    || float8send(coalesce(active.spread, 0)::float8) || int4send(
        CASE WHEN right(rtrim(right(i.content, 20)), 1) IN ('?', '？', '؟') THEN 1 ELSE 0 END
        + CASE WHEN i.sender = ANY(%(named)s::text[]) THEN 2 ELSE 0 END
        + CASE WHEN i.sender = %(asker)s::text THEN 4 ELSE 0 END), ''::bytea),
    (SELECT json_agg(json_build_array(id, score, depth, source, mentions, strength) ORDER BY score DESC, id) FROM used)
FROM around JOIN memory_instances i USING (scope_id, seq) LEFT JOIN active ON active.id = i.id
"""
_GATHERING = {
    on: " ".join(_GATHER.format(activation=activation).split())
    for on, activation in ((True, _SPREADING), (False, _STILL))
}
"""By whether activation spreads; short enough (4096 signs) that psycopg keeps what it parsed."""
_PACKED = np.dtype(
    [("number", ">i8"), ("seq", ">i8"), ("scope", ">i4"), ("created", ">i8"), ("accessed", ">i8"), ("uses", ">i4"),
     ("relevance", ">f8"), ("importance", ">f8"), ("cosine", ">f8"), ("length", ">i4"), ("spread", ">f8"),
     ("flags", ">i4")]
)  # fmt: skip
_EPOCH = 946_684_800.0
"""Postgres counts microseconds since 2000."""


@dataclass(frozen=True)
class Activated:
    """A topic that was reached. depth: hops from its seed, 0 for a seed; source: the seed's name; mentions:
    instances that name it; strength: of the moment."""

    id: str
    score: float
    depth: int
    source: str
    mentions: int
    strength: float


@dataclass(frozen=True)
class Found:
    """What a query found. numbers: of the candidates' rows (`memory_instances.number`), in their order. terms: the
    query's, in the order of the mask's bits. people: names of those the query names."""

    candidates: Candidates
    query: Query
    numbers: NDArray[np.int64]
    topics: tuple[Activated, ...]
    place: lookup.Place
    whitening: whitening.Whitening


def find(
    connection: psycopg.Connection[Any],
    scope: Scope,
    query: str,
    vector: Embedded,
    *,
    sender: str | None = None,
    people: Mapping[str, str] | None = None,
    parts: Parts | None = None,
    now: float,
    nearest: int = NEAREST,
) -> Found | None:
    """Return what of the visible scopes may answer `query`, None when there are none.

    vector: of the query, of length 1. sender: id of who asks. people: more names of people, name → id. Inside the
    caller's transaction on a connection of `Database`; raises what the database raises.
    """
    parts = parts or Parts()
    place = lookup.look(connection, scope, query, people or {})
    if not place.scopes:
        return None
    counts = [(number, place.scopes[number][0]) for number in sorted(place.scopes)]
    usual = whitening.of_scopes(connection, place.identity, counts, len(vector))
    direction = usual.of(vector)
    words = place.words()
    numbers = words.best(nearest) if parts.lexical else []
    instances, near = _nearest(connection, place, vector, direction, nearest if parts.dense else 0, parts.spreading)
    values: dict[str, Any] = {
        "scopes": lookup.array(sorted(place.scopes)),
        "whitened": direction.vector,
        "now": now,
        "numbers": lookup.array([*numbers, *instances]),
        "named": list(place.people),
        "asker": sender or "",
    }
    if parts.spreading:
        values |= _seeds(query, place, near)
    row = connection.execute(_GATHERING[parts.spreading], values, prepare=True, binary=True).fetchone()
    assert row is not None
    packed = np.frombuffer(row[0] or b"", _PACKED)
    found = _candidates(packed, direction, place, words if parts.lexical else None, now)
    topics = tuple(Activated(*one) for one in row[1] or ())
    asked = Query(place.idf, place.typical_length)
    return Found(found, asked, np.asarray(packed["number"], np.int64), topics, place, usual)


def _exact(place: lookup.Place) -> bool:
    rows = max(place.rows, place.instances)
    return place.instances <= max(_EXACT, min(_EXACT_MOST, _EXACT_SHARE * rows))


def _nearest(
    connection: psycopg.Connection[Any], place: lookup.Place, vector: Embedded, direction: whitening.Direction,
    instances: int, topics: bool,
) -> tuple[list[int], list[tuple[str, float]]]:  # fmt: skip
    """Return the numbers of the nearest instances, and the nearest topics with their whitened cosines.

    In scopes that are small all are compared; else the vector index gives those near to the plain query.
    """
    exact, scopes = _exact(place), ",".join(map(str, sorted(place.scopes)))
    values = {"whitened": direction.vector, "plain": vector}
    found: list[Iterable[Any]] = [(), ()]
    with connection.pipeline():
        for at, (table, key, column, limit, scan) in enumerate(
            (("memory_instances", "number", "content_embedding", instances, _SCAN),
             ("memory_topics", "id", "topic_embedding", SEEDS if topics else 0, _TOPICS_SCAN))
        ):  # fmt: skip
            if not limit:
                continue
            statement = _NEAREST.format(
                key=key, column=column, table=table, limit=limit, scan=limit if exact else max(scan, limit),
                scopes=scopes, order=f"({column} <=> %(whitened)b) + 0" if exact else f"{column} <=> %(plain)b",
            )  # fmt: skip
            if at and not exact:
                connection.execute(_QUICKER)
            found[at] = connection.execute(statement, values, prepare=False, binary=True)
        return [number for number, _ in found[0]], list(found[1])


def _seeds(query: str, place: lookup.Place, near: Sequence[tuple[str, float]]) -> dict[str, Any]:
    """Return the topics from which activation spreads: keys of those the query names, ids of those near to it."""
    words = [readable(word) for word in texts.words(query)]
    keys = {key_of(name) for name, _ in topics_of(query, place.people.values())} | {key_of(word) for word in words}
    cosines = np.array([cosine for _, cosine in near])
    least, span = (cosines.min(), max(1e-6, float(np.ptp(cosines)))) if near else (0.0, 1.0)
    return {
        "keys": sorted(keys),
        "near": [id for id, _ in near],
        "nearness": lookup.array((0.5 * (cosines - least) / span).tolist()),
        "hub": int(min(_HUB, max(20.0, 0.05 * place.instances))),
    }


def _candidates(
    packed: Any, direction: whitening.Direction, place: lookup.Place, words: lookup.Words | None, now: float
) -> Candidates:
    flags = packed["flags"].astype(np.int64)
    numbers = packed["number"].astype(np.int64)
    score, mask = words.of(numbers) if words else (np.zeros(len(numbers)), np.zeros(len(numbers), np.int64))
    return Candidates(
        scope=packed["scope"].astype(np.int64),
        seq=packed["seq"].astype(np.int64),
        time=_EPOCH + packed["created"] / 1e6,
        deviations=direction.deviations(packed["cosine"].astype(np.float64)),
        lexical=score,
        matched=mask,
        length=packed["length"].astype(np.int64),
        question=(flags & 1) != 0,
        named=((flags >> 1) & 1) / max(1, len(place.people)),
        asker=(flags & 4) != 0,
        spread=np.minimum(packed["spread"].astype(np.float64), 1.0),
        importance=packed["importance"].astype(np.float64),
        strength=_strength(packed, now),
    )


def _strength(packed: Any, now: float) -> NDArray[np.float64]:
    """Return what is left of each instance's relevance: it halves in a week, more slowly the more often it was used."""
    days = np.maximum(0.0, now - (_EPOCH + packed["accessed"] / 1e6)) / DAY
    half_life = np.minimum(
        MAX_HALF_LIFE_DAYS, INSTANCE_HALF_LIFE_DAYS * HALF_LIFE_GROWTH ** packed["uses"].astype(float)
    )
    found: NDArray[np.float64] = packed["relevance"] * 0.5 ** (days / half_life)
    return np.clip(found, 0.0, 1.0)

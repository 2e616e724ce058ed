"""What of a scope may answer a query, found in the database in three statements; ranking.py orders it.

1. `_LOOK`: the scopes a reader may see, how frequent the query's terms are there, who is known there.
2. `_TOPICS`: seeds among the topics (named in the query, or near to it as vectors), then spreading activation over
   topic_edges of weight ≥ 0.3, two hops, 0.5 to the power of the depth (spec §11.3).
3. `_GATHER`: the nearest instances, those with the best BM25 score and those of the activated topics, each with its
   neighbours in the conversation, as one packed value.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import texts, whitening
from .content import key_of
from .decay import sql_strength, sql_weight
from .ranking import Candidates, Parts, Query
from .topics import names_in, readable, topics_of
from .types import Embedded, Scope

if TYPE_CHECKING:
    import psycopg

NEAREST, ACTIVE = 80, 30
"""Instances taken from each of the two indexes, the vectors and the words, and from the activated topics."""
SEEDS = 20
HOPS, FADING, WEAKEST_EDGE = 2, 0.5, 0.3
MOST_TERMS = 48
_LINKED_BY_TOPIC = 200
_HUB = 1000
"""A topic with more mentions, or with more than a twentieth of the scope's, is about everything: nothing spreads
through it."""
_K1, _B = 1.2, 0.75
_POSTINGS = 3000
"""Entries of the lexical index that one query reads: its rarest terms, until they are used up, and at least one."""
_EXACT, _EXACT_SHARE, _EXACT_MOST = 8_000, 0.1, 50_000
"""Scopes up to this size, or up to this share of the table, are compared one by one: exact, and quicker than an
index that must skip what belongs to others."""
_EDGES_OF_TOPIC, _REACHED, _FRONT = 12, 60, 24
"""Edges followed from a topic in each direction, topics that a hop looks at, and those it hands on."""
_TOPICS_USED, _INSTANCES_OF_TOPIC = 40, 40
NEIGHBOURS = 1

_SET = """
SELECT set_config('hnsw.iterative_scan', 'strict_order', true), set_config('hnsw.ef_search', %s, true),
       set_config('jit', 'off', true)
"""
_LOOK = """
WITH seen AS (SELECT id, chat, next_seq, instances, tokens, extract(epoch FROM created_at)::float8 AS made
              FROM memory_scopes WHERE bot = %(bot)s AND chat = ANY(%(chats)s))
SELECT 'scope', id::text, next_seq::float8, instances::float8, tokens::float8, made FROM seen
UNION ALL
SELECT 'term', w.term, (SELECT sum(c.df) FROM seen CROSS JOIN LATERAL (SELECT count(*) AS df FROM (SELECT 1
    FROM memory_terms m WHERE m.scope_id = seen.id AND m.term = w.term LIMIT %(most)s) AS capped) AS c)::float8, 0, 0, 0
FROM unnest(%(terms)s::text[]) AS w (term)
UNION ALL
SELECT 'person', p.person || chr(31) || p.name, p.messages::float8, 0, 0, 0 FROM memory_people p JOIN seen ON seen.id
= p.scope_id WHERE length(p.name) > 0 AND position(lower(p.name) IN %(folded)s) > 0
UNION ALL
SELECT 'table', current_database() || '/' || current_schema(), (SELECT id FROM memory_embedders WHERE state =
'active')::float8,
    (SELECT reltuples FROM pg_class WHERE oid = 'memory_instances'::regclass)::float8, 0, 0
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
    JOIN memory_topics t ON t.id = best.id AND t.scope_id = ANY(%(scopes)s) AND t.mentions <= %(hub)s
    ORDER BY 2 DESC, 1 LIMIT {_FRONT}"""


_TOPICS = f"""
WITH near AS MATERIALIZED (
    SELECT id, 1 - (topic_embedding <=> %(vector)b) AS cosine FROM memory_topics WHERE scope_id = ANY(%(scopes)s)
    ORDER BY {{distance}} LIMIT {SEEDS}),
named AS (SELECT id FROM memory_topics WHERE scope_id = ANY(%(scopes)s) AND name_key = ANY(%(keys)s)),
seeds AS MATERIALIZED (
    SELECT id, max(score)::float8 AS score, id AS root FROM (
        SELECT id, 1.0::float8 AS score FROM named
        UNION ALL
        SELECT id, 0.5 * (cosine - min(cosine) OVER ()) / greatest(1e-6, max(cosine) OVER () - min(cosine) OVER ())
        FROM near) AS found GROUP BY id),
first AS MATERIALIZED ({_hop("seeds")}),
second AS MATERIALIZED ({_hop("first")}),
reached AS (
    SELECT DISTINCT ON (id) id, score, depth, root FROM (
        SELECT id, score, 0 AS depth, root FROM seeds
        UNION ALL SELECT id, score, 1, root FROM first
        UNION ALL SELECT id, score, 2, root FROM second) AS all_reached
    ORDER BY id, depth, score DESC)
SELECT r.id, r.score, r.depth, source.topic_name, t.mentions, {sql_strength("t")}
FROM reached r JOIN memory_topics t ON t.id = r.id JOIN memory_topics source ON source.id = r.root
ORDER BY r.score DESC, r.id LIMIT {_TOPICS_USED}
"""
_GATHER = f"""
WITH term AS (SELECT * FROM unnest(%(terms)s::text[], %(idf)s::float8[], %(bits)s::int8[]) AS t (term, idf, bit)),
lex AS MATERIALIZED (
    SELECT m.number, sum(t.idf * m.tf * {_K1 + 1} / (m.tf + {_K1} * ({1 - _B} + {_B} * m.length /
    %(typical)s::float8))) AS score,
        bit_or(t.bit) AS mask
    FROM term t JOIN memory_terms m ON m.term = t.term AND m.scope_id = ANY(%(scopes)s) GROUP BY m.number),
dense AS MATERIALIZED (
    SELECT scope_id, seq FROM memory_instances WHERE scope_id = ANY(%(scopes)s) ORDER BY {{distance}} LIMIT %(dense)s),
words AS (
    SELECT i.scope_id, i.seq FROM (SELECT number FROM lex ORDER BY score DESC, number DESC LIMIT {NEAREST}) AS best
    JOIN memory_instances i USING (number)),
active AS MATERIALIZED (
    SELECT m.instance_id AS id, sum(w.score * m.weight) AS spread
    FROM unnest(%(topics)s::text[], %(activations)s::float8[]) AS w (topic, score)
    CROSS JOIN LATERAL (SELECT instance_id, weight FROM memory_mentions WHERE topic_id = w.topic LIMIT
    {_INSTANCES_OF_TOPIC}) m GROUP BY m.instance_id ORDER BY 2 DESC LIMIT {ACTIVE}),
pool AS (
    SELECT scope_id, seq FROM dense UNION SELECT scope_id, seq FROM words
    UNION SELECT i.scope_id, i.seq FROM active a JOIN memory_instances i ON i.id = a.id WHERE i.scope_id =
    ANY(%(scopes)s)),
around AS (SELECT DISTINCT scope_id, seq + step AS seq FROM pool, generate_series(-{NEIGHBOURS}, {NEIGHBOURS}) AS step)
SELECT string_agg(int8send(i.number) || int8send(i.seq) || int8send(i.scope_id::int8)
    || float8send(extract(epoch FROM i.created_at)::float8) || float8send(1 - (i.content_embedding <=> %(vector)b))
    || float8send(coalesce(lex.score, 0)::float8) || int8send(coalesce(lex.mask, 0)) || int8send(i.length::int8)
    || float8send(coalesce(active.spread, 0)::float8) || int8send((
        CASE WHEN right(rtrim(i.content), 1) IN ('?', '？', '؟') THEN 1 ELSE 0 END
        + CASE WHEN i.sender = ANY(%(named)s) THEN 2 ELSE 0 END
        + CASE WHEN i.sender = %(asker)s THEN 4 ELSE 0 END)::int8), ''::bytea)
FROM around JOIN memory_instances i USING (scope_id, seq)
LEFT JOIN lex ON lex.number = i.number LEFT JOIN active ON active.id = i.id
"""
_ASSOCIATE = """
WITH own AS MATERIALIZED (
    SELECT i.id, m.topic_id, w.share * m.weight * ln(%(whole)s::float8 / t.mentions) AS score
    FROM unnest(%(numbers)s::int8[], %(shares)s::float8[]) AS w (number, share) JOIN memory_instances i USING (number)
    JOIN memory_mentions m ON m.instance_id = i.id JOIN memory_topics t ON t.id = m.topic_id
    WHERE t.mentions BETWEEN 2 AND %(hub)s),
active AS MATERIALIZED (SELECT topic_id, sum(score) AS score FROM own GROUP BY topic_id ORDER BY 2 DESC LIMIT {most}),
reached AS MATERIALIZED (
    SELECT m.instance_id AS id, sum(m.weight * (active.score - coalesce(own.score, 0))) AS score
    FROM active CROSS JOIN LATERAL
        (SELECT instance_id, weight FROM memory_mentions WHERE topic_id = active.topic_id LIMIT {linked}) m
    LEFT JOIN own ON own.id = m.instance_id AND own.topic_id = active.topic_id
    GROUP BY m.instance_id)
SELECT string_agg(int8send(i.number) || float8send(1 - (i.content_embedding <=> %(vector)b))
    || float8send(coalesce(reached.score, 0)::float8), ''::bytea)
FROM unnest(%(pool)s::int8[]) AS w (number) JOIN memory_instances i USING (number)
LEFT JOIN reached ON reached.id = i.id
""".replace("{most}", str(_TOPICS_USED)).replace("{linked}", str(_LINKED_BY_TOPIC))
_LINKED = np.dtype([("number", ">i8"), ("cosine", ">f8"), ("associated", ">f8")])
_PACKED = np.dtype(
    [("number", ">i8"), ("seq", ">i8"), ("scope", ">i8"), ("time", ">f8"), ("cosine", ">f8"), ("lexical", ">f8"),
     ("matched", ">i8"), ("length", ">i8"), ("spread", ">f8"), ("flags", ">i8")]
)  # fmt: skip
_ORDERS = {
    "topic": ("topic_embedding <=> %(vector)b", "(topic_embedding <=> %(vector)b) + 0"),
    "content": ("content_embedding <=> %(vector)b", "(content_embedding <=> %(vector)b) + 0"),
}


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
    numbers: list[int]
    topics: tuple[Activated, ...]
    terms: tuple[str, ...]
    people: tuple[str, ...]
    whole: float = 1.0
    whitening: whitening.Whitening | None = None


@dataclass(frozen=True)
class Links:
    """What seeds say for each candidate. resembling: mean similarity to them, in standard deviations of the scope.
    associated: activation through shared topics, a logarithm, 0 for none."""

    resembling: NDArray[np.float64]
    associated: NDArray[np.float64]


@dataclass
class _Place:
    """What `_LOOK` tells: the visible scopes as number → (next seq, instances, tokens, made), how many instances
    hold each term, the people named as id → name, and the table's identity and size."""

    scopes: dict[int, tuple[int, float, float, float]]
    frequency: dict[str, float]
    people: dict[str, str]
    table: str
    embedder: float
    rows: float

    @property
    def instances(self) -> float:
        return sum(one[1] for one in self.scopes.values())


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
    caller's transaction; raises what the database raises.
    """
    parts = parts or Parts()
    counted = texts.query_terms(query)
    folded = texts.folded(query)
    connection.execute(_SET, (str(max(40, nearest)),))
    place = _look(connection, scope, list(counted), folded)
    if not place.scopes:
        return None
    named = _named(place, folded, people or {})
    terms, idf = _weighed(counted, place, named.values())
    scopes = sorted(place.scopes)
    counts = [(number, place.scopes[number][0]) for number in scopes]
    identity = (place.table, place.embedder, *(place.scopes[number][3] for number in scopes))
    usual = whitening.of_scopes(connection, identity, counts, len(vector))
    direction = usual.of(vector)
    typical = max(1.0, sum(one[2] for one in place.scopes.values()) / max(1.0, place.instances))
    values: dict[str, Any] = {"scopes": scopes, "vector": direction.vector, "now": now}
    exact = _exact(place)
    topics = _topics(connection, values, query, named.values(), exact, place) if parts.spreading else ()
    values |= {
        "terms": list(terms) if parts.lexical else [],
        "idf": list(idf) if parts.lexical else [],
        "bits": [1 << at for at in range(len(terms))] if parts.lexical else [],
        "typical": typical,
        "dense": nearest if parts.dense else 0,
        "topics": [one.id for one in topics],
        "activations": [one.score / (1.0 + math.log(max(1, one.mentions))) for one in topics],
        "named": list(named),
        "asker": sender or "",
    }
    row = connection.execute(_GATHER.format(distance=_ORDERS["content"][exact]), values, binary=True).fetchone()
    packed = np.frombuffer(row[0] if row and row[0] else b"", _PACKED)
    found = _candidates(packed, direction, max(1, len(named)))
    return Found(found, Query(idf, typical), packed["number"].tolist(), topics, terms, tuple(named.values()),
                 place.instances, usual)  # fmt: skip


def associate(
    connection: psycopg.Connection[Any],
    found: Found,
    considered: Sequence[int],
    seeds: Sequence[int],
    shares: NDArray[np.float64],
) -> Links:
    """Return what the best candidates (positions `seeds`, with shares that add up to 1) say for those `considered`.

    Spreading activation that starts from memories instead of the query: through the topics they mention, and as
    vectors.
    """
    count = len(found.numbers)
    assert found.whitening is not None
    chosen = [found.numbers[at] for at in seeds]
    rows = connection.execute(
        "SELECT number, content_embedding FROM memory_instances WHERE number = ANY(%s)", (chosen,), binary=True
    )
    vectors = {number: whitening.as_array(vector) for number, vector in rows}
    combined, offset, itself = np.zeros(0), 0.0, np.zeros(count)
    for at, number, share in zip(seeds, chosen, shares, strict=True):
        if number not in vectors:
            continue
        direction = found.whitening.of(vectors[number])
        part = direction.vector.astype(np.float64) * share / direction.scale
        combined = part if not len(combined) else combined + part
        offset += share * direction.offset / direction.scale
        itself[at] = share * float(direction.deviations(np.array([vectors[number] @ direction.vector]))[0])
    length = float(np.linalg.norm(combined))
    if length < 1e-12:
        return Links(np.zeros(count), np.zeros(count))
    values = {
        "numbers": chosen,
        "shares": shares.tolist(),
        "whole": max(2.0, found.whole),
        "hub": int(min(_HUB, max(3.0, 0.05 * found.whole))),
        "vector": (combined / length).astype(np.float32),
        "pool": [found.numbers[at] for at in considered],
    }
    row = connection.execute(_ASSOCIATE, values, binary=True).fetchone()
    packed = np.frombuffer(row[0] if row and row[0] else b"", _LINKED)
    place = {number: at for at, number in enumerate(found.numbers)}
    order = np.array([place[number] for number in packed["number"].tolist()], np.intp)
    resembling, associated = np.zeros(count), np.zeros(count)
    resembling[order] = packed["cosine"] * length - offset
    associated[order] = packed["associated"]
    return Links(np.clip(resembling - itself, -2.0, 6.0), np.log1p(np.maximum(0.0, associated)))


def _look(connection: psycopg.Connection[Any], scope: Scope, terms: Sequence[str], folded: str) -> _Place:
    place = _Place({}, {}, {}, "", 0.0, 0.0)
    values = {"bot": scope.bot, "chats": sorted({scope.chat, ""}), "terms": terms, "folded": folded}
    for kind, text, a, b, c, d in connection.execute(_LOOK, {**values, "most": _POSTINGS}):
        if kind == "scope":
            place.scopes[int(text)] = int(a), b, c, d
        elif kind == "term":
            place.frequency[text] = a or 0.0
        elif kind == "person":
            person, _, name = text.partition("\x1f")
            place.people[person] = name
        else:
            place.table, place.embedder, place.rows = text, a or 0.0, b
    return place


def _named(place: _Place, folded: str, more: Mapping[str, str]) -> dict[str, str]:
    """Return who is named in the query, id → name."""
    known = dict(place.people) | {person: name for name, person in more.items() if name.casefold() in folded}
    return {person: name for person, name in known.items() if names_in(folded, [name])}


def _weighed(
    counted: Mapping[str, int], place: _Place, named: Any
) -> tuple[tuple[str, ...], tuple[float, ...]]:  # fmt: skip
    """Return the terms that can find something, and the weight (BM25's idf) of each.

    A named person is compared with the sender, not as a word; unless nothing else is asked for.
    """
    whole = max(1.0, place.instances)
    names = {term for name in named for term in texts.terms(name)}
    wanted = [term for term in counted if term not in names] or list(counted)
    frequency = {term: min(place.frequency.get(term, 0.0), whole) for term in wanted}
    best: list[tuple[str, float]] = []
    read = 0.0
    for term, df in sorted(frequency.items(), key=lambda one: (one[1], one[0]))[:MOST_TERMS]:
        read += df
        if best and read > _POSTINGS:
            break
        best.append((term, math.log(1 + (whole - df + 0.5) / (df + 0.5))))
    return tuple(term for term, _ in best), tuple(idf for _, idf in best)


def _exact(place: _Place) -> bool:
    rows = max(place.rows, place.instances)
    return place.instances <= max(_EXACT, min(_EXACT_MOST, _EXACT_SHARE * rows))


def _topics(
    connection: psycopg.Connection[Any], values: Mapping[str, Any], query: str, named: Any, exact: bool, place: _Place
) -> tuple[Activated, ...]:
    words = [readable(word) for word in texts.words(query)]
    keys = {key_of(name) for name, _ in topics_of(query, named)} | {key_of(word) for word in words}
    hub = int(min(_HUB, max(20.0, 0.05 * place.instances)))
    sql = _TOPICS.format(distance=_ORDERS["topic"][exact])
    rows = connection.execute(sql, {**values, "keys": sorted(keys), "hub": hub})
    return tuple(Activated(*row) for row in rows)


def _candidates(packed: Any, direction: whitening.Direction, named: int) -> Candidates:
    flags = packed["flags"].astype(np.int64)
    return Candidates(
        scope=packed["scope"].astype(np.int64),
        seq=packed["seq"].astype(np.int64),
        time=packed["time"].astype(np.float64),
        deviations=direction.deviations(packed["cosine"].astype(np.float64)),
        lexical=packed["lexical"].astype(np.float64),
        matched=packed["matched"].astype(np.int64),
        length=packed["length"].astype(np.int64),
        question=(flags & 1) != 0,
        named=((flags >> 1) & 1) / named,
        asker=(flags & 4) != 0,
        spread=np.minimum(packed["spread"].astype(np.float64), 1.0),
    )

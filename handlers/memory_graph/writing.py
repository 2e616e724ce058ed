"""Writing what was said. Every write is made once per (run, step, ordinal), in the caller's transaction.

The order is the same for everyone: make the scopes, lock them by number, claim the writes, then topics, instances,
mentions, edges, terms, people and totals. So writers of one scope follow each other and those of different scopes can't
wait for each other in a circle. Times are seconds since 1970. `terms` counts the lexical terms of a text, `topics`
names what it is about with weights in [0, 1], the main one first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import lumia

from . import graph, people, scopes
from .content import fitted, hash_of
from .errors import EmbedderError
from .graph import ACTIVE_EMBEDDER
from .types import Embedded, Observed, Origin, Scope

if TYPE_CHECKING:
    import psycopg

NEW, MERGED, KNOWN, REPEATED = "new", "merged", "known", "repeated"
MAX_TERM = 64
"""Characters of a term; longer ones are left out of the lexical index."""
MAX_TERMS = 4000
_CLAIM = """
INSERT INTO memory_writes (run_id, step, ordinal, kind, scope_id, ids, written_at)
SELECT run_id, step, ordinal, kind, scope_id, ARRAY[id], to_timestamp(%(now)s)
FROM unnest(%(runs)s::text[], %(steps)s::int[], %(ordinals)s::int[], %(kinds)s::text[], %(scopes)s::int[],
            %(ids)s::text[]) AS w (run_id, step, ordinal, kind, scope_id, id)
ORDER BY run_id, step, ordinal ON CONFLICT DO NOTHING RETURNING run_id, step, ordinal
"""
_WRITTEN = """
SELECT run_id, step, ordinal, ids[1] FROM memory_writes
JOIN unnest(%s::text[], %s::int[], %s::int[]) AS w (run_id, step, ordinal) USING (run_id, step, ordinal)
"""
_RENAME = """
UPDATE memory_writes m SET ids = ARRAY[w.id]
FROM unnest(%s::text[], %s::int[], %s::int[], %s::text[]) AS w (run_id, step, ordinal, id)
WHERE (m.run_id, m.step, m.ordinal) = (w.run_id, w.step, w.ordinal)
"""
_SOURCES = """
SELECT w.scope_id, w.kind, w.source, i.id
FROM unnest(%s::int[], %s::text[], %s::text[]) AS w (scope_id, kind, source) CROSS JOIN LATERAL (
    SELECT id FROM memory_instances
    WHERE scope_id = w.scope_id AND kind = w.kind COLLATE "C" AND source = w.source COLLATE "C" LIMIT 1) AS i
"""
"""One look into the index for each: a join would read the whole table while its statistics say that it is small."""
_INSERT = f"""
INSERT INTO memory_instances (id, topic_id, content, content_embedding, importance, created_at, last_accessed, metadata,
    scope_id, seq, kind, hash, length, embedder_id, source, run_id, message_ids)
SELECT id, topic_id, content, vector, importance, to_timestamp(at), to_timestamp(%(now)s), metadata,
    scope_id, seq, kind, hash, length, {ACTIVE_EMBEDDER}, source, run_id,
    ARRAY(SELECT jsonb_array_elements_text(messages))
FROM unnest(%(ids)s::text[], %(topics)s::text[], %(contents)s::text[], %(vectors)b::vector[], %(importances)s::float8[],
    %(times)s::float8[], %(metadata)s::jsonb[], %(scopes)s::int[], %(seqs)s::bigint[], %(kinds)s::text[],
    %(hashes)s::bytea[], %(lengths)s::int[], %(sources)s::text[], %(runs)s::text[], %(messages)s::jsonb[])
    AS w (id, topic_id, content, vector, importance, at, metadata, scope_id, seq, kind, hash, length, source, run_id,
          messages)
ORDER BY scope_id, seq RETURNING id, number
"""
_TERMS = """
INSERT INTO memory_terms (scope_id, term, number, tf, length)
SELECT * FROM unnest(%s::int[], %s::text[], %s::bigint[], %s::smallint[], %s::int[])
"""
_TOTALS = """
UPDATE memory_scopes s SET next_seq = s.next_seq + w.instances, instances = s.instances + w.instances,
    tokens = s.tokens + w.tokens
FROM unnest(%s::int[], %s::bigint[], %s::bigint[]) AS w (id, instances, tokens) WHERE s.id = w.id
"""


@dataclass(frozen=True)
class Observation:
    """One text to write. topic_vectors: of topic names, by name; a new topic without one gets the text's vector."""

    scope: Scope
    message: Observed
    vector: Embedded
    origin: Origin
    terms: Mapping[str, int] = field(default_factory=dict)
    topics: Sequence[tuple[str, float]] = ()
    topic_vectors: Mapping[str, Embedded] = field(default_factory=dict)


@dataclass(frozen=True)
class Written:
    """What became of a write. id: of the instance, "" when there is none.

    outcome: `new`; `merged` (the same fact was there and counts anew); `known` (this write or message was made before);
    `repeated` (the bot said again what the memory holds).
    """

    id: str
    outcome: str


@dataclass
class _Row:
    """One instance on its way into the tables. at: when it was said."""

    id: str
    scope_id: int
    seq: int
    text: str
    at: float
    observation: Observation
    topics: dict[str, tuple[str, float]]
    length: int
    topic_ids: list[tuple[str, float]] = field(default_factory=list)


def observe(connection: psycopg.Connection[Any], observation: Observation, *, embedder: int, now: float) -> Written:
    """Write one text; see `observe_many`."""
    return observe_many(connection, [observation], embedder=embedder, now=now)[0]


def observe_many(
    connection: psycopg.Connection[Any], observations: Sequence[Observation], *, embedder: int, now: float
) -> list[Written]:
    """Write texts in their order, of any scopes, each once; returns what became of each.

    embedder: `Database.embedder_id`. Raises `EmbedderError` for vectors that are not finite, and what the database
    raises, which `Database.transaction` explains.
    """
    observations = [storable(one) for one in observations]
    check_vectors(one.vector for one in observations)
    numbers = scopes.made(connection, (one.scope for one in observations))
    next_seq = scopes.locked(connection, list(numbers.values()))
    fresh, results = _claimed(connection, observations, numbers, now)
    rows = []
    for at in fresh:
        one = observations[at]
        scope_id = numbers[one.scope]
        rows.append(_row(one, results[at].id, scope_id, next_seq[scope_id], now))
        next_seq[scope_id] += 1
    insert(connection, rows, embedder=embedder, now=now)
    people.seen(connection, [(row.scope_id, row.observation.message, row.at) for row in rows])
    return results


def storable(one: Observation) -> Observation:
    """Return an observation without what a database can't store: NUL and lone surrogates in ids, names and terms."""
    clean, said = lumia.payloads.clean_text, one.message
    source = None if said.message_id is None else clean(said.message_id)
    message = replace(said, sender=clean(said.sender), sender_name=clean(said.sender_name), message_id=source)
    origin = replace(one.origin, message_ids=tuple(map(clean, one.origin.message_ids)))
    scope = Scope(clean(one.scope.bot), clean(one.scope.chat))
    terms: dict[str, int] = {}
    for term, count in one.terms.items():
        terms[clean(term)] = terms.get(clean(term), 0) + count
    return replace(one, scope=scope, message=message, origin=origin, terms=terms)


def insert(connection: psycopg.Connection[Any], rows: Sequence[_Row], *, embedder: int, now: float) -> None:
    """Write rows whose scopes are locked: topics, instances, mentions, edges, terms and totals."""
    if not rows:
        return
    _place_topics(connection, rows, embedder, now)
    numbers = _insert_instances(connection, rows, embedder, now)
    with connection.pipeline():  # nothing is waited for before the last
        _insert_others(connection, rows, numbers, now)


def _insert_others(
    connection: psycopg.Connection[Any], rows: Sequence[_Row], numbers: Mapping[str, int], now: float
) -> None:
    graph.mention(connection, ((row.id, topic, weight) for row in rows for topic, weight in row.topic_ids))
    graph.link(connection, (pair for row in rows for pair in graph.pairs_of(row.topic_ids)), now=now)
    index_terms(connection, [(row.scope_id, numbers[row.id], row.observation.terms, row.length) for row in rows])
    _count(connection, rows)


def new_row(observation: Observation, scope_id: int, seq: int, now: float) -> _Row:
    """Return the row of a text that was claimed by other means than `observe_many`."""
    return _row(observation, lumia.system.new_id(), scope_id, seq, now)


def _row(one: Observation, id: str, scope_id: int, seq: int, now: float) -> _Row:
    said = one.message.time
    at = now if said is None else min(max(0.0, said), now)
    length = min(2**31 - 1, sum(one.terms.values()))
    return _Row(id, scope_id, seq, fitted(one.message.text), at, one, graph.named(one.topics), length)


def claim(
    connection: psycopg.Connection[Any], origins: Sequence[tuple[Origin, str, int, str]], now: float
) -> list[str]:
    """Note writes (origin, kind, number of the scope, id of the instance); returns the id each is noted with.

    Another id than the given one means that the write was made before.
    """
    first: dict[tuple[str, int, int], tuple[str, int, str]] = {}
    for origin, kind, scope_id, id in origins:
        first.setdefault(origin.key, (kind, scope_id, id))
    keys = sorted(first)
    runs, steps, ordinals = ([key[part] for key in keys] for part in range(3))
    values = {
        "runs": runs,
        "steps": steps,
        "ordinals": ordinals,
        "kinds": [first[key][0] for key in keys],
        "scopes": [first[key][1] for key in keys],
        "ids": [first[key][2] for key in keys],
    }
    made = {tuple(row) for row in connection.execute(_CLAIM, {**values, "now": now})}
    noted = {key: first[key][2] for key in keys if key in made}
    if len(noted) < len(keys):
        noted |= {(run, step, number): id for run, step, number, id in connection.execute(
            _WRITTEN, (runs, steps, ordinals))}  # fmt: skip
    return [noted[origin.key] for origin, *_ in origins]


def rename(connection: psycopg.Connection[Any], writes: Iterable[tuple[Origin, str]]) -> None:
    """Note claimed writes under the id of an instance that was there before."""
    rows = [(*origin.key, id) for origin, id in writes]
    if rows:
        connection.execute(_RENAME, tuple(map(list, zip(*rows, strict=True))))


def check_vectors(vectors: Iterable[Embedded]) -> None:
    """Raise `EmbedderError` for a vector that holds NaN or an infinity, which no index takes."""
    import numpy as np

    for vector in vectors:
        if not np.isfinite(vector).all():
            raise EmbedderError(
                "the embedding model returned a vector with NaN or infinity; try again, or choose another model"
            )


def index_terms(
    connection: psycopg.Connection[Any], texts: Iterable[tuple[int, int, Mapping[str, int], int]]
) -> None:  # fmt: skip
    """Add texts (number of the scope, number of the instance, terms, length) to the lexical index."""
    rows = sorted(
        (scope_id, term, number, min(32767, count), length)
        for scope_id, number, terms, length in texts
        for term, count in list(terms.items())[:MAX_TERMS]
        if 0 < len(term) <= MAX_TERM and count > 0
    )
    if rows:
        connection.execute(_TERMS, tuple(map(list, zip(*rows, strict=True))))


def _claimed(
    connection: psycopg.Connection[Any], observations: Sequence[Observation], numbers: Mapping[Scope, int], now: float
) -> tuple[list[int], list[Written]]:
    """Claim the writes; returns the positions of those to be made, and the outcome of each."""
    ids = [lumia.system.new_id() for _ in observations]
    wanted = [(one.origin, one.message.kind, numbers[one.scope], id) for one, id in zip(observations, ids, strict=True)]
    noted = claim(connection, wanted, now)
    sources = _known_sources(connection, observations, numbers)
    fresh, results, renamed = [], [], []
    for at, (one, id, there) in enumerate(zip(observations, ids, noted, strict=True)):
        source = (numbers[one.scope], one.message.kind, one.message.message_id)
        if there != id:
            results.append(Written(there, KNOWN))
        elif source in sources:
            results.append(Written(sources[source], KNOWN))
            renamed.append((one.origin, sources[source]))
        else:
            fresh.append(at)
            results.append(Written(id, NEW))
            if one.message.message_id is not None:
                sources[source] = id
    rename(connection, renamed)
    return fresh, results


def _known_sources(
    connection: psycopg.Connection[Any], observations: Sequence[Observation], numbers: Mapping[Scope, int]
) -> dict[tuple[int, str, str | None], str]:
    wanted = [one for one in observations if one.message.message_id is not None]
    if not wanted:
        return {}
    values = (
        [numbers[one.scope] for one in wanted],
        [one.message.kind for one in wanted],
        [one.message.message_id for one in wanted],
    )
    return {(scope, kind, source): id for scope, kind, source, id in connection.execute(_SOURCES, values)}


def _place_topics(connection: psycopg.Connection[Any], rows: Sequence[_Row], embedder: int, now: float) -> None:
    wanted: dict[graph.Key, graph.Mentioned] = {}
    for row in rows:
        for key, (name, _) in row.topics.items():
            one = wanted.get((row.scope_id, key))
            if one is None:
                vector = row.observation.topic_vectors.get(name, row.observation.vector)
                wanted[row.scope_id, key] = graph.Mentioned(name, 1, vector)
            else:
                one.mentions += 1
    ids = graph.upsert_topics(connection, wanted, embedder=embedder, now=now)
    for row in rows:
        row.topic_ids = [(ids[row.scope_id, key], weight) for key, (_, weight) in row.topics.items()]


def _insert_instances(
    connection: psycopg.Connection[Any], rows: Sequence[_Row], embedder: int, now: float
) -> dict[str, int]:
    values = {
        "ids": [row.id for row in rows],
        "topics": [row.topic_ids[0][0] if row.topic_ids else None for row in rows],
        "contents": [row.text for row in rows],
        "vectors": [row.observation.vector for row in rows],
        "importances": [min(1.0, max(0.0, row.observation.message.importance)) for row in rows],
        "times": [row.at for row in rows],
        "metadata": [metadata_of(row.observation.message) for row in rows],
        "scopes": [row.scope_id for row in rows],
        "seqs": [row.seq for row in rows],
        "kinds": [row.observation.message.kind for row in rows],
        "hashes": [hash_of(row.text) for row in rows],
        "lengths": [row.length for row in rows],
        "sources": [row.observation.message.message_id for row in rows],
        "runs": [row.observation.origin.run_id for row in rows],
        "messages": [_json(list(_messages(row.observation))) for row in rows],
    }
    found = connection.execute(_INSERT, {**values, "embedder": embedder, "now": now})
    return dict(found.fetchall())


def metadata_of(message: Observed) -> Any:
    """Return the metadata of an instance as JSON: the sender as spec §11.5 has it, and what the message brings."""
    sender = {"sender_id": message.sender, "sender_name": message.sender_name} if message.sender else {}
    return _json(cleaned({**message.metadata, **sender}))


def cleaned(value: Any) -> Any:
    """Return JSON values without what a database can't store: NUL and lone surrogates."""
    if isinstance(value, str):
        return lumia.payloads.clean_text(value)
    if isinstance(value, Mapping):
        return {cleaned(str(key)): cleaned(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [cleaned(item) for item in value]
    return value


def _messages(one: Observation) -> tuple[str, ...]:
    if one.origin.message_ids or one.message.message_id is None:
        return one.origin.message_ids
    return (one.message.message_id,)


def _json(value: Any) -> Any:
    from psycopg.types.json import Jsonb

    return Jsonb(value)


def _count(connection: psycopg.Connection[Any], rows: Sequence[_Row]) -> None:
    counts: dict[int, tuple[int, int]] = {}
    for row in rows:
        instances, tokens = counts.get(row.scope_id, (0, 0))
        counts[row.scope_id] = instances + 1, tokens + row.length
    found = sorted(counts)
    values = (found, [counts[one][0] for one in found], [counts[one][1] for one in found])
    connection.execute(_TOTALS, values)

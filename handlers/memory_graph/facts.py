"""Writing what was learned (event `memory.update`) and noting what was used, without writing the same thing twice.

The same fact is told by its hash, and by similarity where numbers and negations agree and one text holds all terms of
the other. How similar is "the same" is calibrated per model: halfway marks of another model mean nothing here. A memory
that a run was shown and that comes back as "new" does not even count anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import lumia

from . import graph, scopes, writing
from .content import contradicts, fitted, hash_of
from .decay import GAIN, HALF_LIFE_GROWTH, MAX_HALF_LIFE_DAYS, sql_strength
from .graph import ACTIVE_EMBEDDER
from .types import Calibration, Embedded, Fact, Observed, Origin, Scope
from .writing import KNOWN, MERGED, NEW, REPEATED, Observation, Written

if TYPE_CHECKING:
    import psycopg

SAME_CLOSENESS = 0.8
"""Of the way from unrelated texts to the same text (`Calibration.closeness`); above it texts may be the same fact."""
_NEAREST = 8
_BY_HASH = """
SELECT id, number, scope_id, content, length, 1.0::float8 FROM memory_instances
WHERE scope_id = ANY(%s) AND hash = %s ORDER BY (kind = 'fact') DESC, seq LIMIT 1
"""
_BY_VECTOR = """
SELECT id, number, scope_id, content, length, similarity FROM (
    SELECT id, number, scope_id, content, length, 1 - (content_embedding <=> %s) AS similarity FROM memory_instances
    WHERE scope_id = ANY(%s) AND kind = ANY(%s) ORDER BY content_embedding <=> %s LIMIT %s) AS nearest
WHERE similarity >= %s ORDER BY similarity DESC
"""
_COUNT_ANEW = """
UPDATE memory_instances SET seen = seen + 1, importance = greatest(importance, %s),
    last_accessed = greatest(last_accessed, to_timestamp(%s)),
    message_ids = message_ids || ARRAY(SELECT m FROM unnest(%s::text[]) AS m WHERE m <> ALL(message_ids) LIMIT 20)
WHERE id = %s
"""
_REWORD = f"""
UPDATE memory_instances SET content = %(text)s, content_embedding = %(vector)s, hash = %(hash)s, length = %(length)s,
    embedder_id = {ACTIVE_EMBEDDER}
WHERE id = %(id)s
"""
_USED_BEFORE = "SELECT unnest(ids) FROM memory_writes WHERE run_id = %s AND kind = 'strengthen'"
_STRENGTHEN_TOPICS = f"""
UPDATE memory_topics t SET strength = least(1, {sql_strength("t")} + {GAIN}), access_count = t.access_count + 1,
    half_life_days = least({MAX_HALF_LIFE_DAYS}, t.half_life_days * {HALF_LIFE_GROWTH}),
    last_accessed = greatest(t.last_accessed, to_timestamp(%(now)s))
WHERE t.scope_id = ANY(%(scopes)s) AND t.id = ANY(%(ids)s) RETURNING t.id
"""
_STRENGTHEN_INSTANCES = """
UPDATE memory_instances SET access_count = access_count + 1,
    last_accessed = greatest(last_accessed, to_timestamp(%(now)s))
WHERE scope_id = ANY(%(scopes)s) AND id = ANY(%(ids)s) RETURNING id
"""


@dataclass(frozen=True)
class _Twin:
    """What is there already. number: in the lexical index."""

    id: str
    number: int
    scope_id: int
    content: str
    length: int
    similarity: float


def write_fact(
    connection: psycopg.Connection[Any],
    scope: Scope,
    fact: Fact,
    vector: Embedded,
    *,
    origin: Origin,
    embedder: int,
    calibration: Calibration,
    now: float,
    terms: Mapping[str, int] | None = None,
    topics: Sequence[tuple[str, float]] = (),
    topic_vectors: Mapping[str, Embedded] | None = None,
) -> Written:
    """Write what was learned about `fact.topic`, unless the scope or the whole bot knows it: then that counts anew.

    A fact that says more than its twin takes the twin's place. Raises `EmbedderError` for a vector that is not finite.
    """
    writing.check_vectors([vector])
    said = Observed(fitted(fact.text), "fact", fact.sender, fact.sender_name, None, None, fact.importance)
    about = [(fact.topic, 1.0), *topics]
    observation = writing.storable(Observation(scope, said, vector, origin, terms or {}, about, topic_vectors or {}))
    scope, origin = observation.scope, observation.origin
    wanted = scopes.made(connection, [scope])[scope]
    visible = scopes.visible(connection, scope)
    next_seq = scopes.locked(connection, visible)
    row = writing.new_row(observation, wanted, next_seq[wanted], now)
    noted = writing.claim(connection, [(origin, "fact", wanted, row.id)], now)[0]
    if noted != row.id:
        return Written(noted, KNOWN)
    twin = _twin(connection, visible, ("fact",), observation, calibration)
    if twin is None:
        writing.insert(connection, [row], embedder=embedder, now=now)
        return Written(row.id, NEW)
    writing.rename(connection, [(origin, twin.id)])
    if twin.id in _used(connection, origin.learned_in or origin.run_id):
        return Written(twin.id, KNOWN)
    connection.execute(_COUNT_ANEW, (fact.importance, now, list(origin.message_ids), twin.id))
    _add_topics(connection, twin, observation, embedder, now)
    if twin.scope_id == wanted and _says_more(connection, twin, observation):
        _reword(connection, twin, observation, embedder)
    return Written(twin.id, MERGED)


def write_reply(
    connection: psycopg.Connection[Any],
    observation: Observation,
    *,
    embedder: int,
    calibration: Calibration,
    now: float,
) -> Written:
    """Write what the bot said, unless it repeats what the memory holds already; raises what `observe_many` raises."""
    observation = writing.storable(observation)
    writing.check_vectors([observation.vector])
    visible = scopes.visible(connection, observation.scope)
    twin = _twin(connection, visible, ("fact", "message", "reply"), observation, calibration)
    if twin is not None:
        return Written(twin.id, REPEATED)
    return writing.observe(connection, observation, embedder=embedder, now=now)


def strengthen(
    connection: psycopg.Connection[Any],
    scope: Scope,
    topics: Sequence[str],
    instances: Sequence[str] = (),
    *,
    origin: Origin,
    now: float,
) -> int:
    """Note that these topics and instances (ids) stood in a prompt; each counts once per run. Returns how many counted.

    Ids that a reader in `scope` may not see change nothing.
    """
    visible = scopes.visible(connection, scope)
    if not visible:
        return 0
    scopes.locked(connection, visible)
    if writing.claim(connection, [(origin, "strengthen", visible[-1], origin.run_id)], now) != [origin.run_id]:
        return 0
    used = _used(connection, origin.run_id)
    values = {"scopes": visible, "now": now}
    done: list[str] = []
    for statement, ids in ((_STRENGTHEN_TOPICS, topics), (_STRENGTHEN_INSTANCES, instances)):
        if fresh := sorted(set(ids) - used):
            done += [id for (id,) in connection.execute(statement, {**values, "ids": fresh})]
    connection.execute(
        "UPDATE memory_writes SET ids = %s WHERE (run_id, step, ordinal) = (%s, %s, %s)", (done, *origin.key)
    )
    return len(done)


def _used(connection: psycopg.Connection[Any], run_id: str) -> set[str]:
    return {id for (id,) in connection.execute(_USED_BEFORE, (run_id,))}


def _twin(
    connection: psycopg.Connection[Any],
    visible: Sequence[int],
    kinds: Sequence[str],
    observation: Observation,
    calibration: Calibration,
) -> _Twin | None:
    text = fitted(observation.message.text)
    row = connection.execute(_BY_HASH, (list(visible), hash_of(text))).fetchone()
    if row is not None:
        return _Twin(*row)
    floor = calibration.similarity(SAME_CLOSENESS)
    values = (observation.vector, list(visible), list(kinds), observation.vector, _NEAREST, floor)
    connection.execute("SET LOCAL hnsw.iterative_scan = relaxed_order")
    for found in connection.execute(_BY_VECTOR, values):
        twin = _Twin(*found)
        if not contradicts(text, twin.content) and _holds(connection, twin, observation.terms):
            return twin
    return None


def _terms(connection: psycopg.Connection[Any], twin: _Twin) -> set[str]:
    return {term for (term,) in connection.execute("SELECT term FROM memory_terms WHERE number = %s", (twin.number,))}


def _holds(connection: psycopg.Connection[Any], twin: _Twin, terms: Mapping[str, int]) -> bool:
    """Tell whether one of the two has all terms of the other: then they differ in wording, not in what they name."""
    theirs, ours = _terms(connection, twin), set(terms)
    return bool(theirs) and bool(ours) and (ours <= theirs or theirs <= ours)


def _says_more(connection: psycopg.Connection[Any], twin: _Twin, observation: Observation) -> bool:
    return _terms(connection, twin) < set(observation.terms)


def _add_topics(
    connection: psycopg.Connection[Any], twin: _Twin, observation: Observation, embedder: int, now: float
) -> None:
    named = graph.named(observation.topics)
    wanted = {
        (twin.scope_id, key): graph.Mentioned(name, 1, observation.topic_vectors.get(name, observation.vector))
        for key, (name, _) in named.items()
    }
    ids = graph.upsert_topics(connection, wanted, embedder=embedder, now=now)
    weights = [(ids[twin.scope_id, key], weight) for key, (_, weight) in named.items()]
    graph.mention(connection, ((twin.id, topic, weight) for topic, weight in weights))
    graph.link(connection, graph.pairs_of(weights), now=now)


def _reword(connection: psycopg.Connection[Any], twin: _Twin, observation: Observation, embedder: int) -> None:
    text, length = fitted(observation.message.text), sum(observation.terms.values())
    values = {"text": text, "vector": observation.vector, "hash": hash_of(text), "length": length}
    connection.execute(_REWORD, {**values, "embedder": embedder, "id": twin.id})
    connection.execute("DELETE FROM memory_terms WHERE number = %s", (twin.number,))
    writing.index_terms(connection, [(twin.scope_id, twin.number, observation.terms, length)])
    connection.execute(
        "UPDATE memory_scopes SET tokens = greatest(0, tokens + %s) WHERE id = %s",
        (length - twin.length, twin.scope_id),
    )


def touch_topic(
    connection: psycopg.Connection[Any],
    scope: Scope,
    name: str,
    vector: Embedded,
    *,
    origin: Origin,
    embedder: int,
    now: float,
) -> str:
    """Note that a topic matters, without a text about it; returns its id, "" when this write was made before."""
    number = scopes.made(connection, [scope])[scope]
    scopes.locked(connection, [number])
    id = lumia.system.new_id()
    if writing.claim(connection, [(origin, "topic", number, id)], now) != [id]:
        return ""
    found = graph.named([(name, 1.0)])
    wanted = {(number, key): graph.Mentioned(shown, 1, vector) for key, (shown, _) in found.items()}
    return next(iter(graph.upsert_topics(connection, wanted, embedder=embedder, now=now).values()), "")

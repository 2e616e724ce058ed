"""Forgetting: what nobody needs goes to the recycle table, from which it comes back until its time there is over.

A topic goes when its decayed strength is below 0.05, it was last used 30 days ago and used less than five times (spec
§11.4). Its instances stay with another topic they mention, else they go along. Pinned topics and instances stay, and so
does a topic with a pinned instance. Edges decay on their own; those that have faded go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import lumia

from . import scopes
from .content import key_of
from .decay import DAY, sql_strength, sql_weight
from .embedders import ACTIVE, stored
from .errors import EmbedderError
from .types import Origin, Scope

if TYPE_CHECKING:
    import psycopg
    from numpy.typing import NDArray

FADED = 0.05
UNUSED_DAYS = 30.0
RARELY = 5
FADED_EDGE = 0.01
BATCH = 200
MOST_INSTANCES = 2000
"""That an eviction moves in one transaction, which has little time."""
RETENTION_DAYS = 30.0
WRITES_DAYS = 90.0
"""How long the claims of writes are kept: longer than any run can be tried again."""
_FADED_TOPICS = f"""
SELECT t.id, t.topic_name, {sql_strength("t")} AS strength FROM memory_topics t
WHERE t.scope_id = %(scope)s AND NOT t.pinned AND t.access_count < {RARELY}
    AND t.last_accessed < to_timestamp(%(now)s - {UNUSED_DAYS * DAY}) AND {sql_strength("t")} < {FADED}
    AND NOT EXISTS (SELECT FROM memory_mentions m JOIN memory_instances i ON i.id = m.instance_id
                    WHERE m.topic_id = t.id AND i.pinned)
ORDER BY strength, t.id LIMIT %(limit)s
"""
_FADED_INSTANCES = f"""
SELECT i.id FROM memory_instances i
WHERE i.scope_id = %(scope)s AND i.topic_id IS NULL AND NOT i.pinned AND i.access_count < {RARELY}
    AND i.last_accessed < to_timestamp(%(now)s - {UNUSED_DAYS * DAY}) ORDER BY i.seq LIMIT %(limit)s
"""
_FADED_EDGES = f"""
SELECT e.id FROM topic_edges e JOIN memory_topics t ON t.id = e.from_topic
WHERE t.scope_id = %(scope)s AND e.last_activated < to_timestamp(%(now)s - {UNUSED_DAYS * DAY})
    AND {sql_weight("e")} < {FADED_EDGE} ORDER BY e.id LIMIT %(limit)s
"""
_ORPHANS = """
SELECT t.id FROM memory_topics t
WHERE t.scope_id = %(scope)s AND NOT t.pinned AND t.id <> ALL(%(topics)s)
    AND t.id IN (SELECT m.topic_id FROM memory_mentions m WHERE m.instance_id = ANY(%(instances)s))
    AND NOT EXISTS (SELECT FROM memory_mentions m WHERE m.topic_id = t.id AND m.instance_id <> ALL(%(instances)s))
"""
_REHOME = """
UPDATE memory_instances i SET topic_id = (
    SELECT m.topic_id FROM memory_mentions m WHERE m.instance_id = i.id AND m.topic_id <> ALL(%(topics)s)
    ORDER BY m.weight DESC, m.topic_id LIMIT 1)
WHERE i.topic_id = ANY(%(topics)s)
    AND EXISTS (SELECT FROM memory_mentions m WHERE m.instance_id = i.id AND m.topic_id <> ALL(%(topics)s))
"""
_UNCOUNT = """
UPDATE memory_topics t SET mentions = greatest(0, t.mentions - w.count)
FROM (SELECT topic_id, count(*)::int AS count FROM memory_mentions
      WHERE instance_id = ANY(%(instances)s) AND topic_id <> ALL(%(topics)s) GROUP BY topic_id) AS w
WHERE t.id = w.topic_id
"""
"""A topic that goes keeps its number: it comes back with what mentions it."""
_COUNT = """
UPDATE memory_topics t SET mentions = greatest(w.whole, t.mentions + w.new)
FROM (SELECT topic_id, count(*)::int AS whole,
          count(*) FILTER (WHERE instance_id = ANY(%(instances)s) AND topic_id <> ALL(%(topics)s))::int AS new
      FROM memory_mentions
      WHERE topic_id IN (SELECT topic_id FROM memory_mentions WHERE instance_id = ANY(%(instances)s))
      GROUP BY topic_id) AS w
WHERE t.id = w.topic_id
"""
_RECYCLE = """
INSERT INTO memory_recycled (batch, scope_id, source_table, row_id, content, reason, evicted_at, expires_at)
SELECT %(batch)s, %(scope)s, '{table}', {row_id}, to_jsonb(r){more}, %(reason)s, to_timestamp(%(now)s),
    to_timestamp(%(now)s + %(retention)s) FROM {table} r WHERE {which}
"""
_ITS_TERMS = """
 || jsonb_build_object('terms', (SELECT jsonb_object_agg(term, tf) FROM memory_terms x WHERE x.number = r.number))
"""
"""Within the instance's row: a row for each term of it would be most of the recycle table."""
_RESTORE_TERMS = """
INSERT INTO memory_terms (scope_id, term, number, tf, length)
SELECT i.scope_id, w.key, i.number, w.value::int::smallint, i.length
FROM memory_recycled r JOIN memory_instances i ON i.id = r.row_id,
    jsonb_each_text(CASE jsonb_typeof(r.content -> 'terms') WHEN 'object' THEN r.content -> 'terms' ELSE '{}' END) AS w
WHERE r.batch = %s AND r.scope_id = %s AND r.source_table = 'memory_instances' AND i.id = ANY(%s)
ON CONFLICT DO NOTHING
"""
_PARTS = (
    # table, id of a row, which rows belong to the topics and instances that go; in the order in which they come back
    ("memory_topics", "r.id", "r.id = ANY(%(topics)s)"),
    ("memory_instances", "r.id", "r.id = ANY(%(instances)s)"),
    ("memory_mentions", "r.instance_id || '/' || r.topic_id",
     "r.topic_id = ANY(%(topics)s) OR r.instance_id = ANY(%(instances)s)"),
    ("topic_edges", "r.id", "r.from_topic = ANY(%(topics)s) OR r.to_topic = ANY(%(topics)s)"),
)  # fmt: skip


@dataclass(frozen=True)
class Forgotten:
    """What went, or in a dry run what would go. batch: to bring it back with, "" when nothing went."""

    topics: int = 0
    instances: int = 0
    edges: int = 0
    batch: str = ""
    names: tuple[str, ...] = ()

    def __add__(self, other: Forgotten) -> Forgotten:
        """Return the sum of two."""
        names = (*self.names, *other.names)
        return Forgotten(
            self.topics + other.topics, self.instances + other.instances, self.edges + other.edges,
            self.batch or other.batch, names[:50],
        )  # fmt: skip


def scopes_of(connection: psycopg.Connection[Any], bot: str) -> list[int]:
    """Return the numbers of all scopes of a bot."""
    return [id for (id,) in connection.execute("SELECT id FROM memory_scopes WHERE bot = %s ORDER BY id", (bot,))]


def evict(
    connection: psycopg.Connection[Any],
    scope_id: int,
    *,
    now: float,
    batch: str = "",
    retention_days: float = RETENTION_DAYS,
    limit: int = BATCH,
) -> Forgotten:
    """Move at most `limit` faded topics of one scope, with what hangs on them alone, to the recycle table.

    Call it again, each time in a transaction of its own, until nothing goes. batch: name to bring it back with.
    """
    scopes.locked(connection, [scope_id])
    values = {"scope": scope_id, "now": now, "limit": limit}
    faded = connection.execute(_FADED_TOPICS, values).fetchall()
    loose = [id for (id,) in connection.execute(_FADED_INSTANCES, values)]
    batch = batch or lumia.system.new_id()
    topics = [row[0] for row in faded]
    hanging = _instances_of(connection, topics)
    if len(hanging) > MOST_INSTANCES:  # a chat that was all about one thing: its instances go first, in portions
        faded, topics, loose = [], [], hanging[:MOST_INSTANCES]
    gone = _recycle(connection, scope_id, topics, loose, batch, "faded", now, retention_days)
    edges = connection.execute(f"DELETE FROM topic_edges WHERE id IN ({_FADED_EDGES})", values).rowcount
    names = tuple(row[1] for row in faded)
    return Forgotten(gone.topics, gone.instances, gone.edges + edges, gone.batch, names)


def dry_run(connection: psycopg.Connection[Any], bot: str, *, now: float) -> Forgotten:
    """Return what `evict` would take from all scopes of a bot at `now`; changes nothing."""
    found = Forgotten()
    everything = {"now": now, "limit": 10_000_000}
    for scope_id in scopes_of(connection, bot):
        values = {**everything, "scope": scope_id}
        faded = connection.execute(_FADED_TOPICS, values).fetchall()
        topics = [row[0] for row in faded]
        loose = connection.execute(f"SELECT count(*) FROM ({_FADED_INSTANCES}) AS x", values).fetchone()
        with_them = len(_instances_of(connection, topics))
        touching = connection.execute(
            "SELECT count(*) FROM topic_edges WHERE from_topic = ANY(%(t)s) OR to_topic = ANY(%(t)s) "
            f"OR id IN ({_FADED_EDGES})",
            {**values, "t": topics},
        ).fetchone()
        assert loose is not None and touching is not None
        names = tuple(row[1] for row in faded)
        found += Forgotten(len(topics), with_them + loose[0], touching[0], "", names)
    return found


def forget(
    connection: psycopg.Connection[Any],
    scope: Scope,
    topic: str,
    content: str = "",
    *,
    now: float,
    origin: Origin | None = None,
    retention_days: float = RETENTION_DAYS,
) -> Forgotten:
    """Forget a topic of `scope` by name with its facts and what was said about it alone, or only what holds `content`.

    Pinned or not: whoever asks for it means it. It can be brought back by its batch.
    """
    from .writing import claim

    number = scopes.ids(connection, [scope]).get(scope)
    if number is None:
        return Forgotten()
    scopes.locked(connection, [number])
    batch = lumia.system.new_id()
    if origin is not None and claim(connection, [(origin, "forget", number, batch)], now) != [batch]:
        return Forgotten()
    rows = connection.execute(
        "SELECT id, topic_name FROM memory_topics WHERE scope_id = %s AND name_key = %s", (number, key_of(topic))
    ).fetchall()
    ids, names = [row[0] for row in rows], tuple(row[1] for row in rows)
    own: list[str] = []
    if content:
        found = connection.execute(
            "SELECT DISTINCT i.id FROM memory_instances i JOIN memory_mentions m ON m.instance_id = i.id "
            "WHERE i.scope_id = %s AND m.topic_id = ANY(%s) AND strpos(lower(i.content), lower(%s)) > 0",
            (number, ids, lumia.payloads.clean_text(content)),
        )
        ids, own = [], [id for (id,) in found]
    gone = _forget(connection, number, ids, own, batch, now, retention_days)
    return Forgotten(gone.topics, gone.instances, gone.edges, gone.batch, names)


def forget_these(
    connection: psycopg.Connection[Any],
    scope: Scope,
    *,
    topics: Sequence[str] = (),
    instances: Sequence[str] = (),
    now: float,
    retention_days: float = RETENTION_DAYS,
    batch: str = "",
) -> Forgotten:
    """Forget topics and instances of `scope` by id; ids of others are left alone. batch: to bring them back with."""
    number = scopes.ids(connection, [scope]).get(scope)
    if number is None:
        return Forgotten()
    scopes.locked(connection, [number])
    about = _own(connection, number, "memory_topics", topics)
    own = _own(connection, number, "memory_instances", instances)
    return _forget(connection, number, about, own, batch or lumia.system.new_id(), now, retention_days)


def _own(connection: psycopg.Connection[Any], number: int, table: str, ids: Sequence[str]) -> list[str]:
    """Return those of `ids` that are rows of a scope."""
    query = f"SELECT id FROM {table} WHERE scope_id = %s AND id = ANY(%s)"
    return [id for (id,) in connection.execute(query.encode(), (number, list(ids)))]


def _forget(
    connection: psycopg.Connection[Any], number: int, topics: Sequence[str], instances: Sequence[str], batch: str,
    now: float, retention_days: float,
) -> Forgotten:  # fmt: skip
    """Recycle topics with their facts, instances, and the topics nothing else is about: they tell what was said."""
    facts = connection.execute(
        "SELECT id FROM memory_instances WHERE scope_id = %s AND topic_id = ANY(%s) AND kind = 'fact'",
        (number, list(topics)),
    ).fetchall()
    going = sorted({*instances, *(id for (id,) in facts), *_instances_of(connection, topics)})
    left = connection.execute(_ORPHANS, {"scope": number, "topics": list(topics), "instances": going}).fetchall()
    orphans = [id for (id,) in left]
    return _recycle(connection, number, [*topics, *orphans], going, batch, "forgotten", now, retention_days)


def pin(connection: psycopg.Connection[Any], scope: Scope, id: str, *, pinned: bool = True) -> bool:
    """Exempt a topic or an instance of `scope` from eviction, or no longer; tells whether there is one of this id."""
    number = scopes.ids(connection, [scope]).get(scope, -1)
    scopes.locked(connection, [number])
    changed = 0
    for table in ("memory_topics", "memory_instances"):
        changed += connection.execute(
            f"UPDATE {table} SET pinned = %s WHERE scope_id = %s AND id = %s", (pinned, number, id)
        ).rowcount
    return changed > 0


def restore(
    connection: psycopg.Connection[Any],
    scope: Scope,
    batch: str,
    *,
    passages: Callable[[Sequence[str]], NDArray[Any]] | None = None,
) -> Forgotten:
    """Bring back what went as `batch` from `scope`; returns what came back.

    What was made anew meanwhile (a topic of the same name, say) stays as it is, and takes what hung on the old one.
    passages: embeds what went under another embedder anew; without it that raises `EmbedderError`.
    """
    number = scopes.ids(connection, [scope]).get(scope)
    if number is None:
        return Forgotten()
    scopes.locked(connection, [number])
    found: dict[str, list[str]] = {}
    _embed_anew(connection, number, batch, passages)
    renamed = _twins(connection, number, batch)
    for table, _, _ in _PARTS:
        found[table] = _restored(connection, table, number, batch, renamed)
    topics, instances, edges = (found[table] for table in ("memory_topics", "memory_instances", "topic_edges"))
    connection.execute(_RESTORE_TERMS, (batch, number, instances))
    connection.execute(_COUNT, {"instances": instances, "topics": topics})
    connection.execute(
        "UPDATE memory_scopes SET instances = instances + %s, tokens = tokens + coalesce((SELECT sum((content ->> "
        "'length')::bigint) FROM memory_recycled WHERE batch = %s AND scope_id = %s AND source_table = "
        "'memory_instances'), 0) WHERE id = %s",
        (len(instances), batch, number, number),
    )
    connection.execute("DELETE FROM memory_recycled WHERE batch = %s AND scope_id = %s", (batch, number))
    return Forgotten(len(topics), len(instances), len(edges), batch)


def clean(connection: psycopg.Connection[Any], *, now: float, limit: int = 5000) -> int:
    """Delete what has been in the recycle table for its time, and claims nobody can repeat; returns how many rows."""
    recycled = connection.execute(
        "DELETE FROM memory_recycled WHERE id IN (SELECT id FROM memory_recycled WHERE expires_at < to_timestamp(%s) "
        "ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED)",
        (now, limit),
    ).rowcount
    writes = connection.execute(
        "DELETE FROM memory_writes WHERE (run_id, step, ordinal) IN (SELECT run_id, step, ordinal FROM memory_writes "
        "WHERE written_at < to_timestamp(%s) ORDER BY run_id, step, ordinal LIMIT %s FOR UPDATE SKIP LOCKED)",
        (now - WRITES_DAYS * DAY, limit),
    ).rowcount
    return int(recycled + writes)


def _instances_of(connection: psycopg.Connection[Any], topics: Sequence[str]) -> list[str]:
    """Return the instances whose main topic goes and that mention no other one."""
    rows = connection.execute(
        "SELECT i.id FROM memory_instances i WHERE i.topic_id = ANY(%(topics)s) AND NOT EXISTS (SELECT FROM "
        "memory_mentions m WHERE m.instance_id = i.id AND m.topic_id <> ALL(%(topics)s)) ORDER BY i.id",
        {"topics": list(topics)},
    )
    return [id for (id,) in rows]


def _recycle(
    connection: psycopg.Connection[Any], scope_id: int, topics: Sequence[str], instances: Sequence[str], batch: str,
    reason: str, now: float, retention_days: float,
) -> Forgotten:  # fmt: skip
    """Move topics, the instances that depend on them alone, and `instances` to the recycle table.

    Without a retention they are gone at once.
    """
    going = sorted({*_instances_of(connection, topics), *instances})
    if not topics and not going:
        return Forgotten()
    values = {
        "batch": batch, "scope": scope_id, "reason": reason, "now": now, "retention": retention_days * DAY,
        "topics": list(topics), "instances": going,
    }  # fmt: skip
    kept = retention_days > 0
    for table, row_id, which in _PARTS if kept else ():
        more = _ITS_TERMS if table == "memory_instances" else ""
        connection.execute(_RECYCLE.format(table=table, row_id=row_id, which=which, more=more), values)
    connection.execute(_UNCOUNT, values)
    connection.execute(_REHOME, values)
    lengths = connection.execute(
        "WITH gone AS (DELETE FROM memory_instances WHERE id = ANY(%(instances)s) RETURNING length) "
        "SELECT count(*), coalesce(sum(length), 0) FROM gone",
        values,
    ).fetchone()
    edges = connection.execute(
        "DELETE FROM topic_edges WHERE from_topic = ANY(%(topics)s) OR to_topic = ANY(%(topics)s)", values
    ).rowcount
    connection.execute("DELETE FROM memory_topics WHERE id = ANY(%(topics)s)", values)
    assert lengths is not None
    connection.execute(
        "UPDATE memory_scopes SET instances = greatest(0, instances - %s), tokens = greatest(0, tokens - %s) "
        "WHERE id = %s",
        (*lengths, scope_id),
    )
    return Forgotten(len(topics), lengths[0], edges, batch if kept else "")


def _embed_anew(
    connection: psycopg.Connection[Any],
    scope_id: int,
    batch: str,
    passages: Callable[[Sequence[str]], NDArray[Any]] | None,
) -> None:
    """Give recycled rows vectors of the active embedder."""
    active = next(one.id for one in stored(connection) if one.state == ACTIVE)
    for table, text, vector in (
        ("memory_topics", "topic_name", "topic_embedding"),
        ("memory_instances", "content", "content_embedding"),
    ):
        rows = connection.execute(
            "SELECT id, content ->> %s FROM memory_recycled WHERE batch = %s AND scope_id = %s AND source_table = %s "
            "AND (content ->> 'embedder_id')::int <> %s ORDER BY id",
            (text, batch, scope_id, table, active),
        ).fetchall()
        if rows and passages is None:
            raise EmbedderError(
                "what was forgotten has vectors of an earlier embedder; restore it with the present one"
            )
        for (id, _), found in zip(rows, passages([row[1] for row in rows]) if rows and passages else (), strict=True):
            connection.execute(
                "UPDATE memory_recycled SET content = content || jsonb_build_object(%s::text, %s::vector::text, "
                "'embedder_id', %s::int) WHERE id = %s",
                (vector, found, active, id),
            )


def _twins(connection: psycopg.Connection[Any], scope_id: int, batch: str) -> dict[str, str]:
    """Return old id → present id of recycled topics whose name is taken again."""
    rows = connection.execute(
        "SELECT r.row_id, t.id FROM memory_recycled r JOIN memory_topics t ON t.scope_id = r.scope_id "
        "AND t.name_key = r.content ->> 'name_key' "
        "WHERE r.batch = %s AND r.scope_id = %s AND r.source_table = 'memory_topics'",
        (batch, scope_id),
    )
    return dict(rows.fetchall())


def _restored(
    connection: psycopg.Connection[Any], table: str, scope_id: int, batch: str, renamed: dict[str, str]
) -> list[str]:
    """Put the rows of a table back; returns what identifies those that came back."""
    from psycopg.types.json import Jsonb

    columns = connection.execute(
        "SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = %s::regclass "
        "AND attnum > 0 AND NOT attisdropped AND attgenerated = ''",
        (table,),
    ).fetchone()
    assert columns is not None
    topic_columns = {
        "memory_instances": ("topic_id",), "memory_mentions": ("topic_id",), "topic_edges": ("from_topic", "to_topic"),
    }.get(table, ())  # fmt: skip
    content = "r.content"
    for name in topic_columns:
        content = (
            f"jsonb_set({content}, '{{{name}}}', coalesce(%(renamed)s::jsonb -> (r.content ->> '{name}'), "
            f"r.content -> '{name}'))"
        )
    present = {
        "memory_mentions": "EXISTS (SELECT FROM memory_topics WHERE id = n.topic_id) "
        "AND EXISTS (SELECT FROM memory_instances WHERE id = n.instance_id)",
        "topic_edges": "n.from_topic <> n.to_topic AND EXISTS (SELECT FROM memory_topics WHERE id = n.from_topic) "
        "AND EXISTS (SELECT FROM memory_topics WHERE id = n.to_topic)",
    }.get(table, "true")
    shown = columns[0]
    if table == "memory_instances":  # its topic may have gone later, in a batch of its own
        shown = shown.replace("topic_id", "(SELECT t.id FROM memory_topics t WHERE t.id = n.topic_id)")
    done = connection.execute(
        f"INSERT INTO {table} ({columns[0]}) SELECT {shown} FROM (SELECT (jsonb_populate_record(NULL::{table}, "
        f"{content})).* FROM memory_recycled r WHERE r.batch = %(batch)s AND r.scope_id = %(scope)s "
        f"AND r.source_table = %(table)s ORDER BY r.id) AS n WHERE {present} ON CONFLICT DO NOTHING "
        f"RETURNING {'topic_id' if table == 'memory_mentions' else 'id'}",
        {"renamed": Jsonb(renamed), "batch": batch, "scope": scope_id, "table": table},
    )
    return [id for (id,) in done]

"""Reading single topics and instances. Every function takes the reader's scope and filters by it in SQL."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from . import scopes
from .decay import sql_strength
from .types import Instance, Scope, Topic

if TYPE_CHECKING:
    import psycopg

INSTANCE = """
i.id, s.bot, s.chat, i.kind, i.content, i.seq, i.topic_id, coalesce(i.sender, ''),
coalesce(i.metadata ->> 'sender_name', ''), i.importance, extract(epoch FROM i.created_at)::float8,
extract(epoch FROM i.last_accessed)::float8, i.access_count, i.pinned, i.run_id, i.message_ids
"""
"""Columns that `instance_of` takes; `i` is memory_instances, `s` memory_scopes."""
TOPIC = f"""
t.id, s.bot, s.chat, t.topic_name, {sql_strength("t")}, t.half_life_days, t.access_count, t.mentions,
extract(epoch FROM t.created_at)::float8, extract(epoch FROM t.last_accessed)::float8, t.pinned
"""
"""Columns that `topic_of` takes; `t` is memory_topics, `s` memory_scopes, and `%(now)s` the moment of the reading."""


def instance_of(row: Sequence[Any]) -> Instance:
    """Return the instance of a row of the columns `INSTANCE`."""
    id, bot, chat, *rest = row[:16]
    kind, content, seq, topic_id, sender, name, importance, created, accessed, count, pinned, run_id, messages = rest
    return Instance(id, Scope(bot, chat), kind, content, seq, topic_id, sender, name, importance, created, accessed,
                    count, pinned, run_id, tuple(messages))  # fmt: skip


def instance_of_json(text: bytes) -> Instance:
    """Return the instance of a `json_build_array` of the columns `INSTANCE`; JSON knows no 7.0, only 7."""
    row = json.loads(text)
    return instance_of([*row[:9], *map(float, row[9:12]), *row[12:]])


def topic_of(row: Sequence[Any]) -> Topic:
    """Return the topic of a row of the columns `TOPIC`."""
    id, bot, chat, *rest = row[:11]
    return Topic(id, Scope(bot, chat), *rest)


def instances(connection: psycopg.Connection[Any], scope: Scope, ids: Sequence[str]) -> list[Instance]:
    """Return those instances a reader in `scope` may see, in the order of `ids`."""
    rows = connection.execute(
        f"SELECT {INSTANCE} FROM memory_instances i JOIN memory_scopes s ON s.id = i.scope_id "
        "WHERE i.scope_id = ANY(%s) AND i.id = ANY(%s)",
        (scopes.visible(connection, scope), list(ids)),
    )
    found = {row[0]: instance_of(row) for row in rows}
    return [found[id] for id in ids if id in found]


def numbered(
    connection: psycopg.Connection[Any], visible: Sequence[int], numbers: Sequence[int]
) -> dict[int, Instance]:
    """Return those instances of the scopes `visible` by `memory_instances.number`."""
    rows = connection.execute(
        f"SELECT {INSTANCE}, i.number FROM memory_instances i JOIN memory_scopes s ON s.id = i.scope_id "
        "WHERE i.number = ANY(%s) AND i.scope_id = ANY(%s)",
        (list(numbers), list(visible)),
        prepare=True,
    )
    return {row[-1]: instance_of(row) for row in rows}


def topics(
    connection: psycopg.Connection[Any],
    scope: Scope,
    ids: Sequence[str],
    *,
    now: float,
    visible: Sequence[int] | None = None,
) -> list[Topic]:
    """Return those topics a reader in `scope` may see, in the order of `ids`.

    visible: numbers of its scopes, when they are known.
    """
    rows = connection.execute(
        f"SELECT {TOPIC} FROM memory_topics t JOIN memory_scopes s ON s.id = t.scope_id "
        "WHERE t.scope_id = ANY(%(scopes)s) AND t.id = ANY(%(ids)s)",
        {"scopes": visible or scopes.visible(connection, scope), "ids": list(ids), "now": now},
        prepare=True,
    )
    found = {row[0]: topic_of(row) for row in rows}
    return [found[id] for id in ids if id in found]


def topic_named(connection: psycopg.Connection[Any], scope: Scope, name: str, *, now: float) -> Topic | None:
    """Return the topic of this name as a reader in `scope` sees it: the scope's own before the whole bot's."""
    from .content import key_of

    row = connection.execute(
        f"SELECT {TOPIC} FROM memory_topics t JOIN memory_scopes s ON s.id = t.scope_id "
        "WHERE t.scope_id = ANY(%(scopes)s) AND t.name_key = %(key)s ORDER BY (s.chat = '') LIMIT 1",
        {"scopes": scopes.visible(connection, scope), "key": key_of(name), "now": now},
    ).fetchone()
    return topic_of(row) if row else None


def of_topic(
    connection: psycopg.Connection[Any], scope: Scope, topic_id: str, *, limit: int = 50
) -> list[Instance]:  # fmt: skip
    """Return the newest instances that mention a topic, as far as a reader in `scope` may see them."""
    rows = connection.execute(
        f"SELECT {INSTANCE} FROM memory_mentions m JOIN memory_instances i ON i.id = m.instance_id "
        "JOIN memory_scopes s ON s.id = i.scope_id "
        "WHERE m.topic_id = %s AND i.scope_id = ANY(%s) ORDER BY i.seq DESC LIMIT %s",
        (topic_id, scopes.visible(connection, scope), limit),
    )
    return [instance_of(row) for row in rows]


def recent(connection: psycopg.Connection[Any], scope: Scope, *, limit: int = 20) -> list[Instance]:
    """Return the newest instances of `scope` itself, oldest first."""
    number = scopes.ids(connection, [scope]).get(scope, -1)
    rows = connection.execute(
        f"SELECT {INSTANCE} FROM memory_instances i JOIN memory_scopes s ON s.id = i.scope_id "
        "WHERE i.scope_id = %s ORDER BY i.seq DESC LIMIT %s",
        (number, limit),
    )
    return [instance_of(row) for row in reversed(rows.fetchall())]


def totals(connection: psycopg.Connection[Any], bot: str) -> dict[str, int]:
    """Return how much a bot's memory holds: scopes, instances, topics, edges, terms, people, relations, recycled."""
    own = "SELECT id FROM memory_scopes WHERE bot = %(bot)s"
    row = connection.execute(
        f"""SELECT (SELECT count(*) FROM memory_scopes WHERE bot = %(bot)s),
        (SELECT count(*) FROM memory_instances WHERE scope_id IN ({own})),
        (SELECT count(*) FROM memory_topics WHERE scope_id IN ({own})),
        (SELECT count(*) FROM topic_edges e JOIN memory_topics t ON t.id = e.from_topic WHERE t.scope_id IN ({own})),
        (SELECT count(*) FROM memory_terms WHERE scope_id IN ({own})),
        (SELECT count(*) FROM memory_people WHERE scope_id IN ({own})),
        (SELECT count(*) FROM memory_relations WHERE scope_id IN ({own})),
        (SELECT count(*) FROM memory_recycled WHERE scope_id IN ({own}))""",
        {"bot": bot},
    ).fetchone()
    assert row is not None
    names = ("scopes", "instances", "topics", "edges", "terms", "people", "relations", "recycled")
    return dict(zip(names, row, strict=True))

"""What the operator's commands do: look over all chats of a bot, which no message ever can, and forget on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import lumia

from . import embedders, engine, forgetting, hints, reading, reembed
from .decay import sql_weight
from .errors import MemoryUnavailableError
from .forgetting import Forgotten
from .types import Recalled, Scope

if TYPE_CHECKING:
    import psycopg

_WEIGHT = sql_weight("e")
_EDGES = f"""
SELECT x.here, x.there, t.topic_name, x.weight, x.edge_type FROM (
    SELECT from_topic AS here, to_topic AS there, {_WEIGHT} AS weight, edge_type FROM topic_edges e
    WHERE from_topic = ANY(%(ids)s)
    UNION ALL
    SELECT to_topic, from_topic, {_WEIGHT}, edge_type FROM topic_edges e WHERE to_topic = ANY(%(ids)s)) AS x
JOIN memory_topics t ON t.id = x.there ORDER BY x.weight DESC, t.topic_name LIMIT %(limit)s
"""
_BATCH = 500
_MOST_CHATS = 200


class UnknownError(lumia.errors.LumiaError):
    """There is no such chat, topic or record; the message says what there is."""


@dataclass(frozen=True)
class Shown:
    """A record or topic with what hangs on it. near: (weight now, type, name) of a topic's neighbours."""

    scope: Scope
    record: dict[str, Any]
    said: tuple[dict[str, Any], ...] = ()
    near: tuple[tuple[float, str, str], ...] = ()


def chats(connection: psycopg.Connection[Any], bot: str) -> list[str]:
    """Return the chats a bot remembers, the fullest first; "" is the whole bot."""
    rows = connection.execute(
        "SELECT chat FROM memory_scopes WHERE bot = %s ORDER BY instances DESC, chat LIMIT %s", (bot, _MOST_CHATS)
    )
    return [chat for (chat,) in rows]


def chat_named(connection: psycopg.Connection[Any], bot: str, group: str) -> str:
    """Return the one chat that `group` names, by its id or as `platform:account:kind:id`; raises `UnknownError`."""
    known = chats(connection, bot)
    found = [chat for chat in known if chat == group or chat.rpartition(":")[2] == group]
    if len(found) == 1:
        return found[0]
    listed = ", ".join(found or [chat for chat in known if chat][:10]) or "none yet"
    if found:
        raise UnknownError(f"{len(found)} chats are called {group!r}; name one in full: {listed}")
    raise UnknownError(f"no chat {group!r} in the memory; there are: {listed}")


def query(text: str, group: str, sender: str, top_k: int) -> list[tuple[str, Recalled]]:
    """Return what each chat (or that of `group`) holds on `text`, by chat; best first within each."""
    from . import recall

    work, bot = engine.current(), engine.bot_name()
    vector, now = work.embedder.query(text), lumia.system.now()
    with work.database.transaction() as connection:
        wanted = [chat_named(connection, bot, group)] if group else chats(connection, bot)
        return [
            (
                chat,
                recall.recall(
                    connection, Scope(bot, chat), text, vector, sender=sender or None, top_k=top_k, now=now
                ),
            )
            for chat in wanted
        ]  # fmt: skip


def stats(connection: psycopg.Connection[Any], bot: str) -> dict[str, Any]:
    """Return counts, the embedder, a change of it that has begun, the size on disk, and the fullest chats."""
    size = connection.execute(
        "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c WHERE c.relnamespace = "
        "current_schema()::regnamespace AND c.relkind = 'r' AND (c.relname ^@ 'memory_' OR c.relname = 'topic_edges')"
    ).fetchone()
    files = connection.execute(
        "SELECT count(*), coalesce(sum(chunks), 0) FROM memory_documents d JOIN memory_scopes s ON s.id = d.scope_id "
        "WHERE s.bot = %s",
        (bot,),
    ).fetchone()
    fullest = connection.execute(
        "SELECT chat, instances FROM memory_scopes WHERE bot = %s ORDER BY instances DESC, chat LIMIT 10", (bot,)
    ).fetchall()
    assert size is not None and files is not None
    active = next((one for one in embedders.stored(connection) if one.state == embedders.ACTIVE), None)
    change = reembed.progress(connection)
    return {
        **reading.totals(connection, bot),
        "files": files[0],
        "chunks": int(files[1]),
        "bytes": int(size[0]),
        "embedder": asdict(active) if active else None,
        "rebuild": {"model": change[0], **asdict(change[1])} if change else None,
        "chats": dict(fullest),
    }


def place_of(connection: psycopg.Connection[Any], bot: str, id: str) -> tuple[Scope, str]:
    """Return (scope, table) of a topic or record of this bot; raises `UnknownError`."""
    for table in ("memory_instances", "memory_topics"):
        row = connection.execute(
            f"SELECT s.chat FROM {table} r JOIN memory_scopes s ON s.id = r.scope_id WHERE r.id = %s AND s.bot = %s",
            (id, bot),
        ).fetchone()
        if row is not None:
            return Scope(bot, row[0]), table
    raise UnknownError(f"nothing in the memory has the id {id!r}; `lumia memory query TEXT` shows ids")


def show(connection: psycopg.Connection[Any], bot: str, id: str, *, now: float) -> Shown:
    """Return one topic or record in full; raises `UnknownError`."""
    scope, table = place_of(connection, bot, id)
    if table == "memory_instances":
        (one,) = reading.instances(connection, scope, [id])
        rows = connection.execute(
            "SELECT m.weight, 'mentions', t.topic_name FROM memory_mentions m "
            "JOIN memory_topics t ON t.id = m.topic_id WHERE m.instance_id = %s ORDER BY m.weight DESC, t.topic_name",
            (id,),
        )
        return Shown(scope, asdict(one), (), tuple(rows.fetchall()))
    (topic,) = reading.topics(connection, scope, [id], now=now)
    said = tuple(asdict(one) for one in reading.of_topic(connection, scope, id, limit=20))
    near = tuple((edge.weight, edge.type, edge.name) for edge in edges(connection, [id], now=now))
    return Shown(scope, asdict(topic), said, near)


@dataclass(frozen=True)
class Edge:
    """An association as seen from one end. weight: decayed to now; name: of the other end."""

    source: str
    target: str
    name: str
    weight: float
    type: str


def edges(connection: psycopg.Connection[Any], topics: Sequence[str], *, now: float, limit: int = 60) -> list[Edge]:
    """Return the strongest associations of these topics (ids), each once per end among them."""
    rows = connection.execute(_EDGES, {"ids": list(topics), "now": now, "limit": limit})
    return [Edge(*row) for row in rows]


def selected(
    connection: psycopg.Connection[Any], bot: str, ids: Sequence[str], sender: str, group: str
) -> dict[Scope, list[str]]:
    """Return the ids of the records that `forget` would take, by scope; raises `UnknownError`."""
    found: dict[Scope, list[str]] = {}
    for id in ids:
        found.setdefault(place_of(connection, bot, id)[0], []).append(id)
    if sender or group:
        chat = chat_named(connection, bot, group) if group else None
        rows = connection.execute(
            "SELECT s.chat, i.id FROM memory_instances i JOIN memory_scopes s ON s.id = i.scope_id WHERE s.bot = %s "
            "AND (%s::text IS NULL OR s.chat = %s) AND (%s = '' OR i.sender = %s) ORDER BY i.seq",
            (bot, chat, chat, sender, sender),
        )
        for place, id in rows:
            found.setdefault(Scope(bot, place), []).append(id)
    return found


def forget(
    which: dict[Scope, list[str]], *, sender: str = "", group: bool = False, progress: Callable[[int], None]
) -> Forgotten:
    """Move records and topics (ids by scope) to the recycle table, some hundreds per transaction.

    sender: whose profile and relations go as well, for good. group: the topics of these scopes and their hints go, too.
    """
    database, now, total = engine.current().database, lumia.system.now(), Forgotten()
    for scope, ids in which.items():
        for start in range(0, len(ids), _BATCH):
            with database.transaction() as connection:
                total += _forget_some(connection, scope, ids[start : start + _BATCH], now)
            progress(total.instances)
        with database.transaction() as connection:
            if group:
                for name in _topic_names(connection, scope):
                    total += forgetting.forget(connection, scope, name, now=now)
            if sender:
                _forget_person(connection, scope, sender)
        if group:
            _forget_hints(scope.chat)
    return total


def _forget_some(connection: psycopg.Connection[Any], scope: Scope, ids: Sequence[str], now: float) -> Forgotten:
    done = forgetting.forget_instances(connection, scope, ids, now=now)
    rows = connection.execute("SELECT topic_name FROM memory_topics WHERE id = ANY(%s)", (list(ids),)).fetchall()
    for (name,) in rows:
        done += forgetting.forget(connection, scope, name, now=now)
    return done


def _topic_names(connection: psycopg.Connection[Any], scope: Scope) -> Iterator[str]:
    rows = connection.execute(
        "SELECT t.topic_name FROM memory_topics t JOIN memory_scopes s ON s.id = t.scope_id "
        "WHERE s.bot = %s AND s.chat = %s",
        (scope.bot, scope.chat),
    ).fetchall()
    return (name for (name,) in rows)


def _forget_person(connection: psycopg.Connection[Any], scope: Scope, sender: str) -> None:
    row = connection.execute(
        "SELECT id FROM memory_scopes WHERE bot = %s AND chat = %s", (scope.bot, scope.chat)
    ).fetchone()
    if row is not None:
        connection.execute(
            "DELETE FROM memory_relations WHERE scope_id = %s AND %s IN (from_person, to_person)", (row[0], sender)
        )
        connection.execute("DELETE FROM memory_people WHERE scope_id = %s AND person = %s", (row[0], sender))


def _forget_hints(chat: str) -> None:
    try:
        hints.forget(chat)
    except lumia.errors.LumiaError as error:
        raise MemoryUnavailableError(
            f"the memory of {chat or 'the bot'} is gone, its hints are not, for the store does not answer: {error}; "
            "start the bot and forget the chat once more"
        ) from error

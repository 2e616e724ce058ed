"""What the operator's commands do: look over all chats of a bot, which no message ever can, and forget on demand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import lumia

from . import embedders, engine, forgetting, hints, people, reading, reembed
from .content import key_of
from .database import Database
from .decay import sql_weight
from .errors import MemoryUnavailableError
from .forgetting import Forgotten
from .people import person_of, sender_of
from .service import LONGEST_QUERY
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
_PLACES = """
SELECT s.chat FROM memory_scopes s WHERE s.bot = %(bot)s AND (%(chat)s::text IS NULL OR s.chat = %(chat)s)
    AND (%(person)s = '' OR EXISTS (SELECT FROM memory_people p WHERE p.scope_id = s.id AND p.person = %(person)s)
        OR EXISTS (SELECT FROM memory_relations r WHERE r.scope_id = s.id
                   AND %(person)s IN (r.from_person, r.to_person)))
ORDER BY s.id
"""
_NUMBER = "(SELECT id FROM memory_scopes WHERE bot = %(bot)s AND chat = %(chat)s)"
_BATCH = 500
_MOST_CHATS = 200
_LONG = 600.0


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
    group = lumia.payloads.clean_text(group)
    rows = connection.execute(
        "SELECT chat FROM memory_scopes WHERE bot = %s "
        "AND (chat = %s OR right(chat, length(%s::text) + 1) = ':' || %s::text) "
        "ORDER BY chat <> %s, instances DESC, chat LIMIT 10",
        (bot, group, group, group, group),
    )
    found = [str(chat) for (chat,) in rows]
    if found and (len(found) == 1 or found[0] == group):
        return found[0]
    if found:
        raise UnknownError(f"several chats are called {group!r}; name one in full: {', '.join(found)}")
    listed = ", ".join([chat for chat in chats(connection, bot) if chat][:10]) or "none yet"
    raise UnknownError(f"no chat {group!r} in the memory; there are: {listed}")


def chat_of_topic(connection: psycopg.Connection[Any], bot: str, name: str) -> str:
    """Return the chat that speaks most of a topic, "" when none does."""
    row = connection.execute(
        "SELECT s.chat FROM memory_topics t JOIN memory_scopes s ON s.id = t.scope_id "
        "WHERE s.bot = %s AND t.name_key = %s ORDER BY t.mentions DESC, s.chat LIMIT 1",
        (bot, key_of(name)),
    ).fetchone()
    return str(row[0]) if row else ""


def query(text: str, group: str, sender: str, top_k: int) -> list[tuple[str, Recalled]]:
    """Return what each chat (or that of `group`) holds on `text`, by chat; best first within each."""
    from . import recall

    work, bot = engine.current(), engine.bot_name()
    text, sender = lumia.payloads.clean_text(text)[:LONGEST_QUERY], person_of(lumia.payloads.clean_text(sender))
    vector, now = work.embedder.query(text), lumia.system.now()
    with work.database.comparing() as connection:
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
    id = lumia.payloads.clean_text(id)
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
    connection: psycopg.Connection[Any], bot: str, ids: Sequence[str], sender: str, group: str, *, exact: bool = False
) -> dict[Scope, list[str]]:
    """Return the ids of the records that `forget` would take, by scope; raises `UnknownError`.

    A scope without records is among them when it knows the person otherwise, or is the chat that is forgotten. exact:
    `group` is the whole of a chat's scope text, which need not be known.
    """
    found: dict[Scope, list[str]] = {}
    sender = person_of(lumia.payloads.clean_text(sender))
    for id in ids:
        found.setdefault(place_of(connection, bot, id)[0], []).append(id)
    if sender or group:
        chat = None if not group else group if exact else chat_named(connection, bot, group)
        for (place,) in connection.execute(_PLACES, {"bot": bot, "chat": chat, "person": sender}).fetchall():
            found.setdefault(Scope(bot, place), [])
        rows = connection.execute(
            "SELECT s.chat, i.id FROM memory_instances i JOIN memory_scopes s ON s.id = i.scope_id WHERE s.bot = %s "
            "AND (%s::text IS NULL OR s.chat = %s) AND (%s = '' OR i.sender = %s) ORDER BY i.seq",
            (bot, chat, chat, sender, sender),
        )
        for place, id in rows:
            found.setdefault(Scope(bot, place), []).append(id)
    return found


def forget(
    which: dict[Scope, list[str]],
    *,
    sender: str = "",
    group: bool = False,
    progress: Callable[[int], None] = lambda _: None,
) -> Forgotten:
    """Move records and topics (ids by scope) to the recycle table, some hundreds per transaction, as one batch.

    sender: whose profile and relations go as well, for good. group: all topics, profiles and relations of these scopes
    and their hints go, too.
    """
    sender = person_of(lumia.payloads.clean_text(sender))
    database, total = engine.stored(), Forgotten()
    values: dict[str, Any] = {"now": lumia.system.now(), "retention_days": engine.retention_days()}
    values["batch"] = lumia.system.new_id()
    for scope, ids in which.items():
        for start in range(0, len(ids), _BATCH):
            some = ids[start : start + _BATCH]
            with database.transaction() as connection:
                total += forgetting.forget_these(connection, scope, topics=some, instances=some, **values)
            progress(total.instances)
        while group:
            with database.transaction() as connection:
                topics = _some_topics(connection, scope)
                total += forgetting.forget_these(connection, scope, topics=topics, **values)
            if not topics:
                break
        if sender or group:
            with database.transaction() as connection:
                _forget_people(connection, scope, sender)
        if group:
            _forget_hints(scope.chat)
    return total


def restore(batch: str) -> Forgotten:
    """Bring back what went as `batch`, each chat in one transaction of up to ten minutes; raises `UnknownError`."""
    work, total, batch = engine.current(), Forgotten(), lumia.payloads.clean_text(batch)
    known, bot = work.database, engine.bot_name()
    database = Database(known.url, model=known.model, dimension=known.dimension, schema=known.schema, limit=_LONG)
    with closing(database):
        with database.transaction() as connection:
            rows = connection.execute(
                "SELECT DISTINCT s.chat FROM memory_recycled r JOIN memory_scopes s ON s.id = r.scope_id "
                "WHERE s.bot = %s AND r.batch = %s ORDER BY s.chat",
                (bot, batch),
            ).fetchall()
        if not rows:
            raise UnknownError(
                f"no batch {batch!r} in the recycle table: it came back already, or retention_days are over"
            )
        for (chat,) in rows:
            with database.transaction() as connection:
                total += forgetting.restore(connection, Scope(bot, chat), batch, passages=work.embedder.passages)
    return total


def _some_topics(connection: psycopg.Connection[Any], scope: Scope) -> list[str]:
    rows = connection.execute(
        "SELECT t.id FROM memory_topics t JOIN memory_scopes s ON s.id = t.scope_id WHERE s.bot = %s AND s.chat = %s "
        "ORDER BY t.id LIMIT %s",
        (scope.bot, scope.chat, _BATCH),
    )
    return [id for (id,) in rows]


def _forget_people(connection: psycopg.Connection[Any], scope: Scope, person: str) -> None:
    """Delete the profile and relations of `person` in a scope, of everyone for ""."""
    values = {"bot": scope.bot, "chat": scope.chat, "person": person}
    connection.execute(
        f"DELETE FROM memory_relations WHERE scope_id = {_NUMBER} "
        "AND (%(person)s = '' OR %(person)s IN (from_person, to_person))",
        values,
    )
    connection.execute(
        f"DELETE FROM memory_people WHERE scope_id = {_NUMBER} AND (%(person)s = '' OR person = %(person)s)", values
    )


@dataclass(frozen=True)
class Named:
    """Somebody as hints may tell of them. person: as the memory has it; chats: where hints are looked through."""

    person: str
    names: tuple[str, ...]
    chats: tuple[str, ...]


def named(connection: psycopg.Connection[Any], bot: str, sender: str, chat: str | None = None) -> Named:
    """Return what a person is called, and the chats whose hints may name them: `chat`, or all of the bot."""
    person = person_of(lumia.payloads.clean_text(sender))
    rows = connection.execute("SELECT chat FROM memory_scopes WHERE bot = %s ORDER BY id", (bot,))
    places = [one for (one,) in rows] if chat is None else [chat]
    return Named(person, people.names_of(connection, bot, person), tuple(places))


def forget_hints(whose: Named) -> int:
    """Drop the hints and commitments that name or come from somebody; returns how many.

    Raises `MemoryUnavailableError` when the store, which holds them, does not answer.
    """
    try:
        return sum(hints.forget_person(chat, sender_of(whose.person), whose.names) for chat in whose.chats)
    except lumia.errors.LumiaError as error:
        raise MemoryUnavailableError(
            f"nothing is forgotten: hints may name {sender_of(whose.person)}, and the store that holds them does not "
            f"answer: {error}; start the bot, then forget them"
        ) from error


def _forget_hints(chat: str) -> None:
    try:
        hints.forget(chat)
    except lumia.errors.LumiaError as error:
        raise MemoryUnavailableError(
            f"the memory of {chat or 'the bot'} is gone, its hints are not, for the store does not answer: {error}; "
            "start the bot and forget the chat once more"
        ) from error

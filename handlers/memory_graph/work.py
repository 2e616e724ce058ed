"""What the consumers do: embed a text, find its terms and topics, and write it in one transaction."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import lumia

from . import embedding, engine, facts, forgetting, observing, people, texts, together, topics, writing
from .content import fitted, name_of
from .observing import chat_of, observed
from .types import SELF, Embedded, Fact, Origin, Scope
from .writing import Observation, Written

if TYPE_CHECKING:
    import psycopg

    from .database import Database

MAX_PEOPLE = 300
"""People of a scope whose names are looked for in a text: those heard last."""
MAX_EMBEDDED = 4000
"""Characters of a text that are embedded: models look at no more."""
_lock = threading.Lock()
_groups: weakref.WeakKeyDictionary[Database, together.Group[tuple[Observation, float], Written]] = (
    weakref.WeakKeyDictionary()
)


@dataclass(frozen=True)
class Prepared:
    """What is made of a text before the database is asked. vector: None without a text; topic: of the topic's name."""

    vector: Embedded | None
    terms: Mapping[str, int]
    topic: Embedded | None = None


def prepared(payload: Mapping[str, Any]) -> Prepared:
    """Return vector and terms of the text in an event's payload; raises what the embedder raises."""
    topic = name_of(str(payload.get("topic") or ""))
    text = fitted(str(payload.get("text") or payload.get("content") or topic))
    if not text or payload.get("action") == "forget" or "weight_delta" in payload:
        return Prepared(None, {})
    vectors = embedding.current().passages([text[:MAX_EMBEDDED], *([topic] if topic else [])])
    return Prepared(vectors[0], texts.terms(text), vectors[1] if topic else None)


def lane_of(payload: Mapping[str, Any]) -> str:
    """Return the memory's lane of the chat an event's payload is about."""
    if "chat" in payload:
        return observing.lane_of(str(payload["chat"]))
    source = payload.get("origin") or {}
    chat = source.get("chat") or {}
    where = chat_of(source.get("platform"), source.get("account"), chat.get("kind"), chat.get("id"))
    return observing.lane_of(where)


def topics_of(connection: psycopg.Connection[Any], scope: Scope, text: str, speaker: str) -> list[tuple[str, float]]:
    """Return what a text is about, the people of its scope and its speaker being known by name."""
    return _about(people.names(connection, scope, limit=MAX_PEOPLE).values(), text, speaker)


def _about(known: Iterable[str], text: str, speaker: str) -> list[tuple[str, float]]:
    return topics.topics_of(text, [*dict.fromkeys(name for name in (speaker, *known) if name)])


def write_observed(payload: Mapping[str, Any], ready: Prepared, origin: Origin, now: float) -> dict[str, Any]:
    """Write the text of a `memory.observe` event; returns what became of it.

    Messages that several threads write at the same moment, of different chats then, go into one transaction.
    """
    if ready.vector is None:
        return {"outcome": "empty"}
    database = engine.current().database
    message = observed(payload)
    observation = Observation(engine.scope(str(payload["chat"])), message, ready.vector, origin, ready.terms)
    if message.kind == "reply":
        return asdict(_write_reply(database, observation, now))
    return asdict(_writers(database).write((observation, now)))


def _write_reply(database: Database, observation: Observation, now: float) -> Written:
    message = observation.message
    scale = embedding.calibrated(database, embedding.current())
    with database.transaction() as connection:
        about = topics_of(connection, observation.scope, message.text, message.sender_name)
        said = replace(message, sender=SELF, sender_name=engine.bot_name())
        return facts.write_reply(
            connection, replace(observation, message=said, topics=about), embedder=database.embedder_id,
            calibration=scale, now=now,
        )  # fmt: skip


def _writers(database: Database) -> together.Group[tuple[Observation, float], Written]:
    """Return the group in which this process writes messages to a database."""
    with _lock:
        if (found := _groups.get(database)) is None:
            to = weakref.ref(database)
            found = _groups[database] = together.Group(lambda batch: _observe_all(to(), batch))
        return found


def _observe_all(database: Database | None, batch: Sequence[tuple[Observation, float]]) -> list[Written]:
    """Write messages in one transaction, each about what it names; the database is that of who waits for it."""
    assert database is not None
    with database.transaction() as connection:
        known = {one.scope: list(people.names(connection, one.scope, limit=MAX_PEOPLE).values()) for one, _ in batch}
        observations = [
            replace(one, topics=_about(known[one.scope], one.message.text, one.message.sender_name)) for one, _ in batch
        ]
        now = max(now for _, now in batch)
        return writing.observe_many(connection, observations, embedder=database.embedder_id, now=now)


def update_memory(payload: Mapping[str, Any], ready: Prepared, origin: Origin, now: float) -> dict[str, Any]:
    """Do what a `memory.update` event says; returns what became of it. Raises `lumia.errors.PayloadError`."""
    update = lumia.payloads.MemoryUpdate.model_validate(payload)
    source = update.origin
    scope = engine.scope(chat_of(source.platform, source.account, source.chat.kind, source.chat.id))
    origin = replace(origin, learned_in=lumia.payloads.clean_text(source.run_id))
    if update.action == "forget":
        with engine.stored().transaction() as connection:
            gone = forgetting.forget(
                connection,
                scope,
                update.topic,
                update.content,
                now=now,
                origin=origin,
                retention_days=engine.retention_days(),
            )
        return {"outcome": "forgotten", "topics": gone.topics, "instances": gone.instances, "batch": gone.batch}
    assert ready.vector is not None
    database = engine.current().database
    calibration = embedding.calibrated(database, embedding.current())
    with database.transaction() as connection:
        number = database.embedder_id
        if not update.content.strip():
            id = facts.touch_topic(
                connection, scope, update.topic, ready.vector, origin=origin, embedder=number, now=now
            )
            return {"outcome": "topic", "id": id}
        name = source.sender.card or source.sender.name
        fact = Fact(update.topic, update.content, update.importance, people.person_of(source.sender.id), name)
        done = facts.write_fact(
            connection, scope, fact, ready.vector, origin=origin, embedder=number, calibration=calibration, now=now,
            terms=ready.terms, topics=topics_of(connection, scope, update.content, name),
            topic_vectors={} if ready.topic is None else {update.topic: ready.topic},
        )  # fmt: skip
    return asdict(done)


def update_relation(payload: Mapping[str, Any], ready: Prepared, origin: Origin, now: float) -> dict[str, Any]:
    """Do what a `relation.update` event says; returns the new weight, None when it was done before."""
    update = lumia.payloads.RelationUpdate.model_validate(payload)
    source = update.origin
    scope = engine.scope(chat_of(source.platform, source.account, source.chat.kind, source.chat.id))
    clean = lumia.payloads.clean_text
    origin = replace(origin, learned_in=clean(source.run_id))
    with engine.stored().transaction() as connection:
        weight = people.relate(
            connection,
            scope,
            clean(update.source),
            clean(update.to),
            update.type,
            update.weight_delta,
            origin=origin,
            now=now,
        )
    return {"outcome": "relation", "weight": weight}


def forget_daily(now: float) -> dict[str, Any]:
    """Evict what has faded from all scopes of the bot, batch by batch; returns how much went."""
    database = engine.stored()
    batch, kept = lumia.system.new_id(), engine.retention_days()
    total = forgetting.Forgotten()
    with database.transaction() as connection:
        numbers = forgetting.scopes_of(connection, engine.bot_name())
    for number in numbers:
        while True:
            with database.transaction() as connection:
                gone = forgetting.evict(connection, number, now=now, batch=batch, retention_days=kept)
            total += gone
            if not (gone.topics or gone.instances or gone.edges):
                break
    cleaned = 0
    while True:
        with database.transaction() as connection:
            removed = forgetting.clean(connection, now=now)
        cleaned += removed
        if not removed:
            break
    counts = {"topics": total.topics, "instances": total.instances, "edges": total.edges, "cleaned": cleaned}
    return {**counts, "batch": total.batch}

"""What the consumers do: embed a text, find its terms and topics, and write it in one transaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import lumia

from . import embedding, engine, facts, forgetting, people, texts, topics, writing
from .content import fitted, name_of
from .observing import chat_of, observed
from .types import SELF, Embedded, Fact, Origin, Scope
from .writing import Observation

if TYPE_CHECKING:
    import psycopg

MAX_PEOPLE = 300
"""People of a scope whose names are looked for in a text: those heard last."""
MAX_EMBEDDED = 4000
"""Characters of a text that are embedded: models look at no more."""


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


def topics_of(connection: psycopg.Connection[Any], scope: Scope, text: str, speaker: str) -> list[tuple[str, float]]:
    """Return what a text is about, the people of its scope and its speaker being known by name."""
    known = list(people.names(connection, scope).values())[:MAX_PEOPLE]
    return topics.topics_of(text, [*dict.fromkeys(name for name in (speaker, *known) if name)])


def write_observed(payload: Mapping[str, Any], ready: Prepared, origin: Origin, now: float) -> dict[str, Any]:
    """Write the text of a `memory.observe` event; returns what became of it."""
    if ready.vector is None:
        return {"outcome": "empty"}
    database = engine.current().database
    calibration = embedding.calibrated(database, embedding.current())
    message = observed(payload)
    scope = engine.scope(str(payload["chat"]))
    with database.transaction() as connection:
        about = topics_of(connection, scope, message.text, message.sender_name)
        observation = Observation(scope, message, ready.vector, origin, ready.terms, about)
        if message.kind == "reply":
            said = replace(message, sender=SELF, sender_name=engine.bot_name())
            done = facts.write_reply(
                connection, replace(observation, message=said), embedder=database.embedder_id,
                calibration=calibration, now=now,
            )  # fmt: skip
        else:
            done = writing.observe(connection, observation, embedder=database.embedder_id, now=now)
    return asdict(done)


def update_memory(payload: Mapping[str, Any], ready: Prepared, origin: Origin, now: float) -> dict[str, Any]:
    """Do what a `memory.update` event says; returns what became of it. Raises `lumia.errors.PayloadError`."""
    update = lumia.payloads.MemoryUpdate.model_validate(payload)
    source = update.origin
    scope = engine.scope(chat_of(source.platform, source.account, source.chat.kind, source.chat.id))
    origin = replace(origin, learned_in=source.run_id)
    database = engine.current().database
    if update.action == "forget":
        with database.transaction() as connection:
            gone = forgetting.forget(
                connection, scope, update.topic, update.content, now=now, origin=origin, retention_days=_retention()
            )
        return {"outcome": "forgotten", "topics": gone.topics, "instances": gone.instances, "batch": gone.batch}
    assert ready.vector is not None
    calibration = embedding.calibrated(database, embedding.current())
    with database.transaction() as connection:
        number = database.embedder_id
        if not update.content.strip():
            id = facts.touch_topic(
                connection, scope, update.topic, ready.vector, origin=origin, embedder=number, now=now
            )
            return {"outcome": "topic", "id": id}
        name = source.sender.card or source.sender.name
        fact = Fact(update.topic, update.content, update.importance, source.sender.id, name)
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
    origin = replace(origin, learned_in=source.run_id)
    with engine.current().database.transaction() as connection:
        weight = people.relate(
            connection, scope, update.source, update.to, update.type, update.weight_delta, origin=origin, now=now
        )
    return {"outcome": "relation", "weight": weight}


def forget_daily(now: float) -> dict[str, Any]:
    """Evict what has faded from all scopes of the bot, batch by batch; returns how much went."""
    database = engine.current().database
    batch = lumia.system.new_id()
    total = forgetting.Forgotten()
    with database.transaction() as connection:
        numbers = forgetting.scopes_of(connection, engine.bot_name())
    for number in numbers:
        while True:
            with database.transaction() as connection:
                gone = forgetting.evict(connection, number, now=now, batch=batch, retention_days=_retention())
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
    return {"topics": total.topics, "instances": total.instances, "edges": total.edges, "cleaned": cleaned}


def _retention() -> float:
    return float(lumia.config.get(engine.NAME).retention_days)

"""Scopes: whatever was said wherever, a reader sees their own chat and the whole bot's knowledge, nothing else."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lumia
from handlers.memory_graph import facts, forgetting, people, reading, scopes, writing
from handlers.memory_graph.database import Database
from handlers.memory_graph.types import Fact, Observed, Origin, Scope
from handlers.memory_graph.writing import Observation
from tests.handlers.memory_graph.samples import CALIBRATION, NOW, rows, vector

pytestmark = pytest.mark.services

CHATS = st.sampled_from(["", "a", "b", "a:b", "A", "ａ", "a ", "%", "_", "a'; --", "\x00", "\ud800", "ü", "a\nb"])
SCOPES = st.builds(Scope, st.sampled_from(["bot", "bot2", "", "Bot"]), CHATS)
WORDS = st.sampled_from(["tea", "cake", "salt", "rain"])
WRITES = st.lists(st.tuples(SCOPES, WORDS, st.sampled_from(["message", "reply", "fact"])), min_size=1, max_size=8)
_runs = itertools.count(1)


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(writes=WRITES, reader=SCOPES)
def test_no_reading_function_ever_shows_another_scope(
    database: Database, writes: list[tuple[Scope, str, str]], reader: Scope
) -> None:
    with database.transaction() as connection:
        connection.execute("TRUNCATE memory_scopes CASCADE")
    for scope, word, kind in writes:
        _write(database, scope, word, kind)
    allowed = {_stored(reader), Scope(_stored(reader).bot)}
    reader = _stored(reader)
    everything = [id for (id,) in rows(database, "SELECT id FROM memory_instances")]
    topics = [id for (id,) in rows(database, "SELECT id FROM memory_topics")]
    relations = [id for (id,) in rows(database, "SELECT id FROM memory_relations")]
    with database.transaction() as connection:
        visible = scopes.visible(connection, reader)
        names = {
            number: scope for scope, number in scopes.ids(connection, [_stored(one) for one, _, _ in writes]).items()
        }
        assert {names[number] for number in visible if number in names} <= allowed
        seen: list[Scope] = [one.scope for one in reading.instances(connection, reader, everything)]
        seen += [one.scope for one in reading.topics(connection, reader, topics, now=NOW)]
        seen += [one.scope for topic in topics for one in reading.of_topic(connection, reader, topic)]
        seen += [one.scope for one in reading.recent(connection, reader)]
        named = [reading.topic_named(connection, reader, word, now=NOW) for word in ("tea", "cake", "salt", "rain")]
        seen += [one.scope for one in named if one is not None]
        assert set(seen) <= allowed
        expected = Counter(_stored(scope) for scope, _, _ in writes if _stored(scope) in allowed)
        assert set(seen) == set(expected)
        own = {relation.id for relation in people.relations(connection, reader, "ann")}
        assert own == _relations_of(connection, allowed)
        assert all(bool(people.history(connection, reader, id)) == (id in own) for id in relations)
        assert bool(people.names(connection, reader)) == any(
            _stored(scope) == reader and kind == "message" for scope, _, kind in writes
        )
        before = _contents(connection, reader)
        for id in [*everything, *topics]:
            for change in _changes(id):
                change(connection, reader)
        assert _contents(connection, reader) == before


def _stored(scope: Scope) -> Scope:
    return Scope(lumia.payloads.clean_text(scope.bot), lumia.payloads.clean_text(scope.chat))


def _write(database: Database, scope: Scope, word: str, kind: str) -> None:
    origin = Origin(f"run-{next(_runs)}")
    with database.transaction() as connection:
        if kind == "fact":
            facts.write_fact(
                connection, scope, Fact(word, f"{word} {origin.run_id}"), vector(word), origin=origin,
                embedder=database.embedder_id, calibration=CALIBRATION, now=NOW, terms={word: 1},
            )  # fmt: skip
        else:
            said = Observed(f"{word} {origin.run_id}", kind, "ann", "Ann", origin.run_id)  # type: ignore[arg-type]
            one = Observation(scope, said, vector(word), origin, {word: 1}, [(word, 1.0)])
            writing.observe(connection, one, embedder=database.embedder_id, now=NOW)
        relation = Origin(origin.run_id, 1)
        people.relate(connection, _stored(scope), "ann", "bob", "friend", 0.1, origin=relation, now=NOW)


def _relations_of(connection: object, allowed: Iterable[Scope]) -> set[str]:
    found = connection.execute(  # type: ignore[attr-defined]
        "SELECT r.id, s.bot, s.chat FROM memory_relations r JOIN memory_scopes s ON s.id = r.scope_id"
    )
    return {id for id, bot, chat in found if Scope(bot, chat) in set(allowed)}


def _contents(connection: object, reader: Scope) -> list[tuple[object, ...]]:
    """Return what belongs to other scopes than the reader's, as it is stored."""
    return connection.execute(  # type: ignore[attr-defined,no-any-return]
        "SELECT i.id, i.pinned, i.access_count FROM memory_instances i JOIN memory_scopes s ON s.id = i.scope_id "
        "WHERE (s.bot, s.chat) <> (%s, %s) AND (s.bot, s.chat) <> (%s, '') UNION ALL "
        "SELECT t.id, t.pinned, t.access_count FROM memory_topics t JOIN memory_scopes s ON s.id = t.scope_id "
        "WHERE (s.bot, s.chat) <> (%s, %s) AND (s.bot, s.chat) <> (%s, '') ORDER BY 1",
        (reader.bot, reader.chat, reader.bot) * 2,
    ).fetchall()


def _changes(id: str) -> list[Callable[..., object]]:
    return [
        lambda connection, reader: forgetting.pin(connection, reader, id),
        lambda connection, reader: forgetting.forget_instances(connection, reader, [id], now=NOW),
        lambda connection, reader: facts.strengthen(
            connection, reader, [id], [id], origin=Origin(f"use-{next(_runs)}"), now=NOW
        ),
    ]

"""Forgetting: what fades goes and can come back, what is pinned or used stays."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.memory_graph import decay, facts, forgetting, people, reading
from handlers.memory_graph.database import Database
from handlers.memory_graph.errors import EmbedderError
from handlers.memory_graph.types import Origin
from tests.handlers.memory_graph.samples import DAY, ELSEWHERE, HERE, NOW, Words, learn, one, rows, say

pytestmark = pytest.mark.services

LATER = NOW + 60 * DAY
TABLES = ("memory_topics", "memory_instances", "memory_mentions", "topic_edges", "memory_terms")


def evict(database: Database, now: float = LATER, **more: float) -> forgetting.Forgotten:
    total = forgetting.Forgotten()
    with database.transaction() as connection:
        numbers = forgetting.scopes_of(connection, "bot")
    for number in numbers:
        with database.transaction() as connection:
            total += forgetting.evict(connection, number, now=now, batch="b", **more)  # type: ignore[arg-type]
    return total


def contents(database: Database) -> dict[str, list[str]]:
    """Return every row of the graph as text, in a fixed order."""
    return {table: sorted(str(row) for (row,) in rows(database, f"SELECT t::text FROM {table} t")) for table in TABLES}


def counts(database: Database) -> dict[str, int]:
    return {table: len(found) for table, found in contents(database).items()}


# --- decay


@pytest.mark.parametrize("days, left", [(0, 1.0), (7, 0.5), (14, 0.25), (-100, 1.0)])
def test_a_strength_halves_in_its_half_life_and_never_grows(days: float, left: float) -> None:
    assert decay.decayed(1.0, 7.0, NOW, NOW + days * DAY) == pytest.approx(left)


@given(
    st.floats(0, 1), st.floats(0.001, 365), st.floats(0, 4e9), st.floats(0, 4e9),
)  # fmt: skip
def test_decay_stays_within_bounds(strength: float, half_life: float, since: float, now: float) -> None:
    assert 0 <= decay.decayed(strength, half_life, since, now) <= strength


@pytest.mark.parametrize("days", [-10.0, 0.0, 0.5, 7.0, 100.0, 1e6])
def test_the_database_decays_as_python_does(database: Database, days: float) -> None:
    say(database, "one", 1, topics=[("tea", 1.0), ("cake", 1.0)])
    now = NOW + days * DAY
    with database.transaction() as connection:
        query = f"SELECT {decay.sql_strength('t')}, {decay.sql_weight('e')} FROM memory_topics t, topic_edges e LIMIT 1"
        strength, weight = connection.execute(query.encode(), {"now": now}).fetchone() or (None, None)
    assert strength == pytest.approx(decay.decayed(1.0, 7.0, NOW, now))
    assert weight == pytest.approx(decay.decayed_edge(0.35, NOW, now))
    assert math.isfinite(weight)


# --- eviction


def test_what_has_faded_goes_with_what_hangs_on_it_alone(database: Database) -> None:
    say(database, "old tea", 1, topics=[("tea", 1.0), ("cake", 0.9)])
    say(database, "new cake", 2, topics=[("cake", 1.0)], now=LATER)
    gone = evict(database)
    assert (gone.topics, gone.instances, gone.edges, gone.names) == (1, 0, 1, ("tea",))
    assert sorted(rows(database, "SELECT content FROM memory_instances")) == [("new cake",), ("old tea",)]
    (topic,) = rows(database, "SELECT DISTINCT topic_id FROM memory_instances")
    assert topic[0] == one(database, "SELECT id FROM memory_topics")


def test_a_message_whose_topics_all_fade_goes_along_and_the_totals_follow(database: Database) -> None:
    say(database, "old tea", 1, topics=[("tea", 1.0), ("cake", 0.9)])
    say(database, "loose words", 2)
    say(database, "new", 3, now=LATER)
    gone = evict(database)
    assert (gone.topics, gone.instances) == (2, 2)
    assert rows(database, "SELECT instances, tokens, next_seq FROM memory_scopes") == [(1, 1, 3)]
    assert one(database, "SELECT count(*) FROM memory_terms") == 1


@pytest.mark.parametrize("days", [29.0, 30.2])
def test_nothing_goes_before_all_three_conditions_hold(database: Database, days: float) -> None:
    say(database, "tea", 1, topics=[("tea", 1.0)])
    assert evict(database, NOW + days * DAY).topics == 0
    assert evict(database, NOW + 30.5 * DAY).topics == 1


def test_what_was_used_five_times_stays(database: Database) -> None:
    say(database, "tea", 1, topics=[("tea", 1.0)])
    (topic,) = rows(database, "SELECT id FROM memory_topics")[0]
    for number in range(5):
        with database.transaction() as connection:
            facts.strengthen(connection, HERE, [topic], origin=Origin(f"turn-{number}"), now=NOW)
    assert evict(database, NOW + 3650 * DAY).topics == 0


def test_pinned_topics_and_topics_of_pinned_instances_stay(database: Database) -> None:
    say(database, "tea", 1, topics=[("tea", 1.0)])
    written = say(database, "cake", 2, topics=[("cake", 1.0)])
    say(database, "salt", 3, topics=[("salt", 1.0)])
    with database.transaction() as connection:
        tea = reading.topic_named(connection, HERE, "tea", now=NOW)
        assert tea is not None
        assert forgetting.pin(connection, HERE, tea.id)
        assert forgetting.pin(connection, HERE, written.id)
        assert not forgetting.pin(connection, ELSEWHERE, tea.id)
    assert evict(database).names == ("salt",)
    with database.transaction() as connection:
        forgetting.pin(connection, HERE, tea.id, pinned=False)
    assert evict(database).names == ("tea",)


def test_a_dry_run_says_what_would_go_and_changes_nothing(database: Database) -> None:
    say(database, "old tea", 1, topics=[("tea", 1.0), ("cake", 0.9)])
    say(database, "loose", 2)
    say(database, "new cake", 3, topics=[("cake", 1.0)], now=LATER)
    before = contents(database)
    with database.transaction() as connection:
        would = forgetting.dry_run(connection, "bot", now=LATER)
    assert contents(database) == before
    done = evict(database)
    assert (would.topics, would.instances, would.edges, would.names) == (
        done.topics, done.instances, done.edges, done.names,
    )  # fmt: skip


def test_faded_edges_go_on_their_own(database: Database) -> None:
    say(database, "one", 1, topics=[("tea", 1.0), ("cake", 1.0)])
    for number, name in enumerate(["tea", "cake"]):
        say(database, name, number + 2, topics=[(name, 1.0)], now=LATER)
    assert (evict(database).edges, counts(database)["memory_topics"]) == (1, 2)


def test_eviction_goes_in_batches(database: Database) -> None:
    for number in range(5):
        say(database, f"text {number}", number, topics=[(f"t{number}", 1.0)])
    assert [evict(database, limit=2).topics for _ in range(4)] == [2, 2, 1, 0]


def test_a_topic_with_very_many_records_goes_in_portions(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setattr(forgetting, "MOST_INSTANCES", 2)
    for number in range(5):
        say(database, f"text {number}", number, topics=[("tea", 1.0)])
    before = contents(database)
    gone = [evict(database) for _ in range(4)]
    assert [(one.topics, one.instances) for one in gone] == [(0, 2), (0, 2), (1, 1), (0, 0)]
    with database.transaction() as connection:
        forgetting.restore(connection, HERE, "b")
    assert contents(database) == before


# --- forgetting on request


def test_a_topic_is_forgotten_by_name_even_when_it_is_pinned(database: Database) -> None:
    learn(database, "Ann", "Ann plays the cello", 1)
    learn(database, "Bob", "Bob sings", 2)
    with database.transaction() as connection:
        gone = forgetting.forget(connection, HERE, "ANN", now=NOW, origin=Origin("r"))
        again = forgetting.forget(connection, HERE, "ANN", now=NOW, origin=Origin("r"))
    assert (gone.topics, gone.instances, again.topics) == (1, 1, 0)
    assert rows(database, "SELECT content FROM memory_instances") == [("Bob sings",)]


def test_one_fact_of_a_topic_is_forgotten_by_its_words(database: Database) -> None:
    learn(database, "Ann", "Ann plays the cello", 1)
    learn(database, "Ann", "Ann lives in Lisbon", 2)
    with database.transaction() as connection:
        assert forgetting.forget(connection, HERE, "Ann", "LISBON", now=NOW).instances == 1
    assert rows(database, "SELECT content FROM memory_instances") == [("Ann plays the cello",)]


def test_topics_that_nothing_else_is_about_go_with_the_last_record(database: Database) -> None:
    said = say(database, "my divorce", 1, topics=[("divorce", 1.0), ("Ann", 1.0)])
    say(database, "Ann sings", 2, topics=[("Ann", 1.0)])
    before = contents(database)
    with database.transaction() as connection:
        gone = forgetting.forget_these(connection, HERE, instances=[said.id], now=NOW)
    assert (gone.instances, gone.topics, gone.edges) == (1, 1, 1)
    assert rows(database, "SELECT topic_name FROM memory_topics") == [("Ann",)]
    with database.transaction() as connection:
        forgetting.restore(connection, HERE, gone.batch)
    assert contents(database) == before


def test_nobody_forgets_what_another_chat_knows(database: Database) -> None:
    written = learn(database, "Ann", "Ann plays the cello", 1)
    say(database, "hi", 1, scope=ELSEWHERE)
    with database.transaction() as connection:
        assert forgetting.forget(connection, ELSEWHERE, "Ann", now=NOW).topics == 0
        assert forgetting.forget_these(connection, ELSEWHERE, instances=[written.id], now=NOW).instances == 0
        assert forgetting.forget_these(connection, HERE, instances=[written.id], now=NOW).instances == 1


# --- the recycle table


def test_what_went_comes_back_as_it_was(database: Database) -> None:
    say(database, "old tea and cake", 1, topics=[("tea", 1.0), ("cake", 0.9)])
    learn(database, "tea", "tea is hot", 2)
    before, totals = contents(database), rows(database, "SELECT instances, tokens FROM memory_scopes")
    evict(database)
    assert sum(counts(database).values()) == 0
    with database.transaction() as connection:
        assert forgetting.restore(connection, ELSEWHERE, "b") == forgetting.Forgotten()
        back = forgetting.restore(connection, HERE, "b")
    assert (back.topics, back.instances, back.edges) == (2, 2, 1)
    assert contents(database) == before
    assert rows(database, "SELECT instances, tokens FROM memory_scopes") == totals
    assert one(database, "SELECT count(*) FROM memory_recycled") == 0


def test_a_topic_that_was_made_anew_takes_what_comes_back(database: Database) -> None:
    learn(database, "tea", "tea is hot", 1)
    evict(database)
    learn(database, "tea", "coffee is not meant here", 2, now=LATER)
    with database.transaction() as connection:
        assert forgetting.restore(connection, HERE, "b").instances == 1
        topic = reading.topic_named(connection, HERE, "tea", now=LATER)
        assert topic is not None
        assert len(reading.of_topic(connection, HERE, topic.id)) == 2


def test_what_comes_back_under_another_embedder_is_embedded_anew(database: Database) -> None:
    learn(database, "tea", "tea is hot", 1)
    evict(database)
    with database.transaction() as connection:
        connection.execute("UPDATE memory_recycled SET content = jsonb_set(content, '{embedder_id}', '77') "
                           "WHERE content ? 'embedder_id'")  # fmt: skip
    with pytest.raises(EmbedderError), database.transaction() as connection:
        forgetting.restore(connection, HERE, "b")
    with database.transaction() as connection:
        assert forgetting.restore(connection, HERE, "b", passages=Words().passages).instances == 1


def test_a_record_comes_back_without_a_topic_that_went_later(database: Database) -> None:
    first = say(database, "old tea", 1, topics=[("tea", 1.0)])
    say(database, "more tea", 2, topics=[("tea", 1.0)])
    with database.transaction() as connection:
        gone = forgetting.forget_these(connection, HERE, instances=[first.id], now=NOW)
    evict(database)
    with database.transaction() as connection:
        assert forgetting.restore(connection, HERE, gone.batch).instances == 1
    assert rows(database, "SELECT content, topic_id FROM memory_instances") == [("old tea", None)]


def test_without_a_retention_nothing_is_kept(database: Database) -> None:
    say(database, "old tea", 1, topics=[("tea", 1.0)])
    gone = evict(database, retention_days=0.0)
    assert (gone.topics, gone.instances, gone.batch) == (1, 1, "")
    assert one(database, "SELECT count(*) FROM memory_recycled") == 0


def test_the_recycle_table_and_old_claims_are_emptied_in_time(database: Database) -> None:
    say(database, "old tea", 1, topics=[("tea", 1.0)])
    evict(database, retention_days=10)
    cleaned = []
    for days in (9, 11, 31):
        with database.transaction() as connection:
            cleaned.append(forgetting.clean(connection, now=LATER + days * DAY))
    assert cleaned[0] == 0
    assert cleaned[1] == 3  # a topic, an instance with its terms, a mention
    assert cleaned[2] == 1  # the claim, 91 days old
    assert one(database, "SELECT count(*) FROM memory_recycled") == 0


def test_a_topic_counts_only_what_is_still_said_of_it(database: Database) -> None:
    ids = [say(database, f"tea number {number}", number, topics=[("tea", 1.0)]).id for number in range(3)]
    with database.transaction() as connection:
        gone = forgetting.forget_these(connection, HERE, instances=ids[:2], now=NOW)
    assert one(database, "SELECT mentions FROM memory_topics") == 1
    with database.transaction() as connection:
        forgetting.restore(connection, HERE, gone.batch)
    assert one(database, "SELECT mentions FROM memory_topics") == 3
    with database.transaction() as connection:
        forgetting.forget_these(connection, HERE, instances=ids[:1], now=NOW, batch="all")
        forgetting.forget(connection, HERE, "tea", now=NOW)
        connection.execute("UPDATE memory_recycled SET batch = 'all'")
        forgetting.restore(connection, HERE, "all")
    assert one(database, "SELECT mentions FROM memory_topics") == 3, "also when the topic went after its first record"


def test_what_goes_is_one_row_with_all_its_terms(database: Database) -> None:
    id = say(database, "the quick brown fox jumps over the lazy dog", 1).id
    say(database, "the fox sleeps", 2)
    before = rows(database, "SELECT scope_id, term, number, tf, length FROM memory_terms ORDER BY 2, 3")
    with database.transaction() as connection:
        gone = forgetting.forget_these(connection, HERE, instances=[id], now=NOW)
    assert rows(database, "SELECT source_table FROM memory_recycled") == [("memory_instances",)]
    assert one(database, "SELECT count(*) FROM memory_terms") == 3
    with database.transaction() as connection:
        forgetting.restore(connection, HERE, gone.batch)
    assert rows(database, "SELECT scope_id, term, number, tf, length FROM memory_terms ORDER BY 2, 3") == before


def test_people_and_relations_outlive_their_messages(database: Database) -> None:
    say(database, "old tea", 1, topics=[("tea", 1.0)])
    evict(database)
    with database.transaction() as connection:
        assert people.profile(connection, HERE, "ann", now=LATER).messages == 1

"""Writing what was said and learned: once, in order, found again, and never the same thing twice."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from handlers.memory_graph import facts, people, reading, writing
from handlers.memory_graph.content import MAX_CHARS
from handlers.memory_graph.database import Database
from handlers.memory_graph.errors import EmbedderError
from handlers.memory_graph.types import Calibration, Fact, Origin
from tests.handlers.memory_graph.samples import (
    BOT,
    CALIBRATION,
    DAY,
    ELSEWHERE,
    HERE,
    NOW,
    learn,
    observation,
    one,
    rows,
    say,
    vector,
)  # fmt: skip

pytestmark = pytest.mark.services


# --- messages


def test_a_message_is_read_back_with_where_it_came_from(database: Database) -> None:
    written = say(database, "we meet on Friday", 7, topics=[("Friday", 0.9)], time=NOW - 60)
    with database.transaction() as connection:
        (found,) = reading.instances(connection, HERE, [written.id])
        topic = reading.topic_named(connection, HERE, "FRIDAY", now=NOW)
    assert (found.content, found.kind, found.sender, found.sender_name) == (
        "we meet on Friday",
        "message",
        "ann",
        "Ann",
    )
    assert (found.message_ids, found.created_at, found.seq) == (("m7",), NOW - 60, 0)
    assert topic is not None and found.topic_id == topic.id
    assert topic.name == "Friday"


def test_messages_keep_their_order_within_each_chat(database: Database) -> None:
    batch = [observation(f"text {n}", n, scope=ELSEWHERE if n % 3 == 0 else HERE) for n in range(9)]
    with database.transaction() as connection:
        writing.observe_many(connection, batch, embedder=database.embedder_id, now=NOW)
    say(database, "text 9", 9)
    with database.transaction() as connection:
        here = [(found.seq, found.content) for found in reading.recent(connection, HERE)]
        there = [found.content for found in reading.recent(connection, ELSEWHERE)]
    assert here == list(enumerate(f"text {n}" for n in (1, 2, 4, 5, 7, 8, 9)))
    assert there == ["text 0", "text 3", "text 6"]


def test_the_same_write_again_changes_nothing(database: Database) -> None:
    first = say(database, "hello there", 1, topics=[("hello", 1.0), ("there", 0.5)])
    before = rows(database, "SELECT * FROM memory_topics ORDER BY id"), rows(database, "SELECT * FROM topic_edges")
    again = say(database, "hello there", 1, topics=[("hello", 1.0), ("there", 0.5)], now=NOW + DAY)
    assert (again.id, again.outcome) == (first.id, "known")
    assert one(database, "SELECT count(*) FROM memory_instances") == 1
    after = rows(database, "SELECT * FROM memory_topics ORDER BY id"), rows(database, "SELECT * FROM topic_edges")
    assert repr(after) == repr(before)


def test_a_message_that_two_runs_saw_is_stored_once(database: Database) -> None:
    first = say(database, "hello", 1, run="a")
    again = say(database, "hello", 1, run="b")
    third = say(database, "hello", 1, run="b")
    assert (again, third.id) == (replace(first, outcome="known"), first.id)
    assert one(database, "SELECT messages FROM memory_people") == 1


def test_one_batch_with_the_same_message_twice_stores_it_once(database: Database) -> None:
    batch = [observation("hello", 1, run="a"), observation("hello", 1, run="a"), observation("hello", 1, run="b")]
    with database.transaction() as connection:
        written = writing.observe_many(connection, batch, embedder=database.embedder_id, now=NOW)
    assert len({found.id for found in written}) == 1
    assert one(database, "SELECT count(*) FROM memory_instances") == 1


def test_the_lexical_index_and_the_totals_follow_the_instances(database: Database) -> None:
    say(database, "tea and tea", 1)
    say(database, "coffee", 2)
    found = rows(database, "SELECT term, tf, length FROM memory_terms ORDER BY term")
    assert found == [("and", 1, 3), ("coffee", 1, 1), ("tea", 2, 3)]
    assert rows(database, "SELECT instances, tokens, next_seq FROM memory_scopes") == [(2, 4, 2)]


def test_topics_named_together_are_linked_more_each_time(database: Database) -> None:
    weights = []
    for number in range(4):
        say(database, f"text {number}", number, topics=[("tea", 1.0), ("Ann", 1.0)])
        weights.append(one(database, "SELECT weight FROM topic_edges"))
    assert weights[0] == pytest.approx(0.35)
    assert weights == sorted(weights)
    assert weights[-1] < 1
    assert one(database, "SELECT activation_count FROM topic_edges") == 4


def test_an_association_without_a_direction_is_one_row(database: Database) -> None:
    say(database, "one", 1, topics=[("tea", 1.0), ("Ann", 1.0)])
    say(database, "two", 2, topics=[("Ann", 1.0), ("tea", 1.0)])
    assert rows(database, "SELECT from_topic < to_topic FROM topic_edges") == [(True,)]


def test_a_mention_refreshes_a_faded_topic(database: Database) -> None:
    say(database, "one", 1, topics=[("tea", 1.0)])
    say(database, "two", 2, topics=[("tea", 1.0)], now=NOW + 7 * DAY)
    assert one(database, "SELECT strength FROM memory_topics") == pytest.approx(0.6)


def test_a_clock_that_goes_back_raises_no_strength(database: Database) -> None:
    say(database, "one", 1, topics=[("tea", 1.0)])
    say(database, "two", 2, topics=[("tea", 1.0)], now=NOW + 7 * DAY)
    with database.transaction() as connection:
        late = reading.topic_named(connection, HERE, "tea", now=NOW + 7 * DAY)
        early = reading.topic_named(connection, HERE, "tea", now=NOW - 100 * DAY)
    assert late is not None and early is not None
    assert early.strength == pytest.approx(late.strength)
    say(database, "three", 3, now=NOW - 100 * DAY, topics=[("tea", 1.0)])
    assert one(database, "SELECT extract(epoch FROM last_accessed)::float8 FROM memory_topics") == NOW + 7 * DAY


def test_a_message_from_the_future_is_noted_as_said_now(database: Database) -> None:
    say(database, "soon", 1, time=NOW + 1000 * DAY)
    assert one(database, "SELECT extract(epoch FROM created_at)::float8 FROM memory_instances") == NOW


# --- awkward texts


@pytest.mark.parametrize(
    "text, kept",
    [
        ("x" * 1_000_000, "x" * MAX_CHARS + f" … [{1_000_000 - MAX_CHARS} more characters]"),
        ("a\x00b", "a\ufffdb"),
        ("a\ud800b", "a\ufffdb"),
        ("  spaced \n", "spaced"),
    ],
    ids=["a million characters", "NUL", "lone surrogate", "space"],
)
def test_awkward_texts_are_cleaned_cut_and_stored_once(database: Database, text: str, kept: str) -> None:
    topics = [("na\x00me\ud800" + "y" * 1000, 1.0), ("", 1.0), (" \n ", 0.5)]
    for _ in range(2):
        say(database, text, 1, topics=topics, sender_name="A\x00n\ud800n", metadata={"k\x00": ["\ud800"]})
    assert rows(database, "SELECT content FROM memory_instances") == [(kept,)]
    assert rows(database, "SELECT length(topic_name) FROM memory_topics") == [(200,)]


def test_a_vector_of_another_dimension_is_refused_with_a_way_out(database: Database) -> None:
    wrong = replace(observation("hello", 1), vector=vector("hello", 8))
    with pytest.raises(EmbedderError, match="lumia memory rebuild"), database.transaction() as connection:
        writing.observe(connection, wrong, embedder=database.embedder_id, now=NOW)
    assert say(database, "hello", 1).outcome == "new"


def test_a_vector_that_is_not_finite_is_refused(database: Database) -> None:
    wrong = replace(observation("hello", 1), vector=np.full(32, np.nan, np.float32))
    with pytest.raises(EmbedderError, match="NaN"), database.transaction() as connection:
        writing.observe(connection, wrong, embedder=database.embedder_id, now=NOW)


# --- facts


def test_a_fact_is_found_by_its_topic_at_once(database: Database) -> None:
    written = learn(database, "Ann", "Ann plays the cello")
    with database.transaction() as connection:
        topic = reading.topic_named(connection, HERE, "ann", now=NOW)
        assert topic is not None
        found = reading.of_topic(connection, HERE, topic.id)
    assert [(one.id, one.kind, one.content) for one in found] == [(written.id, "fact", "Ann plays the cello")]


@pytest.mark.parametrize(
    "again, outcome",
    [
        ("ann plays the CELLO!", "merged"),
        ("the cello Ann plays", "merged"),
        ("Ann plays the cello well", "merged"),
        ("Ann does not play the cello", "new"),
        ("Ann plays the cello 3 times", "new"),
        ("Bob sells the piano", "new"),
    ],
)
def test_the_same_fact_is_kept_once_and_others_are_not_taken_for_it(
    database: Database, again: str, outcome: str
) -> None:
    first = learn(database, "Ann", "Ann plays the cello", 1)
    written = learn(database, "Ann", again, 2)
    assert (written.outcome, written.id == first.id) == (outcome, outcome == "merged")


def test_a_fact_that_says_more_takes_the_place_of_the_one_before(database: Database) -> None:
    learn(database, "Ann", "Ann plays the cello", 1)
    learn(database, "Ann", "Ann plays the cello well", 2)
    learn(database, "Ann", "Ann plays the cello", 3)
    assert rows(database, "SELECT content, seen FROM memory_instances") == [("Ann plays the cello well", 3)]
    assert one(database, "SELECT count(*) FROM memory_terms WHERE term = 'well'") == 1
    assert one(database, "SELECT tokens FROM memory_scopes") == 5


def test_how_similar_the_same_is_depends_on_the_model(database: Database) -> None:
    """With a model whose unrelated texts lie at 0.95, a similarity of 0.9 means nothing."""
    learn(database, "Ann", "Ann plays the cello", 1)
    with database.transaction() as connection:
        text = "Ann plays the cello well"
        found = facts.write_fact(
            connection, HERE, Fact("Ann", text), vector(text), origin=Origin("other"),
            embedder=database.embedder_id, calibration=Calibration(0.95, 0.01), now=NOW,
            terms=dict.fromkeys(text.casefold().split(), 1),
        )  # fmt: skip
    assert found.outcome == "new"


def test_the_same_fact_of_another_chat_is_another_one(database: Database) -> None:
    first = learn(database, "Ann", "Ann plays the cello", 1)
    second = learn(database, "Ann", "Ann plays the cello", 2, scope=ELSEWHERE)
    assert second.outcome == "new"
    assert second.id != first.id


def test_what_the_whole_bot_knows_is_not_written_for_a_chat_again(database: Database) -> None:
    first = learn(database, "Lisbon", "Lisbon is in Portugal", 1, scope=BOT)
    assert learn(database, "Lisbon", "Lisbon is in Portugal", 2).id == first.id


def test_a_recalled_memory_that_comes_back_as_new_does_not_even_count_anew(database: Database) -> None:
    first = learn(database, "Ann", "Ann plays the cello", 1)
    with database.transaction() as connection:
        facts.strengthen(connection, HERE, [], [first.id], origin=Origin("turn"), now=NOW)
    again = learn(database, "Ann", "Ann plays the cello", 2, learned_in="turn")
    assert again == replace(first, outcome="known")
    assert one(database, "SELECT seen FROM memory_instances") == 1


def test_a_reply_that_repeats_the_memory_is_not_stored(database: Database) -> None:
    said = say(database, "the meeting is on Friday", 1)
    for text, outcome in [("The meeting is on Friday.", "repeated"), ("I did not know that", "new")]:
        with database.transaction() as connection:
            reply = observation(text, 2, kind="reply", sender="self", message_id=None)
            written = facts.write_reply(
                connection, reply, embedder=database.embedder_id, calibration=CALIBRATION, now=NOW
            )
        assert written.outcome == outcome
    assert said.id
    assert rows(database, "SELECT kind FROM memory_instances ORDER BY seq") == [("message",), ("reply",)]


# --- what was used


def test_what_stood_in_a_prompt_is_strengthened_once_per_run(database: Database) -> None:
    say(database, "one", 1, topics=[("tea", 1.0)])
    (topic,) = rows(database, "SELECT id FROM memory_topics")[0]
    later = NOW + 7 * DAY
    counted = []
    for origin in (Origin("turn", 1), Origin("turn", 1), Origin("turn", 2), Origin("next", 1)):
        with database.transaction() as connection:
            counted.append(facts.strengthen(connection, HERE, [topic], origin=origin, now=later))
    assert counted == [1, 0, 0, 1]
    strength, count, half_life = rows(database, "SELECT strength, access_count, half_life_days FROM memory_topics")[0]
    assert strength == pytest.approx(0.7)
    assert (count, half_life) == (2, pytest.approx(7 * 1.1**2))


def test_nobody_strengthens_what_another_chat_knows(database: Database) -> None:
    written = say(database, "one", 1, topics=[("tea", 1.0)])
    say(database, "two", 2, scope=ELSEWHERE)
    (topic,) = rows(database, "SELECT id FROM memory_topics")[0]
    with database.transaction() as connection:
        assert facts.strengthen(connection, ELSEWHERE, [topic], [written.id], origin=Origin("r"), now=NOW) == 0
    assert one(database, "SELECT access_count FROM memory_topics") == 0


def test_people_are_counted_by_what_they_say(database: Database) -> None:
    for number in range(3):
        say(database, f"text {number}", number)
    with database.transaction() as connection:
        assert people.profile(connection, HERE, "ann", now=NOW).messages == 3

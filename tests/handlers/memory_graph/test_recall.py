"""Recall from a real Postgres, written by the real write path."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from handlers.memory_graph import candidates, evaluate, lookup, ranking, texts, whitening, writing
from handlers.memory_graph.database import Database
from handlers.memory_graph.ranking import Parts
from handlers.memory_graph.recall import recall
from handlers.memory_graph.topics import topics_of
from handlers.memory_graph.types import Observed, Origin, Recalled, Scope
from tests.handlers.memory_graph.hashed import HashedEmbedder

pytestmark = pytest.mark.services
EMBEDDER = HashedEmbedder()
NOW = 1_750_000_000.0
HERE = Scope("bot", "console:main:group:1")
CHAT = (
    ("ann", "who wants to go hiking on Sunday?"),
    ("bob", "me! Lotus Mountain would be nice"),
    ("cat", "I have a cold, sorry"),
    ("ann", "get well soon Cat"),
    ("bob", "my new bicycle is green and squeaky"),
    ("ann", "where did you buy it?"),
    ("bob", "at the flea market by the harbour"),
    ("cat", "I collect old postcards from Lisbon"),
)


@pytest.fixture
def database(postgres_url: str) -> Iterator[Database]:
    with evaluate.throwaway(postgres_url, EMBEDDER) as made:
        yield made


def say(database: Database, scope: Scope, said: Sequence[tuple[str, str]], prefix: str = "run") -> None:
    people = sorted({name for name, _ in said})
    observations = [
        writing.Observation(
            scope,
            Observed(text, sender=name, sender_name=name.title(), time=NOW - 10_000 + at * 20),
            EMBEDDER.query(text),
            Origin(f"{prefix}-{scope.bot}-{scope.chat}-{at}"),
            terms=texts.terms(text),
            topics=topics_of(text, people),
        )
        for at, (name, text) in enumerate(said)
    ]
    with database.transaction() as connection:
        writing.observe_many(connection, observations, embedder=database.embedder_id, now=NOW)


def ask(
    database: Database,
    query: str,
    scope: Scope = HERE,
    *,
    parts: Parts | None = None,
    top_k: int = 10,
    sender: str | None = None,
) -> Recalled:
    with database.transaction() as connection:
        vector = EMBEDDER.query(query)
        return recall(connection, scope, query, vector, sender=sender, parts=parts, top_k=top_k, now=NOW)


def contents(found: Recalled) -> list[str]:
    return [one.instance.content for one in found.instances]


def test_what_was_said_is_found_with_its_reasons(database: Database) -> None:
    say(database, HERE, CHAT)
    best = ask(database, "Who collects postcards?").instances[0]
    assert best.instance.content == "I collect old postcards from Lisbon"
    reasons = {reason.part: reason for reason in best.reasons}
    assert reasons["lexical"].detail == "collect, postcard"
    assert reasons["seed"].score > 0


def test_the_answer_is_found_by_the_question_before_it(database: Database) -> None:
    say(database, HERE, CHAT)
    query = "Where did Bob buy the bicycle?"
    assert "at the flea market by the harbour" in contents(ask(database, query))[:2]
    found = next(one for one in ask(database, query).instances if "flea" in one.instance.content)
    assert {"sequence", "speaker"} <= {reason.part for reason in found.reasons}
    assert next(one for one in found.reasons if one.part == "speaker").detail == "Bob"


def test_a_fact_written_is_found_by_the_very_next_query(database: Database) -> None:
    say(database, HERE, CHAT)
    ask(database, "anything")
    say(database, HERE, [("cat", "the password of the club is marmalade")], "later")
    assert contents(ask(database, "club password"))[0] == "the password of the club is marmalade"


def test_a_chat_sees_what_belongs_to_the_whole_bot(database: Database) -> None:
    say(database, HERE, CHAT)
    say(database, Scope("bot"), [("", "The opening hours are nine to five")])
    assert contents(ask(database, "opening hours"))[0] == "The opening hours are nine to five"


def test_an_empty_memory_recalls_nothing(database: Database) -> None:
    assert ask(database, "anything") == Recalled()
    say(database, HERE, CHAT)
    assert ask(database, "anything", top_k=0) == Recalled()


@pytest.mark.parametrize("query", ["", "?", "谁", "\U0001f600", "a" * 20_000, "%s %(x)s ' \\ ; DROP TABLE"])
def test_a_strange_query_is_answered(database: Database, query: str) -> None:
    say(database, HERE, CHAT)
    assert len(ask(database, query).instances) == len(CHAT)


def test_topics_come_with_the_seed_they_were_reached_from(database: Database) -> None:
    say(database, HERE, [("ann", f"we met Zoe Miller at Lake Garda, day {at}") for at in range(4)])
    found = {one.topic.name: one.reasons[0] for one in ask(database, "Zoe Miller").topics}
    assert found["Zoe Miller"].part == "seed"
    assert "Lake Garda" in found


def test_in_a_chat_of_a_few_records_no_vector_outweighs_what_the_words_say(database: Database) -> None:
    said = [("ann", f"{word} {word} good morning to you") for word in ("red", "green", "blue")]
    say(database, HERE, [*said, ("ann", "good morning to you"), ("bob", "completely unrelated xylophone zeppelin")])
    for one in ask(database, "xylophone zeppelin quartz basilisk").instances:
        shares = {reason.part: reason.score for reason in one.reasons}
        assert abs(shares.get("seed", 0.0)) < 12.0
        assert one.score < 30.0


def test_deviations_beyond_the_usual_keep_their_order() -> None:
    given = np.array([-60.0, -7.0, -6.0, -0.5, 0.0, 3.0, 6.0, 6.5, 60.0, 6e6])
    found = whitening.bounded(given)
    assert found[2:7].tolist() == given[2:7].tolist()
    assert (np.diff(found) > 0).all()
    assert found[0] > -11.0
    assert found[-2] < 11.0


def test_what_another_memory_brought_names_it_as_its_source(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranking, "SEEDS", 1)
    chat = [("ann", f"nothing of note happened on day {at}, the weather was grey") for at in range(30)]
    chat[3] = ("bob", "Zoe Miller keeps bees behind the old mill")
    chat[20] = ("cat", "Zoe Miller sold a jar of honey yesterday")
    say(database, HERE, chat)
    found = ask(database, "Who keeps bees behind the mill?")
    honey = next(one for one in found.instances if "honey" in one.instance.content)
    spread = next(reason for reason in honey.reasons if reason.part == "spread")
    assert str(spread) == "spread from “Zoe Miller keeps bees behind the old mi…”"
    assert contents(found)[0] == chat[3][1]


def test_importance_decides_between_what_is_else_alike(database: Database) -> None:
    say(database, HERE, [("ann", "the code of the door"), ("cat", "fine"), ("bob", "the code of the door")])
    with database.transaction() as connection:
        connection.execute("UPDATE memory_instances SET importance = 1 WHERE sender = 'ann'")
    alone = Parts.named("dense", "lexical", "recency")
    assert ask(database, "code of the door", parts=alone).instances[0].instance.sender == "bob"
    with_standing = Parts.named("dense", "lexical", "recency", "standing")
    best = ask(database, "code of the door", parts=with_standing).instances[0]
    assert best.instance.sender == "ann"
    assert "standing" in {reason.part for reason in best.reasons}


def test_a_term_that_stands_everywhere_reads_a_bounded_share_of_the_index(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(database, HERE, [("ann", f"tea number{at}") for at in range(40)])
    monkeypatch.setattr(lookup, "COMMON", 10)
    monkeypatch.setattr(lookup, "_LOOK", lookup._LOOK.replace("LIMIT 1000", "LIMIT 10"))
    with database.transaction() as connection:
        place = lookup.look(connection, HERE, "tea number7", {})
    assert len(place.postings["tea"]) == 10
    assert place.terms == ("number7",)
    assert contents(ask(database, "tea number7"))[0] == "tea number7"


def test_a_common_term_is_not_read_again_unless_nothing_rarer_is_asked_for(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(database, HERE, [("ann", f"tea number{at}") for at in range(40)])
    monkeypatch.setattr(lookup, "COMMON", 10)
    with database.transaction() as connection:
        first = lookup.look(connection, HERE, "tea number7", {})
        second = lookup.look(connection, HERE, "tea number7", {})
        alone = lookup.look(connection, HERE, "tea", {})
    assert (set(first.postings), set(second.postings)) == ({"tea", "number7"}, {"number7"})
    assert (second.terms, second.idf) == (first.terms, first.idf)
    assert (alone.terms, len(alone.postings["tea"])) == (("tea",), 40)


def test_a_common_term_is_read_again_when_the_scope_has_shrunk(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(database, HERE, [("ann", f"tea number{at}") for at in range(12)])
    monkeypatch.setattr(lookup, "COMMON", 10)
    with database.transaction() as connection:
        lookup.look(connection, HERE, "tea number7", {})
        connection.execute("DELETE FROM memory_instances WHERE seq >= 5")
        connection.execute("UPDATE memory_scopes SET instances = 5")
        assert len(lookup.look(connection, HERE, "tea number3", {}).postings["tea"]) == 5


def test_what_rises_from_far_behind_is_read_afterwards(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    say(database, HERE, CHAT)
    whole = ask(database, "Where did Bob buy the bicycle?")
    monkeypatch.setattr("handlers.memory_graph.recall._MAY_RISE", -9)  # one is read in advance
    assert ask(database, "Where did Bob buy the bicycle?") == whole


@pytest.mark.parametrize("backwards", [False, True])
def test_which_edges_are_followed_does_not_depend_on_where_they_lie(database: Database, backwards: bool) -> None:
    say(database, HERE, [("ann", "we saw Zoe Miller again")])
    numbers = sorted(range(30), key=lambda number: (number % 2, number), reverse=backwards)
    with database.transaction() as connection:
        for number in numbers:
            near_nothing = EMBEDDER.query(f"nothing like it {number}")
            connection.execute(
                "INSERT INTO memory_topics (id, topic_name, topic_embedding, scope_id, name_key, mentions, embedder_id)"
                " SELECT %(id)s, %(id)s, %(vector)s, scope_id, %(id)s, 1, embedder_id FROM memory_topics "
                "WHERE name_key = 'zoe miller'",
                {"id": f"!{number:02}", "vector": near_nothing},
            )
            connection.execute(
                "INSERT INTO topic_edges (id, from_topic, to_topic, weight, last_activated) "
                "SELECT %(edge)s, %(id)s, id, 0.9, to_timestamp(%(now)s) FROM memory_topics "
                "WHERE name_key = 'zoe miller'",
                {"edge": f"e{number}", "id": f"!{number:02}", "now": NOW},
            )
        found = candidates.find(connection, HERE, "Zoe Miller", EMBEDDER.query("Zoe Miller"), now=NOW)
    assert found is not None
    followed = {one.topic.name for one in found.topics if one.source == "Zoe Miller" and one.depth == 1}
    assert followed <= {f"!{number:02}" for number in range(10)}
    assert followed


@pytest.mark.parametrize("exact", [True, False])
def test_a_large_scope_is_searched_by_the_index_and_loses_nothing_small(
    database: Database, monkeypatch: pytest.MonkeyPatch, exact: bool
) -> None:
    say(database, HERE, [(name, f"{text} {at}") for at in range(20) for name, text in CHAT])
    monkeypatch.setattr(candidates, "_exact", lambda place: exact)
    found = ask(database, "Who collects postcards of Lisbon?", parts=Parts.named("dense"))
    assert len(found.instances) == 10
    assert all("postcards from Lisbon" in text for text in contents(found))


@pytest.mark.parametrize(
    "part", ["dense", "lexical", "sequence", "speaker", "spreading", "shape", "standing", "recency"]
)
def test_each_part_can_be_switched_off(database: Database, part: str) -> None:
    say(database, HERE, CHAT)
    found = ask(database, "Where did Bob buy the bicycle?", parts=Parts().without(part))
    named = {"dense": "seed", "spreading": "spread"}.get(part, part)
    assert found.instances
    assert all(reason.part != named for one in found.instances for reason in one.reasons)


def test_a_second_connection_that_works_meanwhile_changes_nothing(database: Database) -> None:
    say(database, HERE, CHAT)
    for query in ("where did Bob buy the bicycle?", "who has a cold", "hiking on Lotus Mountain"):
        with database.transaction() as connection, database.beside() as beside:
            assert beside is not None
            vector = EMBEDDER.query(query)
            both = recall(connection, HERE, query, vector, now=NOW, beside=beside)
            alone = recall(connection, HERE, query, vector, now=NOW)
            assert beside.info.transaction_status == beside.info.transaction_status.IDLE
        assert both == alone
        assert both.instances


def test_two_connections_recall_the_same(database: Database) -> None:
    say(database, HERE, CHAT)
    assert ask(database, "green bicycle") == ask(database, "green bicycle")


SCOPES = [Scope("bot"), HERE, Scope("bot", "console:main:group:2"), Scope("other"), Scope("other", HERE.chat)]


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from([text for _, text in CHAT])), min_size=1, max_size=25))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_nothing_leaks_from_a_scope_into_another(
    postgres_url: str, said: list[tuple[int, str]]
) -> None:  # fmt: skip
    with evaluate.throwaway(postgres_url, EMBEDDER) as database:
        for number, scope in enumerate(SCOPES):
            say(database, scope, [(f"p{number}", text) for at, text in said if at == number])
        for scope in SCOPES:
            found = ask(database, "the green bicycle of Lisbon, p1 p2 p3", scope, top_k=50)
            allowed = {scope, Scope(scope.bot)}
            assert {one.instance.scope for one in found.instances} <= allowed
            assert {one.topic.scope for one in found.topics} <= allowed
            expected = sum(SCOPES[at] in allowed for at, _ in said)
            assert len(found.instances) == expected

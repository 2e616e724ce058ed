"""Recall from a real Postgres, written by the real write path."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from handlers.memory_graph import candidates, evaluate, lookup, ranking, texts, writing
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

"""People: who somebody is in a chat, what they are to others, and how that came to be."""

from __future__ import annotations

import pytest

from handlers.memory_graph import people
from handlers.memory_graph.database import Database
from handlers.memory_graph.types import SELF, Origin
from tests.handlers.memory_graph.samples import BOT, DAY, ELSEWHERE, HERE, NOW, one, rows, say

pytestmark = pytest.mark.services


def relate(database: Database, source: str, target: str, delta: float, number: int = 0, **more: object) -> float | None:
    values = {"type": "friend", "now": NOW, "scope": HERE, **more}
    with database.transaction() as connection:
        return people.relate(
            connection, values["scope"], source, target, values["type"], delta,  # type: ignore[arg-type]
            origin=Origin(f"relation-{number}"), now=values["now"],  # type: ignore[arg-type]
        )  # fmt: skip


def profile(database: Database, person: str, **more: object) -> people.Profile:
    with database.transaction() as connection:
        return people.profile(connection, more.get("scope", HERE), person, now=NOW)  # type: ignore[arg-type]


def test_a_stranger_has_an_empty_profile(database: Database) -> None:
    assert profile(database, "nobody") == people.Profile("nobody")
    assert profile(database, "nobody").summary == ""


def test_somebody_whose_id_is_self_is_not_the_bot(database: Database) -> None:
    for sender in ("self", "~self", "~~self", "~", "selfie", "ann", ""):
        assert people.sender_of(people.person_of(sender)) == sender
    assert len({people.person_of(one) for one in ("self", "~self", "~~self", SELF + " ")} - {SELF}) == 4
    say(database, "hello", sender=people.person_of("self"), sender_name="Robin")
    relate(database, "ann", SELF, 0.5)
    assert profile(database, SELF).messages == 0
    assert (
        profile(database, people.person_of("self")).name,
        profile(database, people.person_of("self")).relations,
    ) == ("Robin", ())


def test_a_profile_tells_name_messages_and_earlier_names(database: Database) -> None:
    for number, name in enumerate(["Ann", "Ann", "Annie", "A.", ""]):
        say(database, f"text {number}", number, sender_name=name, time=NOW - 3 * DAY + number)
    found = profile(database, "ann")
    assert (found.name, found.earlier_names, found.messages) == ("A.", ("Annie", "Ann"), 5)
    assert found.first_seen == NOW - 3 * DAY
    assert found.summary == "A. (earlier Annie, Ann): 5 messages here, known since 2023-11-11, last heard 2 days ago."


def test_an_old_message_that_arrives_late_renames_nobody(database: Database) -> None:
    say(database, "new", 1, sender_name="Annie")
    say(database, "old", 2, sender_name="Ann", time=NOW - DAY)
    found = profile(database, "ann")
    assert (found.name, found.first_seen, found.last_seen) == ("Annie", NOW - DAY, NOW)


def test_a_relation_grows_with_its_history_and_stays_within_bounds(database: Database) -> None:
    weights = [relate(database, "ann", SELF, delta, number) for number, delta in enumerate([0.3, 0.5, 0.9, -1.0, 0.2])]
    assert weights == pytest.approx([0.3, 0.8, 1.0, 0.0, 0.2])
    (relation,) = profile(database, "ann").relations
    with database.transaction() as connection:
        changes = people.history(connection, HERE, relation.id)
    assert [change.delta for change in changes] == [0.3, 0.5, 0.9, -1.0, 0.2]
    assert [change.weight for change in changes] == pytest.approx(weights)
    assert [change.run_id for change in changes] == [f"relation-{number}" for number in range(5)]


def test_the_same_change_again_counts_once(database: Database) -> None:
    assert relate(database, "ann", SELF, 0.3, 1) == pytest.approx(0.3)
    assert relate(database, "ann", SELF, 0.3, 1) is None
    assert one(database, "SELECT weight FROM memory_relations") == pytest.approx(0.3)


def test_a_summary_names_the_bot_and_both_directions(database: Database) -> None:
    say(database, "hi", 1, sender="bob", sender_name="Bob")
    relate(database, "ann", SELF, 0.75, 1)
    relate(database, "bob", "ann", 0.5, 2, type="brother")
    assert profile(database, "ann").summary == ("Relations: friend of the bot (0.75); Bob is brother of them (0.50).")


def test_relations_of_one_chat_are_not_told_in_another(database: Database) -> None:
    relate(database, "ann", SELF, 0.5, 1)
    say(database, "hi", 1, scope=ELSEWHERE)
    relation = profile(database, "ann").relations[0]
    assert profile(database, "ann", scope=ELSEWHERE).relations == ()
    with database.transaction() as connection:
        assert people.history(connection, ELSEWHERE, relation.id) == []


def test_what_the_whole_bot_knows_of_somebody_is_known_in_every_chat(database: Database) -> None:
    relate(database, "ann", SELF, 0.5, 1, scope=BOT)
    assert [relation.weight for relation in profile(database, "ann").relations] == [0.5]


def test_related_people_are_linked_in_the_graph(database: Database) -> None:
    say(database, "hi", 1, sender="ann", sender_name="Ann", topics=[("Ann", 1.0)])
    say(database, "hi", 2, sender="bob", sender_name="Bob", topics=[("Bob", 1.0)])
    relate(database, "ann", "bob", 0.5, 1)
    assert rows(database, "SELECT edge_type, weight FROM topic_edges") == [("relation", 0.5)]


def test_the_names_of_a_scope_come_latest_heard_first(database: Database) -> None:
    say(database, "hi", 1, sender="ann", sender_name="Ann", time=NOW - 10)
    say(database, "hi", 2, sender="bob", sender_name="Bob")
    say(database, "hi", 3, sender="cy", sender_name="Cy", scope=ELSEWHERE)
    with database.transaction() as connection:
        assert list(people.names(connection, HERE).items()) == [("bob", "Bob"), ("ann", "Ann")]

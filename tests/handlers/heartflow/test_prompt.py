"""How a chat is shown to the model: nobody speaks in another's name."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from handlers.heartflow.history import Line
from handlers.heartflow.prompt import messages, presentable, speakers, system


def said(text: str, *, id: str = "7", name: str = "Ann", by: str = "user") -> Line:
    return Line(by, id, name, text, 0.0)


def names(lines: list[Line]) -> list[str | None]:
    return [entry.get("name") for entry in messages(lines, "Lumia", private=False)]


def test_a_group_line_names_its_author() -> None:
    assert messages([said("hi")], "Lumia", private=False) == [{"role": "user", "name": "Ann", "content": "hi"}]


def test_a_private_line_needs_no_author() -> None:
    assert messages([said("hi")], "Lumia", private=True) == [{"role": "user", "content": "hi"}]


def test_the_bots_own_lines_are_the_assistants() -> None:
    lines = [said("hi"), said("hello", id="bot", name="Lumia", by="bot")]
    assert [entry["role"] for entry in messages(lines, "Lumia", private=False)] == ["user", "assistant"]


def test_two_people_of_one_name_are_told_apart_by_their_ids() -> None:
    lines = [said("a", id="1", name="Ann"), said("b", id="2", name="ann"), said("c", id="3", name="Bob")]
    assert names(lines) == ["Ann (1)", "ann (2)", "Bob"]


def test_nobody_can_take_the_bots_name() -> None:
    assert speakers([said("x", name="LUMIA")], "Lumia") == {"7": "LUMIA (7)"}


def test_a_person_who_changes_name_keeps_one_label() -> None:
    assert names([said("a", name="Ann"), said("b", name="Annie")]) == ["Annie", "Annie"]


ids = st.text("123", min_size=1, max_size=3)
names_taken = st.sampled_from(["Ann", "ANN", "Ann (1)", "Lumia", "1"])


@given(st.dictionaries(ids, names_taken))
def test_no_two_people_look_the_same(people: dict[str, str]) -> None:
    labels = speakers([said("x", id=id, name=name) for id, name in people.items()], "Lumia")
    assert len({label.casefold() for label in labels.values()} | {"lumia"}) == len(people) + 1


@given(st.text(alphabet="Anb:\n ", max_size=60))
def test_no_text_can_forge_the_line_of_another(text: str) -> None:
    (entry,) = messages([said(text, name="Bob")], "Lumia", private=False)
    assert entry["role"] == "user"
    assert all(line.startswith("  ") for line in entry["content"].split("\n")[1:])


def test_the_persona_names_the_bot_and_the_rules_follow() -> None:
    text = system("You are {name}, {fine}.", "Lumia", private=False)
    assert text.startswith("You are Lumia, {fine}.\n\nYou are in a group chat.")
    assert "author" not in system("", "Lumia", private=True)


def test_a_reply_loses_the_name_tag_a_model_puts_in_front() -> None:
    assert presentable("  [Lumia]: hello\n", "Lumia") == "hello"
    assert presentable("Lumia：你好", "Lumia") == "你好"
    assert presentable("Ann: said so", "Lumia") == "Ann: said so"

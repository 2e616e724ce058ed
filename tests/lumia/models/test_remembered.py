"""What a memory puts into a prompt, and how the offline model answers from it: with who said it, and when."""

from __future__ import annotations

from typing import Any

import pytest

from lumia.models import Models, remembered

MONDAY = 1_700_000_000.0 - 7200
"""2023-11-14, noon in any zone between -8 and +9."""


def told(text: str, **more: Any) -> str:
    return remembered.line(text, MONDAY, **more)


def answer(question: str, *lines: str, name: str | None = "Cyd", chat: tuple[tuple[str, str], ...] = ()) -> str:
    messages: list[dict[str, Any]] = [{"role": "system", "content": remembered.block("What you remember:", lines)}]
    messages += [{"role": "user", "name": who, "content": said} for who, said in chat]
    messages.append({"role": "user", "content": question, **({"name": name} if name else {})})
    return Models({}, {}).chat("main", messages).text


@pytest.mark.parametrize(
    "question,said,expected",
    [
        (
            "What is my name?",
            "my name is Annabel",
            "Your name is Annabel. (2023-11-14: You said: “my name is Annabel”)",
        ),
        ("我叫什么名字？", "我叫王小明", "你叫王小明。"),
        ("Wo wohne ich?", "ich wohne in Graz", "Du wohnst in Graz."),
        ("¿Cómo me llamo?", "me llamo Inés", "Te llamas Inés."),
        ("Où est-ce que j'habite ?", "j'habite à Lyon", "Tu habites à Lyon."),
        ("私の名前は何ですか", "私の名前は花子です", "あなたの名前は花子です。"),
    ],
)
@pytest.mark.parametrize("name", ["Ann", None])
def test_who_asks_is_told_what_they_said_themselves(name: str | None, question: str, said: str, expected: str) -> None:
    found = answer(question, told(said, name="Ann", by_asker=True), name=name)
    assert found.startswith(expected)
    assert "2023-11-14" in found


def test_others_are_quoted_with_their_name_and_the_day() -> None:
    lines = told("my sister moved to Lisbon", name="Ann"), told("my sister lives in Oslo", name="Bob")
    assert answer("where does Ann's sister live?", *lines) == "2023-11-14: Ann said: “my sister moved to Lisbon”"


def test_what_the_chat_shows_is_newer_than_the_memory() -> None:
    line = told("I live in Rome", name="Cyd", by_asker=True)
    assert answer("where do I live?", line, chat=(("Cyd", "I live in Paris"),)) == "You live in Paris."


def test_of_two_memories_the_later_day_counts_whatever_their_order() -> None:
    old = remembered.line("I live in Rome", MONDAY - 30 * 86400, name="Cyd", by_asker=True)
    new = told("I live in Paris", name="Cyd", by_asker=True)
    for lines in ((old, new), (new, old)):
        assert answer("where do I live?", *lines).startswith("You live in Paris.")


def test_what_was_noted_is_told_without_a_speaker() -> None:
    assert answer("what is Ann allergic to?", told("Ann is allergic to peanuts")) == (
        "2023-11-14: I was told: “Ann is allergic to peanuts”"
    )


def test_the_bots_own_words_are_no_source() -> None:
    assert "I don't know" in answer("where is the key?", told("the key is under the mat", by_bot=True))


def test_the_header_of_the_memory_is_no_source_either() -> None:
    assert "I don't know" in answer("what do you remember about dragons?", told("tea is good", name="Ann"))


def test_a_block_without_lines_is_nothing() -> None:
    assert remembered.block("What you remember:", []) == ""
    assert remembered.lines_of("What you remember:\n- no line\n[2023-11-14] x: y") == []

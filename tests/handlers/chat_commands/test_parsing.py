"""Which texts are commands: known words behind the prefix, at the start, for this bot."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.chat_commands.parsing import MOST_WORDS, WORDS, Command, may_be_command, parse

NAMES = ("Lumia", "Lumia Bot", "10001", "小助手")
EVERY = [word for name, others in WORDS.items() for word in (name, *others)]
SPACES = st.text(alphabet=" \t\n\u3000\u2005\u200b\ufeff", max_size=4)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("/why", Command("why")),
        ("/WHY", Command("why")),
        ("  /why  ", Command("why")),
        ("\u2005\u3000/why\u200b", Command("why")),
        ("/为什么", Command("why", chinese=True)),
        ("／帮助", Command("help", chinese=True)),
        ("/模型 main gpt", Command("model", ("main", "gpt"), chinese=True)),
        ("/new", Command("reset")),
        ("/model\nmain\r\ngpt", Command("model", ("main", "gpt"))),
        ("/help@lumia", Command("help")),
        ("/help@LUMIA now", Command("help", ("now",))),
        ("@Lumia /why", Command("why")),
        ("@lumia,/why", Command("why")),
        ("@Lumia Bot /why", Command("why")),
        ("@小助手/why", Command("why")),
        ("＠小助手：／为什么", Command("why", chinese=True)),
        ("@10001 @Lumia /why", Command("why")),
    ],
)
def test_a_command_is_understood(text: str, expected: Command) -> None:
    assert parse(text, "/", NAMES) == expected


@pytest.mark.parametrize(
    "text",
    [
        "", "/", "//help", "/ help", "/helpme", "/why?", "/usr/bin", "/1", "please /why", "why", "!why", "\\why",
        "/help@otherbot", "/help@", "@Ann /why", "@Lumiaa /why", "@Lumia hello /why", "/模型main",
        "@Lumia", "@", "「/why」", "> /why", "/help/../../why", "/why@Lumia@other",
    ],
)  # fmt: skip
def test_anything_else_is_none(text: str) -> None:
    assert parse(text, "/", NAMES) is None


def test_another_prefix_takes_the_place_of_the_slash() -> None:
    assert parse("!why", "!", NAMES) == parse("bot, why", "bot, ", NAMES) == Command("why")
    assert parse("/why", "!", NAMES) is parse("／why", "!", NAMES) is None


def test_without_names_no_command_with_a_name_is_ours() -> None:
    assert parse("/why@Lumia", "/", ()) is None
    assert parse("/why@", "/", ("",)) is None


@given(st.text(max_size=200), st.sampled_from(["/", "!", "#bot "]))
def test_any_text_is_a_known_command_or_none(text: str, prefix: str) -> None:
    found = parse(text, prefix, NAMES)
    assert may_be_command(text) or found is None
    assert found is None or (found.name in WORDS and all(word.split() == [word] for word in found.words))


@given(st.text(max_size=60))
def test_what_begins_with_neither_prefix_nor_mention_is_no_command(text: str) -> None:
    assert parse(f"x{text}", "/", NAMES) is None


@given(
    st.sampled_from(EVERY), SPACES, SPACES.filter(bool), st.sampled_from(["", "@Lumia ", "@小助手 ", "＠10001,"]),
    st.lists(st.text(alphabet=st.characters(categories=["L", "N", "P"]), min_size=1, max_size=10), max_size=40),
)  # fmt: skip
def test_spaces_mentions_and_case_change_nothing(
    word: str, before: str, between: str, mention: str, words: list[str]
) -> None:
    text = before + mention + "/" + word.upper() + between + between.join(words)
    found = parse(text, "/", NAMES)
    assert found is not None and may_be_command(text)
    assert word == found.name or word in WORDS[found.name]
    assert found.words == tuple(words[:MOST_WORDS])
    assert found.chinese == (not word.isascii())


@given(st.sampled_from(sorted(WORDS)), st.text(alphabet=st.characters(categories=["L", "N"]), min_size=1, max_size=9))
def test_a_longer_word_is_another_one(word: str, more: str) -> None:
    found = parse(f"/{word}{more}", "/", NAMES)
    assert found is None or found.name != word or f"{word}{more}".casefold() in EVERY


@given(st.sampled_from(sorted(WORDS)), st.text(alphabet=st.characters(categories=["L", "N"]), min_size=1, max_size=9))
def test_a_command_for_another_bot_is_not_ours(word: str, other: str) -> None:
    ours = other.casefold() in {name.casefold() for name in NAMES}
    assert (parse(f"/{word}@{other}", "/", NAMES) is not None) == ours


def test_a_megabyte_is_read_no_further_than_a_command_may_reach() -> None:
    found = parse("/persona " + "x " * 500_000, "/", NAMES)
    assert found is not None and len(found.words) == MOST_WORDS
    assert parse(" " * 1_000_000 + "/why", "/", NAMES) is None

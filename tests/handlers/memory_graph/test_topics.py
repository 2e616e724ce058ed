"""What a text is about, found without a model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.memory_graph import topics


def names_of(text: str, *people: str) -> list[str]:
    return [name for name, _ in topics.topics_of(text, people)]


def test_names_stand_before_plain_words() -> None:
    found = topics.topics_of("I signed with the Minnesota Wolves yesterday, great contract")
    assert found[0] == ("Minnesota Wolves", topics.NAME)
    assert ("contract", topics.TERM) in found


def test_the_first_word_of_a_sentence_is_no_name() -> None:
    assert topics.names("Yesterday it rained. Tomorrow too.") == []


def test_people_who_are_named_come_first() -> None:
    assert topics.topics_of("nice to see you, bob, how was the trip?", ["Bob", "Alice"])[0] == ("Bob", topics.PERSON)


@pytest.mark.parametrize("text, named", [("annabel came", False), ("Anna came", True), ("Anna来了", True)])
def test_a_latin_name_is_found_as_a_whole_word_only(text: str, named: bool) -> None:
    assert ("Anna" in names_of(text, "Anna")) is named


def test_chinese_names_need_no_spaces_around_them() -> None:
    assert "小林" in names_of("昨天小林去游泳了", "小林")


def test_titles_and_katakana_are_names() -> None:
    assert topics.names("我在看《三体》") == ["三体"]
    assert "メロンパン" in topics.names("メロンパンの作り方")


def test_chinese_words_are_cut_at_particles() -> None:
    assert "羽毛球" in names_of("我最近在打羽毛球")


def test_singular_and_plural_are_one_topic() -> None:
    assert names_of("turtles everywhere") == names_of("turtle everywhere")


@given(st.text(max_size=300), st.lists(st.text(max_size=8), max_size=4))
def test_topics_are_few_distinct_and_weighed(text: str, people: list[str]) -> None:
    found = topics.topics_of(text, people)
    assert len(found) <= topics.MOST
    assert len({" ".join(name.casefold().split()) for name, _ in found}) == len(found)
    assert [weight for _, weight in found] == sorted((weight for _, weight in found), reverse=True)
    assert all(0 < weight <= 1 for _, weight in found)

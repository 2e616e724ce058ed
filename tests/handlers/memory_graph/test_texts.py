"""The terms of texts, as the lexical index holds them and as queries ask for them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.memory_graph import texts


@pytest.mark.parametrize(
    "one, other",
    [
        ("painted", "painting"),
        ("paintings", "paint"),
        ("stories", "story"),
        ("went", "goes"),
        ("bought", "buying"),
        ("Caroline's", "Caroline"),
        ("running", "runs"),
        ("hiked", "hiking"),
        ("ＬＵＭＩＡ", "lumia"),
        ("tried", "try"),
        ("boxes", "box"),
    ],
)
def test_forms_of_a_word_are_one_term(one: str, other: str) -> None:
    assert set(texts.terms(one)) == set(texts.terms(other))


@pytest.mark.parametrize("one, other", [("news", "new"), ("bus", "but"), ("1999", "1998"), ("sing", "sink")])
def test_different_words_stay_different_terms(one: str, other: str) -> None:
    assert set(texts.terms(one)).isdisjoint(texts.terms(other))


def test_chinese_is_single_signs_and_pairs() -> None:
    assert set(texts.terms("爬山去")) == {"爬", "山", "去", "爬山", "山去"}


def test_kana_is_found_by_pairs_only() -> None:
    assert set(texts.terms("ラーメン")) == {"ラー", "ーメ", "メン"}


def test_scripts_beside_each_other_are_told_apart() -> None:
    assert {"leo", "半马", "5"} <= set(texts.terms("Leo跑了5公里半马"))


def test_asking_words_are_left_out_of_a_query_but_not_of_the_index() -> None:
    assert "what" in texts.terms("what a day")
    assert set(texts.query_terms("What did she paint?")) == {"she", "paint"}
    assert "什么" not in texts.query_terms("小林买了什么牌子的车")
    assert {"牌子", "车"} <= set(texts.query_terms("小林买了什么牌子的车"))


@pytest.mark.parametrize("query", ["Who?", "什么", "どこ"])
def test_a_query_of_asking_words_alone_still_has_terms(query: str) -> None:
    assert texts.query_terms(query)


def test_a_question_is_known_by_its_last_sign() -> None:
    assert texts.is_question('She said "why?"')
    assert texts.is_question("去哪里？ ")
    assert not texts.is_question("Why not? Let's go.")


@given(st.text(max_size=200))
def test_any_text_has_folded_terms_without_spaces(text: str) -> None:
    found = texts.terms(text)
    assert all(term and term == term.strip() and count > 0 for term, count in found.items())
    assert texts.terms(text) == found


@given(st.text(max_size=100), st.text(max_size=100))
def test_a_text_on_two_lines_has_the_terms_of_both(first: str, second: str) -> None:
    assert texts.terms(f"{first}\n{second}") == texts.terms(first) + texts.terms(second)


@given(st.text(alphabet="abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=20))
def test_a_stem_is_never_empty_nor_longer_than_its_word_by_more_than_an_irregular_form(word: str) -> None:
    assert 0 < len(texts.stem(word)) <= len(word) + 4

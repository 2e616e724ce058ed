"""Slack's text form and back, exactly."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.slack import mrkdwn
from adapters.slack.mrkdwn import decode, encode

IDS = st.text("ABCUW0123456789", min_size=1, max_size=11)
WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
LABELS = WORDS | st.just("")
URLS = st.text("abz:/?&=#.%<>-_", min_size=1, max_size=20).filter(lambda url: url[0] not in "@#!")


def labelled(data: dict[str, Any], label: str | None) -> dict[str, Any]:
    return data if label is None else {**data, "label": label}


def segments_of(kind: str, key: str, values: st.SearchStrategy[str]) -> st.SearchStrategy[dict[str, Any]]:
    return st.builds(
        lambda value, label: {"type": kind, "data": labelled({key: value}, label)}, values, st.none() | LABELS
    )


TEXTS = WORDS.map(lambda text: {"type": "text", "data": {"text": text}})
NAMED = st.one_of(
    segments_of("mention", "id", IDS),
    segments_of("slack.channel", "id", IDS),
    segments_of("slack.usergroup", "id", IDS),
    segments_of("mention_all", "range", st.sampled_from(["here", "channel", "everyone", "group"])),
    segments_of("slack.special", "value", st.text("abc^{}0", min_size=1).map("date^".__add__)),
    segments_of("slack.link", "url", URLS),
)


def apart(segments: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Drop texts that follow a text: Slack has one between two named things."""
    before = [{"type": ""}, *segments]
    return [one for one, last in zip(segments, before, strict=False) if (one["type"], last["type"]) != ("text", "text")]


@given(st.lists(TEXTS | NAMED, max_size=8).map(apart))
def test_segments_survive_the_way_to_slack_and_back(segments: list[dict[str, Any]]) -> None:
    assert decode(encode(segments)) == segments


@given(st.lists(TEXTS | NAMED, max_size=8).map(apart).map(encode))
def test_slacks_text_survives_the_way_here_and_back(text: str) -> None:
    assert encode(decode(text)) == text


@given(st.text("<>&|@#!^ampltg;UC1 hx:/", max_size=60) | st.text(st.characters(), max_size=40))
def test_any_text_means_the_same_once_written_anew(text: str) -> None:
    assert decode(encode(decode(text))) == decode(text)


@given(st.text("<>&;ampltgtx", max_size=40))
def test_escaping_is_undone(text: str) -> None:
    assert mrkdwn.unescape(mrkdwn.escape(text)) == text
    assert not set("<>") & set(mrkdwn.escape(text))


@pytest.mark.parametrize("text", ["<", ">", "<>", "<@>", "<@a b>", "<#>", "<!>", "<|x>", "a < b", "<@U1"])
def test_what_names_nothing_stays_text(text: str) -> None:
    assert decode(text) == [{"type": "text", "data": {"text": text}}]


def test_people_and_places_are_sent_without_their_names() -> None:
    assert mrkdwn.name_of({"type": "mention", "data": {"id": "U1", "name": "Ann", "label": "ann"}}) == "<@U1>"
    assert mrkdwn.name_of({"type": "slack.channel", "data": {"id": "C1", "label": "general"}}) == "<#C1>"
    assert mrkdwn.name_of({"type": "mention_all", "data": {}}) == "<!channel>"
    assert mrkdwn.name_of({"type": "mention_all", "data": {"range": "here"}}) == "<!here>"
    link = {"type": "slack.link", "data": {"url": "https://a/?b=1&c|d", "label": "<it>"}}
    assert mrkdwn.name_of(link) == "<https://a/?b=1&amp;c%7Cd|&lt;it&gt;>"


@pytest.mark.parametrize("id", ["", "U1><!channel", "U 1", "@U1", "a" * 65])
def test_an_id_that_is_none_is_not_sent(id: str) -> None:
    assert mrkdwn.name_of({"type": "mention", "data": {"id": id}}) == ""

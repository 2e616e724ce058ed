"""What Slack sends, as messages and events: recorded payloads, the twin of a mention, and any rubbish."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.slack import incoming, interactive
from adapters.slack.arrivals import Context, Talk, Told, is_ts
from lumia.errors import PayloadError
from tests.peers.slack import BOT
from tests.peers.slack_events import EventsSender

RECORDED: list[dict[str, Any]] = json.loads(Path(__file__).with_name("recorded.json").read_text(encoding="utf-8"))
SENDER = EventsSender("http://127.0.0.1/")
HERE = Context("main", BOT, time=1_700_000_000.0)
SECRETS = ("gIkuvaNzQIHg97ATvDxqgjtO", "Jhj5dZrVaK7ZwHHjRyZWjbDl", "ZZZZZZWSxiZZZ2yIvs3peJ", "hooks.slack.com")


def read(entry: dict[str, Any], context: Context = HERE) -> Talk | Told | None:
    payload = entry["payload"]
    if entry["kind"] == "event":
        return incoming.event(SENDER.envelope(payload), context)
    return (
        interactive.command(payload, context)
        if entry["kind"] == "command"
        else interactive.interaction(payload, context)
    )


def named(name: str) -> dict[str, Any]:
    (entry,) = [entry for entry in RECORDED if entry["name"] == name]
    return entry


def talk(entry: dict[str, Any], context: Context = HERE) -> dict[str, Any]:
    found = read(entry, context)
    assert isinstance(found, Talk)
    return found.msg


LOOKS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "text": lambda msg: msg["text"],
    "kind": lambda msg: msg["chat"]["kind"],
    "mentions": lambda msg: [one["id"] for one in msg["mentions"]],
    "mentions_bot": lambda msg: msg["mentions_bot"],
    "thread": lambda msg: msg.get("thread"),
    "reply_to": lambda msg: msg.get("reply_to"),
    "media": lambda msg: [one["kind"] for one in msg["media"]],
    "sender": lambda msg: msg["sender"]["name"],
}


@pytest.mark.parametrize("entry", RECORDED, ids=[entry["name"] for entry in RECORDED])
def test_a_recorded_payload_means_what_it_should(entry: dict[str, Any]) -> None:
    found, expect = read(entry), entry["expect"]
    if expect is None:
        assert found is None
    elif expect["as"] == "msg":
        assert isinstance(found, Talk)
        assert {name: look(found.msg) for name, look in LOOKS.items() if name in expect} == {
            name: value for name, value in expect.items() if name in LOOKS
        }
        assert bool(found.response_url) == expect.get("answer", False)
    else:
        assert isinstance(found, Told)
        assert (found.id, found.content["chat"]["kind"]) == (expect["id"], expect["kind"])
        assert found.content.get("thread") == expect.get("thread")
        assert bool(found.response_url) == expect.get("answer", False)


@pytest.mark.parametrize("entry", RECORDED, ids=[entry["name"] for entry in RECORDED])
def test_no_token_and_no_response_url_travels(entry: dict[str, Any]) -> None:
    found = read(entry)
    shown = json.dumps([found.msg, found.raw] if isinstance(found, Talk) else found and found.content) + repr(found)
    assert not [secret for secret in SECRETS if secret in shown]


def test_there_are_enough_recordings() -> None:
    assert len(RECORDED) >= 40


def test_a_mention_and_its_twin_are_one_message_in_one_lane() -> None:
    twin = named("app_mention of the same words")["payload"]
    message = {**twin, "type": "message", "channel_type": "channel"}
    first, second = (talk({"kind": "event", "payload": event}) for event in (message, twin))
    assert first["mentions_bot"]
    same = ("platform", "account", "chat", "message_id", "mentions_bot", "text", "mentions", "sender")
    assert {name: first[name] for name in same} == {name: second[name] for name in same}


def test_the_message_id_stays_text() -> None:
    event = {**named("plain message in a public channel")["payload"], "ts": "1718000000.000010"}
    msg = talk({"kind": "event", "payload": event})
    assert (msg["message_id"], msg["time"]) == ("1718000000.000010", 1718000000.00001)


def test_without_authorizations_the_known_bot_is_heeded() -> None:
    event = named("message with the bot mentioned")["payload"]
    envelope = {**SENDER.envelope(event), "authorizations": []}
    found = incoming.event(envelope, HERE)
    assert isinstance(found, Talk) and found.msg["mentions_bot"]
    unknown = incoming.event(envelope, Context("main"))
    assert isinstance(unknown, Talk) and not unknown.msg["mentions_bot"]
    assert incoming.event({**envelope, "event": {**event, "user": BOT}}, HERE) is None


def test_in_a_thread_of_the_bot_only_what_names_it_is_addressed_to_it() -> None:
    plain = named("plain message in a public channel")["payload"]
    event = {**plain, "ts": "1718000009.000100", "thread_ts": "1718000001.000100", "parent_user_id": BOT}
    msg = talk({"kind": "event", "payload": event})
    assert not msg["mentions_bot"]
    assert (msg["thread"], msg["reply_to"]) == ("1718000001.000100", "1718000001.000100")
    named_there = {**event, "text": f"and what about <@{BOT}>?"}
    assert talk({"kind": "event", "payload": named_there})["mentions_bot"]
    twin = {**named_there, "type": "app_mention"}
    assert talk({"kind": "event", "payload": twin})["mentions_bot"]
    direct = {**event, "channel": "D0DIRECT01", "channel_type": "im"}
    assert talk({"kind": "event", "payload": direct})["mentions_bot"]


def test_slackbot_is_not_heard() -> None:
    plain = named("plain message in a public channel")["payload"]
    assert incoming.event(SENDER.envelope({**plain, "user": "USLACKBOT", "text": "Reminder: tea."}), HERE) is None


def test_names_come_from_what_is_known() -> None:
    known = Context("main", BOT, {"U0ANN00001": "Ann", BOT: "Lumia"}.get)  # type: ignore[arg-type]
    msg = talk(named("message with the bot mentioned"), known)
    assert (msg["sender"]["name"], msg["text"]) == ("Ann", "@Lumia what time is it?")
    assert msg["mentions"] == [{"id": BOT, "name": "Lumia"}]


def test_files_carry_what_is_needed_to_fetch_them() -> None:
    msg = talk(named("an image with words"))
    (image,) = msg["media"]
    assert image["ref"] == "F0CAT00001"
    assert image["url"].startswith("https://files.slack.com/files-pri/T0TEAM0001-F0CAT00001/download/")
    assert (image["name"], image["media_type"], image["size"]) == ("cat.png", "image/png", 1234)
    assert msg["segments"][-1] == {"type": "image", "data": {"media": 0}}


def test_who_is_spoken_of_can_be_asked_for() -> None:
    envelope = SENDER.envelope(named("two mentions, one twice")["payload"])
    assert incoming.people(envelope) == {"U0ANN00001", "U0BEN00001", "U0CAT00001"}


def test_the_same_command_is_the_same_message() -> None:
    form = named("a slash command")["payload"]
    first, again, other = (
        talk({"kind": "command", "payload": one}) for one in (form, dict(form), {**form, "trigger_id": "2"})
    )
    assert first["message_id"] == again["message_id"] != other["message_id"]
    assert not is_ts(first["message_id"])


def test_events_are_told_apart_by_their_id() -> None:
    event = named("a reaction")["payload"]
    first, again, other = (incoming.event(SENDER.envelope(event, id), HERE) for id in ("Ev1", "Ev1", "Ev2"))
    assert isinstance(first, Told) and isinstance(again, Told) and isinstance(other, Told)
    assert first.dedup == again.dedup != other.dedup


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters(), max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
FIELDS = ("type", "subtype", "channel", "channel_type", "user", "text", "ts", "thread_ts", "bot_id", "files", "item")
EVENTS = st.fixed_dictionaries(
    {"type": st.sampled_from(["message", "app_mention", "reaction_added"]) | JSON},
    optional=dict.fromkeys(FIELDS[1:], JSON),
)
BROKEN = st.sampled_from(RECORDED).flatmap(
    lambda entry: st.dictionaries(st.sampled_from(sorted(entry["payload"])), JSON, max_size=4).map(
        lambda changed: {**entry, "payload": {**entry["payload"], **changed}}
    )
)


@given(EVENTS | JSON, JSON)
def test_no_event_breaks_it(event: Any, authorizations: Any) -> None:
    try:
        found = incoming.event({"event": event, "authorizations": authorizations}, HERE)
    except PayloadError:
        return
    assert found is None or json.dumps(found.msg if isinstance(found, Talk) else found.content).encode()


@given(BROKEN)
def test_no_damage_breaks_it(entry: dict[str, Any]) -> None:
    if entry["kind"] == "command":
        entry = {**entry, "payload": {name: str(value) for name, value in entry["payload"].items()}}
    try:
        read(entry)
    except PayloadError:
        return

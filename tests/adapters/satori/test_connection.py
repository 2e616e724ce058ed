"""Connected, cut, resumed by sn, restarted, refused; several logins on one connection."""

from __future__ import annotations

import logging
from typing import Any

import pytest

import lumia
from lumia.adapters import AccountState
from lumia.errors import BackendUnavailableError, LaneFullError
from tests.adapters.satori.conftest import Seen, Start, stored
from tests.peers.satori import Satori
from tests.support.wait import until

ONE, OTHER = "main/mock/9", "main/discord/80@x"


def account(name: str) -> AccountState:
    return lumia.adapters.account("satori", name)


def texts(seen: Seen) -> list[str]:
    return [msg["text"] for msg, _ in seen.all]


def test_after_an_outage_the_session_goes_on_where_everything_is_stored(
    satori: Satori, start: Start, seen: Seen, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with start() as running:
        satori.say("one")
        until(lambda: stored() == 1)
        satori.cut()
        satori.say("two, while nobody listens")
        seen.wait(2)
        assert (satori.identified[-1]["sn"], satori.identified[-1]["token"]) == (1, satori.token)
        until(lambda: account("main").state == "connected")
        until(lambda: stored() == 2)
        running.stop()
        satori.say("three, while the gateway is stopped")
        running.start()
        seen.wait(3)
        until(lambda: len(satori.read("12")) == 3)
    assert texts(seen) == ["one", "two, while nobody listens", "three, while the gateway is stopped"]
    assert [one.get("sn") for one in satori.identified] == [None, 1, 2]
    logged = "\n".join(one.getMessage() for one in caplog.records if one.name != "websockets.server")  # the peer's own
    assert "the connection was cut" in logged and satori.token not in logged


def test_what_is_sent_again_is_one_message(satori: Satori, start: Start, seen: Seen) -> None:
    with start():
        event = satori.say("once", id="same")
        for _ in range(3):
            satori.push(event)
        satori.say("end")
        seen.wait(2)
    assert texts(seen) == ["once", "end"]


def test_a_server_that_counts_anew_is_followed(satori: Satori, start: Start, seen: Seen) -> None:
    with start():
        for n in range(5):
            satori.say(f"before {n}")
        until(lambda: stored() == 5)
        satori.restart()
        until(lambda: len(satori.identified) == 2 and satori.connected)
        satori.say("after", id="new")
        seen.wait(6)
        until(lambda: stored() == 1)
        satori.cut()
        satori.say("and on", id="newer")
        seen.wait(7)
    assert satori.identified[-1]["sn"] == 1


def test_each_login_is_an_account_and_answers_by_itself(satori: Satori, start: Start, seen: Seen) -> None:
    satori.logins.append({**satori.login("discord", "80@x", "Other"), "sn": 2})
    satori.logins.append({**satori.login("mock", "10", "Third"), "sn": 3})
    with start(platform=None, self_id=None):
        until(lambda: account(OTHER).state == "connected" and account("main").standing.detail == "3 logins")
        satori.say("what the first hears of the third is no talk", login=0, user="10")
        satori.say("to the first", login=0)
        satori.say("to the second", login=1, channel="77")
        seen.wait(2)
        assert {msg["text"] for msg, _ in seen.all} == {"to the first", "to the second"}
        until(lambda: satori.read("77") and satori.read("12"))
        asked = [one.headers for one in satori.asked if one.path == "/v1/message.create"]
        names = sorted((one["satori-platform"], one["satori-user-id"]) for one in asked)
        assert names == [("discord", "80@x"), ("mock", "9")]
        found = {msg["account"]: meta["satori"] for msg, meta in seen.all}
        assert found[OTHER] == {"platform": "discord", "self_id": "80@x", "guild": "g1"}

        satori.push({"type": "login-updated", "timestamp": 1, "login": {"sn": 2, "status": 0}})
        until(lambda: account(OTHER).state == "offline" and account(ONE).state == "connected")
        satori.push({"type": "login-removed", "timestamp": 1, "login": satori.logins[1]})
        until(lambda: lumia.store.of("satori").get("logins", scope="main") == [["mock", "9"], ["mock", "10"]])
        satori.cut()
        until(lambda: account(ONE).state == "connected" and len(satori.identified) == 2)


def test_a_table_with_a_login_serves_that_one_alone(satori: Satori, start: Start, seen: Seen) -> None:
    satori.logins.append(satori.login("discord", "80@x", "Other"))
    with start():
        satori.say("not ours", login=1)
        satori.say("ours")
        seen.wait(1)
        until(lambda: stored() == 2)
    assert [(msg["text"], msg["account"]) for msg, _ in seen.all] == [("ours", "main")]


def test_a_wrong_token_is_told_and_not_tried_again_until_the_settings_change(
    satori: Satori, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    with start(token="wrong") as running:
        until(lambda: account("main").state == "refused")
        assert "token of [accounts.main]" in account("main").standing.detail
        assert len(satori.identified) == 1
        monkeypatch.setattr("lumia.adapters.per_account.LOOK", 0.01)
        settings: Any = running.bot.runtime.config
        settings.settings("satori").accounts = {"main": satori.settings}
        until(lambda: account("main").state == "connected")
        settings.settings("satori").accounts = {"main": {**satori.settings, "enabled": False}}
        until(lambda: account("main").state == "disabled" and not satori.connected)


def test_a_server_that_is_silent_is_left(satori: Satori, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    with start():
        satori.mute = True
        monkeypatch.setattr("adapters.satori.connection.EVERY", 0.02)
        satori.cut()
        until(lambda: len(satori.identified) >= 3)
        satori.mute = False
        count = len(satori.identified)
        until(lambda: satori.pings > 20)
        assert len(satori.identified) <= count + 2


def test_other_events_reach_who_listens_once(satori: Satori, start: Start) -> None:
    heard: list[Any] = []
    said: list[Any] = []

    @lumia.event.consumer("satori.reaction_added")
    def reacted(content: lumia.Box[Any]) -> None:
        heard.append((content.into()["sn"], content.meta["account"], content.meta["chat"]["id"]))

    @lumia.event.consumer("msg.satori")
    def raw(content: lumia.Box[Any]) -> None:
        said.append((content.into()["message"]["content"], content.meta["account"]))

    with start(reacted, raw):
        satori.say(content="<b>raw</b>")
        event = {
            "type": "reaction-added",
            "timestamp": 5,
            "login": satori.logins[0],
            "channel": {"id": "12", "type": 0},
        }
        satori.push(event)
        satori.push({**event, "sn": 2})
        satori.push({"type": "guild-member-added", "timestamp": 6, "login": satori.logins[0]})
        until(lambda: stored() == 4 and heard and said)
    assert (heard, said) == ([(2, "main", "12")], [("<b>raw</b>", "main")])


def test_an_answer_to_the_bots_words_is_for_it_and_carries_what_the_platform_wants_back(
    satori: Satori, start: Start, seen: Seen
) -> None:
    with start():
        satori.say("hello", referrer={"event": "e1"})
        until(lambda: satori.messages["12"])
        sent = satori.messages["12"][0]["id"]
        until(lambda: lumia.adapters.receipts.sent("satori", "main", {"kind": "group", "id": "12"}, sent))
        satori.say(content=f'<quote id="{sent}"/>quiet, bot')
        satori.say(content='<quote id="m1"/>quiet, ada')
        seen.wait(3)
    assert [msg["mentions_bot"] for msg, _ in seen.all] == [False, True, False]
    asked = [one.body for one in satori.asked if one.path == "/v1/message.create"]
    assert [one.get("referrer") for one in asked] == [{"event": "e1"}]


def test_a_message_too_large_with_its_raw_form_goes_without_it(satori: Satori, start: Start, seen: Seen) -> None:
    with start():
        satori.say("quiet " + "x" * 400_000, _data={"filler": "y" * 700_000})
        assert len(seen.wait(1)[0][0]["text"]) == 400_006


@pytest.mark.parametrize("error", [BackendUnavailableError("it is away"), LaneFullError("lane x is full")])
def test_what_was_not_taken_is_held_and_asked_for_again(
    satori: Satori, start: Start, seen: Seen, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr("lumia.adapters.holding.PATIENCE", 0.0)
    submit, away, refused = lumia.adapters.submit, [False], []

    async def submitted(*args: Any, **kwargs: Any) -> str:
        if away[0]:
            refused.append(args)
            raise error
        return await submit(*args, **kwargs)

    monkeypatch.setattr(lumia.adapters, "submit", submitted)
    with start():
        satori.say("before")
        until(lambda: stored() == 1)
        away[0] = True
        satori.say("meanwhile")
        until(lambda: refused)
        satori.cut()
        until(lambda: len(satori.identified) == 2)
        assert (satori.identified[1]["sn"], stored()) == (1, 1)
        until(lambda: f"holds 1 back: {error}" in account("main").detail or "holds 2" in account("main").detail)
        away[0] = False
        seen.wait(2)
        until(lambda: stored() == 2)
    assert texts(seen) == ["before", "meanwhile"]


def test_no_link_that_anybody_may_follow_is_kept(satori: Satori, start: Start, seen: Seen) -> None:
    link = "https://cdn.example/cat.png?ex=66f1&hm=0f3a9c1de2b4f5a69788"
    heard: list[Any] = []

    @lumia.event.consumer("satori.guild_updated")
    def other(content: lumia.Box[Any]) -> None:
        heard.append(content.into())

    @lumia.event.consumer("msg.satori")
    def raw(content: lumia.Box[Any]) -> None:
        heard.append(content.into())

    with start(other, raw):
        satori.say(content=f'quiet <img src="{link.replace("&", "&amp;")}"/>')
        about = {
            "type": "guild-updated",
            "timestamp": 6,
            "login": satori.logins[0],
            "guild": {"id": "1", "avatar": link},
        }
        satori.push(about)
        ((msg, _),) = seen.wait(1)
        until(lambda: len(heard) == 2)
        assert lumia.media.link(msg["media"][0]) == link
    assert "0f3a9c1de2b4" not in str([seen.all, heard]) and str(heard).count("hm=***") == 2


def test_a_login_without_a_possible_name_stops_no_other(satori: Satori, start: Start, seen: Seen) -> None:
    satori.logins.append(satori.login("mock", "a" * 600, "Odd"))
    with start(platform=None, self_id=None):
        satori.say("odd", login=1)
        satori.say("fine")
        assert seen.wait(1)[0][0]["account"] == ONE
        until(lambda: stored() == 2)

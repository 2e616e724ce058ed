"""What is said while nobody listens: fetched on reconnect, in order, once, and only while it is fresh."""

from __future__ import annotations

import sys
import time
from typing import Any

import pytest

import lumia
from adapters.onebot.cursors import CHATS, Cursors
from lumia.errors import BackendUnavailableError
from tests.adapters.onebot.site import MAIN, TOKEN, Heard, reach, site
from tests.peers.onebot import DROP, OneBot
from tests.support.gateway import Served
from tests.support.wait import until


def stored(name: str = "main") -> dict[str, float]:
    found: dict[str, float] = lumia.store.of("onebot").get("seen", {}, scope=name)
    return found


def seen(site: Served, qq: OneBot, *chats: str) -> None:
    """Let the account go away, once its cursors are written."""
    until(lambda: set(chats) <= set(stored()), what="the cursors")
    qq.cut()
    reach(site, "disconnected")


@pytest.mark.parametrize("lagrange", [False, True])
def test_what_was_missed_comes_in_order_and_once(lagrange: bool) -> None:
    heard = Heard()
    with site(heard) as gateway, OneBot("10001", token=TOKEN, lagrange=lagrange) as qq:
        qq.connect(gateway.ws)
        qq.say("before", group="12")
        qq.say("hi", user="30003")
        heard.wait(2)
        seen(gateway, qq, "group-12", "private-30003")
        for n in range(45):
            qq.message(f"missed {n}", group="12")
        qq.message("mine", group="12", user="10001")
        qq.message("missed in private", user="30003")
        qq.connect(gateway.ws)
        qq.say("after", group="12")
        heard.wait(2 + 45 + 1 + 1)
        group = [msg["text"] for msg, _ in heard.messages if msg["chat"]["kind"] == "group"]
        assert group == ["before", *(f"missed {n}" for n in range(45)), "after"]
        assert "missed in private" in heard.texts
        marked = {msg["text"] for msg, meta in heard.messages if meta.get("backfilled")}
        assert marked - {"after"} == {*(f"missed {n}" for n in range(45)), "missed in private"}


def test_a_missed_message_that_cant_be_taken_is_left_out_and_the_others_come(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    heard = Heard()
    with site(heard) as gateway, OneBot("10001", token=TOKEN) as qq:
        incoming = sys.modules["adapters.onebot.incoming"]
        read = incoming.message

        def refuses(event: Any, *args: Any) -> Any:
            if "poison" in event["raw_message"]:
                raise lumia.errors.PayloadError("this can't be a message")
            return read(event, *args)

        monkeypatch.setattr(incoming, "message", refuses)
        qq.connect(gateway.ws)
        qq.say("before", group="12")
        heard.wait(1)
        seen(gateway, qq, "group-12")
        for text in ("one", "poison", "two"):
            qq.message(text, group="12")
        qq.connect(gateway.ws)
        qq.say("after", group="12")
        assert heard.wait(4) == ["before", "one", "two", "after"]
    assert "can't be taken: this can't be a message" in caplog.text


def test_a_missed_message_says_when_it_was_said_and_an_old_one_is_left_alone() -> None:
    heard = Heard()
    with site(heard) as gateway, OneBot("10001", token=TOKEN) as qq:
        qq.connect(gateway.ws)
        now = int(time.time())
        qq.say("before", group="12", time=now - 3 * 3600)
        heard.wait(1)
        seen(gateway, qq, "group-12")
        at = [{"type": "at", "data": {"qq": "10001"}}]
        qq.message(at, group="12", time=now - 2 * 3600)
        qq.message("fresh", group="12", time=now - 600)
        qq.connect(gateway.ws)
        assert heard.wait(2) == ["before", "fresh"]
        assert heard.messages[1][0]["time"] == now - 600
        qq.say("after", group="12")
        assert heard.wait(3) == ["before", "fresh", "after"]


def test_a_chat_nobody_has_heard_of_is_not_looked_into() -> None:
    heard = Heard()
    with site(heard) as gateway, OneBot("10001", token=TOKEN) as qq:
        qq.message("long ago", group="12")
        qq.connect(gateway.ws)
        qq.say("first", group="12")
        assert heard.wait(1) == ["first"]
        assert not [one for one in qq.asked if "history" in one["action"]]


def test_a_peer_without_a_history_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    heard = Heard()
    with site(heard) as gateway, OneBot("10001", token=TOKEN, history=False) as qq:
        qq.connect(gateway.ws)
        for group in ("12", "13", "14"):
            qq.say("before", group=group)
        heard.wait(3)
        seen(gateway, qq, "group-12", "group-13", "group-14")
        qq.message("lost", group="12")
        qq.connect(gateway.ws)
        qq.say("after", group="12")
        assert heard.wait(4)[-1] == "after"
    told = [record for record in caplog.records if "get_group_msg_history" in record.getMessage()]
    assert len(told) == 1


def test_what_arrives_while_the_broker_is_away_is_accepted_when_it_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = Heard()
    with site(heard) as gateway, OneBot("10001", token=TOKEN) as qq:
        qq.connect(gateway.ws)
        qq.say("before", group="12")
        heard.wait(1)
        real = gateway.bot.transport.start_each
        refused: list[int] = []

        def away(*args: Any, **options: Any) -> Any:
            if len(refused) < 3:
                refused.append(1)
                raise BackendUnavailableError("away")
            return real(*args, **options)

        monkeypatch.setattr(gateway.bot.transport, "start_each", away)
        for n in range(5):
            qq.say(f"meanwhile {n}", group="12")
        assert heard.wait(6)[1:] == [f"meanwhile {n}" for n in range(5)]
        assert len(refused) == 3


def test_a_stopped_gateway_makes_up_for_its_absence() -> None:
    heard = Heard()
    with site(heard, main=MAIN) as gateway, OneBot("10001", token=TOKEN) as qq:
        qq.connect(gateway.ws)
        qq.say("before", group="12")
        heard.wait(1)
        gateway.stop()
        qq.message("while it was away", group="12")
        gateway.start()
        qq.connect(gateway.ws)
        assert heard.wait(2) == ["before", "while it was away"]


def test_a_connection_cut_within_a_frame_loses_nothing_and_repeats_nothing() -> None:
    heard, pieces = Heard(), 24
    with site(heard) as gateway, OneBot("10001", token=TOKEN) as qq:
        qq.connect(gateway.ws)
        qq.say("before", group="12")
        heard.wait(1)
        until(lambda: stored(), what="the cursor")
        for n in range(pieces + 1):
            qq.cut_within(qq.message(f"cut {n}", group="12"), n / pieces)
            qq.connect(gateway.ws)
        qq.say("after", group="12")
        assert heard.wait(pieces + 3) == ["before", *(f"cut {n}" for n in range(pieces + 1)), "after"]


def test_a_history_that_nobody_could_be_asked_for_is_not_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chat is held back while its peer comes and goes: its history is due when there is no connection."""
    heard, now = Heard(), int(lumia.system.now())
    with site(heard) as gateway, OneBot("10001", token=TOKEN) as qq:
        monkeypatch.setattr("adapters.onebot.station.FILL_TRIES", 1)
        qq.connect(gateway.ws)
        qq.say("before", group="12", time=now - 300)
        heard.wait(1)
        until(lambda: stored(), what="the cursor")
        real, away = gateway.bot.transport.start_each, [True]

        def start_each(starts: Any, *args: Any, **options: Any) -> Any:
            if away[0] and "group-12" in str(starts):
                raise BackendUnavailableError("away")
            return real(starts, *args, **options)

        monkeypatch.setattr(gateway.bot.transport, "start_each", start_each)
        qq.say("held", group="12", time=now - 200)
        state = lumia.adapters.account("onebot", "main", platform="qq")
        until(lambda: "holds 1 back" in state.detail)
        qq.cut()
        qq.message("missed", group="12", time=now - 100)
        for n in range(2):
            qq.connect(gateway.ws)
            qq.say(f"live {n}", group="12")
            qq.say("read", group=f"1{n + 3}")
            heard.wait(2 + n)
            qq.cut()
        until(lambda: state.state == "disconnected")
        away[0] = False
        until(lambda: "live 1" in heard.texts)
        qq.connect(gateway.ws)
        heard.wait(7)
        assert sorted(heard.texts) == ["before", "held", "live 0", "live 1", "missed", "read", "read"]


def test_what_a_dead_connection_swallowed_is_fetched_by_the_one_that_replaces_it() -> None:
    """Behind a router that forgot the connection, the peer's messages go nowhere, and the gateway hears nothing."""
    heard = Heard()
    with site(heard) as gateway, OneBot("10001", token=TOKEN) as qq, OneBot("10001", token=TOKEN) as again:
        qq.connect(gateway.ws)
        qq.say("before", group="12")
        heard.wait(1)
        until(lambda: stored(), what="the cursor")
        qq.freeze()
        again.chats = qq.chats
        again.message("swallowed", group="12")
        again.connect(gateway.ws)
        again.say("after", group="12")
        assert heard.wait(3) == ["before", "swallowed", "after"]
        qq.cut()


def test_a_history_that_is_cut_off_is_asked_for_again_in_smaller_pieces_by_each_later_connection() -> None:
    heard = Heard()
    with site(heard) as gateway, OneBot("10001", token=TOKEN) as qq:
        qq.connect(gateway.ws)
        qq.say("before", group="12")
        heard.wait(1)
        seen(gateway, qq, "group-12")
        qq.message("missed", group="12")
        qq.fault("get_group_msg_history", DROP, DROP)
        for _ in range(2):
            qq.connect(gateway.ws)
            until(lambda: not qq.lines, what="the connection is cut by the history's answer")
        qq.connect(gateway.ws)
        assert heard.wait(2) == ["before", "missed"]
        asked = [one["params"]["count"] for one in qq.asked if one["action"] == "get_group_msg_history"]
        assert asked[:3] == [20, 10, 5]


def test_only_the_newest_chats_are_remembered_while_nothing_is_written() -> None:
    cursors = Cursors("main")
    for number in range(4 * CHATS):
        cursors.seen(f"private-{number}", float(number))
    assert len(cursors.times) <= 2 * CHATS and f"private-{4 * CHATS - 1}" in cursors.times


def test_a_chat_whose_history_is_still_missing_keeps_its_place_whatever_is_heard() -> None:
    cursors = Cursors("main")
    cursors.seen("group-12", 100.0)
    cursors.hold("group-12")
    assert not cursors.seen("group-12", 200.0)
    assert not cursors.seen("group-12", 150.0)
    assert cursors.seen("group-13", 200.0)
    assert cursors.times == {"group-12": 100.0, "group-13": 200.0}
    cursors.release("group-12")
    assert cursors.times["group-12"] == 200.0

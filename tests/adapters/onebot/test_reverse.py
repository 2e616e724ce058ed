"""Reverse WebSockets, the whole way: a message in, its answer out of the same socket, and what happens in between."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import websockets

import lumia
from adapters.onebot import checking
from lumia.errors import BackendUnavailableError
from tests.adapters.onebot.site import MAIN, TOKEN, Heard, account, reach, send, sends, site, state, waits
from tests.peers.onebot import ASYNC, DROP, LOSE, SLOW, OneBot, fail
from tests.support.gateway import Served
from tests.support.wait import until


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def gateway(heard: Heard) -> Iterator[Served]:
    with site(heard) as running:
        yield running


@pytest.fixture
def qq() -> Iterator[OneBot]:
    with OneBot("10001", token=TOKEN) as peer:
        yield peer


def test_a_gateway_whose_clock_is_ahead_does_not_keep_the_account(heard: Heard, qq: OneBot) -> None:
    with site(heard) as gateway:
        with gateway.bot.runtime.activated():
            lumia.store.of("onebot").set("newest", "zzzzzzzzzzzzzzzzzzzzzz", scope="main")
        qq.connect(gateway.ws)
        qq.say("echo here", group="12")
        qq.wait_sent()
        with gateway.bot.runtime.activated():
            until(lambda: lumia.store.of("onebot").get("newest", scope="main") != "zzzzzzzzzzzzzzzzzzzzzz")
            lumia.store.of("onebot").set("newest", "0", scope="main")
        until(lambda: qq.closed, what="it to yield to who connected later, whatever the clocks say")


class TestTheWay:
    @pytest.mark.parametrize("lagrange, format", [(False, "array"), (True, "string")])
    def test_a_message_is_answered_over_the_same_socket(
        self, gateway: Served, heard: Heard, lagrange: bool, format: str
    ) -> None:
        with OneBot("10001", token=TOKEN, lagrange=lagrange, format=format) as qq:
            qq.connect(gateway.ws)
            event = qq.say("echo hello [there] & you", group="12")
            sent = qq.wait_sent()[0]
        assert sent.action == "send_group_msg"
        assert sent.params == {"group_id": 12, "message": [
            {"type": "reply", "data": {"id": str(event["message_id"])}},
            {"type": "text", "data": {"text": "hello [there] & you"}},
        ]}  # fmt: skip
        msg, meta = heard.messages[0]
        assert (msg["platform"], msg["account"], msg["chat"]["id"]) == ("qq", "main", "12")
        assert meta == {"account": "main", "chat": msg["chat"]}

    def test_the_same_event_again_is_the_same_message(self, gateway: Served, heard: Heard, qq: OneBot) -> None:
        qq.connect(gateway.ws)
        event = qq.say("once", group="12")
        qq.emit(event)
        qq.say("after", group="12")
        assert heard.wait(2) == ["once", "after"]

    def test_an_answer_to_the_bots_words_is_for_it_and_one_to_somebody_elses_is_not(
        self, gateway: Served, heard: Heard, qq: OneBot
    ) -> None:
        qq.connect(gateway.ws)
        question = qq.say("echo why not", group="12")
        ours = qq.wait_sent()[0].message_id
        until(lambda: sends(gateway) == {"sent": 1})
        for quoted in (ours, question["message_id"]):
            for group in ("12", "13"):
                reply = {"type": "reply", "data": {"id": str(quoted)}}
                qq.say([reply, {"type": "text", "data": {"text": "hm"}}], group=group)
        heard.wait(5)
        said = [(msg["chat"]["id"], msg["reply_to"], msg["mentions_bot"]) for msg, _ in heard.messages[1:]]
        assert [place for *place, for_bot in said if for_bot] == [["12", str(ours)]]

    def test_what_the_bot_said_itself_is_not_heard(self, gateway: Served, heard: Heard, qq: OneBot) -> None:
        qq.connect(gateway.ws)
        qq.say("mine", group="12", user="10001", post_type="message_sent")
        qq.say("mine too", group="12", user="10001")
        qq.say("theirs", group="12")
        assert heard.wait(1) == ["theirs"]

    def test_a_temporary_chat_is_answered_through_its_group(self, gateway: Served, qq: OneBot) -> None:
        qq.connect(gateway.ws)
        qq.say("echo hi", user="30003", sub_type="group", group_id=77, temp_source=0)
        sent = qq.wait_sent()[0]
        assert (sent.action, sent.params["user_id"], sent.params["group_id"]) == ("send_private_msg", 30003, 77)

    def test_receipts_say_what_was_answered(self, gateway: Served, qq: OneBot) -> None:
        qq.connect(gateway.ws)
        event = qq.say("echo hi", group="12")
        sent = qq.wait_sent()[0]
        until(lambda: sends(gateway) == {"sent": 1}, what="the send to be counted")
        found = lumia.adapters.receipts.answers("qq", "main", {"kind": "group", "id": "12"}, str(event["message_id"]))
        assert [receipt.message_id for receipt in found] == [str(sent.message_id)]

    def test_a_message_is_taken_back(self, gateway: Served, qq: OneBot) -> None:
        qq.connect(gateway.ws)
        lumia.adapters.delete("msg.send, dest=3.qq.group-12", "-55", account="main")
        until(lambda: qq.asked, what="delete_msg")
        assert qq.asked[0] == {"action": "delete_msg", "params": {"message_id": -55}}

    def test_notices_and_requests_are_events(self, gateway: Served, heard: Heard, qq: OneBot) -> None:
        qq.connect(gateway.ws)
        qq.notice("group_increase", sub_type="approve", group_id=12, operator_id=1, user_id=5)
        qq.emit({"time": 1, "self_id": 10001, "post_type": "request", "request_type": "friend", "user_id": 6,
                 "comment": "hi", "flag": "f"})  # fmt: skip
        until(lambda: len(heard.events) == 2, what="both events")
        assert {(id, meta["account"]) for id, _, meta in heard.events} == {
            ("onebot.notice.group_increase", "main"), ("onebot.request.friend", "main"),
        }  # fmt: skip

    def test_a_plugin_asks_for_an_action_and_hears_the_result(self, gateway: Served, heard: Heard, qq: OneBot) -> None:
        qq.extra["set_friend_add_request"] = lambda params: None
        qq.connect(gateway.ws)
        asked = {"action": "set_friend_add_request", "params": {"flag": "f", "approve": True}}
        lumia.event.start("onebot.call", lumia.Box.any(asked, meta={"account": "main"}))
        until(lambda: heard.events, what="the result")
        assert heard.events[0][1] == {"account": "main", **asked, "data": None}

    def test_frames_that_are_none_do_no_harm(self, gateway: Served, heard: Heard, qq: OneBot) -> None:
        qq.connect(gateway.ws)
        for frame in ("", "{", "[]", "5", '{"post_type": 5}', '{"post_type":"message"}', '{"echo": {}}', "\ud7ff"):
            qq.emit(frame)
        qq.emit({"post_type": "message", "message_type": "group", "self_id": 10001})
        qq.say("still here", group="12")
        assert heard.wait(1) == ["still here"]


class TestHandshake:
    def refused(self, gateway: Served, qq: OneBot, **headers: str) -> int:
        with pytest.raises(websockets.InvalidStatus) as error:
            qq.connect(gateway.ws, headers=headers)
        return error.value.response.status_code

    def test_a_wrong_token_is_refused_and_leaves_no_secret_in_the_log(
        self, gateway: Served, caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level(logging.DEBUG), OneBot("10001", token="s3cret-guess") as qq:
            assert self.refused(gateway, qq) == 403
        with OneBot("10001") as qq:  # an empty Bearer, as NapCat sends it
            assert self.refused(gateway, qq) == 401
        told = "\n".join(record.getMessage() for record in caplog.records if record.name.startswith("lumia"))
        assert "s3cret" not in told
        assert TOKEN not in told

    @pytest.mark.parametrize("change", [None, {"enabled": False}, {"access_token": "another"}, {"self_id": "10002"}])
    def test_who_would_no_longer_be_let_in_is_sent_away(
        self, gateway: Served, qq: OneBot, change: dict[str, Any] | None
    ) -> None:
        qq.connect(gateway.ws)
        reach(gateway, "connected")
        settings = gateway.bot.runtime.config.settings("onebot")  # type: ignore[union-attr]
        settings.accounts = {} if change is None else {"main": {**MAIN, **change}}
        until(lambda: qq.closed, timeout=15, what="the connection is closed")
        assert qq.closed[0][0] == 4003

    def test_other_settings_count_without_a_new_connection(self, gateway: Served, heard: Heard, qq: OneBot) -> None:
        qq.connect(gateway.ws)
        reach(gateway, "connected")
        gateway.bot.runtime.config.settings("onebot").accounts = {"main": {**MAIN, "split_at": 100}}  # type: ignore[union-attr]
        station = sys.modules["adapters.onebot.hub"].find("main")
        until(lambda: station.account.split_at == 100, timeout=15)
        assert not qq.closed

    def test_another_bot_is_refused(self, gateway: Served) -> None:
        with OneBot("10002", token=TOKEN) as qq:
            assert self.refused(gateway, qq) == 403

    def test_an_empty_bearer_is_no_token(self, heard: Heard) -> None:
        with site(heard, main={}) as gateway, OneBot("10001") as qq:
            qq.connect(gateway.ws)
            reach(gateway, "connected")

    def test_an_account_without_a_number_serves_one_bot_at_a_time(self, heard: Heard, qq: OneBot) -> None:
        with site(heard, main={"access_token": TOKEN}) as gateway, OneBot("10002", token=TOKEN) as second:
            qq.connect(gateway.ws)
            reach(gateway, "connected")
            assert self.refused(gateway, second) == 403
            qq.cut()
            reach(gateway, "disconnected")
            second.connect(gateway.ws)
            second.say("hello", group="12")
            assert heard.wait(1) == ["hello"]

    def test_a_template_serves_many_bots_apart(self, heard: Heard, qq: OneBot) -> None:
        with site(heard, farm={**MAIN, "self_id": "*"}) as gateway, OneBot("10002", token=TOKEN) as other:
            qq.connect(gateway.ws)
            other.connect(gateway.ws)
            qq.say("echo for one", group="12")
            other.say("echo for two", group="12")
            qq.wait_sent()
            other.wait_sent()
            assert (qq.texts(), other.texts()) == (["for one"], ["for two"])
        assert {msg["account"] for msg, _ in heard.messages} == {"farm.10001", "farm.10002"}


class TestRoles:
    @pytest.mark.parametrize("path", ["", "/onebot/v11/ws"])
    def test_split_roles_make_one_account(self, gateway: Served, heard: Heard, qq: OneBot, path: str) -> None:
        qq.connect(gateway.ws, role="Event", path=path)
        until(lambda: state(gateway) == "connecting", what="half a connection")
        qq.connect(gateway.ws, role="API", path=path)
        reach(gateway, "connected")
        qq.say("echo split", group="12")
        qq.wait_sent()
        assert qq.texts() == ["split"]

    def test_a_send_waits_until_actions_can_be_asked_for(self, gateway: Served, qq: OneBot) -> None:
        qq.connect(gateway.ws, role="Event")
        qq.say("echo later", group="12")
        until(lambda: waits(gateway), what="the send to wait")
        qq.connect(gateway.ws, role="API")
        qq.wait_sent()


class TestStanding:
    def test_the_account_comes_and_goes(self, gateway: Served, qq: OneBot) -> None:
        qq.connect(gateway.ws)
        reach(gateway, "connected")
        qq.cut()
        reach(gateway, "disconnected")
        qq.connect(gateway.ws)
        reach(gateway, "connected")

    def test_one_that_was_logged_out_is_offline_and_its_sends_wait(self, gateway: Served, qq: OneBot) -> None:
        qq.connect(gateway.ws)
        reach(gateway, "connected")
        qq.notice("bot_offline", user_id=10001, tag="KickedOffLine", message="logged in elsewhere")
        reach(gateway, "offline")
        found = account(gateway)
        assert found is not None
        assert "logged in elsewhere" in found.detail
        send(gateway, "wait for it")
        until(lambda: waits(gateway), what="the send to wait")
        assert not qq.sent
        qq.emit({**qq.beat(), "interval": 30_000})
        qq.wait_sent()
        reach(gateway, "connected")

    def test_a_heartbeat_tells_that_it_is_offline(self, gateway: Served, qq: OneBot) -> None:
        qq.heartbeat, qq.online = 30, False
        qq.connect(gateway.ws)
        reach(gateway, "offline")
        qq.online = True
        reach(gateway, "connected")

    def test_a_connection_that_stops_beating_is_dropped(self, gateway: Served, qq: OneBot) -> None:
        qq.heartbeat = 50
        qq.connect(gateway.ws)
        until(lambda: qq.beaten >= 2, what="it to beat")
        qq.heartbeat = 0
        reach(gateway, "disconnected")

    def test_the_second_connection_takes_over(self, gateway: Served, heard: Heard, qq: OneBot) -> None:
        qq.connect(gateway.ws)
        reach(gateway, "connected")
        with OneBot("10001", token=TOKEN) as again:
            again.connect(gateway.ws)
            until(lambda: qq.closed, what="the first to be sent away")
            assert qq.closed[0][0] == 4001
            again.say("echo to the new one", group="12")
            again.wait_sent()
            assert state(gateway) == "connected"

    def test_check_says_who_it_is(self, gateway: Served, qq: OneBot) -> None:
        qq.connect(gateway.ws)
        reach(gateway, "connected")
        assert checking.check("main") == lumia.adapters.Checked(True, "Lumia (10001)")
        qq.online = False
        assert "offline" in checking.check("main").detail
        assert "no such account" in checking.check("other").detail


class TestOutcomes:
    def test_a_refused_message_is_rejected(self, gateway: Served, qq: OneBot) -> None:
        qq.fault("send_group_msg", fail(1200, 'EventChecker Failed: {"result": 110}'))
        qq.connect(gateway.ws)
        send(gateway, "no")
        until(lambda: sends(gateway) == {"rejected": 1}, what="the send to be rejected")
        assert "110" in gateway.bot.dead[0].error

    def test_a_store_that_is_away_before_anything_went_out_leaves_nothing_unknown(
        self, gateway: Served, qq: OneBot, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        intake = sys.modules["adapters.onebot.intake"]
        group_of, asked = intake.group_of, list[str]()

        def away_once(account: str, user: str) -> str:
            asked.append(user)
            if len(asked) == 1:
                raise BackendUnavailableError("the broker is away")
            return str(group_of(account, user))

        monkeypatch.setattr(intake, "group_of", away_once)
        qq.connect(gateway.ws)
        to = lumia.payloads.destination(3, "qq", "private", "30003")
        with gateway.bot.runtime.activated():
            lumia.event.start(to, lumia.Box.any({"text": "at last"}, meta={"account": "main"}))
        until(lambda: sends(gateway) == {"sent": 1}, timeout=30, what=f"sent, there are {sends(gateway)}")
        assert (asked, qq.texts()) == (["30003", "30003"], ["at last"])

    def test_a_cut_before_anything_was_done_is_unknown_and_held(self, gateway: Served, qq: OneBot) -> None:
        qq.fault("send_group_msg", LOSE)
        qq.connect(gateway.ws)
        send(gateway, "who knows")
        until(lambda: not qq.lines, what="the cut")
        qq.connect(gateway.ws)
        until(lambda: sends(gateway) == {"held": 1}, timeout=30, what=f"held, there are {sends(gateway)}")
        assert not qq.sent

    def test_a_cut_after_it_was_sent_is_found_in_the_history(self, gateway: Served, qq: OneBot) -> None:
        qq.fault("send_group_msg", DROP)
        qq.connect(gateway.ws)
        send(gateway, "gone out")
        until(lambda: not qq.lines, what="the cut")
        qq.connect(gateway.ws)
        until(lambda: sends(gateway) == {"sent": 1}, timeout=30, what=f"sent, there are {sends(gateway)}")
        assert qq.texts() == ["gone out"]
        receipt = lumia.adapters.receipts.sent("qq", "main", "12", str(qq.sent[0].message_id))
        assert receipt is not None

    def test_an_answer_on_the_next_connection_counts(self, gateway: Served, qq: OneBot) -> None:
        qq.fault("send_group_msg", SLOW)
        qq.connect(gateway.ws)
        send(gateway, "slow")
        until(lambda: not qq.lines, what="the cut")
        qq.connect(gateway.ws)
        until(lambda: sends(gateway) == {"sent": 1}, what="the late answer")
        assert not [one for one in qq.asked if "history" in one["action"]]

    @pytest.mark.parametrize("fault", [ASYNC, fail(1200, "Timeout: NTEvent …/sendMsg")])
    def test_what_nobody_knows_follows_the_accounts_policy(self, heard: Heard, fault: Any) -> None:
        careless = {**MAIN, "on_unknown": "retry", "verify_unknown": False}
        with site(heard, main=careless) as gateway, OneBot("10001", token=TOKEN) as qq:
            qq.fault("send_group_msg", fault)
            qq.connect(gateway.ws)
            send(gateway, "again")
            until(lambda: sends(gateway) == {"sent": 1}, what=f"sent, there are {sends(gateway)}")
            assert len([one for one in qq.asked if one["action"] == "send_group_msg"]) == 2

    def test_messages_to_a_chat_keep_their_distance(self, heard: Heard) -> None:
        with site(heard, main={**MAIN, "interval": 0.3}) as gateway, OneBot("10001", token=TOKEN) as qq:
            qq.connect(gateway.ws)
            begun = lumia.system.monotonic()
            for n in range(3):
                send(gateway, str(n))
            qq.wait_sent(3)
            assert lumia.system.monotonic() - begun >= 0.6
            assert qq.texts() == ["0", "1", "2"]

    def test_a_long_answer_becomes_several_messages(self, gateway: Served, qq: OneBot) -> None:
        qq.connect(gateway.ws)
        send(gateway, "word " * 1400)
        until(lambda: sends(gateway) == {"sent": 1}, what="all of it")
        assert len(qq.sent) == 3
        assert "".join("".join(qq.texts()).split()) == "word" * 1400

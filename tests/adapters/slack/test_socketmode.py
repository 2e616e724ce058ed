"""Socket Mode over real sockets: confirmed once stored, moved before it is cut, and what is lost comes again."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import lumia
from lumia.errors import BackendUnavailableError
from tests.adapters.slack.common import ANN, SLACK, answer, config, message
from tests.peers.slack import APP_TOKEN, Fault, SlackPeer
from tests.peers.slack_events import EventsSender
from tests.peers.slack_socket import SocketPeer
from tests.support.gateway import Served, served
from tests.support.wait import until

ENVELOPES = EventsSender("http://127.0.0.1/")
said: list[str] = []


@lumia.pipe.on("msg", priv=100)
def note(content: lumia.Box[Any]) -> None:
    said.append(content.into()["text"])
    lumia.utils.next()


@pytest.fixture(autouse=True)
def _quiet() -> None:
    said.clear()


@pytest.fixture
def slack() -> Iterator[SlackPeer]:
    with SlackPeer() as peer:
        yield peer


@pytest.fixture
def socket(slack: SlackPeer) -> Iterator[SocketPeer]:
    with SocketPeer(slack) as peer:
        yield peer


@pytest.fixture
def site(slack: SlackPeer, socket: SocketPeer) -> Iterator[Served]:
    with served(SLACK, answer, note, config=config(slack, mode="socket", app_token=slack.app_token)) as running:
        until(lambda: socket.links)
        yield running


def state() -> str:
    return str(lumia.adapters.account("slack", "main").state)


def send(socket: SocketPeer, text: str, ts: str, **more: Any) -> str:
    return socket.send("events_api", ENVELOPES.envelope(message(text, ts, **more)))


def test_a_message_is_confirmed_once_stored_and_answered(site: Served, slack: SlackPeer, socket: SocketPeer) -> None:
    id = send(socket, "hello", "1718000300.000001")
    until(lambda: id in socket.acknowledged)
    until(lambda: [one["text"] for one in slack.posted] == ["you said: hello"])
    until(lambda: state() == "connected")
    assert slack.called("apps.connections.open")[0].token == APP_TOKEN


def test_commands_and_clicks_come_the_same_way(site: Served, slack: SlackPeer, socket: SocketPeer) -> None:
    form = {"command": "/ask", "text": "why?", "user_id": ANN, "channel_id": "C0GENERAL1", "trigger_id": "1.2"}
    click = {"type": "block_actions", "user": {"id": ANN}, "channel": {"id": "C0GENERAL1"}, "trigger_id": "1.3"}
    ids = [socket.send("slash_commands", form), socket.send("interactive", click), socket.send("something_new", {})]
    until(lambda: set(ids) <= set(socket.acknowledged))
    until(lambda: [one["text"] for one in slack.posted] == ["you said: /ask why?"])


def test_an_envelope_that_comes_again_is_one_run(site: Served, socket: SocketPeer) -> None:
    envelope = ENVELOPES.envelope(message("once", "1718000300.000002"))
    for _ in range(3):
        id = socket.send("events_api", envelope)
        until(lambda id=id: id in socket.acknowledged)  # type: ignore[misc]
    send(socket, "last", "1718000300.000003")
    until(lambda: "last" in said)
    assert said == ["once", "last"]


def test_the_next_connection_is_open_before_the_old_one_goes(site: Served, socket: SocketPeer) -> None:
    old = socket.announce("warning")
    until(lambda: len(socket.links) == 2)
    old.send('{"envelope_id": "late", "type": "slash_commands", "payload": {}}')
    until(lambda: "late" in socket.acknowledged)
    old.close()
    id = send(socket, "still here", "1718000300.000004")
    until(lambda: id in socket.acknowledged and "still here" in said)
    assert socket.opened == 2


def test_an_old_connection_that_stays_is_closed_from_here(
    site: Served, socket: SocketPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["adapters.slack.socketmode"], "LEAVING", 0.05)
    socket.announce("refresh_requested")
    until(lambda: socket.opened == 2 and len(socket.links) == 1)


def test_what_a_channel_says_stays_in_order_though_the_first_of_it_has_to_be_tried_again(
    site: Served, socket: SocketPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, tries = site.bot.transport.start_each, list[str]()

    def away_at_first(starts: Any, **options: Any) -> Any:
        tries.extend(one[0].box for one in starts)
        if len(tries) == 1:
            raise BackendUnavailableError("away")
        return real(starts, **options)

    monkeypatch.setattr(site.bot.transport, "start_each", away_at_first)
    send(socket, "first", "1718000300.000011")
    until(lambda: tries)
    send(socket, "second", "1718000300.000012")
    send(socket, "elsewhere", "1718000300.000013", channel="G0PRIVATE1", channel_type="group")
    until(lambda: len(said) == 3)
    assert said == ["elsewhere", "first", "second"], "another channel waits for nobody"


def test_a_cut_connection_is_opened_again_and_nothing_is_lost(site: Served, socket: SocketPeer) -> None:
    for number in range(5):
        send(socket, f"n{number}", f"1718000300.00010{number}")
        if number == 2:
            socket.cut()
    until(lambda: len(socket.acknowledged) >= 5, timeout=20)
    until(lambda: set(said) == {f"n{number}" for number in range(5)})
    assert len(said) == 5


def test_a_frame_cut_anywhere_comes_again_and_is_one_message(
    site: Served, socket: SocketPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["adapters.slack.socketmode"], "LONGEST_PAUSE", 0.05)
    envelope = ENVELOPES.envelope(message("cut", "1718000300.000200"))
    whole = socket.frame("events_api", envelope)
    for length in (1, 2, 3, 4, len(whole) // 2, len(whole) - 1, len(whole)):
        before = socket.opened
        socket.send_cut(whole[:length])
        until(lambda before=before: socket.opened > before)  # type: ignore[misc]
        until(lambda: socket.links)
    id = socket.send("events_api", envelope)
    until(lambda: id in socket.acknowledged)
    send(socket, "last", "1718000300.000201")
    until(lambda: "last" in said)
    assert said == ["cut", "last"]


def test_what_can_not_be_stored_is_not_confirmed(
    site: Served, socket: SocketPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, times = site.bot.transport.start, []

    def gone(*args: Any, **more: Any) -> Any:
        times.append(1)
        assert id_of(socket) not in socket.acknowledged
        if len(times) < 3:
            raise BackendUnavailableError("away")
        return start(*args, **more)

    monkeypatch.setattr(site.bot.transport, "start", gone)
    id = send(socket, "patience", "1718000300.000006")
    until(lambda: id in socket.acknowledged)
    until(lambda: said == ["patience"])
    assert len(times) >= 3


def id_of(socket: SocketPeer) -> str:
    return f"57d6a792-4d35-4d0b-b6aa-{1:012x}"


def test_frames_that_are_none_are_passed_over(site: Served, socket: SocketPeer) -> None:
    for text in ("", "null", "[1]", "{", '{"type": 1}', '{"envelope_id": 3}', '{"type": "hello"}', "[" * 5000):
        socket.say(text)
    socket.say('{"envelope_id": "x1", "type": "events_api", "payload": [1]}')
    until(lambda: "x1" in socket.acknowledged)
    assert socket.opened == 1


@pytest.mark.parametrize("code", ["invalid_auth", "not_allowed_token_type", "account_inactive"])
def test_a_wrong_token_is_told_and_not_tried_in_a_hurry(slack: SlackPeer, socket: SocketPeer, code: str) -> None:
    slack.fail("apps.connections.open", *[Fault.error(code)] * 100)
    with served(SLACK, config=config(slack, mode="socket", app_token=slack.app_token)):
        until(lambda: state() == "refused")
        assert code in lumia.adapters.account("slack", "main").standing.detail
        assert len(slack.called("apps.connections.open")) == 1


def test_socket_mode_that_was_turned_off_is_told(site: Served, socket: SocketPeer) -> None:
    socket.announce("link_disabled")
    until(lambda: state() == "refused")


def test_an_app_token_that_is_missing_is_told_and_nothing_is_opened(slack: SlackPeer, socket: SocketPeer) -> None:
    with served(SLACK, config=config(slack, mode="socket")):
        until(lambda: state() == "refused")
        assert "app_token is missing" in lumia.adapters.account("slack", "main").standing.detail
    assert slack.calls == []


def test_a_connection_that_ends_before_its_greeting_is_opened_again(slack: SlackPeer, socket: SocketPeer) -> None:
    socket.greet = False
    with served(SLACK, config=config(slack, mode="socket", app_token=slack.app_token)):
        until(lambda: socket.links)
        assert state() == "connecting"
        socket.greet = True
        socket.cut()
        until(lambda: state() == "connected")


def test_no_ticket_and_no_token_is_logged(
    slack: SlackPeer, socket: SocketPeer, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG), served(SLACK, config=config(slack, mode="socket", app_token=slack.app_token)):
        until(lambda: socket.links)
        socket.cut()
        until(lambda: socket.opened >= 2)
    ours = "\n".join(record.getMessage() for record in caplog.records if record.name != "websockets.server")
    assert not [word for word in ("ticket=", APP_TOKEN, slack.bot_token) if word in ours]


def test_the_gateway_stops_while_connected(site: Served, socket: SocketPeer) -> None:
    site.stop()
    until(lambda: not socket.links)


def test_a_bot_token_that_is_refused_opens_no_socket(slack: SlackPeer, socket: SocketPeer) -> None:
    slack.fail("auth.test", *[Fault.error("invalid_auth")] * 9)
    with served(SLACK, config=config(slack, mode="socket", app_token=slack.app_token)):
        until(lambda: state() == "refused")
        assert "bot_token is wrong" in lumia.adapters.account("slack", "main").standing.detail
    assert slack.called("apps.connections.open") == []


def test_an_account_that_is_added_or_taken_out_is_noticed(site: Served, slack: SlackPeer, socket: SocketPeer) -> None:
    assert site.bot.runtime.config is not None
    tables = site.bot.runtime.config.settings("slack")
    other = {**config(slack)["slack"]["accounts"]["main"]}
    tables.accounts = {"other": other}
    until(lambda: not socket.links)
    until(lambda: lumia.adapters.account("slack", "main").standing.detail == "taken out of config/slack.toml")
    assert state() == "disconnected"
    until(lambda: lumia.adapters.account("slack", "other").state == "listening")
    assert lumia.adapters.account("slack", "other").standing.detail == "lumia (U0BOT00001) in Acme"

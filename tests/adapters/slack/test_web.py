"""What Slack posts, over real sockets: who is believed, what is accepted, once, and what comes back."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

import lumia
from adapters.slack import sending
from lumia.errors import BackendUnavailableError
from lumia.gateway.settings import Settings
from tests.adapters.slack.common import ANN, SLACK, answer, config, message, settings
from tests.peers.slack import BOT, BOT_ID, SIGNING_SECRET, SlackPeer
from tests.peers.slack_events import EventsSender
from tests.support.gateway import Served, served
from tests.support.wait import until

heard: list[tuple[str, Any, dict[str, Any]]] = []
said: list[tuple[dict[str, Any], dict[str, Any]]] = []


@lumia.pipe.on("msg", priv=100)
def note(content: lumia.Box[Any]) -> None:
    said.append((content.into(), dict(content.meta)))
    lumia.utils.next()


@lumia.event.consumer("slack.block_actions")
def clicked(content: lumia.Box[Any]) -> None:
    heard.append(("block_actions", content.into(), dict(content.meta)))


@lumia.event.consumer("slack.message_changed")
def changed(content: lumia.Box[Any]) -> None:
    heard.append(("message_changed", content.into(), dict(content.meta)))


@pytest.fixture(scope="module")
def slack() -> Iterator[SlackPeer]:
    with SlackPeer() as peer:
        yield peer


@pytest.fixture(scope="module")
def site(slack: SlackPeer) -> Iterator[Served]:
    refused = {"mode": "socket", "app_token": slack.app_token, "bot_token": "xoxb-wrong"}
    accounts = {
        "main": settings(slack),
        "sock": {**settings(slack), **refused},
        "off": settings(slack, enabled=False),
    }
    config = {"slack": {"accounts": accounts}}
    with served(SLACK, answer, note, clicked, changed, config=config, settings=Settings(max_body=65536)) as running:
        yield running


@pytest.fixture
def sender(site: Served) -> EventsSender:
    return EventsSender(f"{site.url}/slack/main/events", schedule=(0.0, 0.05, 0.05), client=site.client)


numbers = iter(range(100, 10**6))


def ts() -> str:
    return f"1718000200.{next(numbers):06d}"


def runs_of(sender: EventsSender, message_id: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return what pipeline msg was run with for this message, once the general channel's lane has come past it."""
    last = ts()
    assert sender.event(message("quiet", last)).arrived
    until(lambda: [msg for msg, _ in said if msg["message_id"] == last])
    return [one for one in said if one[0]["message_id"] == message_id]


class TestWhoIsBelieved:
    def test_the_first_handshake_is_answered_with_its_challenge(self, sender: EventsSender) -> None:
        assert sender.verify("abc").json() == {"challenge": "abc"}

    @pytest.mark.parametrize("headers", [
        {}, {"X-Slack-Signature": "v0="}, {"X-Slack-Signature": "v0=" + "0" * 64}, {"X-Slack-Signature": b"\xe4"},
        {"X-Slack-Request-Timestamp": "soon"},
    ])  # fmt: skip
    def test_what_is_not_signed_is_refused(self, site: Served, sender: EventsSender, headers: dict[str, Any]) -> None:
        data = b'{"type": "url_verification", "challenge": "abc"}'
        signed = sender.signed(data) if headers else {}
        answered = site.client.post("/slack/main/events", content=data, headers={**signed, **headers})
        assert answered.status_code == 401

    def test_a_recorded_request_is_refused_later(self, sender: EventsSender) -> None:
        assert sender.post(b"{}", at=time.time() - 301).status_code == 401
        assert sender.post(b"{}", at=time.time() + 301).status_code == 401

    def test_the_signature_is_over_the_raw_body(self, site: Served, sender: EventsSender) -> None:
        signed = sender.signed(b'{"a": 1}')
        assert site.client.post("/slack/main/events", content=b'{"a":1}', headers=signed).status_code == 401

    def test_it_is_checked_before_anything_is_read(self, site: Served) -> None:
        assert site.client.post("/slack/main/events", content=b"not json").status_code == 401

    def test_a_refused_request_leaves_a_counter_and_nothing_else(self, slack: SlackPeer) -> None:
        with served(SLACK, answer, config=config(slack)) as running:
            before = running.bot.transport.cursor()
            running.client.post("/slack/main/events", content=b"{}")
            assert until(lambda: lumia.store.of("slack").get("refused", scope="main")) == 1
            assert running.bot.transport.cursor() == before

    @pytest.mark.parametrize(
        "name, why", [("nobody", "add [accounts.nobody]"), ("off", "add"), ("sock", "Socket Mode")]
    )
    def test_an_account_that_is_not_served_is_not_found(self, site: Served, name: str, why: str) -> None:
        answered = site.client.post(f"/slack/{name}/events", content=b"{}")
        assert answered.status_code == 404
        assert why in answered.json()["error"]

    def test_slack_may_look_at_the_certificate(self, site: Served, sender: EventsSender) -> None:
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        unsigned = site.client.post("/slack/main/events", content=b"ssl_check=1&token=x", headers=form)
        signed = sender.post(b"ssl_check=1&token=x", form["Content-Type"])
        assert [(one.status_code, one.content) for one in (unsigned, signed)] == [(200, b"")] * 2


class TestMessages:
    def test_a_message_is_stored_and_answered(self, site: Served, slack: SlackPeer, sender: EventsSender) -> None:
        id = ts()
        assert sender.event(message("good morning", id)).statuses == [200]
        ((_, meta),) = runs_of(sender, id)
        assert (meta["account"], meta["chat"]) == ("main", {"kind": "group", "id": "C0GENERAL1"})
        until(lambda: "you said: good morning" in [one["text"] for one in slack.posted])

    def test_the_answer_to_a_message_in_a_thread_goes_there(self, slack: SlackPeer, sender: EventsSender) -> None:
        root, id = ts(), ts()
        slack.replies[id] = root
        sender.event(message("in a thread", id, thread_ts=root, parent_user_id=ANN))
        posted = until(lambda: [one for one in slack.posted if one["text"] == "you said: in a thread"])
        assert posted[0]["thread_ts"] == root

    def test_a_mention_comes_twice_and_is_one_run(self, site: Served, sender: EventsSender) -> None:
        for first, second in (("message", "app_mention"), ("app_mention", "message")):
            id = ts()
            for kind in (first, second):
                assert sender.event(message(f"quiet <@{BOT}>", id, type=kind)).arrived
            ((msg, _),) = runs_of(sender, id)
            assert msg["mentions_bot"]

    def test_a_redelivery_is_one_run(self, site: Served, sender: EventsSender) -> None:
        id = ts()
        envelope = sender.envelope(message("quiet", id))
        for retry in range(4):
            headers = {"X-Slack-Retry-Num": str(retry), "X-Slack-Retry-Reason": "http_timeout"} if retry else {}
            assert sender.post(json.dumps(envelope).encode(), headers=headers).status_code == 200
        assert len(runs_of(sender, id)) == 1

    def test_a_first_try_that_never_arrived_is_accepted_as_a_retry(self, site: Served, sender: EventsSender) -> None:
        id = ts()
        data = json.dumps(sender.envelope(message("quiet", id))).encode()
        assert sender.post(data, headers={"X-Slack-Retry-Num": "1"}).status_code == 200
        assert len(runs_of(sender, id)) == 1

    def test_the_bots_own_words_and_other_bots_are_not_heard(self, site: Served, sender: EventsSender) -> None:
        ids = [ts(), ts(), ts()]
        for id, more in zip(ids, ({"user": BOT}, {"bot_id": BOT_ID}, {"subtype": "bot_message"}), strict=True):
            assert sender.event(message("I said", id, **more)).statuses == [200]
        assert [runs_of(sender, id) for id in ids] == [[], [], []]

    def test_a_change_is_an_event_for_those_who_listen(self, sender: EventsSender) -> None:
        heard.clear()
        inner = {"type": "message", "user": ANN, "text": "better", "ts": "1718000001.000100"}
        event = message("", ts(), subtype="message_changed", message=inner)
        envelope = sender.envelope(event)
        for _ in range(2):
            assert sender.deliver(envelope).arrived
        ((kind, content, meta),) = until(lambda: list(heard))
        assert (kind, content["event"]["message"]["text"], meta["account"]) == ("message_changed", "better", "main")

    def test_while_the_broker_is_away_nothing_is_accepted_and_a_retry_is(
        self, site: Served, sender: EventsSender, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        id = ts()
        away = iter([True, True])
        start = site.bot.transport.start

        def gone(*args: Any, **more: Any) -> Any:
            if next(away, False):
                raise BackendUnavailableError("away")
            return start(*args, **more)

        monkeypatch.setattr(site.bot.transport, "start", gone)
        delivery = sender.event(message("quiet", id))
        assert delivery.statuses == [503, 503, 200]
        assert len(runs_of(sender, id)) == 1

    def test_what_takes_longer_than_slack_waits_is_answered_in_time_and_accepted_as_a_retry(
        self, site: Served, sender: EventsSender, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        id, held, start = ts(), threading.Event(), site.bot.transport.start

        def slow(*args: Any, **more: Any) -> Any:
            held.wait(10)
            return start(*args, **more)

        assert site.bot.runtime.plugins is not None
        plugin: Any = site.bot.runtime.plugins.plugins["slack"].module
        monkeypatch.setattr(plugin.web, "IN_TIME", 0.1)
        monkeypatch.setattr(site.bot.transport, "start", slow)
        envelope = sender.envelope(message("quiet", id))
        answered = sender.post(json.dumps(envelope).encode())
        assert (answered.status_code, answered.headers["retry-after"]) == (503, "2")
        held.set()
        monkeypatch.undo()
        assert sender.deliver(envelope).arrived
        assert len(runs_of(sender, id)) == 1

    def test_the_account_says_who_it_is(self, site: Served, sender: EventsSender) -> None:
        sender.event(message("quiet", ts()))
        state = lumia.adapters.account("slack", "main")
        until(lambda: (state.state, state.standing.detail) == ("listening", "lumia (U0BOT00001) in Acme"))
        assert state.heard_at > 0

    def test_names_are_known_from_the_second_message_on(self, site: Served, sender: EventsSender) -> None:
        def name() -> str:
            id = ts()
            sender.event(message("quiet", id))
            return str(runs_of(sender, id)[0][0]["sender"]["name"])

        until(lambda: name() == "Ann")

    def test_whether_somebody_listens_is_not_asked_of_the_broker_on_the_event_loop(
        self, site: Served, sender: EventsSender, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bot, threads = site.bot.runtime, list[threading.Thread]()
        refresh = bot.refresh_routes

        def asked() -> None:
            threads.append(threading.current_thread())
            refresh()

        monkeypatch.setattr(bot, "refresh_routes", asked)
        monkeypatch.setattr(bot, "_table", None)
        reaction = {"type": "reaction_added", "user": "U1", "item": {"channel": "C1"}, "reaction": "eyes"}
        sender.event(reaction)
        assert threads and site.thread not in threads

    def test_limits_of_the_workspace_are_told(self, sender: EventsSender, caplog: pytest.LogCaptureFixture) -> None:
        body = {"type": "app_rate_limited", "team_id": "T1", "minute_rate_limited": 1518467820, "api_app_id": "A1"}
        assert sender.post(json.dumps(body).encode()).status_code == 200
        assert "more than 30,000 in an hour" in caplog.text


class TestCommands:
    def test_a_command_is_a_message_to_the_bot(self, site: Served, slack: SlackPeer, sender: EventsSender) -> None:
        url = f"{slack.url}/commands/T0TEAM0001/1/s3cr3tAnswerAddress"
        answered = sender.command("/ask", "how far is the moon?", response_url=url, channel_id="C0STRANGE1")
        assert (answered.status_code, answered.content) == (200, b"")
        ((_, said),) = until(lambda: list(slack.answers))
        assert said["text"] == "you said: /ask how far is the moon?"
        journal = [str(entry) for entry in site.bot.transport.tail("0", 0.0, 100_000)]
        assert [entry for entry in journal if "how far is the moon?" in entry or "command-" in entry]
        assert not [entry for entry in journal if "s3cr3tAnswerAddress" in entry]

    def test_a_click_is_an_event_that_can_be_answered(self, slack: SlackPeer, sender: EventsSender) -> None:
        heard.clear()
        url = f"{slack.url}/actions/T0TEAM0001/2/s3cr3tClickAddress"
        payload = {"type": "block_actions", "user": {"id": ANN, "name": "ann"}, "channel": {"id": "C0GENERAL1"},
                   "trigger_id": ts(), "response_url": url, "actions": [{"action_id": "yes", "value": "1"}],
                   }  # fmt: skip
        for _ in range(2):
            answered = sender.interaction(payload)
            assert (answered.status_code, answered.content) == (200, b"")
        ((_, content, meta),) = until(lambda: list(heard))
        assert (content["payload"]["actions"][0]["value"], meta["account"]) == ("1", "main")
        assert "s3cr3t" not in json.dumps(content)
        assert lumia.store.of("slack").get(sending.answer_key(content["id"]), scope="main") == url

    def test_a_command_that_takes_longer_than_slack_waits_is_stored_all_the_same(
        self, site: Served, sender: EventsSender, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        held, write = threading.Event(), site.bot.transport.write

        def slow(*args: Any, **more: Any) -> Any:
            held.wait(10)
            return write(*args, **more)

        assert site.bot.runtime.plugins is not None
        plugin: Any = site.bot.runtime.plugins.plugins["slack"].module
        monkeypatch.setattr(plugin.web, "IN_TIME", 0.1)
        monkeypatch.setattr(site.bot.transport, "write", slow)
        started = time.monotonic()
        answered = sender.command("/ask", "quiet please", response_url="http://127.0.0.1:1/x")
        assert (answered.status_code, time.monotonic() - started < 3) == (503, True)
        held.set()
        until(lambda: [msg for msg, _ in said if msg["text"] == "/ask quiet please"])


class TestBadInput:
    @pytest.mark.parametrize("body", [b"", b"{", b"[]", b"1", b"\xff", b"[" * 50_000, b"9" * 5000, b'"x"'])
    def test_a_signed_body_that_is_no_object_is_told(self, sender: EventsSender, body: bytes) -> None:
        answered = sender.post(body)
        assert (answered.status_code, answered.headers["x-slack-no-retry"]) == (400, "1")

    @pytest.mark.parametrize("body", [b"payload=", b"payload=[]", b"payload={", b"&" * 3000, b"a=" + b"%ff" * 9])
    def test_a_signed_form_that_is_none_is_told_or_dropped(self, sender: EventsSender, body: bytes) -> None:
        assert sender.post(body, "application/x-www-form-urlencoded").status_code in (200, 400)

    @examples(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        st.dictionaries(
            st.sampled_from(["type", "subtype", "channel", "user", "text", "ts", "thread_ts", "files", "bot_id"]),
            st.none() | st.integers() | st.text(st.characters(), max_size=20) | st.lists(st.none(), max_size=2),
        )
    )
    def test_no_event_breaks_it(self, sender: EventsSender, changed: dict[str, Any]) -> None:
        envelope = sender.envelope({**message("quiet", ts()), **changed})
        assert sender.post(json.dumps(envelope).encode()).status_code == 200

    @examples(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(st.binary(max_size=100))
    def test_no_bytes_break_it(self, sender: EventsSender, body: bytes) -> None:
        for kind in ("application/json", "application/x-www-form-urlencoded", "text/plain"):
            assert sender.post(body, kind).status_code in (200, 400)

    def test_no_secret_is_logged(self, sender: EventsSender, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.DEBUG):
            sender.event(message("quiet", ts(), channel="C" * 300))
            sender.post(b"{")
        assert "was dropped" in caplog.text
        assert SIGNING_SECRET not in caplog.text

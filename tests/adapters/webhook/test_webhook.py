"""The webhook: who may post, what is accepted, how replies come back."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lumia
from lumia.errors import BackendUnavailableError
from lumia.gateway.settings import Settings
from lumia.testing import Bot, ManualClock
from tests.support.gateway import WEBHOOK, Served, served
from tests.support.wait import until

TOKEN, SECRET = "t0ken-of-the-shop", "s3cret-of-the-mill"
SOURCES: dict[str, dict[str, Any]] = {
    "shop": {"token": TOKEN, "callback_hosts": ["127.0.0.1", "localhost"]},
    "mill": {"secret": SECRET, "callback_hosts": ["127.0.0.0/8"]},
    "slow": {"token": TOKEN, "rate": 2},
    "open": {},
    "envy": {"token_env": "LUMIA_TEST_HOOK"},
}
BEARER = {"Authorization": f"Bearer {TOKEN}"}


@lumia.pipe.on("msg", priv=10)
def answer(content: lumia.Box[dict[str, Any]]) -> None:
    msg = content.into()
    if "quiet" in msg["text"]:
        lumia.utils.stop("asked to be quiet")
        return
    chat = msg["chat"]
    to = lumia.payloads.destination(2, "webhook", chat["kind"], chat["id"])
    for number in range(2 if "twice" in msg["text"] else 1):
        reply = {"text": f"{number}: {msg['text']}", "reply_to": msg["message_id"]}
        lumia.event.start(id=to, content=lumia.Box.any(reply))
    lumia.utils.next()


@pytest.fixture(scope="module")
def site() -> Iterator[Served]:
    config = {"webhook": {"sources": SOURCES}}
    with served(WEBHOOK, answer, config=config, settings=Settings(max_body=65536)) as running:
        yield running


class Receiver(ThreadingHTTPServer):
    """A callback's other end: keeps what it gets, answers with the statuses it was told, then 200."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.got: list[tuple[str, dict[str, str], bytes]] = []
        self.statuses: list[int] = []
        self.url = f"http://127.0.0.1:{self.server_port}/hook"


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["content-length"]))
        self.server.got.append((self.path, {name.lower(): value for name, value in self.headers.items()}, data))
        status = self.server.statuses.pop(0) if self.server.statuses else 200
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Keep quiet."""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def post(site: Served, source: str = "shop", headers: dict[str, str] | None = None, **body: Any) -> httpx.Response:
    data = {"text": "hello", "sender_id": "ada", **body}
    return site.client.post(f"/webhook/{source}", json=data, headers=BEARER if headers is None else headers)


def signature(data: bytes, key: str = SECRET) -> str:
    return "sha256=" + hmac.new(key.encode(), data, hashlib.sha256).hexdigest()


def fetch(site: Served, run_id: str, source: str = "shop") -> httpx.Response:
    return site.client.get(f"/webhook/{source}/runs/{run_id}", headers=BEARER)


class TestAccepting:
    def test_a_message_is_accepted_and_its_reply_can_be_fetched(self, site: Served) -> None:
        accepted = post(site, group_id="counter")
        assert accepted.status_code == 202
        run_id = accepted.json()["run_id"]
        lumia.runs.wait(run_id, 10)
        found = fetch(site, run_id).json()
        assert (found["run_id"], found["outcome"], found["replies"]) == (run_id, "done", ["0: hello"])
        assert [step["handler"] for step in found["steps"]] == ["test.answer", "webhook.deliver"]

    def test_the_message_says_where_it_comes_from(self, site: Served) -> None:
        run_id = post(site, group_id="a-b", sender_id=7, message_id="x1", text="hi @Lumia").json()["run_id"]
        record = site.bot.transport.run(run_id)
        assert record is not None
        assert record.key == "webhook:shop:group-shop%3Aa%2Db"
        box = lumia.Box.load(record.box, site.bot.runtime.secret)
        msg = box.into()
        assert msg["chat"] == {"kind": "group", "id": "shop:a-b"}
        assert (msg["account"], msg["sender"]["id"], msg["mentions_bot"]) == ("shop", "7", True)
        assert box.meta["account"] == "shop"

    def test_without_a_group_the_chat_is_the_senders(self, site: Served) -> None:
        record = site.bot.transport.run(post(site).json()["run_id"])
        assert record is not None
        assert record.key == "webhook:shop:private-shop%3Aada"

    def test_a_message_posted_again_is_the_same_message(self, site: Served) -> None:
        first = post(site, message_id="twin").json()["run_id"]
        again = post(site, message_id="twin")
        assert (again.status_code, again.json()["run_id"]) == (202, first)

    def test_a_silent_run_has_no_replies_and_a_reason(self, site: Served) -> None:
        run_id = post(site, text="be quiet").json()["run_id"]
        lumia.runs.wait(run_id, 10)
        found = fetch(site, run_id).json()
        assert (found["outcome"], found["replies"], found["reason"]) == ("stopped", [], "asked to be quiet")

    def test_the_raw_post_is_an_event_of_its_own(self) -> None:
        seen: list[Any] = []

        @lumia.event.consumer("msg.webhook")
        def raw(content: lumia.Box[Any]) -> None:
            seen.append(content.into())

        with served(WEBHOOK, raw, config={"webhook": {"sources": SOURCES}}) as running:
            post(running, text="hi")
            until(lambda: seen)
        assert seen == [{"source": "shop", "text": "hi", "sender_id": "ada"}]


class TestWhoMayPost:
    def test_a_signature_over_the_body_is_enough(self, site: Served) -> None:
        data = b'{"text":"hi","sender_id":"ada"}'
        answer = site.client.post("/webhook/mill", content=data, headers={"X-Lumia-Signature": signature(data)})
        assert answer.status_code == 202
        path = f"/webhook/mill/runs/{answer.json()['run_id']}"
        assert site.client.get(path, headers={"X-Lumia-Signature": signature(path.encode())}).status_code == 200
        assert site.client.get(path, headers={"X-Lumia-Signature": signature(b"")}).status_code == 401

    @pytest.mark.parametrize(
        "headers",
        [
            {}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {TOKEN}"}, {"Authorization": "Bearer"},
            {"Authorization": TOKEN}, {"X-Lumia-Signature": "sha256="}, {"X-Lumia-Signature": "sha256=" + "0" * 64},
            {"X-Lumia-Signature": signature(b"{}", "")}, {"X-Lumia-Signature": signature(b"other")},
        ],
    )  # fmt: skip
    @pytest.mark.parametrize("source", ["shop", "mill", "open", "envy"])
    def test_everything_else_is_refused(self, site: Served, source: str, headers: dict[str, str]) -> None:
        assert site.client.post(f"/webhook/{source}", content=b"{}", headers=headers).status_code == 401

    def test_a_token_may_come_from_the_environment(self, site: Served, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("LUMIA_TEST_HOOK", "from-outside")
        assert post(site, "envy", {"Authorization": "Bearer from-outside"}).status_code == 202

    def test_who_may_post_is_checked_before_the_body_is_read_as_anything(self, site: Served) -> None:
        answer = site.client.post("/webhook/shop", content=b"not json", headers={"Authorization": "Bearer wrong"})
        assert answer.status_code == 401

    def test_a_refused_post_leaves_a_counter_and_nothing_else(self) -> None:
        with served(WEBHOOK, answer, config={"webhook": {"sources": SOURCES}}) as running:
            before = running.bot.transport.cursor()
            post(running, headers={"Authorization": "Bearer wrong"})
            assert until(lambda: lumia.store.of("webhook").get("refused", scope="shop")) == 1
            assert running.bot.transport.cursor() == before

    def test_without_sources_it_says_how_to_add_one(self) -> None:
        with served(WEBHOOK) as running:
            answer = post(running, "shop")
        assert answer.status_code == 404
        assert "[sources.shop]" in answer.json()["error"]

    @pytest.mark.parametrize("name", ["nobody", "a b", "%00", "<b>"])
    def test_an_unknown_source_is_not_found(self, site: Served, name: str) -> None:
        answer = post(site, name)
        assert answer.status_code == 404
        assert "config/webhook.toml" in answer.json()["error"]

    def test_the_run_of_another_source_is_not_found(self, site: Served) -> None:
        run_id = post(site).json()["run_id"]
        path = f"/webhook/mill/runs/{run_id}"
        headers = {"X-Lumia-Signature": signature(path.encode())}
        assert site.client.get(path, headers=headers).status_code == 404
        assert fetch(site, "nosuchrun").status_code == 404

    def test_a_source_that_posts_too_much_is_told_to_wait(self, site: Served) -> None:
        answers = [post(site, "slow") for _ in range(3)]
        assert [answer.status_code for answer in answers] == [202, 202, 429]
        assert 1 <= int(answers[2].headers["retry-after"]) <= 30


class TestBadInput:
    @pytest.mark.parametrize(
        "body, why",
        [
            (b"", "line 1 column 1"),
            (b"{", "line 1 column 2"),
            (b"\xff\xfe", "byte 0 is not UTF-8"),
            (b'{"text": NaN}', "NaN"),
            (b"[" * 60000, "not JSON"),
            (b"9" * 5000, "not JSON"),
            (b"[]", "body"),
            (b"{}", "sender_id: Field required"),
            (b'{"sender_id":"a","media":[]}', "a file in media"),
            (b'{"text":"","sender_id":"a"}', "text"),
            (b'{"text":"x","sender_id":""}', "sender_id"),
            (b'{"text":"x","sender_id":"a\\u0000"}', "sender_id"),
            (b'{"text":"x","sender_id":"\\ud800"}', "sender_id"),
            (b'{"text":"x","sender_id":true}', "sender_id"),
            (b'{"text":3,"sender_id":"a"}', "text"),
            (b'{"text":"x","sender_id":"a","group":"g"}', "group"),
            (b'{"text":"x","sender_id":"a","callback_url":"ftp://x/"}', "callback_url"),
            (b'{"text":"x","sender_id":"a","callback_url":"http://10.0.0.1/"}', "callback_hosts"),
            (b'{"text":"x","sender_id":"a","callback_url":"http://u:p@example.com/"}', "callback_url"),
            (b'{"text":"x","sender_id":"a","callback_url":"http://[/"}', "callback_url"),
        ],
    )
    def test_a_wrong_body_is_told_what_and_where(self, site: Served, body: bytes, why: str) -> None:
        answer = site.client.post("/webhook/shop", content=body, headers=BEARER)
        assert answer.status_code == 400
        assert why in answer.json()["error"]

    def test_a_large_body_is_refused(self, site: Served) -> None:
        assert post(site, text="x" * 70000).status_code == 413

    @settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        st.binary(max_size=200)
        | st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=20),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(["text", "sender_id", "group_id", "message_id", "callback_url", "x"]),
                    inner,
                    max_size=6,
                )
            ),
            max_leaves=8,
        ).map(lambda value: json.dumps(value).encode())
    )
    def test_no_body_breaks_it(self, site: Served, body: bytes) -> None:
        assert site.client.post("/webhook/shop", content=body, headers=BEARER).status_code in (202, 400)

    @settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(st.dictionaries(st.sampled_from(["text", "sender_id", "group_id", "message_id"]),
                           st.text(st.characters(), max_size=30), min_size=2))  # fmt: skip
    def test_no_text_breaks_it(self, site: Served, body: dict[str, str]) -> None:
        answer = site.client.post(
            "/webhook/shop", content=json.dumps({"text": "x", "sender_id": "a", **body}).encode(), headers=BEARER
        )
        assert answer.status_code in (202, 400)
        if answer.status_code == 202:
            assert lumia.runs.wait(answer.json()["run_id"], 10).outcome in ("done", "stopped")

    def test_while_the_broker_is_away_nothing_is_accepted(self, site: Served, monkeypatch: pytest.MonkeyPatch) -> None:
        def gone(*_: Any, **__: Any) -> None:
            raise BackendUnavailableError("away")

        monkeypatch.setattr(site.bot.transport, "start", gone)
        answer = post(site, message_id="later")
        assert answer.status_code == 503
        assert answer.headers["retry-after"]
        monkeypatch.undo()
        assert post(site, message_id="later").status_code == 202


class TestCallback:
    def test_a_reply_is_posted_and_signed(self, site: Served, receiver: Receiver) -> None:
        run_id = post(site, message_id="c1", callback_url=receiver.url).json()["run_id"]
        until(lambda: receiver.got)
        path, headers, data = receiver.got[0]
        assert path == "/hook"
        assert json.loads(data) == {"run_id": run_id, "reply": "0: hello", "message_id": "c1"}
        assert headers["x-lumia-signature"] == signature(data, TOKEN)
        assert headers["content-type"] == "application/json"

    def test_the_secret_signs_where_there_is_one(self, site: Served, receiver: Receiver) -> None:
        body = json.dumps({"text": "hi", "sender_id": "a", "callback_url": receiver.url}).encode()
        site.client.post("/webhook/mill", content=body, headers={"X-Lumia-Signature": signature(body)})
        until(lambda: receiver.got)
        _, headers, data = receiver.got[0]
        assert headers["x-lumia-signature"] == signature(data)

    def test_every_reply_is_posted_under_its_own_number(self, site: Served, receiver: Receiver) -> None:
        run_id = post(site, text="say it twice", callback_url=receiver.url).json()["run_id"]
        until(lambda: len(receiver.got) == 2)
        assert {json.loads(data)["run_id"] for _, _, data in receiver.got} == {run_id}
        replies = sorted(json.loads(data)["reply"] for _, _, data in receiver.got)
        assert replies == ["0: say it twice", "1: say it twice"]
        assert len({headers["x-lumia-delivery"] for _, headers, _ in receiver.got}) == 2

    @pytest.mark.parametrize("status", [500, 404, 302])
    def test_a_callback_that_is_not_taken_is_tried_again_under_the_same_number(
        self, receiver: Receiver, status: int
    ) -> None:
        receiver.statuses = [status, status]
        with self.bot() as bot:
            bot.event("msg.send, dest=2.webhook.private-shop%3Aada", "hello")
            bot.settle(10)
            assert len(receiver.got) == 3
            assert len({headers["x-lumia-delivery"] for _, headers, _ in receiver.got}) == 1
            assert {path for path, _, _ in receiver.got} == {"/hook"}
            assert bot.dead == []

    def test_a_callback_that_is_never_taken_ends_in_the_dead_letters(self, receiver: Receiver) -> None:
        receiver.statuses = [503] * 20
        with self.bot() as bot:
            bot.event("msg.send, dest=2.webhook.private-shop%3Aada", "hello")
            bot.settle(600)
            assert len(receiver.got) == 8
            assert "answered 503" in bot.dead[0].error

    def test_a_callback_that_nobody_takes_does_not_hold_up_the_chat(self, site: Served, receiver: Receiver) -> None:
        receiver.statuses = [503] * 20
        first = post(site, group_id="held", callback_url=receiver.url).json()["run_id"]
        until(lambda: receiver.got)
        second = post(site, group_id="held").json()["run_id"]
        assert [lumia.runs.wait(run_id, 10).outcome for run_id in (first, second)] == ["done", "done"]

    def test_a_source_that_is_gone_sends_nothing(self, receiver: Receiver) -> None:
        with self.bot() as bot:
            bot.event("msg.send, dest=2.webhook.private-gone%3Aada", "hello")
            assert "no longer in config/webhook.toml" in bot.dead[0].error
            assert receiver.got == []

    def test_without_a_callback_the_reply_waits_to_be_fetched(self) -> None:
        with self.bot("") as bot:
            assert bot.event("msg.send, dest=2.webhook.private-shop%3Aada", "hello").replies == ["hello"]
            assert bot.dead == []

    @pytest.fixture(autouse=True)
    def _address(self, receiver: Receiver) -> None:
        self.url = receiver.url

    def bot(self, url: str | None = None) -> Bot:
        source = {"token": TOKEN, "callback_hosts": ["127.0.0.1"], "callback_url": self.url if url is None else url}
        return Bot(WEBHOOK, config={"webhook": {"sources": {"shop": source}}}, clock=ManualClock())


def test_it_registers_and_answers_who_is_alive() -> None:
    with Bot(WEBHOOK) as bot:
        bot.event("bus.adapters.webhook.find_active", {})
        (info,) = lumia.system.adapters.list()
    assert (info.id, info.platform) == ("webhook", "webhook")


def test_a_source_without_any_key_is_told_at_the_start(caplog: pytest.LogCaptureFixture) -> None:
    with Bot(WEBHOOK, config={"webhook": {"sources": {"open": {}, "a b": {"token": "x"}}}}):
        pass
    assert "[sources.open] has neither token nor secret" in caplog.text
    assert "[sources.a b] is not served" in caplog.text

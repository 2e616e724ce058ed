"""The console's page protocol: nothing typed is lost, everything said is seen, every silence has its reason."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

import lumia
from adapters.console import chat as chats
from adapters.console import frames
from lumia.errors import BackendUnavailableError, PayloadError
from lumia.gateway.settings import Settings
from lumia.testing import Bot
from tests.adapters.console import responder
from tests.support.gateway import CONSOLE, Served, served
from tests.support.wait import until

LAB = {"kind": "group", "id": "lab"}


@pytest.fixture(scope="module")
def site() -> Iterator[Served]:
    with served(CONSOLE, responder) as running:
        yield running


class Page:
    """A page as the browser's script is one: sends frames, keeps what comes."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.seen: list[dict[str, Any]] = []
        self.ready = self.until("ready")

    def send(self, **frame: Any) -> None:
        self.socket.send(json.dumps(frame))

    def until(self, type: str, **wanted: Any) -> dict[str, Any]:
        """Read on until a frame of this type with these fields comes.

        One about a run may have come before the acknowledgement that names that run.
        """
        earlier = iter(tuple(self.seen) if "run_id" in wanted else ())
        while True:
            frame = next(earlier, None)
            if frame is None:
                frame = json.loads(self.socket.recv(timeout=10))
                self.seen.append(frame)
            if frame["type"] == type and all(frame.get(name) == value for name, value in wanted.items()):
                return dict(frame)

    def open(self, chat: dict[str, str]) -> list[dict[str, Any]]:
        self.send(type="open", chat=chat)
        return list(self.until("history", chat=chat)["items"])

    def say(self, text: str, message_id: str, chat: dict[str, str] = LAB, sender: str = "ada") -> None:
        self.send(type="send", chat=chat, message_id=message_id, sender=sender, text=text)

    def until_items(self, number: int) -> None:
        """Read on until so many messages were shown."""
        while len(self.items()) < number:
            self.until("message")

    def items(self) -> list[dict[str, Any]]:
        return [frame["item"] for frame in self.seen if frame["type"] == "message"]


@contextlib.contextmanager
def page(site: Served, **options: Any) -> Iterator[Page]:
    with connect(f"{site.ws}/console/ws", max_size=None, **options) as socket:
        yield Page(socket)


def group(name: str) -> dict[str, str]:
    return {"kind": "group", "id": name}


class TestTalking:
    def test_a_message_is_acknowledged_shown_followed_and_answered(self, site: Served) -> None:
        with page(site) as mine:
            assert mine.open(group("t1")) == []
            mine.say("hello", "m1", group("t1"))
            ack = mine.until("ack", message_id="m1")
            assert ack["stages"] == ["test.listen", "test.answer"]
            trace = mine.until("trace", run_id=ack["run_id"], outcome="done")
            steps = [step["handler"] for step in trace["steps"]]
            assert steps == ["test.listen", "test.answer", "console.deliver"]
            mine.until_items(2)
            told = {item["from"]: item for item in mine.items()}
            assert told["user"]["text"] == "hello"
            assert told["bot"]["text"] == "you said: hello"
            assert told["bot"]["reply_to"] == "m1"
            assert told["bot"]["run_id"] == ack["run_id"]

    def test_the_stages_are_told_as_they_run(self, site: Served) -> None:
        responder.hold.clear()
        try:
            with page(site) as mine:
                mine.open(group("t2"))
                mine.say("hello", "m1", group("t2"))
                ack = mine.until("ack")
                responder.hold.set()
                step = mine.until("progress", run_id=ack["run_id"], handler="test.listen")
                assert step["outcome"] == "next"
                assert step["ms"] >= 0
        finally:
            responder.hold.set()

    def test_why_there_is_no_answer_is_told(self, site: Served) -> None:
        with page(site) as mine:
            mine.open(group("t3"))
            mine.say("be quiet", "m1", group("t3"))
            trace = mine.until("trace", outcome="stopped")
            last = trace["steps"][-1]
            assert (last["handler"], last["outcome"], last["reason"]) == ("test.listen", "stop", "asked to be quiet")

    def test_a_failure_is_told(self, site: Served) -> None:
        with page(site) as mine:
            mine.open(group("t4"))
            mine.say("break", "m1", group("t4"))
            assert "broken on purpose" in mine.until("trace", outcome="failed")["steps"][-1]["reason"]

    def test_a_message_sent_again_is_the_same_message(self, site: Served) -> None:
        with page(site) as mine:
            mine.open(group("t5"))
            mine.say("once", "m1", group("t5"))
            first = mine.until("ack", message_id="m1")["run_id"]
            mine.until("trace", run_id=first, outcome="done")
        with page(site) as mine:
            mine.say("once", "m1", group("t5"))
            assert mine.until("ack", message_id="m1")["run_id"] == first
            texts = [item["text"] for item in mine.open(group("t5"))]
            assert texts == ["once", "you said: once"]

    def test_what_was_said_while_a_page_was_away_is_in_its_history(self, site: Served) -> None:
        with page(site) as mine:
            mine.say("hello", "m1", group("t6"))
            run_id = mine.until("ack")["run_id"]
        lumia.runs.wait(run_id, 10)
        with page(site) as mine:
            until(lambda: len(mine.open(group("t6"))) == 2)
            items = mine.open(group("t6"))
            assert [item["from"] for item in items] == ["user", "bot"]
            assert {item["run_id"] for item in items} == {run_id}
            assert group("t6") in page_chats(site)

    def test_a_run_left_open_is_told_when_it_ends(self, site: Served) -> None:
        responder.hold.clear()
        try:
            with page(site) as mine:
                mine.say("hello", "m1", group("t7"))
                run_id = mine.until("ack")["run_id"]
            with page(site) as mine:
                mine.send(type="trace", run_id=run_id)
                assert mine.until("trace", run_id=run_id)["outcome"] is None
                responder.hold.set()
                mine.until("trace", run_id=run_id, outcome="done")
        finally:
            responder.hold.set()

    def test_other_pages_see_it_too(self, site: Served) -> None:
        with page(site) as mine, page(site) as other, page(site) as elsewhere:
            mine.open(group("t8"))
            other.open(group("t8"))
            elsewhere.open(group("t9"))
            mine.say("hello", "m1", group("t8"))
            other.until_items(2)
            assert {item["from"] for item in other.items()} == {"user", "bot"}
            elsewhere.until("activity", chat=group("t8"))
            assert elsewhere.items() == []

    @pytest.mark.parametrize("name", ["a-b", "50%", "ж 家 👩‍🚀", "../x", "a:b*c", "<b>"])
    def test_a_group_may_have_any_name(self, site: Served, name: str) -> None:
        with page(site) as mine:
            mine.open(group(name))
            mine.say("hello", "m1", group(name))
            mine.until("trace", outcome="done")
            assert [item["text"] for item in mine.open(group(name))][-1] == "you said: hello"

    def test_a_private_chat_is_for_the_bot_and_a_group_only_when_it_is_named(self, site: Served) -> None:
        private = chats.compose(chats.Chat("private", "ada"), "ada", "hi", "m1")
        named = chats.compose(chats.Chat("group", "lab"), "ada", "hi @lumia!", "m1")
        other = chats.compose(chats.Chat("group", "lab"), "ada", "mail me @lumiax.example", "m1")
        assert [msg["mentions_bot"] for msg in (private, named, other)] == [True, True, False]

    def test_text_that_could_break_things_arrives_whole_or_mended(self, site: Served) -> None:
        with page(site) as mine:
            mine.open(group("odd"))
            mine.socket.send(
                '{"type":"send","chat":{"kind":"group","id":"odd"},"message_id":"m1","sender":"a","text":"a\\u0000b\\ud800c"}'
            )
            mine.until("trace", outcome="done")
            assert mine.open(group("odd"))[0]["text"] == "a\ufffdb\ufffdc"
            mine.say("<script>alert(1)</script>\n" + "x" * 31000, "m2", group("odd"))
            mine.until("trace", outcome="done")
            assert mine.open(group("odd"))[2]["text"].startswith("<script>alert(1)</script>\n")


def page_chats(site: Served) -> list[dict[str, str]]:
    with page(site) as fresh:
        return list(fresh.ready["chats"])


class TestRefusing:
    @pytest.mark.parametrize(
        "frame",
        [
            "", "not json", "[]", "3", "{}", '{"type":"dance"}', '{"type":"open"}', "[" * 5000,
            '{"type":"open","chat":{"kind":"channel","id":"x"}}', '{"type":"trace","run_id":"../x"}',
        ],
    )  # fmt: skip
    def test_a_wrong_frame_is_answered_and_the_talk_goes_on(self, site: Served, frame: str) -> None:
        with page(site) as mine:
            mine.socket.send(frame)
            assert mine.until("error")["retry"] is False
            mine.send(type="ping")
            assert mine.until("pong") == {"type": "pong"}

    def test_a_binary_frame_is_answered_too(self, site: Served) -> None:
        with page(site) as mine:
            mine.socket.send(b"\x00\x01")
            assert mine.until("error")["retry"] is False

    @pytest.mark.parametrize(
        "changes, why",
        [
            ({"text": "   "}, "at least one character"),
            ({"text": "x" * 32001}, "32001 characters"),
            ({"sender": ""}, "sender"),
            ({"chat": {"kind": "group", "id": "x" * 65}}, "chat"),
        ],
    )
    def test_a_message_that_is_none_is_refused_for_good(self, site: Served, changes: dict[str, Any], why: str) -> None:
        with page(site) as mine:
            mine.send(**{"type": "send", "chat": LAB, "message_id": "m9", "sender": "ada", "text": "hi", **changes})
            error = mine.until("error", message_id="m9")
            assert why in error["error"]
            assert error["retry"] is False

    def test_while_the_broker_is_away_nothing_is_acknowledged(
        self, site: Served, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def gone(*_: Any, **__: Any) -> None:
            raise BackendUnavailableError("the broker is away")

        with page(site) as mine:
            mine.open(group("away"))
            with monkeypatch.context() as outage:
                outage.setattr(site.bot.transport, "start", gone)
                mine.say("hello", "m1", group("away"))
                assert mine.until("error", message_id="m1")["retry"] is True
            mine.say("hello", "m1", group("away"))
            mine.until("trace", outcome="done")

    def test_an_unknown_run_is_told_as_no_longer_kept(self, site: Served) -> None:
        with page(site) as mine:
            mine.send(type="trace", run_id="nosuchrun")
            assert mine.until("trace")["outcome"] == "unknown"

    @given(st.text(st.characters(), max_size=200) | st.recursive(
        st.none() | st.integers() | st.text(max_size=5) | st.sampled_from(["open", "send", "trace", "ping"]),
        lambda inner: st.dictionaries(st.sampled_from(["type", "chat", "kind", "id", "text"]), inner, max_size=4),
    ).map(json.dumps))  # fmt: skip
    def test_any_frame_is_read_or_refused(self, text: str) -> None:
        with contextlib.suppress(PayloadError):
            frames.read(text)
        assert isinstance(frames.message_id(text), str)


class TestFiles:
    def test_the_page_asks_nobody_else_for_anything(self, site: Served) -> None:
        answer = site.client.get("/console")
        assert answer.headers["content-type"].startswith("text/html")
        assert "script-src 'self'" in answer.headers["content-security-policy"]
        files = ["console.css", "console.js", "files.js", "trace.js", "icon.svg"]
        texts = [answer.text, *(site.client.get(f"/console/static/{name}").raise_for_status().text for name in files)]
        outside = [text for text in texts if "https://" in text.replace('"https:"', "")]
        assert outside == []
        assert all("innerHTML" not in text and "<script>" not in text for text in texts)

    def test_an_unchanged_file_is_not_sent_again(self, site: Served) -> None:
        tag = site.client.get("/console/static/console.js").headers["etag"]
        again = site.client.get("/console/static/console.js", headers={"If-None-Match": tag})
        assert (again.status_code, again.content) == (304, b"")

    @pytest.mark.parametrize("name", ["console.html", "nothing.js", "..%2fplugin.py", "%2e%2e/plugin.py"])
    def test_no_other_file_is_served(self, site: Served, name: str) -> None:
        assert site.client.get(f"/console/static/{name}").status_code == 404


class TestDoor:
    @pytest.fixture
    def guarded(self) -> Iterator[Served]:
        with served(CONSOLE, responder, config={"console": {"token": "open sesame"}}) as running:
            yield running

    def refused(self, site: Served, **options: Any) -> int:
        with connect(f"{site.ws}/console/ws", **options) as socket:
            with pytest.raises(ConnectionClosed):
                socket.recv(timeout=10)
            return int(socket.close_code or 0)

    def log_in(self, site: Served, token: str = "open sesame") -> httpx.Response:
        return site.client.post("/console/login", data={"token": token})

    def test_with_a_token_the_page_is_a_login(self, guarded: Served) -> None:
        answer = guarded.client.get("/console")
        assert answer.status_code == 401
        assert 'action="/console/login"' in answer.text
        assert self.refused(guarded) == 4401

    def test_the_token_opens_page_and_socket(self, guarded: Served) -> None:
        answer = self.log_in(guarded)
        assert (answer.status_code, answer.headers["location"]) == (303, "/console")
        flags = answer.headers["set-cookie"].lower()
        assert "httponly" in flags
        assert "samesite=strict" in flags
        assert guarded.client.get("/console").status_code == 200
        cookie = answer.headers["set-cookie"].split(";")[0]
        with page(guarded, additional_headers={"Cookie": cookie}) as mine:
            assert mine.ready["bot"] == "Lumia"
            assert mine.ready["guarded"] is True

    def test_a_link_with_the_token_works_once_and_hides_it(self, guarded: Served) -> None:
        answer = guarded.client.get("/console", params={"token": "open sesame"})
        assert answer.headers["location"] == "/console"
        assert guarded.client.get("/console").status_code == 200

    def test_a_wrong_token_is_refused_and_many_are_slowed_down(self, guarded: Served) -> None:
        codes = [self.log_in(guarded, "wrong").status_code for _ in range(11)]
        assert codes == [401] * 10 + [429]
        assert self.log_in(guarded).status_code == 429

    @pytest.mark.parametrize("cookie", ["", "x", "99999999999.abc", "²³.x", "1.2.3"])
    def test_a_made_up_session_opens_nothing(self, guarded: Served, cookie: str) -> None:
        headers = {b"Cookie": f"lumia_console={cookie}".encode()}
        assert guarded.client.get("/console", headers=headers).status_code == 401

    def test_a_new_token_ends_old_sessions(self, guarded: Served) -> None:
        self.log_in(guarded)
        lumia.config.get("console").token = "another"
        assert guarded.client.get("/console").status_code == 401

    def test_logging_out_ends_the_session(self, guarded: Served) -> None:
        self.log_in(guarded)
        guarded.client.post("/console/logout")
        assert guarded.client.get("/console").status_code == 401

    @pytest.mark.parametrize("headers", [{"X-Forwarded-For": "203.0.113.9"}, {"Host": "bot.example"}])
    def test_without_a_token_it_is_closed_to_other_machines(self, headers: dict[str, str]) -> None:
        with served(CONSOLE, responder, settings=Settings(hosts=("bot.example",))) as running:
            assert running.client.get("/console", headers=headers).status_code == 403
            assert running.client.get("/console").status_code == 200


class TestAdapter:
    def test_it_registers_and_answers_who_is_alive(self) -> None:
        with Bot(CONSOLE) as bot:
            (before,) = lumia.system.adapters.list()
            assert (before.id, before.platform, before.version) == ("console", "console", lumia.__version__)
            bot.event("bus.adapters.console.find_active", {})
            (after,) = lumia.system.adapters.list()
            assert after.seen >= before.seen

    def test_a_bare_string_is_delivered_as_the_specification_sends_it(self) -> None:
        with Bot(CONSOLE) as bot:
            bot.event("msg.send, dest=1.console.group-lab", "good morning")
            (item,) = lumia.store.of("console").items("chat", scope="group-lab")
            assert (item["from"], item["text"]) == ("bot", "good morning")

    def test_what_has_no_text_goes_to_the_dead_letters(self) -> None:
        with Bot(CONSOLE) as bot:
            bot.event("msg.send, dest=1.console.group-lab", {"nothing": 1})
            assert bot.dead[0].handler == "console.deliver"


class TestAttachments:
    def test_a_file_is_kept_before_its_message_and_named_by_it(self, site: Served) -> None:
        address = "/console/media?name=../dot.gif"
        kept = site.client.post(address, content=responder.GIF, headers={"Content-Type": "image/png"})
        assert (kept.status_code, kept.json()["kind"], kept.json()["media_type"]) == (201, "image", "image/gif")
        file = {"digest": kept.json()["digest"], "name": kept.json()["name"]}
        assert file["name"] == "dot.gif"
        with page(site) as shown:
            shown.open(LAB)
            shown.send(type="send", chat=LAB, message_id="with-file", sender="ada", media=[file])
            run_id = shown.until("ack")["run_id"]
        assert lumia.runs.wait(run_id, 10).replies == ["you said:  [image dot.gif, 35 bytes]"]
        (item,) = until(  # another run keeps it: the one of the raw message
            lambda: [one for one in chats.history(chats.Chat("group", "lab")) if one["id"] == "with-file"]
        )
        assert (item["text"], item["media"]) == ("", [kept.json()])

    @pytest.mark.parametrize(
        "media, why",
        [
            ([{"digest": "0" * 64}], "media: a file is no longer here, add it again"),
            ([{"digest": "../x"}], "media.0.digest"),
            ([{"digest": "0" * 64}] * 11, "media: List should have at most 10"),
            ([], "text: a message has at least one character"),
        ],
    )
    def test_a_message_names_only_files_that_are_here(self, site: Served, media: list[Any], why: str) -> None:
        with page(site) as shown:
            shown.send(type="send", chat=LAB, message_id="wrong", sender="ada", text="", media=media)
            refused = shown.until("error")
        assert why in refused["error"] and refused["retry"] is False

    def test_what_is_empty_or_nowhere_is_told(self, site: Served) -> None:
        assert site.client.post("/console/media", content=b"").json()["error"] == "the file is empty"
        for name in ("0" * 64, "..%2Fsecret", "x"):
            assert site.client.get(f"/console/media/{name}").status_code == 404

    def test_files_are_behind_the_same_door_as_the_page(self) -> None:
        with served(CONSOLE, responder, config={"console": {"token": "a long token"}}) as site:
            digest = lumia.blobs.put(responder.GIF, "image/gif").digest
            assert site.client.post("/console/media", content=responder.GIF).status_code == 401
            assert site.client.get(f"/console/media/{digest}").status_code == 401

"""The contract of adapters as tests that any of them can run (spec §6.2, docs/adapters.md).

::

    from lumia.testing_adapters import AdapterSuite

    class TestToy(AdapterSuite):
        folder = Path("plugins/toy")
        account = "main"

        def config(self): return {"toy": {"accounts": {"main": {"token": "t", "url": self.peer.url}}}}
        def receive(self, message_id, kind, chat, text): self.peer.push(...)
        def sent(self): return self.peer.texts
        def answer_next(self, how): self.peer.faults.append(...)

A test that an adapter can't pass by its nature is skipped: what needs the capability `send` without it, what needs
`answer_next` where that isn't there. Needs pytest.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest

import lumia
from lumia.adapters import receipts, sends
from lumia.manifest import Manifest, load_manifest
from lumia.testing import Bot, ManualClock

BUSY, REFUSED, UNREACHABLE, SILENT = "busy", "refused", "unreachable", "silent"
"""What a platform does with the next send: says when to come back (within `AdapterSuite.busy_seconds`), refuses it for
good, is not there, or takes it and cuts the connection before it answers."""

TEXTS = ("<b>&amp;</b> [CQ:at,qq=1] *x* _y_ `z`", "你好 👩\u200d👩\u200d👧 e\u0301", "a\nb\n\nc")


@contextmanager
def gateway_of(bot: Bot) -> Iterator[str]:
    """Serve what the plugins of `bot` mount, and run their residents, on a loopback port; yields the URL."""
    from lumia.gateway.app import Gateway
    from lumia.gateway.server import Server, listen
    from lumia.gateway.settings import Settings

    listening = listen(Settings(port=0))
    port = listening.getsockname()[1]
    server = Server(Gateway(bot.runtime, Settings(port=port)))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name="gateway")
    thread.start()
    try:
        end = time.monotonic() + 20
        while not server.started and thread.is_alive() and time.monotonic() < end:
            thread.join(0.01)
        assert server.started, "the gateway did not start"
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(20)


class AdapterSuite:
    """Subclass it as `Test…`, name the adapter, and say how its platform is driven.

    folder: of the plugin. account: a configured one. kinds: of chat that the platform has. receipts: whether sends
    leave any. chat, other: ids of two chats, as the platform writes them. busy_seconds: how long a busy platform says
    to wait. url: of a gateway that serves what the adapter mounts and runs its residents, "" where it has none.
    """

    folder: ClassVar[Path]
    account: ClassVar[str] = "main"
    kinds: ClassVar[tuple[str, ...]] = ("group", "private")
    receipts: ClassVar[bool] = True
    chat: ClassVar[str] = "1001"
    other: ClassVar[str] = "1002"
    busy_seconds: ClassVar[float] = 7.0

    bot: Bot
    url: str
    seen: list[tuple[dict[str, Any], dict[str, Any], str]]

    # --- what an adapter says of itself

    def config(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the settings of the bot, by plugin."""
        return {}

    def receive(self, message_id: str, kind: str, chat: str, text: str) -> None:
        """Let the platform hand over a message for the bot; return when the adapter has told it that it arrived."""
        raise NotImplementedError

    def sent(self) -> list[str]:
        """Return the texts that the platform has taken, in order."""
        raise NotImplementedError

    def answer_next(self, how: str) -> None:
        """Let the platform answer the next send as `how` says; `NotImplementedError` where it can't."""
        raise NotImplementedError

    def settle(self, seconds: float = 0.0) -> None:
        """Let everything happen that is to happen within `seconds` of the bot's clock."""
        self.bot.settle(seconds)

    @contextmanager
    def platform_runs(self) -> Iterator[None]:
        """Hold open the platform's stand-in; entered before `config` is asked."""
        yield

    # --- what the suite makes of it

    @pytest.fixture(autouse=True)
    def _running(self) -> Iterator[None]:
        self.seen = []

        @lumia.pipe.on("msg", priv=-1000)
        def last_stage(content: lumia.Box[Any]) -> None:
            self.seen.append((content.into(), dict(content.meta), lumia.context.lane()))

        with ExitStack() as stack:
            stack.enter_context(self.platform_runs())
            self.bot = stack.enter_context(Bot(self.folder, last_stage, config=self.config(), clock=ManualClock()))
            self.url = stack.enter_context(gateway_of(self.bot)) if self.manifest.gateway else ""
            yield

    @property
    def manifest(self) -> Manifest:
        """Return the adapter's manifest."""
        return load_manifest(self.folder)

    @property
    def platform(self) -> str:
        """Return the platform's name."""
        assert self.manifest.adapter is not None
        return self.manifest.adapter.platform

    def got(self, message_id: str, text: str = "hello", kind: str = "", chat: str = "") -> dict[str, Any]:
        """Let a message arrive, run it, and return its payload."""
        self.receive(message_id, kind or self.kinds[0], chat or self.chat, text)
        self.settle()
        assert self.seen, "the message did not become a run of pipeline 'msg'"
        return self.seen[-1][0]

    def say(self, text: str, **fields: Any) -> None:
        """Answer a message that arrives now."""
        self._sends()
        msg = self.got("m-asked")
        assert self.manifest.adapter is not None
        src = lumia.payloads.reply_to(msg, self.manifest.adapter.pid)
        content = lumia.Box.any({"text": text, "reply_to": msg["message_id"], **fields}, meta={"account": self.account})
        lumia.event.start(src, content)
        self.settle()

    def counts(self) -> dict[str, int]:
        """Return the states of the account's sends."""
        return sends.counts(self.manifest.name, self.account)

    def _sends(self) -> None:
        assert self.manifest.adapter is not None
        if "send" not in self.manifest.adapter.capabilities:
            pytest.skip("this adapter doesn't send")

    def _answers(self, how: str) -> None:
        self._sends()
        try:
            self.answer_next(how)
        except NotImplementedError:
            pytest.skip(f"this platform can't be made to be {how}")

    # --- the manifest, registering and the sign of life

    def test_the_manifest_says_which_platform_it_connects(self) -> None:
        """Destinations and `lumia adapters` need the platform's name and number."""
        assert self.manifest.adapter is not None, 'the manifest has no "adapter"'

    def test_it_registers_when_it_is_loaded(self) -> None:
        """Spec §6.2: `lumia.system.adapters.reg` in `on_load`."""
        known = [info for info in lumia.system.adapters.list() if info.platform == self.platform]
        assert known and all(info.version for info in known)

    def test_it_answers_who_is_alive(self) -> None:
        """Spec §6.2: `bus.adapters.<platform>.find_active` is answered by a heartbeat."""
        assert isinstance(self.bot.clock, ManualClock)
        self.bot.clock.move(30.0)
        before = lumia.system.now()
        self.bot.event(f"bus.adapters.{self.platform}.find_active", {})
        assert any(info.seen >= before for info in lumia.system.adapters.list() if info.platform == self.platform)

    # --- inbound

    def test_a_message_is_a_run_in_its_chats_lane(self) -> None:
        """The payload is valid, the lane is the chat's, and the meta names account and chat."""
        for kind in self.kinds:
            msg = self.got(f"m-{kind}", kind=kind)
            _, meta, lane = self.seen[-1]
            assert lumia.payloads.validate("msg", msg) == msg
            assert (msg["platform"], msg["account"], msg["chat"]["kind"]) == (self.platform, self.account, kind)
            assert lane == lumia.payloads.lane(self.platform, self.account, kind, msg["chat"]["id"])
            assert (meta["account"], meta["chat"]) == (msg["account"], msg["chat"])

    def test_a_message_that_is_delivered_again_is_one_run(self) -> None:
        """A platform that got no answer sends it again."""
        for _ in range(3):
            self.got("m-twice")
        assert len(self.seen) == 1

    def test_the_same_id_in_another_chat_is_another_message(self) -> None:
        """Ids are unique within a chat only."""
        self.got("m-same", chat=self.chat)
        self.got("m-same", chat=self.other)
        assert len(self.seen) == 2
        assert self.seen[0][2] != self.seen[1][2]

    def test_messages_of_a_chat_stay_in_order(self) -> None:
        """They arrive in the lane as they were said."""
        for number in range(5):
            self.receive(f"m-{number}", self.kinds[0], self.chat, f"number {number}")
        self.settle()
        assert [msg["text"] for msg, _, _ in self.seen] == [f"number {number}" for number in range(5)]

    @pytest.mark.parametrize("text", TEXTS)
    def test_a_text_comes_in_as_it_was_written(self, text: str) -> None:
        """No markup of a platform, and none of ours, is taken for granted."""
        assert self.got("m-text", text)["text"] == text

    # --- outbound

    def test_an_answer_arrives(self) -> None:
        """What `msg.send` says is what the platform gets."""
        self.say("The answer.")
        assert self.sent() == ["The answer."]

    @pytest.mark.parametrize("text", TEXTS)
    def test_an_answer_goes_out_as_it_was_written(self, text: str) -> None:
        """Signs that mean something to the platform are escaped."""
        self.say(text)
        assert self.sent() == [text]

    def test_an_answer_leaves_a_receipt_by_which_it_is_found(self) -> None:
        """`lumia.adapters.receipts` knows what was sent, and in answer to what."""
        self._receipts()
        self.say("The answer.")
        msg = self.seen[-1][0]
        found = receipts.answers(self.platform, self.account, msg["chat"], msg["message_id"])
        assert len(found) == 1
        assert receipts.sent(self.platform, self.account, msg["chat"], found[0].message_id) == found[0]
        assert self.counts() == {"sent": 1}

    def test_one_idempotency_key_is_sent_once(self) -> None:
        """The handler that was tried again says the same thing again."""
        self._receipts()
        for _ in range(2):
            self.say("The answer.", idempotency_key="k")
        assert self.sent() == ["The answer."]

    def test_answers_to_a_chat_arrive_in_order(self) -> None:
        """Each chat has a lane of its own for what is sent to it."""
        self.say("one")
        for text in ("two", "three"):
            self.say(text)
        assert self.sent() == ["one", "two", "three"]

    # --- what the platform says

    def test_a_busy_platform_is_asked_again_when_it_said(self) -> None:
        """429 with a time: not earlier, and it costs no try."""
        self._answers(BUSY)
        self.say("The answer.")
        assert (self.sent(), self.counts()) == ([], {"retrying": 1})
        self.settle(max(0.0, self.busy_seconds - 1.0))
        assert self.sent() == []
        self.settle(2.0)
        assert (self.sent(), self.counts()) == (["The answer."], {"sent": 1})

    def test_what_is_refused_for_good_is_a_dead_letter_at_once(self) -> None:
        """Blocked, kicked, no such chat: never tried again."""
        self._answers(REFUSED)
        self.say("The answer.")
        self.settle(600.0)
        assert (self.sent(), self.counts()) == ([], {"rejected": 1})
        assert len(self.bot.dead) == 1

    def test_a_platform_that_is_not_there_is_tried_again(self) -> None:
        """Connection refused: nothing was sent, so it may be, again."""
        self._answers(UNREACHABLE)
        self.say("The answer.")
        assert self.counts() == {"retrying": 1}
        self.settle(600.0)
        assert (self.sent(), self.counts()) == (["The answer."], {"sent": 1})

    def test_what_may_have_arrived_is_held_or_sent_again_by_policy(self) -> None:
        """No answer: held for an operator, or sent again where the adapter says that this is harmless."""
        self._answers(SILENT)
        self.say("The answer.")
        self.settle(600.0)
        assert self.counts() in ({"held": 1}, {"sent": 1})
        assert set(self.sent()) == {"The answer."}
        assert len(self.bot.dead) == self.counts().get("held", 0)

    def _receipts(self) -> None:
        self._sends()
        if not self.receipts:
            pytest.skip("sends of this adapter leave no receipts")

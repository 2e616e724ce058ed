"""A bot with the three plugins, and what is said to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import lumia
from lumia.runs import RunResult
from lumia.testing import Bot, ManualClock

HANDLERS = Path(__file__).parents[3] / "handlers"
SCOPE = "qq:10001:group:42"


class Chat:
    """A bot in group 42 of qq, as account 10001; whatever is said to it gets an id of its own."""

    def __init__(self, bot: Bot, root: Path) -> None:
        self.bot, self.root, self._count = bot, root, 0
        self.sent: list[tuple[str, Any, Any]] = []

    def say(self, text: str, *, sender: str = "7", name: str = "Ann", role: str = "", **fields: Any) -> RunResult:
        """Say something and return the run."""
        self._count += 1
        who = {"id": sender, "name": name, **({"role": role} if role else {})}
        message = {
            "platform": "qq", "account": "10001", "chat": {"kind": "group", "id": "42"}, "sender": who,
            "message_id": f"m{self._count}", "text": text, "time": self.bot.clock.now(), **fields,
        }  # fmt: skip
        return self.bot.start("msg", message)

    def ask(self, text: str, **fields: Any) -> str:
        """Give a command and return its answer."""
        (answer,) = self.say(text, **fields).replies
        return str(answer)

    def admin(self, text: str, **fields: Any) -> str:
        """Give a command as an admin of the group and return its answer."""
        return self.ask(text, role="admin", **fields)

    def private(self, text: str, sender: str = "7", **fields: Any) -> str:
        """Give a command in the sender's private chat and return its answer."""
        return self.ask(text, sender=sender, chat={"kind": "private", "id": sender}, **fields)

    def persona(self, file: str, text: str) -> None:
        """Write a persona's file; it holds from now on."""
        folder = self.root / "config" / "personas"
        folder.mkdir(exist_ok=True)
        (folder / file).write_text(text, "utf-8")
        self.later(2)

    def later(self, seconds: float) -> None:
        """Let time pass."""
        assert isinstance(self.bot.clock, ManualClock)
        self.bot.clock.move(seconds)

    def decided(self, text: str, reason: str, *, layer: str = "L1", engaged: bool = False, **more: Any) -> None:
        """Note a decision as heartflow does."""
        entry = {
            "run_id": "r", "message_id": "", "sender_id": "8", "sender_name": "Bob", "text": text,
            "at": self.bot.clock.now(), "layer": layer, "engaged": engaged, "reason": reason,
        }  # fmt: skip
        scope = more.pop("scope", SCOPE)
        lumia.store.of("heartflow").append("decisions", {**entry, **more}, scope=scope, keep=30)


@contextmanager
def chatting(root: Path, *more: Any, without: tuple[str, ...] = (), **config: Any) -> Iterator[Chat]:
    """A bot with the three plugins, or without some of them; config: of chat-commands."""
    sent: list[tuple[str, Any, Any]] = []

    @lumia.event.consumer_re("msg.send, dest=*")
    def deliver(src: str, content: lumia.Box[Any]) -> None:
        sent.append((src, content.into(), dict(content.meta)))

    plugins = [HANDLERS / name for name in ("persona_loader", "chat_commands", "heartflow") if name not in without]
    with Bot(*plugins, deliver, *more, root=root, config={"chat-commands": config}, clock=ManualClock()) as bot:
        chat = Chat(bot, root)
        chat.sent = sent
        yield chat


@pytest.fixture
def chat(tmp_path: Path) -> Iterator[Chat]:
    with chatting(tmp_path) as found:
        yield found

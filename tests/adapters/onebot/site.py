"""A gateway with the OneBot adapter and a handler that answers, for the tests of the whole way."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import lumia
from lumia.adapters import AccountInfo, per_account
from tests.support.gateway import ONEBOT, Served, served
from tests.support.wait import until

TOKEN = "t0ken-of-the-bot"
MAIN: dict[str, Any] = {"access_token": TOKEN, "self_id": "10001", "interval": 0.0}

QUICK = {
    "link.GRACE": 0.5,
    "sending._COME_BACK": 3.0,
    "station.TICK": 0.2,
    "forward.FIRST": 0.05,
    "forward.REFUSED": 0.2,
    "forward.HTTP_EVERY": 0.2,
}


class Heard:
    """The messages and events that handlers saw."""

    def __init__(self) -> None:
        self.messages: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self.events: list[tuple[str, Any, dict[str, Any]]] = []

    @property
    def texts(self) -> list[str]:
        return [msg["text"] for msg, _ in self.messages]

    def wait(self, number: int, timeout: float = 15.0) -> list[str]:
        """Return the texts, once there are so many."""
        until(lambda: len(self.messages) >= number, timeout=timeout, what=f"{number} messages, there are {self.texts}")
        return self.texts


def handlers(heard: Heard) -> tuple[Any, ...]:
    """Return a handler that answers what asks for it, and one that keeps notices and requests."""

    @lumia.pipe.on("msg", priv=10)
    def answer(content: lumia.Box[dict[str, Any]]) -> None:
        msg = content.into()
        heard.messages.append((msg, dict(content.meta)))
        if msg["text"].startswith("echo "):
            said = {"text": msg["text"][5:], "reply_to": msg["message_id"]}
            to = lumia.payloads.reply_to(msg)
            lumia.event.start(id=to, content=lumia.Box.any(said, meta={"account": msg["account"]}))
        lumia.utils.next()

    @lumia.event.consumer_re("onebot.*")
    def noted(src: str, content: lumia.Box[Any]) -> None:
        if src.startswith(("onebot.notice", "onebot.request", "onebot.result")):
            heard.events.append((src, content.into(), dict(content.meta)))

    return answer, noted


@contextmanager
def site(heard: Heard, **accounts: dict[str, Any]) -> Iterator[Served]:
    """Serve a bot in memory; without accounts it has `main`."""
    with served(ONEBOT, *handlers(heard), config={"onebot": {"accounts": accounts or {"main": MAIN}}}) as running:
        hurry()
        yield running


def hurry() -> None:
    """Let the plugin that was loaded just now wait for shorter than it does in production."""
    for name, value in QUICK.items():
        module, _, constant = name.partition(".")
        setattr(sys.modules[f"adapters.onebot.{module}"], constant, value)
    per_account.LOOK = 0.2


def account(site: Served, name: str = "main") -> AccountInfo | None:
    """Return what `lumia adapters` shows of an account."""
    with site.bot.runtime.activated():
        return next((info for info in lumia.adapters.accounts() if info.account == name), None)


def state(site: Served, name: str = "main") -> str:
    """Return an account's state."""
    found = account(site, name)
    return found.state if found is not None else ""


def reach(site: Served, wanted: str, name: str = "main") -> None:
    """Wait until an account is in a state."""
    until(lambda: state(site, name) == wanted, what=f"{name} to be {wanted}, it is {account(site, name)}")


def sends(site: Served, name: str = "main") -> dict[str, int]:
    """Return how many of an account's sends are in which state, without those that are in none."""
    found = account(site, name)
    return {key: number for key, number in found.sends.items() if number} if found is not None else {}


def waits(site: Served) -> bool:
    """Tell whether one send waits; in memory, workers try what no gateway serves."""
    return sends(site) in ({"queued": 1}, {"retrying": 1})


def send(site: Served, text: str, *, group: str = "12", name: str = "main", **fields: Any) -> str:
    """Have the bot send a message; returns the run's id."""
    to = lumia.payloads.destination(3, "qq", "group", group)
    return lumia.event.start(to, lumia.Box.any({"text": text, **fields}, meta={"account": name}), key=f"test:{group}")

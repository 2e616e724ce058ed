"""A bot that answers on Satori: in memory, behind a real gateway, against the server of tests/peers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

import lumia
from lumia.gateway.settings import Settings
from lumia.paths import base
from tests.peers.satori import Satori
from tests.support.gateway import Served, served
from tests.support.wait import until

SATORI = base() / "adapters" / "satori"
Start = Callable[..., AbstractContextManager[Served]]


@lumia.pipe.on("msg", priv=10)
def answer(content: lumia.Box[dict[str, Any]]) -> None:
    """Say back what was said, as a reply where the text asks for one."""
    msg = content.into()
    if "quiet" not in msg["text"]:
        said: dict[str, Any] = {"text": f"you said: {msg['text']}"}
        if "quote" in msg["text"]:
            said["reply_to"] = msg["message_id"]
        box = lumia.Box.any(said, meta={"account": msg["account"]})
        lumia.event.start(lumia.payloads.reply_to(msg), box)
    lumia.utils.next()


class Seen:
    """What arrived at the end of the pipeline: (payload, meta)."""

    def __init__(self) -> None:
        self.all: list[tuple[dict[str, Any], dict[str, Any]]] = []

    def mark(self) -> Any:
        """Return a handler that keeps what it sees."""

        @lumia.pipe.on("msg", priv=-1000)
        def last_stage(content: lumia.Box[Any]) -> None:
            self.all.append((content.into(), dict(content.meta)))

        return last_stage

    def wait(self, count: int) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Return all once there are so many."""
        until(lambda: len(self.all) >= count, what=f"{count} messages, there are {len(self.all)}")
        return self.all


@pytest.fixture
def satori() -> Iterator[Satori]:
    with Satori() as running:
        yield running


@pytest.fixture
def seen() -> Seen:
    return Seen()


@pytest.fixture
def start(satori: Satori, seen: Seen, monkeypatch: pytest.MonkeyPatch) -> Start:
    """Serve a bot whose server `main` is the test's; settings: changes to its table, None takes a key out."""

    @contextmanager
    def serve(*what: Any, **settings: Any) -> Iterator[Served]:
        table = {key: value for key, value in {**satori.settings, **settings}.items() if value is not None}
        config = {"satori": {"accounts": {"main": table}}}
        marked = seen.mark()
        with served(SATORI, marked, *(what or (answer,)), config=config, settings=Settings(drain=3.0)) as running:
            monkeypatch.setattr("lumia.adapters.numbered.SAVE_EVERY", 0.01)
            monkeypatch.setattr("adapters.satori.connection.PAUSES", (0.05, 0.2))
            if table.get("mode") != "webhook" and table["token"] == satori.token:
                until(lambda: satori.connected, what="the bot to connect")
            yield running

    return serve


def stored() -> Any:
    """Return the sn up to which everything is stored."""
    return (lumia.store.of("satori").get("session", scope="main") or {}).get("sn")

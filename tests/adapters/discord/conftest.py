"""A bot that answers on Discord: in memory, behind a real gateway, against the Discord of tests/peers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

import lumia
from adapters.discord import identify, shard
from lumia.gateway.settings import Settings
from lumia.paths import base
from tests.peers.discord import Discord
from tests.support.gateway import Served, served
from tests.support.wait import until

DISCORD = base() / "adapters" / "discord"
SETTLE, EVERY = shard.SETTLE, identify.EVERY
Start = Callable[..., AbstractContextManager[Served]]


@lumia.pipe.on("msg", priv=10)
def answer(content: lumia.Box[dict[str, Any]]) -> None:
    """Say back what was said, as a reply where the text asks for one."""
    msg = content.into()
    if "quiet" in msg["text"]:
        lumia.utils.stop("asked to be quiet")
        return
    said: dict[str, Any] = {"text": f"you said: {msg['text']}"}
    if "quote" in msg["text"]:
        said["reply_to"] = msg["message_id"]
    box = lumia.Box.any(said, meta={"account": msg["account"]})
    lumia.event.start(lumia.payloads.reply_to(msg), box)
    lumia.utils.next()


@pytest.fixture
def discord() -> Iterator[Discord]:
    with Discord() as running:
        yield running


def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nobody wait for what Discord asks for between sessions; once the plugin is loaded: that imports anew."""
    monkeypatch.setattr("adapters.discord.shard.SETTLE", (0.02, 0.1))
    monkeypatch.setattr("adapters.discord.identify.EVERY", 0.2)


@pytest.fixture
def start(discord: Discord, monkeypatch: pytest.MonkeyPatch) -> Start:
    """Serve a bot whose account `main` is on the test's Discord; settings: changes to the account."""

    @contextmanager
    def serve(*what: Any, **settings: Any) -> Iterator[Served]:
        config = {"discord": {"accounts": {"main": {**discord.settings, **settings}}}}
        connects = settings.get("gateway", True) and not discord.gateway.refuse
        with served(DISCORD, *(what or (answer,)), config=config, settings=Settings(drain=3.0)) as running:
            hurry(monkeypatch)
            if connects:
                until(lambda: discord.gateway.ready, what="the bot to connect")
            yield running

    return serve

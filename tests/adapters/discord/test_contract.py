"""Discord keeps the contract of adapters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import lumia
from lumia.testing_adapters import BUSY, REFUSED, SILENT, AdapterSuite
from tests.adapters.discord.conftest import DISCORD
from tests.peers.discord import Discord, Fault
from tests.support.wait import until

FAULTS = {BUSY: Fault.limited(7.0), REFUSED: Fault.error(403, 50013), SILENT: Fault(cut="after")}


class TestDiscord(AdapterSuite):
    folder = DISCORD
    peer: Discord

    @contextmanager
    def platform_runs(self) -> Iterator[None]:
        with Discord() as self.peer:
            self.peer.rest.channels |= {self.chat: "guild", self.other: "guild"}
            yield

    def config(self) -> Mapping[str, Mapping[str, Any]]:
        return {"discord": {"accounts": {self.account: self.peer.settings}}}

    def receive(self, message_id: str, kind: str, chat: str, text: str) -> None:
        until(lambda: self.peer.gateway.ready, what="the bot to connect")
        self.peer.say(text, channel=chat, id=message_id, guild_id=self.peer.guild if kind == "group" else "")
        session = next(iter(self.peer.gateway.sessions.values()))
        until(lambda: self._stored() == session.seq, what="the message to be stored")

    def _stored(self) -> Any:
        return (lumia.store.of("discord").get("session", scope=f"{self.account}/0") or {}).get("seq")

    def sent(self) -> list[str]:
        made = [one for all in self.peer.rest.messages.values() for one in all]
        return [one["content"] for one in sorted(made, key=lambda one: int(one["id"]))]

    def answer_next(self, how: str) -> None:
        if how not in FAULTS:
            raise NotImplementedError
        self.peer.rest.script("POST", "/messages", FAULTS[how])

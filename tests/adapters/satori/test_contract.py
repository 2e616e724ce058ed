"""Satori keeps the contract of adapters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import lumia
from lumia.paths import base
from lumia.testing_adapters import BUSY, REFUSED, SILENT, UNREACHABLE, AdapterSuite
from tests.peers.satori import Fault, Satori, readable
from tests.support.wait import until

FAULTS = {
    BUSY: Fault(429, headers={"Retry-After": "7"}),
    REFUSED: Fault(403, "the bot is not in this channel"),
    UNREACHABLE: Fault(403, "login not found"),
    SILENT: Fault(cut="after"),
}


class TestSatori(AdapterSuite):
    folder = base() / "adapters" / "satori"
    peer: Satori

    @contextmanager
    def platform_runs(self) -> Iterator[None]:
        with Satori() as self.peer:
            yield

    def config(self) -> Mapping[str, Mapping[str, Any]]:
        return {"satori": {"accounts": {self.account: self.peer.settings}}}

    def receive(self, message_id: str, kind: str, chat: str, text: str) -> None:
        until(lambda: self.peer.connected, what="the bot to connect")
        sn = self.peer.say(text, channel=chat, id=message_id, private=kind == "private")["sn"]
        until(lambda: self._stored() == sn, what="the message to be stored")

    def _stored(self) -> Any:
        return (lumia.store.of("satori").get("session", scope=self.account) or {}).get("sn")

    def sent(self) -> list[str]:
        made = [one for all in self.peer.messages.values() for one in all]
        return [readable(one["content"]) for one in sorted(made, key=lambda one: int(one["number"]))]

    def answer_next(self, how: str) -> None:
        self.peer.fail("message.create", FAULTS[how])

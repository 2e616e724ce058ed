"""Telegram keeps the contract of adapters; its platform is the tests' Bot API server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx

from lumia.paths import base
from lumia.testing_adapters import BUSY, REFUSED, SILENT, AdapterSuite
from tests.peers.telegram import Fault, TelegramServer

SECRET = "hook-s3cret"
FAULTS = {
    BUSY: Fault.flood(7),
    REFUSED: Fault.refuse(403, "Forbidden: bot was blocked by the user"),
    SILENT: Fault(cut="after"),
}


class TestTelegram(AdapterSuite):
    folder = base() / "adapters" / "telegram"
    peer: TelegramServer

    @contextmanager
    def platform_runs(self) -> Iterator[None]:
        with TelegramServer() as self.peer:
            self.ids: dict[str, int] = {}
            yield

    def config(self) -> Mapping[str, Mapping[str, Any]]:
        main = {"token": self.peer.token, "api_url": self.peer.url, "mode": "webhook", "secret_token": SECRET}
        return {"telegram": {"accounts": {"main": {**main, "markdown": False}}}}

    def receive(self, message_id: str, kind: str, chat: str, text: str) -> None:
        number = self.ids.setdefault(message_id, 10 + len(self.ids))
        sender = {"id": int(chat), "is_bot": False, "first_name": "Ann"}
        place = {"id": int(chat), "type": "private"} if kind == "private" else {"id": -int(chat), "type": "group"}
        message = {"message_id": number, "date": 1_790_000_000, "from": sender, "chat": place, "text": text}
        self.peer.chats.messages[place["id"], number] = message  # type: ignore[index]
        with httpx.Client(trust_env=False, base_url=self.url) as client:
            headers = {"X-Telegram-Bot-Api-Secret-Token": SECRET}
            update = {"update_id": 1000 + number, "message": message}
            assert client.post("/telegram/main", json=update, headers=headers).status_code == 200

    def sent(self) -> list[str]:
        return self.peer.texts

    def answer_next(self, how: str) -> None:
        if how not in FAULTS:
            raise NotImplementedError
        self.peer.script("sendMessage", FAULTS[how])

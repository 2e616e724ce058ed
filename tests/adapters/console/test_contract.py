"""The console keeps the contract of adapters."""

from __future__ import annotations

from adapters.console import chat as chats
from lumia.paths import base
from lumia.testing_adapters import AdapterSuite


class TestConsole(AdapterSuite):
    """Its platform is the store: what was said is in a chat's history."""

    folder = base() / "adapters" / "console"
    account = "console"
    receipts = False

    def receive(self, message_id: str, kind: str, chat: str, text: str) -> None:
        chats.submit(chats.Chat(kind, chat), "ada", text, message_id)

    def sent(self) -> list[str]:
        said = chats.history(chats.Chat("group", self.chat))
        return [item["text"] for item in said if item["from"] == "bot"]

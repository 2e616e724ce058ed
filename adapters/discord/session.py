"""What lets a Gateway session go on in another process: its id, address and last sequence number, kept in the store."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import lumia

from .accounts import NAME, Account

_KEPT = 86400.0


@dataclass
class Session:
    """A session of one shard. id: "" when there is none. me: the bot's user id.

    seq: the number up to which everything was stored when the session was loaded.
    """

    id: str = ""
    url: str = ""
    me: str = ""
    name: str = ""
    application: str = ""
    seq: int | None = None

    @classmethod
    def load(cls, account: Account, shard: int) -> Session:
        """Return the kept session of a shard, a new one when none fits the settings any more."""
        kept = lumia.store.of(NAME).get("session", scope=f"{account.name}/{shard}")
        if not isinstance(kept, dict) or kept.get("of") != _made_for(account):
            return cls()
        return cls(kept["id"], kept["url"], kept["me"], kept["name"], kept["application"], kept["seq"])

    def save(self, account: Account, shard: int, seq: int | None) -> None:
        """Keep the session. seq: the number up to which everything is stored."""
        kept: dict[str, Any] = {
            "id": self.id, "url": self.url, "me": self.me, "name": self.name, "application": self.application,
            "seq": seq, "of": _made_for(account),
        }  # fmt: skip
        lumia.store.of(NAME).set("session", kept, scope=f"{account.name}/{shard}", ttl=_KEPT)

    def end(self) -> None:
        """Forget the session; who the bot is stays known."""
        self.id, self.url = "", ""


def _made_for(account: Account) -> str:
    """Return what a session was made for: it can't be resumed under another token, other intents or shards."""
    made = f"{account.token}\n{account.intents}\n{account.shards}\n{account.api_url}\n{account.gateway_url}"
    return hashlib.sha256(made.encode()).hexdigest()[:16]

"""What lets a Gateway session go on in another process: its id, address and last sequence number, kept in the store."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

import lumia

from .accounts import NAME, Account

_KEPT = 86400.0


class Progress:
    """Which sequence numbers are done: `committed` is the last one up to which all are."""

    def __init__(self, committed: int | None = None) -> None:
        self.committed = committed
        self._open: OrderedDict[int, bool] = OrderedDict()

    def begin(self, seq: int) -> bool:
        """Take in a number; False for one that is done already, as a replay may bring it."""
        if (self.committed is not None and seq <= self.committed) or seq in self._open:
            return False
        self._open[seq] = False
        return True

    def done(self, seq: int) -> None:
        """Note that what a number carried is stored."""
        if seq in self._open:
            self._open[seq] = True
        while self._open and self._open[next(iter(self._open))]:
            self.committed, _ = self._open.popitem(last=False)

    @property
    def pending(self) -> int:
        """Return how many numbers are not done, or wait for one before them."""
        return len(self._open)

    def forget(self) -> None:
        """Give up what is not done: it will be sent again."""
        self._open.clear()


@dataclass
class Session:
    """A session of one shard. id: "" when there is none. me: the bot's user id. progress: what of it is stored."""

    id: str = ""
    url: str = ""
    me: str = ""
    name: str = ""
    application: str = ""
    progress: Progress = field(default_factory=Progress)

    @classmethod
    def load(cls, account: Account, shard: int) -> Session:
        """Return the kept session of a shard, a new one when none fits the settings any more."""
        kept = lumia.store.of(NAME).get("session", scope=f"{account.name}/{shard}")
        if not isinstance(kept, dict) or kept.get("of") != _made_for(account):
            return cls()
        return cls(kept["id"], kept["url"], kept["me"], kept["name"], kept["application"], Progress(kept["seq"]))

    def save(self, account: Account, shard: int) -> None:
        """Keep the session."""
        kept: dict[str, Any] = {
            "id": self.id, "url": self.url, "me": self.me, "name": self.name, "application": self.application,
            "seq": self.progress.committed, "of": _made_for(account),
        }  # fmt: skip
        lumia.store.of(NAME).set("session", kept, scope=f"{account.name}/{shard}", ttl=_KEPT)

    def end(self) -> None:
        """Forget the session; who the bot is stays known."""
        self.id, self.url, self.progress = "", "", Progress()


def _made_for(account: Account) -> str:
    """Return what a session was made for: it can't be resumed under another token, other intents or shards."""
    made = f"{account.token}\n{account.intents}\n{account.shards}\n{account.api_url}\n{account.gateway_url}"
    return hashlib.sha256(made.encode()).hexdigest()[:16]

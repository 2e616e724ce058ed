"""What this gateway knows of the servers that post to it."""

from __future__ import annotations

from collections.abc import Collection

from .accounts import Server
from .feed import Feed
from .logins import Logins

_feeds: dict[str, Feed] = {}


def feed(server: Server) -> Feed:
    """Return the feed of a server, a new one when its settings have changed."""
    known = _feeds.get(server.name)
    if known is None or known.server != server:
        known = _feeds[server.name] = Feed(Logins(server))
    return known


def forget(names: Collection[str]) -> None:
    """Forget all servers but these."""
    for name in [name for name in _feeds if name not in names]:
        del _feeds[name]

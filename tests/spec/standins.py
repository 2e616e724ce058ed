"""Stand-ins for the names the specification's examples use without defining them; each records what it is asked."""

from __future__ import annotations

import json as _json
from types import SimpleNamespace
from typing import Any

calls: list[tuple[Any, ...]] = []
"""What the examples asked for, in order."""


class PlCache:
    """The cache of §4.1.1."""

    @staticmethod
    def refresh(what: str) -> None:
        """Note the refresh."""
        calls.append(("refresh", what))


class _Socket:
    def send(self, message: Any, gid: str) -> None:
        calls.append(("send", message, gid))


class NapcatClient:
    """The platform client of §4.1.1, §5.3 and §6.2."""

    ws = SimpleNamespace(acq=_Socket)

    @staticmethod
    def initialize() -> None:
        """Note the start."""
        calls.append(("initialize",))


json = SimpleNamespace(from_str=_json.loads)


def embed_sync(sender_id: str) -> list[float]:
    """Return an embedding that tells senders apart."""
    return [float(len(sender_id)), 0.5]

"""How far the events of a server are stored, kept so that another process can go on there."""

from __future__ import annotations

import hashlib
from typing import Any

import lumia

from .accounts import NAME, Server

KEPT = 30 * 86400.0
"""Seconds for which a number is kept: some servers keep events by their count, and it may be quiet for long."""


def load(server: Server) -> int | None:
    """Return the `sn` to go on after, None for none that fits the settings. Synchronous."""
    kept: Any = lumia.store.of(NAME).get("session", scope=server.name)
    fits = isinstance(kept, dict) and kept.get("of") == _made_for(server) and type(kept.get("sn")) is int
    return int(kept["sn"]) if fits else None


def save(server: Server, number: int) -> None:
    """Keep the `sn` up to which everything is stored. Synchronous."""
    lumia.store.of(NAME).set("session", {"sn": number, "of": _made_for(server)}, scope=server.name, ttl=KEPT)


def _made_for(server: Server) -> str:
    """Return what a number is of: another server, or another choice of logins, counts otherwise."""
    made = f"{server.url}\n{server.token}\n{server.platform}\n{server.self_id}"
    return hashlib.sha256(made.encode()).hexdigest()[:16]

"""Check of the inbox: what was accepted and no worker has begun."""

from __future__ import annotations

from collections.abc import Iterator

from lumia.ids import id_time
from tasks.keys import PREFIX
from tasks.supervise.findings import Finding, risk
from tasks.supervise.heartbeats import server_time
from tasks.supervise.resp import Connection

LATE = 10.0
"""Seconds; a worker that takes over from a dead one has begun by then."""


def check_inbox(redis: Connection) -> Iterator[Finding]:
    """Yield a finding when the first start of the inbox has been there for long."""
    first = redis.ask("LINDEX", f"{PREFIX}inbox", "0")
    if not isinstance(first, bytes):
        return
    age = server_time(redis) - id_time(first.decode("ascii", "replace"))
    number = redis.ask("LLEN", f"{PREFIX}inbox")
    if age > LATE and isinstance(number, int):
        yield risk(
            "inbox", f"{number} accepted and not begun, the first one for {age:.0f} s",
            "a worker begins them: see that one runs (`lumia status`), and its log",
        )  # fmt: skip

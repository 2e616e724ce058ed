"""Checks of the accounts' queues: steps that wait for a connection which no gateway has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from lumia.marks import PRIVATE_PREFIX
from tasks.keys import PREFIX, SERVING
from tasks.lists import lists
from tasks.supervise.findings import Finding, risk
from tasks.supervise.heartbeats import FRESH, server_time
from tasks.supervise.resp import Connection


def check_accounts(redis: Connection) -> Iterator[Finding]:
    """Yield a finding for each account whose steps wait and whose queue no process serves."""
    served = {one.partition(" ")[2] for one in _texts(_told(redis))}
    for queue in sorted(_texts(redis.ask("SMEMBERS", f"{PREFIX}queues"))):
        if queue.startswith(PRIVATE_PREFIX) and queue not in served and (waiting := _waiting(redis, queue)):
            adapter, _, account = queue.removeprefix(PRIVATE_PREFIX).partition(".")
            whose = f"account {unquote(account)} of {adapter}"
            yield risk(
                "accounts", f"{whose}: {waiting} waiting to be sent, and no gateway has its connection",
                "see `lumia adapters` for why; they are done when it is connected, or end them with `lumia cancel`",
            )  # fmt: skip


def _told(redis: Connection) -> Any:
    return redis.ask("ZRANGEBYSCORE", PREFIX + SERVING, str(server_time(redis) - FRESH), "+inf")


def _waiting(redis: Connection, queue: str) -> int:
    counts: list[Any] = [redis.ask("ZCARD", f"{PREFIX}queued:{name}") for name in lists([queue])]
    return sum(count for count in counts if isinstance(count, int))


def _texts(reply: Any) -> list[str]:
    return (
        [one.decode("utf-8", "replace") for one in reply if isinstance(one, bytes)] if isinstance(reply, list) else []
    )

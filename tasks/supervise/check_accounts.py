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
    held = served(redis)
    for queue in sorted(texts(redis.ask("SMEMBERS", f"{PREFIX}queues"))):
        if queue.startswith(PRIVATE_PREFIX) and queue not in held and (count := waiting(redis, queue)):
            adapter, _, account = queue.removeprefix(PRIVATE_PREFIX).partition(".")
            whose = f"account {unquote(account)} of {adapter}"
            yield risk(
                "accounts", f"{whose}: {count} waiting to be sent, and no gateway has its connection",
                "see `lumia adapters` for why; they are done when it is connected, or end them with `lumia cancel`",
            )  # fmt: skip


def served(redis: Connection) -> set[str]:
    """Return the queues that some process takes messages from."""
    told = redis.ask("ZRANGEBYSCORE", PREFIX + SERVING, str(server_time(redis) - FRESH), "+inf")
    return {one.partition(" ")[2] for one in texts(told)}


def waiting(redis: Connection, queue: str) -> int:
    """Return how many steps wait in a queue."""
    counts: list[Any] = [redis.ask("ZCARD", f"{PREFIX}queued:{name}") for name in lists([queue])]
    return sum(count for count in counts if isinstance(count, int))


def texts(reply: Any) -> list[str]:
    """Return the strings of a reply that is a list of them."""
    return (
        [one.decode("utf-8", "replace") for one in reply if isinstance(one, bytes)] if isinstance(reply, list) else []
    )

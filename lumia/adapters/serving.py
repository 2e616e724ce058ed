"""Executing the steps of an account in the process that holds its connection (DESIGN §4, docs/gateway.md)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from lumia import runtime
from lumia.adapters.names import queue
from lumia.embedding import Embedding
from lumia.marks import PRIVATE_PREFIX
from lumia.payloads import unescape_id


@dataclass(frozen=True)
class AccountQueue:
    """What waits for an account's connection. oldest: seconds the first step has waited. gateways: who serves it."""

    adapter: str
    account: str
    queue: str
    waiting: int
    oldest: float
    gateways: tuple[str, ...]


@asynccontextmanager
async def serving(adapter: str, account: str) -> AsyncIterator[str]:
    """Have this process execute the steps on the account's queue while inside; gives the queue's name.

    They run in threads of this process: `asyncio.run_coroutine_threadsafe(coroutine, loop)` reaches the connection. A
    step that is being executed when the block ends goes on, and finds the connection gone. Blocks of the same account
    may overlap, as when it connects anew. While the broker is away the steps wait.
    """
    name = queue(adapter, account)
    embedding = runtime.current().embedding
    await _added(embedding, name)
    try:
        yield name
    finally:
        embedding.leave(name)


async def _added(embedding: Embedding, name: str) -> None:
    """Serve a queue; a thread can't be cancelled, so for who is, it is left again when that has come to its end."""
    adding = asyncio.ensure_future(asyncio.to_thread(embedding.add, name))
    try:
        await asyncio.shield(adding)
    except asyncio.CancelledError:
        adding.add_done_callback(lambda done: None if done.exception() else embedding.leave(name))
        raise


def waiting() -> list[AccountQueue]:
    """Return the queues of all accounts with what waits in them; raises `BackendUnavailableError`."""
    found = runtime.current().transport.backlog(PRIVATE_PREFIX)
    return [AccountQueue(*_named(one.name), one.name, one.waiting, one.oldest, one.served) for one in found]


def _named(name: str) -> tuple[str, str]:
    adapter, _, account = name.removeprefix(PRIVATE_PREFIX).partition(".")
    return adapter, unescape_id(account)

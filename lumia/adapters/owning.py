"""Owning something in one process at a time: an account that several gateways could serve (docs/gateway.md).

A lease in the broker, taken for a few seconds and renewed. Its holder measures on its own monotonic clock, from before
it asked, and lets go while the broker still keeps the others out: a process that stood still, or can't reach the
broker, has stopped before another one begins.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress

from lumia import runtime
from lumia.errors import LeaseLostError, LumiaError, PayloadError
from lumia.marks import MAX_NAME, is_name
from lumia.ports import Transport
from lumia.system import new_id

TTL_SECONDS = 8.0
"""After so long without a word of its holder a lease is free."""
MARGIN = 0.25
"""The share of that which the body has to end in, once its lease could not be renewed."""
RENEWALS = 4
"""How often in that time a lease is renewed."""
LOOK_SECONDS = 0.5
"""How often one that waits for a lease looks whether it is free."""
GIVE_BACK_SECONDS = 1.0
_THREADS = 4

_log = logging.getLogger("lumia.gateway")
_lock = threading.Lock()
_executor: list[ThreadPoolExecutor] = []


class Owned:
    """What a body owns. token: grows with every owner, so that whoever is written to can refuse an earlier one's.

    lost: set when the lease is; the body is being cancelled then.
    """

    def __init__(self, name: str, token: int) -> None:
        self.name, self.token = name, token
        self.lost = asyncio.Event()


@asynccontextmanager
async def owning(name: str, *, ttl: float = TTL_SECONDS) -> AsyncIterator[Owned]:
    """Wait until nobody else owns `name`, as "telegram/main", and own it for the block.

    ttl: seconds after which the lease of a process that died is free; one that ends the block gives it back at once.
    When the lease can't be renewed in time, or was lost, the block is cancelled and `LeaseLostError` raised: the body
    has a quarter of `ttl` to end in. While the broker is away nobody gets it.
    """
    if not is_name(name):
        raise PayloadError(f"owning: a name is 1 to {MAX_NAME} printable characters, got {str(name)[:80]!r}")
    bot, body = runtime.current(), asyncio.current_task()
    assert body is not None
    lease = _Lease(bot.transport, name, f"{bot.worker}:{new_id()}", ttl)
    cancelling = body.cancelling()
    try:
        owned = Owned(name, await lease.take())
        keeper = asyncio.create_task(lease.keep(owned, body), name=f"lease {name}")
        try:
            yield owned
        except asyncio.CancelledError as error:
            if owned.lost.is_set() and body.uncancel() <= cancelling:
                raise LeaseLostError(
                    f"{name} may be owned by another process by now: its lease could not be renewed in time"
                ) from error
            raise
        finally:
            keeper.cancel()
            await asyncio.wait((keeper,))
    finally:
        await lease.give_back()


class _Lease:
    def __init__(self, transport: Transport, name: str, holder: str, ttl: float) -> None:
        self._transport, self._name, self._holder, self._ttl = transport, name, holder, ttl
        self._until = 0.0
        self._asking = threading.Lock()
        self._over = False

    async def take(self) -> int:
        """Return the fencing number once the lease is ours."""
        told = ""
        while True:
            try:
                token = await self._ask()
            except LumiaError as error:
                token = 0
                if not told:
                    _log.warning("nobody can own %s: %s", self._name, error)
                told = str(error)
            if token:
                return token
            await asyncio.sleep(min(LOOK_SECONDS, self._ttl / RENEWALS))

    async def keep(self, owned: Owned, body: asyncio.Task[object]) -> None:
        """Renew the lease; when that isn't possible in time, or it was lost, cancel the body."""
        pause = self._ttl / RENEWALS
        while (left := self._until - time.monotonic()) > 0:
            await asyncio.sleep(min(pause, left))
            try:
                async with asyncio.timeout(max(0.0, self._until - time.monotonic())):
                    token = await self._ask()
            except Exception as error:  # whatever it is, its end would leave the body without a lease and unaware
                _log.warning("the lease of %s is not renewed: %s", self._name, str(error) or "no answer in time")
                pause = LOOK_SECONDS
                continue
            if not token:
                break
            owned.token, pause = token, self._ttl / RENEWALS
        _log.error("the lease of %s is lost: what it allowed is being ended", self._name)
        owned.lost.set()
        body.cancel()

    async def give_back(self) -> None:
        """Let others have it at once, if the broker can be told."""
        self._over = True
        with suppress(Exception):  # then it runs out by itself
            async with asyncio.timeout(GIVE_BACK_SECONDS):
                await _in_thread(lambda: self._lease(0))

    async def _ask(self) -> int:
        asked = time.monotonic()
        token = await _in_thread(lambda: self._lease(self._ttl))
        if token:
            self._until = asked + self._ttl * (1 - MARGIN)
        return token

    def _lease(self, seconds: float) -> int:
        with self._asking:  # so that no answer nobody waits for any more comes after the lease was given back
            return 0 if seconds and self._over else self._transport.lease(self._name, self._holder, seconds)


async def _in_thread(call: Callable[[], int]) -> int:
    """Make a call to the broker on threads of its own: others may be taken by whatever hangs."""
    with _lock:
        if not _executor:
            _executor.append(ThreadPoolExecutor(_THREADS, "lumia-leases"))
    return await asyncio.get_running_loop().run_in_executor(_executor[0], call)

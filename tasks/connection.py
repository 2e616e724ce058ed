"""Connections for scripts: a thread has one of its own, and waits for an answer in one system call.

redis-py's client takes a connection from its pool for every command, checks it, and measures what it does; Python's
sockets with a timeout ask `poll` before every read and write. For the scripts, of which a message needs several, that
costs more than executing them. So the kernel keeps the time, and each thread keeps its connection.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from redis import Redis
from redis import asyncio as on_loop
from redis.asyncio.retry import Retry as LoopRetry
from redis.backoff import AbstractBackoff, NoBackoff
from redis.connection import Connection
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError
from redis.retry import Retry

TIMEOUT = 5.0
"""Seconds for one answer, and for connecting."""


class TimedConnection(Connection):
    """A TCP connection whose reads and writes time out in the kernel (`SO_RCVTIMEO`), without a `poll` before each."""

    def _connect(self) -> socket.socket:
        sock: socket.socket = super()._connect()  # type: ignore[no-untyped-call]
        seconds = self.socket_timeout
        if seconds:
            limit = struct.pack("ll", int(seconds), int(seconds % 1 * 1_000_000))
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
            sock.settimeout(None)
        return sock

    def read_response(self, *args: Any, **options: Any) -> Any:
        """Return an answer; the kernel's word for one that is late is `EAGAIN`, which redis-py takes for a break."""
        try:
            return super().read_response(*args, **options)
        except RedisConnectionError as error:
            if isinstance(error.__context__, BlockingIOError):
                raise RedisTimeoutError(f"nothing came within {self.socket_timeout:g} s") from error
            raise


class BriefRetry(Retry):
    """Tries again as often as told while that is quick: none begins later than `seconds` after the first.

    redis-py counts tries only, of a command and in each of them of the connection. With a server that is reached and
    stays silent each of them lasts as long as an answer may take, which comes to minutes.
    """

    __hash__ = Retry.__hash__

    def __init__(self, backoff: AbstractBackoff, retries: int, *, seconds: float) -> None:
        super().__init__(backoff, retries)
        self._seconds = seconds

    def __eq__(self, other: Any) -> bool:
        return super().__eq__(other) and self._seconds == getattr(other, "_seconds", None)

    def call_with_retry(
        self,
        do: Callable[[], Any],
        fail: Callable[..., Any],
        is_retryable: Callable[[Exception], bool] | None = None,
        with_failure_count: bool = False,
    ) -> Any:
        """Call `do` until it returns; what it raised last is raised when it is tried no more."""
        until, count = time.monotonic() + self._seconds, 0

        def goes_on(error: Exception) -> bool:
            nonlocal count
            count += 1
            if is_retryable is not None and not is_retryable(error):
                return False
            if time.monotonic() < until:
                return True
            fail(*((error, count) if with_failure_count else (error,)))
            return False

        return super().call_with_retry(do, fail, goes_on, with_failure_count)


class Lines:
    """The connections of a client's threads. A forked child makes its own."""

    def __init__(self, redis: Redis) -> None:
        self._pool = redis.connection_pool
        self._mine = threading.local()
        self._all: weakref.WeakSet[Any] = weakref.WeakSet()

    def ask(self, *words: Any) -> Any:
        """Send one command and return its answer; raises redis-py's errors, and leaves retrying to the caller."""
        line = self._line()
        try:
            line.send_packed_command(line.pack_command(*words))
            return line.read_response()
        except (RedisConnectionError, OSError):
            line.disconnect()
            raise

    def ask_each(self, commands: Sequence[Sequence[Any]]) -> list[Any]:
        """Send commands in one go and return their answers, errors of the server among them.

        Where the connection breaks or stays silent the list is shorter: nobody knows what became of the rest.
        """
        line, found = self._line(), list[Any]()
        try:
            line.send_packed_command(line.pack_commands(commands))
            for _ in commands:
                found.append(_answer(line))
        except (RedisConnectionError, RedisTimeoutError, OSError):
            line.disconnect()
        return found

    def _line(self) -> Any:
        mine = self._mine
        pid = os.getpid()
        if getattr(mine, "pid", None) != pid:
            mine.line, mine.pid = self._pool.make_connection(), pid
            self._all.add(mine.line)
        return mine.line

    def close(self) -> None:
        """Close every thread's connection; one that is used again connects again."""
        for line in list(self._all):
            line.disconnect()


class LoopLines:
    """The connections of a process's event loops, one each. url: of the server; "" for none."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._mine: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = weakref.WeakKeyDictionary()

    async def ask(self, *words: Any) -> Any:
        """Send one command and return its answer; raises redis-py's errors, and leaves retrying to the caller."""
        loop = asyncio.get_running_loop()
        line = self._mine.get(loop)
        if line is None:
            line = self._mine[loop] = self._connected()
        return await line.execute_command(*words)

    async def close(self) -> None:
        """Close the running loop's connection; one that is used again connects again."""
        line = self._mine.pop(asyncio.get_running_loop(), None)
        if line is not None:
            with suppress(RedisError, OSError):  # a server that takes no more is left as it is
                await line.aclose()

    def _connected(self) -> Any:
        if not self._url:
            raise RedisConnectionError("no URL to connect to")
        return on_loop.Redis.from_url(
            self._url, socket_timeout=TIMEOUT, socket_connect_timeout=TIMEOUT, retry=LoopRetry(NoBackoff(), 0),
            client_name="lumia",
        )  # fmt: skip


def _answer(line: Any) -> Any:
    try:
        return line.read_response()
    except ResponseError as error:
        return error

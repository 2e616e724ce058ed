"""The load program, a process of its own: posts over kept connections, as fast as they are answered or by the clock.

    python -m bench.ingress.load JSON

JSON: {"ports", "path", "connections", "seconds", "rate" (0: as fast as answered), "auth", "key", "chats"}.
Prints one line of JSON: {"answers": {status: n}, "seconds", "ms": [times of the answers, ms]}. At a rate, the time of a
post begins when it was due, so that one that had to wait for a connection counts its waiting.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import itertools
import json
import sys
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any

import uvicorn

HEAD_END = b"\r\n\r\n"
LENGTH = b"content-length:"
TEXT = "x" * 120
GRACE_SECONDS = 10.0
TICK = 0.001
"""Seconds between two looks at the clock: a timer per post would take more of the processors than the servers do."""


@dataclass
class Job:
    """What to send. auth: bearer, hmac or none."""

    ports: list[int]
    path: str
    connections: int
    seconds: float
    rate: float
    auth: str
    key: str
    chats: int

    def request(self, number: int) -> bytes:
        """Return the bytes of post `number`; its message id is its own."""
        chat = number % self.chats
        body = (f'{{"text":"{TEXT}","sender_id":"u{chat}","group_id":"g{chat}","message_id":"m{number}"}}').encode()
        head = f"POST {self.path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        if self.auth == "bearer":
            head += f"Authorization: Bearer {self.key}\r\n"
        elif self.auth == "hmac":
            seal = hmac.digest(self.key.encode(), body, hashlib.sha256).hex()
            head += f"X-Lumia-Signature: sha256={seal}\r\n"
        return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


@dataclass
class Count:
    """What came back."""

    answers: Counter[str] = field(default_factory=Counter)
    ms: list[float] = field(default_factory=list)
    sent: int = 0


class Line(asyncio.Protocol):
    """One kept connection; `ready` is called whenever it may send."""

    def __init__(self, ready: Any, count: Count) -> None:
        self._ready, self._count = ready, count
        self._read = b""
        self._since = 0.0
        self.busy = False
        self.transport: Any = None

    def connection_made(self, transport: Any) -> None:
        """Be ready."""
        self.transport = transport

    def post(self, data: bytes, since: float) -> None:
        """Send a request; `since` is when its time begins."""
        self._since, self.busy = since, True
        self._count.sent += 1
        self.transport.write(data)

    def data_received(self, data: bytes) -> None:
        """Take an answer, whole or in pieces."""
        self._read = self._read + data if self._read else data
        head, found, body = self._read.partition(HEAD_END)
        if not found:
            return
        low = head.lower()
        at = low.index(LENGTH) + len(LENGTH)
        if len(body) < int(low[at : (low + b"\r").index(b"\r", at)]):
            return
        self._read, self.busy = b"", False
        self._count.answers[head[9:12].decode()] += 1
        self._count.ms.append((time.perf_counter() - self._since) * 1000)
        self._ready(self)

    def connection_lost(self, error: Exception | None) -> None:
        """Count an answer that never came."""
        if self.busy:
            self.busy = False
            self._count.answers["cut"] += 1


async def _closed(job: Job, count: Count) -> float:
    """Send the next post on a connection as soon as the one before was answered."""
    numbers, over = itertools.count(), False

    def ready(line: Line) -> None:
        if not over:
            line.post(job.request(next(numbers)), time.perf_counter())

    lines = await _lines(job, ready, count)
    began = time.perf_counter()
    for line in lines:
        ready(line)
    await asyncio.sleep(job.seconds)
    over = True
    took = time.perf_counter() - began
    await _quiet(lines)
    return took


async def _open(job: Job, count: Count) -> float:
    """Send by the clock; a post for which no connection is free waits, and its time runs."""
    loop, free, due = asyncio.get_running_loop(), deque[Line](), deque[tuple[bytes, float]]()

    def ready(line: Line) -> None:
        if due:
            line.post(*due.popleft())
        else:
            free.append(line)

    lines = await _lines(job, ready, count)
    free.extend(lines)
    began, number, total = loop.time(), 0, int(job.rate * job.seconds)
    offset = time.perf_counter() - began
    while number < total:
        while number < total and began + number / job.rate <= loop.time():
            due.append((job.request(number), began + number / job.rate + offset))
            number += 1
            if free:
                free.popleft().post(*due.popleft())
        await asyncio.sleep(max(TICK, began + number / job.rate - loop.time()))
    took = loop.time() - began
    await _quiet(lines)
    return took


async def _lines(job: Job, ready: Any, count: Count) -> list[Line]:
    loop, found = asyncio.get_running_loop(), list[Line]()
    for number in range(job.connections):
        port = job.ports[number % len(job.ports)]
        _, line = await loop.create_connection(lambda: Line(ready, count), "127.0.0.1", port)
        found.append(line)
    return found


async def _quiet(lines: list[Line]) -> None:
    """Wait for the answers still to come."""
    until = time.perf_counter() + GRACE_SECONDS
    for line in lines:
        while line.busy and time.perf_counter() < until:  # noqa: ASYNC110 (an event per answer would cost each of them)
            await asyncio.sleep(0.01)
    for line in lines:
        line.transport.close()


async def play(job: Job) -> dict[str, Any]:
    """Send everything and return what came back."""
    count = Count()
    took = await (_open if job.rate else _closed)(job, count)
    return {"answers": dict(count.answers), "seconds": took, "ms": [round(one, 3) for one in count.ms],
            "sent": count.sent}  # fmt: skip


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvicorn.Config("").get_loop_factory()) as runner:
        print(json.dumps(runner.run(play(Job(**json.loads(sys.argv[1]))))))

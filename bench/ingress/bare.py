"""The peer: a bare ASGI handler that puts the body of each post into a Redis stream and answers 202."""

from __future__ import annotations

import os
from typing import Any

from redis.asyncio import Redis

STREAM = "bare"
redis: Any = Redis.from_url(os.environ.get("BENCH_REDIS_URL", "redis://127.0.0.1"))


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Serve one request (ASGI)."""
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    if scope["method"] == "POST":
        await redis.xadd(STREAM, {"body": body})
    await send({"type": "http.response.start", "status": 202, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})

"""The peer: a bare ASGI handler that puts the body of each post into a Redis stream and answers 202.

python -m bench.ingress.bare PORT     several of them share the port, as gateways do
"""

from __future__ import annotations

import os
import socket
import sys
from typing import Any

import uvicorn
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


def main(port: int) -> None:
    """Serve on a port that others may serve, too, with uvicorn's own choice of event loop and parser."""
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listening.bind(("127.0.0.1", port))
        listening.listen(2048)
        uvicorn.Server(uvicorn.Config(app, access_log=False, log_level="warning")).run([listening])


if __name__ == "__main__":
    main(int(sys.argv[1]))

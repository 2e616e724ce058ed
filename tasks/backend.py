"""What the core asks of the backend named in its configuration: a transport."""

from __future__ import annotations

import os
import secrets
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lumia.errors import BackendUnavailableError
from lumia.ports import Limits

if TYPE_CHECKING:
    from tasks.transport import RedisTransport

ENVIRONMENT = "LUMIA_REDIS_URL"
STATE = Path("data") / "run" / "redis.url"


def worker_name() -> str:
    """Return a name for this process that no other one has had: host, pid and a random part."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"


def redis_url(root: Path) -> str:
    """Return the broker's URL: `LUMIA_REDIS_URL`, else what `lumia up` noted in the bot root.

    Raises `BackendUnavailableError` when neither is there.
    """
    named = os.environ.get(ENVIRONMENT)
    if named:
        return named
    noted = root / STATE
    try:
        return noted.read_text().strip()
    except OSError as error:
        raise BackendUnavailableError(
            f"this bot is not running: {noted} is not there and {ENVIRONMENT} is not set; start it with `lumia up`"
        ) from error


def connect(root: Path, limits: Limits, config: Any = None) -> RedisTransport:
    """Return the transport of the bot in `root`; nothing is sent yet."""
    url = redis_url(root)  # first: a command for a bot that isn't running loads no client for the rest of its life
    from tasks.archive.place import place_of
    from tasks.archive.reader import ArchiveHistory
    from tasks.transport import RedisTransport
    from tasks.transport import connect as connect_redis

    transport = RedisTransport(connect_redis(url), worker=worker_name(), limits=limits, url=url)
    transport.archive = ArchiveHistory(place_of(root))
    return transport

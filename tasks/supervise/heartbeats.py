"""Signs of life that workers and beat leave in Redis.

`lumia:workers` is a sorted set: member `<hostname>:<pid>:<random>` of each executing process, score its last heartbeat
in seconds. `lumia:beat` is JSON `{"pid", "at"}`.
"""

from __future__ import annotations

import json
import socket
from contextlib import suppress

from lumia.errors import BackendUnavailableError
from tasks.keys import BEAT, PREFIX, WORKERS
from tasks.supervise.resp import Connection, connect

FRESH = 10.0
"""Seconds after which a sign of life is too old; it is given about every second."""


def worker_answers(url: str, pid: int) -> bool:
    """Tell whether the worker `pid`, or a pool process of it, has given a sign of life within `FRESH` seconds."""
    with suppress(BackendUnavailableError, ValueError), connect(url) as redis:
        return bool(fresh_workers(redis) & {pid, *_children(pid)})
    return False


def beat_answers(url: str, pid: int) -> bool:
    """Tell whether the beat `pid` has given a sign of life within `FRESH` seconds; another beat's doesn't count."""
    with suppress(BackendUnavailableError, ValueError, KeyError, TypeError), connect(url) as redis:
        text = redis.ask("GET", PREFIX + BEAT)
        sign = json.loads(text) if isinstance(text, bytes) else {}
        return sign["pid"] == pid and float(sign["at"]) >= server_time(redis) - FRESH
    return False


def fresh_workers(redis: Connection) -> set[int]:
    """Return the pids of this host's executing processes with a recent sign of life."""
    reply = redis.ask("ZRANGEBYSCORE", PREFIX + WORKERS, str(server_time(redis) - FRESH), "+inf")
    members = (
        [one.decode("utf-8", "replace") for one in reply if isinstance(one, bytes)] if isinstance(reply, list) else []
    )
    host = socket.gethostname()
    return {int(pid) for name, pid, _ in (one.rsplit(":", 2) for one in members if one.count(":") > 1) if name == host}


def server_time(redis: Connection) -> float:
    """Return the server's clock in seconds; heartbeats are measured by one clock only."""
    reply = redis.ask("TIME")
    if not isinstance(reply, list) or len(reply) != 2:
        raise ValueError("TIME gave no pair")
    seconds, micros = (int(part) if isinstance(part, bytes | int) else 0 for part in reply)
    return seconds + micros / 1e6


def _children(pid: int) -> set[int]:
    import psutil

    try:
        return {child.pid for child in psutil.Process(pid).children(recursive=True)}
    except psutil.Error:
        return set()

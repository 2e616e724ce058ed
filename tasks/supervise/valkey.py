"""The bot's own Valkey or Redis: its configuration and its place among the services."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tasks.supervise.binaries import find_redis
from tasks.supervise.folders import Folders
from tasks.supervise.private import write_private
from tasks.supervise.resp import answers
from tasks.supervise.secret import password
from tasks.supervise.service import Service
from tasks.supervise.settings import Settings

_BASIC_ENV = {"PATH": os.defpath, "LC_ALL": "C"}


def redis_url(root: Path, port: int) -> str:
    """Return the URL of the bot's own server, with its password."""
    return f"redis://:{password(root, 'redis')}@127.0.0.1:{port}/0"


def server_config(
    folder: Path, port: int, password: str, *, appendonly: bool = True, appendfsync: str = "everysec"
) -> str:
    """Return the text of a configuration for a server on loopback, understood from Redis 6.2 on.

    Every write goes to the append-only file; memory is never freed by dropping keys, since every key is somebody's run.
    """
    lines = [
        "bind 127.0.0.1",
        f"port {port}",
        "protected-mode yes",
        f"requirepass {password}" if password else "",
        "daemonize no",
        f'dir "{_quoted(folder)}"',
        'logfile ""',
        f"appendonly {'yes' if appendonly else 'no'}",
        f"appendfsync {appendfsync}",
        "auto-aof-rewrite-min-size 32mb",
        'save ""',
        "maxmemory-policy noeviction",
        "hash-max-ziplist-value 128",
        "tcp-keepalive 60",
        "databases 16",
        "always-show-logo no",
    ]
    return "\n".join(line for line in lines if line) + "\n"


def write_config(file: Path, text: str) -> None:
    """Write a configuration that holds a password, 0600."""
    file.parent.mkdir(parents=True, exist_ok=True)
    write_private(file, text)


def valkey_service(folders: Folders, settings: Settings) -> Service:
    """Return the service; its program is looked for now, so that a missing one is told before anything starts."""
    server = find_redis()
    file = folders.valkey / "valkey.conf"
    url = redis_url(folders.root, settings.redis_port)
    text = server_config(
        folders.valkey,
        settings.redis_port,
        password(folders.root, "redis"),
        appendfsync=settings.appendfsync,
    )
    return Service(
        name="valkey",
        kind="valkey",
        command=(str(server.path), str(file)),
        probe=lambda pid: answers(url),
        url=f"redis://127.0.0.1:{settings.redis_port}/0",
        env=_BASIC_ENV,
        prepare=lambda: write_config(file, text),
        start_timeout=300.0,
        grace=30.0,
        orphan=signal.SIGTERM,
        stage=5,
    )


def _quoted(path: Path) -> str:
    return str(path).replace("\\", "\\\\").replace('"', '\\"')

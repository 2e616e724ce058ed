"""Checks of the deployment record: a machine that refuses it goes on with the plugins it has (docs/hot-reload.md)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lumia.config import ConfigStore
from lumia.deployment import Wanted
from lumia.errors import BackendUnavailableError, LumiaError
from lumia.pkg.bringing import Root
from tasks.keys import PREFIX
from tasks.supervise.findings import Finding, ok, risk
from tasks.supervise.resp import RespError, connect


def check_deployment(root: Path, url: str) -> Iterator[Finding]:
    """Yield whether `root` takes the record of what the bot works with. url: of Redis, "" for none.

    That Redis is away is told by others; without a record there is nothing to tell.
    """
    if not url:
        return
    try:
        with connect(url, timeout=3.0) as redis:
            reply = redis.ask("HMGET", f"{PREFIX}deployment", "active", "active_wanted")
    except (BackendUnavailableError, RespError):
        return
    number, text = reply if isinstance(reply, list) and len(reply) == 2 else (None, None)
    if not isinstance(number, bytes) or not isinstance(text, bytes):
        return
    about = f"deployment {number.decode('ascii', 'replace')}"
    try:
        Root(root, ConfigStore(root)).verified(Wanted.load(text))
    except LumiaError as error:
        what, _, way_out = str(error).rpartition("; ")
        yield risk("deployment", f"{about} is refused here: {what}", way_out)
        return
    yield ok("deployment", f"{about} is signed by this bot and no older than what this machine has seen")

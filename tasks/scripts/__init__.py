"""The Lua scripts: start, claim, commit and the few that serve them.

Each is a file of its own; `lib.lua` is put in front of every one of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from redis import Redis
from redis.commands.core import Script

NAMES = ("start", "claim", "commit", "write", "cancel", "move", "heartbeat", "reap", "publish", "bury")
_FOLDER = Path(__file__).parent


def source(name: str) -> str:
    """Return the full text of a script."""
    return (_FOLDER / "lib.lua").read_text() + (_FOLDER / f"{name}.lua").read_text()


class Scripts:
    """The scripts of one connection, called with the key prefix in front of their arguments."""

    def __init__(self, redis: Redis, prefix: str) -> None:
        self._prefix = prefix
        self._scripts: dict[str, Script] = {name: redis.register_script(source(name)) for name in NAMES}

    def __call__(self, name: str, *args: Any) -> Any:
        """Run script `name`; redis-py loads it first where the server doesn't know it."""
        return self._scripts[name](args=[self._prefix, *args])

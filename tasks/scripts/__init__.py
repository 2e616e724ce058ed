"""The Lua scripts: start, claim, commit and the few that serve them.

Each is a file of its own; `lib.lua` is put in front of every one of them, `effects.lua` of those of the effect ledger,
and `deployment.lua` of those that change what processes work with.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from redis import Redis
from redis.commands.core import Script
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from tasks import failpoints
from tasks.connection import Lines, LoopLines

EFFECTS = ("effect_begin", "effect_end", "effect_settle", "effect_list")
RUNS = (
    "start",
    "claim",
    "commit",
    "write",
    "cancel",
    "move",
    "heartbeat",
    "reap",
    "publish",
    "bury",
    "dead",
    "limit",
    "age",
    "keep",
)
NAMES = (*RUNS, *EFFECTS)
DEPLOYMENTS = ("publish", "deploy", "turn", "attend", "answer")
INBOX = ("peek", "unkeep")
MORE = ("lease", "own", "advance", "trim", "compact", "alarm", "note", "waiting", *INBOX, *DEPLOYMENTS[1:])
_FOLDER = Path(__file__).parent


def source(name: str) -> str:
    """Return the full text of a script."""
    between = "effects" if name in EFFECTS else "deployment" if name in DEPLOYMENTS else "lanes"
    files = ("lib", between, name)
    return "".join((_FOLDER / f"{file}.lua").read_text() for file in files)


class Scripts:
    """The scripts of one connection, called with the key prefix in front of their arguments."""

    def __init__(self, redis: Redis, prefix: str, url: str = "") -> None:
        self._prefix = prefix
        self._redis: Any = redis  # untyped in redis-py
        self._lines = Lines(redis)
        self._loops = LoopLines(url)
        names = (*NAMES, *MORE)
        self._scripts: dict[str, Script] = {name: redis.register_script(source(name)) for name in names}

    def __call__(self, name: str, *args: Any) -> Any:
        """Run script `name` on this thread's connection.

        Where the server doesn't know it yet, or the connection has broken, redis-py loads it and tries again: a script
        that is sent twice gives its first answer.
        """
        script = self._scripts[name]
        try:
            return self._lines.ask("EVALSHA", script.sha, 0, self._prefix, *args)
        except (NoScriptError, RedisConnectionError, RedisTimeoutError, OSError):
            return script(args=[self._prefix, *args])

    async def here(self, name: str, *args: Any) -> Any:
        """Run script `name` on the running event loop's connection; raises redis-py's errors, tries nothing again."""
        return await self._loops.ask("EVALSHA", self._scripts[name].sha, 0, self._prefix, *args)

    async def leave(self) -> None:
        """Close the running event loop's connection."""
        await self._loops.close()

    def each(self, name: str, calls: Sequence[Sequence[Any]]) -> list[Any]:
        """Run script `name` once for each of `calls`, in one trip; returns answers, or the error in an answer's place.

        What has no answer is sent again one by one, up to the first one that the server can't be reached for.
        """
        script = self._scripts[name]
        commands = [("EVALSHA", script.sha, 0, self._prefix, *args) for args in calls]
        found = self._lines.ask_each(commands)
        found += [None] * (len(calls) - len(found))
        away: Exception | None = None
        for at, args in enumerate(calls):
            if found[at] is not None and not isinstance(found[at], NoScriptError):
                continue
            try:
                found[at] = away or script(args=[self._prefix, *args])
            except ResponseError as error:
                found[at] = error
            except (RedisConnectionError, RedisTimeoutError, OSError) as error:
                found[at] = away = error
        return found

    def ask(self, *words: Any) -> Any:
        """Send a plain command that only reads, on this thread's connection; tried again where that has broken."""
        try:
            return self._lines.ask(*words)
        except (RedisConnectionError, RedisTimeoutError, OSError):
            return self._redis.execute_command(*words)

    def close(self) -> None:
        """Close the threads' connections."""
        self._lines.close()


def bound(scripts: Scripts) -> Any:
    """Return what calls these scripts by name: themselves, or with failpoints where the environment sets any."""
    return failpoints.around(scripts, NAMES)

"""Checks of the shared queues: steps that wait in one which no worker serves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from lumia.marks import ISOLATED_PREFIX, PRIVATE_PREFIX
from tasks.keys import PREFIX
from tasks.supervise.check_accounts import served, texts, waiting
from tasks.supervise.findings import Finding, risk
from tasks.supervise.resp import Connection


def check_queues(redis: Connection) -> Iterator[Finding]:
    """Yield a finding for each queue that handlers ask for, or steps wait in, and no worker serves.

    While no worker runs at all, only those in which something waits.
    """
    held = served(redis)
    running = any(not queue.startswith(PRIVATE_PREFIX) for queue in held)
    wanted = _wanted(redis)
    for queue in sorted({*texts(redis.ask("SMEMBERS", f"{PREFIX}queues")), *wanted}):
        if queue in held or queue.startswith(PRIVATE_PREFIX):
            continue
        count, plugins = waiting(redis, queue), wanted.get(queue, {})
        if not count and not (running and plugins):
            continue
        whose = f" ({', '.join(sorted(plugins))})" if plugins else ""
        steps = f"{count} step{'' if count == 1 else 's'} waiting in it" if count else "nothing waits in it yet"
        yield risk(
            "queues", f"no worker serves the queue {queue}{whose}: {steps}", _way_out(queue, any(plugins.values()))
        )


def _way_out(queue: str, hard: bool) -> str:
    """Say which command makes a worker for the queue. hard: its limits are enforced by ending a process."""
    if queue.startswith(ISOLATED_PREFIX):
        return f"lumia isolated {queue.removeprefix(ISOLATED_PREFIX)} (`lumia up` starts it by itself; see its log)"
    added = f"lumia worker add --queues {queue}{' --pool prefork' if hard else ''}"
    pool = " -P prefork" if hard else ""
    return f"{added}, or where no `lumia up` runs: celery -A tasks worker -Q {queue}{pool}"


def _wanted(redis: Connection) -> dict[str, dict[str, bool]]:
    """Return queue → the plugins with handlers on it, each with whether a time limit of it is a hard one."""
    found: dict[str, dict[str, bool]] = {}
    with suppress(ValueError, KeyError, TypeError, AttributeError):
        text = redis.ask("HGET", f"{PREFIX}routes", "table")
        routes: list[Any] = json.loads(text)["routes"] if isinstance(text, bytes) else []
        for route in routes:
            plugins = found.setdefault(str(route["queue"]), {})
            plugins[str(route["plugin"])] = plugins.get(str(route["plugin"]), False) or bool(route["hard"])
    return found

"""Working off messages in this process: claims, handlers and commits as in a worker, without Celery's delivery."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench import bot as bots
from lumia.runtime import Runtime


@dataclass(frozen=True)
class Cost:
    """CPU time per message in µs, of this process and of Valkey's main thread, so that other work counts little.

    accept: `start()`; work: from the claim to the last commit.
    """

    accept: float
    work: float


def drain(bot: Runtime, redis: Any) -> int:
    """Execute everything that waits in the default queue; returns how many messages were taken from it."""
    transport, count = bots.transport_of(bot), 0
    with bot.activated():
        while (message := redis.rpop(bots.QUEUE)) is not None:
            run_id, step, seq = json.loads(json.loads(message)["body"])[0]
            bot.executor.process(transport.claim(run_id, step, seq))
            count += 1
    return count


def cost(bot: Runtime, redis: Any, count: int, accept: Callable[[int], None]) -> Cost:
    """Accept `count` messages, work them off, and return what one took.

    Raises `AssertionError` when not every message was done once.
    """
    before, cpu = bots.done(redis), _cpu(redis)
    with bot.activated():
        accept(count)
    accepted = _cpu(redis)
    drain(bot, redis)
    ended = _cpu(redis)
    done = bots.done(redis) - before
    assert done == count, f"{count} messages were accepted, {done} were done"
    return Cost((accepted - cpu) / count * 1e6, (ended - accepted) / count * 1e6)


def _cpu(redis: Any) -> float:
    used = redis.info("cpu")
    return time.process_time() + float(used["used_cpu_user_main_thread"]) + float(used["used_cpu_sys_main_thread"])

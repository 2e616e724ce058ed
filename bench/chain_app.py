"""The peer: a plain Celery app with the settings its documentation advises for work that must not be lost."""

from __future__ import annotations

import os
from typing import Any

from celery import Celery
from redis import Redis

URL = os.environ["BENCH_REDIS_URL"]
app = Celery("chain", broker=URL)
app.conf.update(
    task_ignore_result=True,
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=1,
    worker_send_task_events=True,
    task_default_queue="chain",
    broker_connection_retry_on_startup=True,
)
_redis = Redis.from_url(URL)


def _stage(number: int) -> Any:
    def stage(content: dict[str, str]) -> dict[str, str]:
        if number == 3:
            _redis.incr("chain:done")
        return content

    return app.task(name=f"chain.stage{number}")(stage)


STAGES = [_stage(number) for number in range(4)]


def start(content: dict[str, str]) -> None:
    """Publish one chain of the four stages."""
    from celery import chain

    chain(STAGES[0].s(content), *(stage.s() for stage in STAGES[1:])).apply_async()

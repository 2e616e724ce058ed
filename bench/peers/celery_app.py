"""Celery with the settings its documentation advises for work that must not be lost.

acks_late and reject_on_worker_lost: "Tasks" and "Optimizing" of its user guide; one prefetched message, as there; no
results, since nobody reads them; task events on (-E). BENCH_STYLE: `chain` publishes a canvas of the four stages,
`calls` lets each stage publish the next one.
"""

from __future__ import annotations

import os
from typing import Any

from celery import Celery, chain
from redis import Redis

from bench.peers import load

CHAIN = os.environ.get("BENCH_STYLE", "chain") == "chain"
app = Celery("bench", broker=load.URL)
app.conf.update(
    task_ignore_result=True,
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=1,
    worker_send_task_events=True,
    task_default_queue="bench",
    broker_connection_retry_on_startup=True,
)
_redis: Any = Redis.from_url(load.URL)


def _stage(number: int) -> Any:
    def stage(content: load.Content) -> load.Content:
        if number == 3:
            _redis.incr(load.DONE)
            if "n" in content:
                _redis.publish(load.ENDED, content["n"])
        elif not CHAIN:
            STAGES[number + 1].delay(content)
        return content

    return app.task(name=f"bench.stage{number}")(stage)


STAGES = [_stage(number) for number in range(4)]


def send(content: load.Content) -> str:
    """Publish one message."""
    if CHAIN:
        chain(STAGES[0].s(content), *(stage.s() for stage in STAGES[1:])).apply_async()
    else:
        STAGES[0].delay(content)
    return content.get("n", "")


if __name__ == "__main__":
    load.main(send)

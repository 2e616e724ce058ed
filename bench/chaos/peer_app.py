"""The peer's tasks: three stages as a Celery chain, with the settings its documentation advises for such work."""

from __future__ import annotations

import os
import time
from typing import Any

from celery import Celery, chain
from redis import Redis

VISIBILITY_SECONDS = 10
URL = os.environ["CHAOS_PEER_URL"]
app = Celery("chaos_peer", broker=URL, set_as_current=False)
app.conf.update(
    task_ignore_result=True,
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    task_retry_on_worker_lost=True,
    task_time_limit=VISIBILITY_SECONDS // 2,
    worker_prefetch_multiplier=1,
    worker_disable_prefetch=True,
    worker_send_task_events=True,
    worker_soft_shutdown_timeout=10.0,
    worker_enable_soft_shutdown_on_idle=True,
    task_default_queue="chain",
    task_annotations={"*": {"default_retry_delay": 1, "max_retries": 20}},
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    broker_transport_options={
        "visibility_timeout": VISIBILITY_SECONDS,
        "unacked_restore_interval": 1,
        "unacked_restore_throttle": 1,
        "socket_timeout": 15,
        "socket_keepalive": True,
        "health_check_interval": 10,
    },
)
_redis = Redis.from_url(URL, socket_timeout=10)


@app.task(name="peer.first", autoretry_for=(Exception,))
def first(value: dict[str, Any]) -> dict[str, Any]:
    """Work a little."""
    time.sleep(0.002)
    return value


@app.task(name="peer.second", autoretry_for=(Exception,))
def second(value: dict[str, Any]) -> dict[str, Any]:
    """Pass the message on."""
    return value


@app.task(name="peer.last", autoretry_for=(Exception,))
def last(value: dict[str, Any]) -> None:
    """Put the message's number on its group's list."""
    with _redis.pipeline(transaction=True) as batch:
        batch.rpush(f"done:{value['group']}", value["n"])
        batch.incr("count")
        batch.execute()


def begin(group: str, n: int) -> str:
    """Publish one message and return its id."""
    stages = chain(first.s({"group": group, "n": n, "text": "x" * 150}), second.s(), last.s())
    return str(stages.apply_async().id)

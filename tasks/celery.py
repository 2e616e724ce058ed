"""The Celery app: `celery -A tasks worker` and `celery -A tasks beat` work as they stand."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from celery import Celery, signals

from lumia.errors import LumiaError
from lumia.journal import described
from lumia.marks import DEFAULT_QUEUE
from lumia.paths import find_root
from tasks.backend import redis_url
from tasks.queues import SEPARATOR, STEPS, LumiaAMQP, queue
from tasks.worker import LumiaWorker, StepFailed, is_prefork


def _root_and_url() -> tuple[str, str]:
    try:
        root = find_root()
        return str(root), redis_url(root)
    except LumiaError as error:
        raise SystemExit(f"error: {error}") from error


ROOT, URL = _root_and_url()
os.environ["LUMIA_ROOT"] = ROOT

app = Celery("lumia", broker=URL, amqp=LumiaAMQP, set_as_current=False)
app.conf.update(
    task_default_queue=DEFAULT_QUEUE,
    task_queues=[queue(DEFAULT_QUEUE)],
    task_ignore_result=True,
    task_serializer="json",
    accept_content=["json"],
    task_acks_late=False,
    worker_pool="tasks.pool:TaskPool",
    worker_consumer="tasks.consumer:Consumer",
    worker_disable_prefetch=True,
    worker_prefetch_multiplier=1,
    worker_send_task_events=True,
    worker_hijack_root_logger=True,
    worker_detect_quorum_queues=False,
    worker_soft_shutdown_timeout=20.0,
    worker_enable_soft_shutdown_on_idle=False,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    broker_transport_options={
        "priority_steps": list(STEPS),
        "sep": SEPARATOR,
        "queue_order_strategy": "round_robin",
        "socket_timeout": 15,
        "socket_keepalive": True,
        "health_check_interval": 10,
        "client_name": "lumia-celery",
    },
    broker_pool_limit=32,  # Flower's inspections hold several at once and deadlock on a small pool
    beat_scheduler="tasks.beat:LumiaScheduler",
    beat_schedule_filename=os.path.join(ROOT, "data", "run", "beat"),
    beat_max_loop_interval=5,
    result_backend=None,
    task_track_started=False,
    timezone="UTC",
    enable_utc=True,
)

worker = LumiaWorker(app)


@app.task(name="lumia.step", bind=True, ignore_result=True, throws=(StepFailed,))
def step(self: Any, run_id: str, index: int, seq: int) -> str:
    """Execute step `index` of run `run_id`; `seq` tells this message from any earlier copy."""
    return worker.execute(run_id, index, seq, self.request.hostname)


@contextmanager
def _or_leave() -> Iterator[None]:
    """End this process on an error: Celery would log it, and consume messages that nobody here can execute."""
    try:
        yield
    except Exception as error:
        if not isinstance(error, LumiaError):
            logging.getLogger("lumia").exception("the worker can't start")
        raise SystemExit(f"error: {described(error)}") from error


@signals.celeryd_init.connect
def _prepare(options: Any = None, **_: Any) -> None:
    with _or_leave():
        worker.prepare(explicit_queues=bool((options or {}).get("queues")))


@signals.worker_init.connect
def _init(sender: Any = None, **_: Any) -> None:
    if not is_prefork(sender.pool_cls):
        with _or_leave():
            worker.execute_here(sender.concurrency)


@signals.worker_process_init.connect
def _child(**_: Any) -> None:
    with _or_leave():
        worker.execute_here(slots=1)


@signals.worker_ready.connect
def _ready(sender: Any = None, **_: Any) -> None:
    worker.ready(sender)


@signals.worker_shutting_down.connect
def _drain(**_: Any) -> None:
    worker.drain()


@signals.worker_process_shutdown.connect
def _child_stop(**_: Any) -> None:
    worker.stop()


@signals.worker_shutdown.connect
def _stop(**_: Any) -> None:
    worker.shut_down()


@signals.task_revoked.connect
def _revoked(request: Any = None, **_: Any) -> None:
    worker.revoked(request.id)

"""The Celery app as Lumia needs it: of `celery -A tasks worker`, and of the worker that a gateway embeds."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from celery import Celery

from lumia.marks import DEFAULT_QUEUE
from tasks.lists import SEPARATOR, STEPS
from tasks.queues import LumiaAMQP, queue

if TYPE_CHECKING:
    from tasks.worker import LumiaWorker


def celery_app(url: str, root: str | Path) -> Celery:
    """Return an app on the broker at `url`, for the bot of `root`."""
    app = Celery("lumia", broker=url, amqp=LumiaAMQP, set_as_current=False)
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
        beat_schedule_filename=os.path.join(root, "data", "run", "beat"),
        beat_max_loop_interval=5,
        result_backend=None,
        task_track_started=False,
        timezone="UTC",
        enable_utc=True,
    )
    return app


def register(app: Celery, worker: LumiaWorker) -> Any:
    """Register the one task that messages name; `worker` executes it."""
    from tasks.worker import StepFailed

    def step(self: Any, run_id: str, index: int, seq: int) -> str:
        """Execute step `index` of run `run_id`; `seq` tells this message from any earlier copy."""
        return worker.execute(run_id, index, seq, self.request.hostname)

    return app.task(name="lumia.step", bind=True, ignore_result=True, throws=(StepFailed,))(step)

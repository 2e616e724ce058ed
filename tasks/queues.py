"""Celery queues without broker acknowledgement: claims replace it (DESIGN §5)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from celery import Celery
from celery.app.amqp import AMQP, Queues
from kombu import Exchange, Queue


def queue(name: str) -> Queue:
    """Return a queue that is consumed without acknowledgement."""
    return Queue(name, Exchange("", type="direct"), routing_key=name, no_ack=True)


class LumiaQueues(Queues):
    """Also the queues Celery makes up for `-Q name` and `add_consumer` need no acknowledgement."""

    def new_missing(self, name: str) -> Queue:
        """Return the queue for a name that was not configured."""
        return queue(name)


class LumiaAMQP(AMQP):
    """Celery's AMQP layer with Lumia's queue class."""

    queues_cls = LumiaQueues


def consume(app: Celery, names: Iterable[str]) -> None:
    """Make `celery worker` without `-Q` serve these queues."""
    app.conf.task_queues = [queue(name) for name in names]
    app.amqp.__dict__.pop("queues", None)


def add_consumer(consumer: Any, name: str) -> None:
    """Make a running worker serve one more queue."""
    consumer.call_soon(consumer.add_task_queue, name)


def cancel_consumer(consumer: Any, name: str) -> None:
    """Make a running worker serve a queue no longer."""
    consumer.call_soon(consumer.cancel_task_queue, name)

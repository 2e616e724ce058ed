"""The Celery app: `celery -A tasks worker` and `celery -A tasks beat` work as they stand."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from celery import signals

from lumia.errors import LumiaError
from lumia.journal import described
from lumia.paths import ISOLATED_WORKER, find_root
from tasks.app import celery_app, register
from tasks.backend import redis_url
from tasks.isolated.worker import IsolatedWorker
from tasks.worker import LumiaWorker, is_prefork


def _root_and_url() -> tuple[str, str]:
    try:
        root = find_root()
        return str(root), redis_url(root)
    except LumiaError as error:
        raise SystemExit(f"error: {error}") from error


ROOT, URL = _root_and_url()
os.environ["LUMIA_ROOT"] = ROOT

app = celery_app(URL, ROOT)
worker = IsolatedWorker(app) if os.environ.get(ISOLATED_WORKER) else LumiaWorker(app)
step = register(app, worker)


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
        queues = (options or {}).get("queues")
        worker.prepare(explicit_queues=bool(queues))
        worker.refuse_isolated(queues or ())


@signals.worker_init.connect
def _init(sender: Any = None, **_: Any) -> None:
    if sender.app is app and not is_prefork(sender.pool_cls):
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
def _stop(sender: Any = None, **_: Any) -> None:
    if sender is None or sender.app is app:
        worker.shut_down()


@signals.task_revoked.connect
def _revoked(sender: Any = None, request: Any = None, **_: Any) -> None:
    if sender is None or sender.app is app:
        worker.revoked(request.id)
